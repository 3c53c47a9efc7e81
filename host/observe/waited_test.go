package observe

import (
	"testing"
	"testing/fstest"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/observe/files"
)

// What a cgroup waits is what PSI says of the last ten seconds, unless a limit of its own has
// held it back; nothing is read when nobody asks.
func TestWaited(t *testing.T) {
	fsys := fstest.MapFS{"a/cpu.pressure": {Data: []byte("some avg10=12.50 avg60=1.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")}}
	o := &Observer{files: files.Any{FS: fsys}}
	o.signals.watched = map[workload.ID]bool{"/a": true, "/b": true}
	l := &leaf{path: "/a", dir: "a"}
	for _, tt := range []struct {
		stat string
		want float64
	}{{"usage_usec 5\n", 0.125}, {"nr_throttled 0\n", 0.125}, {"usage_usec 5\nnr_periods 3\nnr_throttled 2\n", 0}, {"nr_throttled 2", 0.125}, {"nr_throttled 3", 0}} {
		if o.waited(l, []byte(tt.stat)); l.waited != tt.want {
			t.Errorf("%q: waited %v, want %v", tt.stat, l.waited, tt.want)
		}
	}
	l = &leaf{path: "/b", dir: "b"}
	o.waited(l, nil)
	if l.waited != 0 || l.waitedFrom != "" {
		t.Errorf("a kernel without PSI: %v", l.waited)
	}
	l = &leaf{path: "/c", dir: "a", waited: 0.5, waitedFrom: workload.PSI}
	if o.waited(l, nil); l.waited != 0 || l.waitedFrom != "" {
		t.Errorf("not watched: %v", l.waited)
	}
}

// TestCachedWaits: the waits of work that caches may hold are read, and its cycles are not counted.
func TestCachedWaits(t *testing.T) {
	var s signals
	s.begin(&control.Attention{ConcernAttention: control.ConcernAttention{Waits: true,
		Cached: map[workload.ID]bool{"/a": true}, Watched: map[workload.ID]bool{"/b": true}}})
	if !s.waits("/a") || !s.waits("/b") || s.watched["/a"] || !s.watched["/b"] {
		t.Errorf("waits alone of %v, cycles of %v", s.cached, s.watched)
	}
	s.begin(&control.Attention{ConcernAttention: control.ConcernAttention{Cached: map[workload.ID]bool{"/a": true}}})
	if !s.none() || s.waits("/a") {
		t.Errorf("waits of %v are read where nobody asks", s.cached)
	}
}
