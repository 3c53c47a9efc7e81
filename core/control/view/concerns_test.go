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

// TestWatchedBesideBatchWork: important work is watched while batch work is controlled by its waits, and not because
// caches ask for the waits of other work.
func TestWatchedBesideBatchWork(t *testing.T) {
	v := &View{Settings: &settings.Settings{}}
	v.Sharing.On, v.Sharing.Watched = true, map[workload.ID]bool{"/web": true}
	v.Settings.Policy.Caches = plan.CachesPlace
	if a := v.attend(); a.Watched["/web"] {
		t.Errorf("share.max_wait is 0: %+v", a)
	}
	v.Settings.Share.MaxWait = 0.05
	if a := v.attend(); !a.Waits || !a.Watched["/web"] {
		t.Errorf("share.max_wait is 5 %%: %+v", a)
	}
}
