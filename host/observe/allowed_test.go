package observe

import (
	"io/fs"
	"testing"

	"github.com/homenode/homenode/core/topology"
)

// What workloads may use is what the hierarchy's top has, not what this process, which
// may be confined, has.
func TestConfinedProcessAllowsWhatTheTopHas(t *testing.T) {
	for _, c := range []struct{ top, cpus, mems string }{
		{"0-7", "0-7", "0-1"}, // this process is confined to 0-1
		{"0-1", "0-1", "0-1"}, // only its nodes are others
		{"0-5", "0-5", "0-1"}, // a container of which the top is all that is seen
		{"", "0-1", "0"},      // no cpuset controller
	} {
		m := newFake()
		m.groups["/"].cpus = ""
		if c.top != "" {
			m.more = map[string]string{m.top + "/cpuset.cpus.effective": c.top + "\n", m.top + "/cpuset.mems.effective": "0-2\n"}
		}
		r := newRig(t, m, Options{})
		confined := func(f fs.FS) (*topology.Host, error) {
			h, err := m.host(f)
			h.Allowed, h.AllowedMems = mustCPUs("0-1"), topology.Nodes(0)
			h.Nodes = append(h.Nodes, topology.Node{ID: 2}) // has no memory
			return h, err
		}
		r.o.opts.Host = confined
		r.o.opts.Free = func(f fs.FS, _ *topology.Host) (*topology.Host, error) { return confined(f) }
		for range 2 {
			if h := r.look().Host; h.Allowed.String() != c.cpus || h.AllowedMems.String() != c.mems {
				t.Errorf("top %q: allowed CPUs %v, nodes %v", c.top, h.Allowed, h.AllowedMems)
			}
		}
	}
}
