package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Same reports whether two outputs are the same decision. Lines of history are not compared.
func Same(recorded, followed []byte) bool {
	if bytes.Equal(recorded, followed) {
		return true
	}
	was, now := untold(recorded), untold(followed)
	if was == nil || now == nil {
		return false
	}
	return bytes.Equal(was, now) || sameNow(was, now)
}

// Difference returns where two outputs part.
func Difference(recorded, followed []byte) string {
	k := 0
	for k < len(recorded) && k < len(followed) && recorded[k] == followed[k] {
		k++
	}
	excerpt := func(b []byte) string { return string(b[max(0, min(k-20, len(b))):min(len(b), k+60)]) }
	return fmt.Sprintf("recorded …%s…, now …%s…", excerpt(recorded), excerpt(followed))
}

// untold returns an output without the lines of history; nil when it cannot be read.
func untold(output []byte) []byte {
	var all, save map[string]json.RawMessage
	if json.Unmarshal(output, &all) != nil || json.Unmarshal(all["save"], &save) != nil {
		return nil
	}
	delete(save, "Events")
	text, err := json.Marshal(save)
	if err != nil {
		return nil
	}
	all["save"] = text
	if text, err = json.Marshal(all); err != nil {
		return nil
	}
	return text
}
