package view

import (
	"testing"

	"github.com/homenode/homenode/core/control/settings"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// TestCachedWorkIsWatched: where shared work is kept in caches, its waits are read: without them nothing would
// say that it is confined more tightly than it runs.
func TestCachedWorkIsWatched(t *testing.T) {
	v := &View{Settings: &settings.Settings{}}
	v.Cached = map[workload.ID]bool{"/a": true}
	if a := v.attend(); a.Waits || a.Cached["/a"] {
		t.Errorf("caches are reported alone: %+v", a)
	}
	v.Settings.Policy.Caches = plan.CachesPlace
	if a := v.attend(); !a.Waits || !a.Cached["/a"] {
		t.Errorf("caches: place asks for %+v", a)
	}
}
