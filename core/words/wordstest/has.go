package wordstest

import (
	"encoding/json"
	"strings"

	"github.com/homenode/homenode/core/words"
)

// Has reports whether one of the reasons, or a part of one, has the code of want, and
// its values unless want has none.
func Has(reasons []words.Reason, want words.Reason) bool {
	for _, r := range reasons {
		if r.Code == want.Code && (want.Args == nil || r.Equal(want)) {
			return true
		}
		for _, a := range r.Args {
			switch part := a.(type) {
			case words.Reason:
				if Has([]words.Reason{part}, want) {
					return true
				}
			case []words.Reason:
				if Has(part, want) {
					return true
				}
			}
		}
	}
	return false
}

// Missing is those of want that Has does not find.
func Missing(reasons, want []words.Reason) []words.Reason {
	var out []words.Reason
	for _, w := range want {
		if !Has(reasons, w) {
			out = append(out, w)
		}
	}
	return out
}

// Check fails unless values fit their sentence, also when JSON has kept them.
func Check(t interface{ Fatalf(string, ...any) }, reasons []words.Reason) {
	text, err := json.Marshal(reasons)
	var back []words.Reason
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil {
		t.Fatalf("%v: %v", reasons, err)
	}
	for i, s := range words.Sentences(reasons) {
		if !strings.HasSuffix(s, ".") || strings.ContainsAny(s, "{}?") || strings.Contains(s, "NaN") {
			t.Fatalf("not a sentence: %q", s)
		}
		if back[i].String() != s {
			t.Fatalf("%q read back is %q", s, back[i])
		}
	}
}
