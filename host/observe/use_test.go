package observe

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestParseUsed: accessed memory is Referenced, in the part of Pss in Rss; a text that cannot be right says nothing.
func TestParseUsed(t *testing.T) {
	for text, want := range map[string]topology.KiB{
		"Rss: 100 kB\nPss: 100 kB\nReferenced: 80 kB\n":  80,
		"Rss: 100 kB\nPss: 25 kB\nReferenced: 80 kB\n":   20,
		"Rss: 100 kB\nPss: 100 kB\nReferenced: 900 kB\n": 100,
		"Rss: 100 kB\nPss: 300 kB\nReferenced: 50 kB\n":  50,
		"Rss: 100 kB\nPss: 100 kB\n":                     0,
		"Referenced: 80 kB\n":                            0,
		"Rss: x kB\nPss: 1 kB\nReferenced: 80 kB\n":      0,
		"": 0,
	} {
		if got := parseUsed([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestUsedWhereAsked: what a workload uses of its memory is read where that is asked for, and read again.
func TestUsedWhereAsked(t *testing.T) {
	m := newFake()
	p := m.proc(100, 1, "db", "/db", 100*mib)
	m.group("/db", fakeGroup{})
	p.rollup = "Rss: 102400 kB\nPss: 102400 kB\nReferenced: 51200 kB\n"
	r := newRig(t, m, Options{})
	used := func(s workload.Snapshot) topology.KiB {
		t.Helper()
		for _, o := range s.Observations {
			if o.ID == "/db" {
				return o.Used
			}
		}
		t.Fatalf("observed %s", ids(s))
		return 0
	}
	r.look()
	if got := used(r.after(time.Minute)); got != 0 {
		t.Errorf("%d KiB though nobody asks", got)
	}
	r.with.Tiered = map[workload.ID]bool{"/db": true}
	if got := used(r.after(time.Minute)); got != 51200 {
		t.Errorf("%d KiB used", got)
	}
	p.rollup = "Rss: 102400 kB\nPss: 102400 kB\nReferenced: 20480 kB\n"
	if got := used(r.after(time.Minute)); got != 20480 {
		t.Errorf("%d KiB used a minute later", got)
	}
	r.with.Tiered = nil
	if got := used(r.after(time.Minute)); got != 0 {
		t.Errorf("%d KiB though nobody asks any longer", got)
	}
}
