package control

import (
	"bytes"
	"encoding/json"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Names of settings before version 0.2, as journals and flight logs of then have them.
const (
	policyBefore = "offline"
	groupBefore  = "homenode-offline"
)

// renamed is a path or value of a setting as it is called now.
func renamed(kind plan.SettingKind, text string) string {
	switch {
	case kind == plan.TaskPolicy && text == policyBefore:
		return PolicyExt
	case (kind == plan.CacheGroup || kind == plan.CacheTasks) && text == groupBefore:
		return share.CacheGroup
	}
	return text
}

func renameEntry(e *plan.Entry) {
	if e.Kind == plan.CacheGroup {
		e.Path = renamed(e.Kind, e.Path)
	}
	e.Old, e.New = renamed(e.Kind, e.Old), renamed(e.Kind, e.New)
}

func renameSetting(s *plan.Setting) {
	if s.Kind == plan.CacheGroup {
		s.Path = renamed(s.Kind, s.Path)
	}
	s.Value = renamed(s.Kind, s.Value)
}

// renameInput changes what a flight log of before 0.2 has: results of effects name settings.
func renameInput(in *Input) {
	r := in.Result
	if r == nil {
		return
	}
	for i := range r.Changes {
		renameSetting(&r.Changes[i].Setting)
		r.Changes[i].Will = renamed(r.Changes[i].Kind, r.Changes[i].Will)
	}
	for i := range r.Settings {
		renameSetting(&r.Settings[i])
	}
	for i := range r.Standing {
		renameSetting(&r.Standing[i])
	}
}

// sameNow reports whether two Outputs are the same but for what version 0.2 has renamed and for the
// wording of reasons. recorded has none of the names of before where it is of this version.
func sameNow(recorded, followed []byte) bool {
	if !bytes.Contains(bytes.ToLower(recorded), []byte(policyBefore)) {
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
		if _, coded := v["code"]; coded {
			delete(v, "text")
		}
		if was, ok := v[policyBefore]; ok { // of a share.Suspect
			delete(v, policyBefore)
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
		return renamed(plan.CacheTasks, renamed(plan.TaskPolicy, text))
	case "host", "path":
		return renamed(plan.CacheGroup, text)
	}
	return text
}
