package observe

import (
	"io/fs"
	"testing"

	"github.com/homenode/homenode/core/topology"
)

// TestCacheAwareInSnapshot: each snapshot has the kernel's cache-aware scheduling, read again after 10 s; of
// what the kernel was built with it is read once.
func TestCacheAwareInSnapshot(t *testing.T) {
	m := newFake()
	m.more = map[string]string{"proc/sys/kernel/osrelease": "7.1.3\n"}
	r := newRig(t, m, Options{})
	caches := []string{"0-1", "2-3", "4-7"} // two of node 0
	divided := func(fsys fs.FS) (*topology.Host, error) {
		h, err := m.host(fsys)
		if err != nil {
			return nil, err
		}
		h.LLCs = nil
		for _, cpus := range caches {
			h.LLCs = append(h.LLCs, topology.LLC{CPUs: mustCPUs(cpus), Level: 3, ID: topology.None})
		}
		h.NumberLLCs()
		return h, nil
	}
	r.o.opts.Host = divided
	r.o.opts.Free = func(fsys fs.FS, _ *topology.Host) (*topology.Host, error) { return divided(fsys) }
	want := func(what string, got topology.CacheAware, state topology.CacheAwareState, from string) {
		t.Helper()
		if got.State != state || got.From != from {
			t.Errorf("%s: %+v, want %q from %q", what, got, state, from)
		}
	}
	want("no debugfs", r.look().CacheAware, topology.CacheAwareNone, "Linux 7.1")
	m.more[topology.CacheAwareFile] = "1\n"
	want("too early to read again", r.after(cacheAwareEvery/2).CacheAware, topology.CacheAwareNone, "Linux 7.1")
	want("debugfs is mounted", r.after(cacheAwareEvery).CacheAware, topology.CacheAwareOn, "/"+topology.CacheAwareFile)
	m.more[topology.CacheAwareFile] = "0\n"
	want("switched off", r.after(cacheAwareEvery).CacheAware, topology.CacheAwareOff, "/"+topology.CacheAwareFile)
	caches = []string{"0-3", "4-7"}
	want("one cache a node", r.after(cacheAwareEvery).CacheAware, "", "")
}
