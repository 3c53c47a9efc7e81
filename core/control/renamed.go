package control

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
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

func renameStep(s *plan.Step) {
	switch s.Kind {
	case plan.SetPolicy:
		s.To = renamed(plan.TaskPolicy, s.To)
	case plan.SetCache:
		s.Target.Host = renamed(plan.CacheGroup, s.Target.Host)
	case plan.SetCacheTasks:
		s.To = renamed(plan.CacheTasks, s.To)
	}
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

// asStored is what Output.Save has of classes, tiers and suspects, in values that have no type here.
var asStored = strings.NewReplacer(`"class":"offline"`, `"class":"batch"`, `"Class":"offline"`, `"Class":"batch"`,
	`"tier":"offline"`, `"tier":"batch"`, `"Tier":"offline"`, `"Tier":"batch"`, `"offline":true`, `"batch":true`)

// nowadays is a recorded Output in the words of this version; nil when it has no other, or cannot
// be read.
func nowadays(output []byte) []byte {
	if !bytes.Contains(output, []byte("offline")) {
		return nil
	}
	var out Output
	read := json.NewDecoder(strings.NewReader(asStored.Replace(string(output))))
	read.DisallowUnknownFields() // what has others differs
	if read.Decode(&out) != nil {
		return nil
	}
	for i := range out.Save.Entries {
		renameEntry(&out.Save.Entries[i])
	}
	for i := range out.Effects {
		e := &out.Effects[i]
		for k := range e.Entries {
			renameEntry(&e.Entries[k])
		}
		if e.Step != nil {
			renameStep(e.Step)
		}
	}
	if out.Plan != nil {
		for i := range out.Plan.Steps {
			renameStep(&out.Plan.Steps[i])
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil
	}
	return text
}
