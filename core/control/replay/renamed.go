package replay

import (
	"bytes"
	"encoding/json"

	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Rename gives the settings of a result that a version before 0.2 recorded their names of now.
func Rename(r *work.Result) {
	for i := range r.Changes {
		journal.RenameSetting(&r.Changes[i].Setting)
		r.Changes[i].Will = journal.Renamed(r.Changes[i].Kind, r.Changes[i].Will)
	}
	for i := range r.Settings {
		journal.RenameSetting(&r.Settings[i])
	}
	for i := range r.Standing {
		journal.RenameSetting(&r.Standing[i])
	}
}

// sameNow reports whether two Outputs are the same but for what version 0.2 has renamed and for the
// sentences of reasons. recorded has none of the names of before where it is of this version.
func sameNow(recorded, followed []byte) bool {
	if !bytes.Contains(bytes.ToLower(recorded), []byte(journal.PolicyBefore)) {
		return false
	}
	was, now := inWordsOfNow(recorded), inWordsOfNow(followed)
	return was != nil && bytes.Equal(was, now)
}

// inWordsOfNow is an Output with the names of now and without sentences; nil when it is no JSON.
func inWordsOfNow(output []byte) []byte {
	var all any
	read := json.NewDecoder(bytes.NewReader(output))
	read.UseNumber()
	if read.Decode(&all) != nil {
		return nil
	}
	text, err := json.Marshal(renamedIn("", all))
	if err != nil {
		return nil
	}
	return text
}

// renamedIn is what a key has, in the names of now.
func renamedIn(key string, value any) any {
	switch v := value.(type) {
	case string:
		return renamedText(key, v)
	case []any:
		for i := range v {
			v[i] = renamedIn(key, v[i])
		}
	case map[string]any:
		if _, coded := v["code"]; coded { // a sentence may have other values by now
			delete(v, "text")
			delete(v, "args")
		}
		if was, ok := v[journal.PolicyBefore]; ok { // of a share.Suspect
			delete(v, journal.PolicyBefore)
			v["batch"] = was
		}
		for k := range v {
			v[k] = renamedIn(k, v[k])
		}
	}
	return value
}

func renamedText(key, text string) string {
	switch key {
	case "code":
		var code words.Code
		if code.UnmarshalText([]byte(text)) == nil {
			return string(code)
		}
	case "class", "Class":
		class, err := workload.ParseClass(text)
		if err == nil {
			return string(class)
		}
	case "tier", "Tier":
		tier, err := workload.ParseTier(text)
		if err == nil {
			return string(tier)
		}
	case "to", "new", "old", "value":
		return journal.Renamed(plan.CacheTasks, journal.Renamed(plan.TaskPolicy, text))
	case "host", "path":
		return journal.Renamed(plan.CacheGroup, text)
	}
	return text
}
