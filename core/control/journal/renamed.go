package journal

import (
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
)

// Names of settings before version 0.2, as journals and flight logs of then have them.
const (
	PolicyBefore = "offline"
	GroupBefore  = "homenode-offline"
)

// Renamed returns a path or value of a setting as it is called now.
func Renamed(kind plan.SettingKind, text string) string {
	switch {
	case kind == plan.TaskPolicy && text == PolicyBefore:
		return plan.PolicyExt
	case (kind == plan.CacheGroup || kind == plan.CacheTasks) && text == GroupBefore:
		return share.CacheGroup
	}
	return text
}

// RenameEntry gives the settings of an entry their names of now.
func RenameEntry(e *plan.Entry) {
	if e.Kind == plan.CacheGroup {
		e.Path = Renamed(e.Kind, e.Path)
	}
	e.Old = Renamed(e.Kind, e.Old)
	e.New = Renamed(e.Kind, e.New)
}

// RenameSetting gives a setting its names of now.
func RenameSetting(s *plan.Setting) {
	if s.Kind == plan.CacheGroup {
		s.Path = Renamed(s.Kind, s.Path)
	}
	s.Value = Renamed(s.Kind, s.Value)
}
