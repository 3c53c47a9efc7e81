package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// brokenDriver is a Driver with an error in it.
type brokenDriver struct {
	*homenode
	apply    func(h *homenode, s plan.Step) (done bool, err error)
	settings func(have []plan.Change) []plan.Change
}

func (b *brokenDriver) Apply(ctx context.Context, s plan.Step, progress func(plan.Move)) error {
	if b.apply != nil {
		if done, err := b.apply(b.homenode, s); done || err != nil {
			return err
		}
	}
	return b.homenode.Apply(ctx, s, progress)
}

func (b *brokenDriver) Changes(ctx context.Context, s plan.Step) ([]plan.Change, error) {
	have, err := b.homenode.Changes(ctx, s)
	if b.settings != nil {
		have = b.settings(have)
	}
	return have, err
}

var _ driver = (*brokenDriver)(nil)

// driverThat puts an error into the driver.
func driverThat(apply func(h *homenode, s plan.Step) (bool, error)) func(*homenode) {
	return func(h *homenode) { h.driver = &brokenDriver{homenode: h, apply: apply} }
}

// leakyManager is a decider with an error in it: what it says of its ledger is
// changed.
type leakyManager struct {
	manager
	change func([]plan.Placement) []plan.Placement
}

func (l *leakyManager) ledger() ([]plan.Placement, bool) {
	p, changed := l.manager.ledger()
	return l.change(p), changed
}

// TestErrorsAreCaught puts errors into every part that could have one: each must
// be caught, told with the seed, and come back with it.
func TestErrorsAreCaught(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name, want string
		homenode   func(*homenode)
		manager    func(manager) manager
		policy     string
	}{
		{name: "a driver that loses pages", want: "memory was lost or made", policy: "homenode",
			homenode: driverThat(func(h *homenode, s plan.Step) (bool, error) {
				if j := h.m.byID[s.Workload]; s.Kind == plan.MovePages && j != nil {
					for i := range j.mem {
						if j.mem[i] > 0 {
							j.mem[i]--
							break
						}
					}
				}
				return false, nil
			})},
		{name: "a driver that panics", want: "panic: index out of", policy: "homenode",
			homenode: driverThat(func(_ *homenode, s plan.Step) (bool, error) {
				if s.Kind == plan.SetCPUs {
					panic("index out of something")
				}
				return false, nil
			})},
		{name: "a page move that panics", want: "panic: in a page move", policy: "homenode",
			homenode: driverThat(func(_ *homenode, s plan.Step) (bool, error) {
				if s.Kind == plan.MovePages {
					panic("in a page move")
				}
				return false, nil
			})},
		{name: "a driver that keeps the old value to itself", want: "without a journal entry", policy: "homenode",
			homenode: func(h *homenode) {
				h.driver = &brokenDriver{homenode: h, settings: func([]plan.Change) []plan.Change { return nil }}
			}},
		{name: "a page move that never ends", want: "still run", policy: "homenode",
			homenode: driverThat(func(h *homenode, s plan.Step) (bool, error) {
				for s.Kind == plan.MovePages && h.current.sleep(1e9) {
				}
				return false, nil
			})},
		{name: "an observer that sees the dead", want: "has departed and still holds CPUs", policy: "homenode",
			homenode: func(h *homenode) {
				var ghost *workload.Observation
				h.look = func(s workload.Snapshot) workload.Snapshot {
					if ghost == nil && len(s.Observations) > 3 {
						o := s.Observations[0]
						o.ID, o.Cgroup, o.CPUs = "/ghost", "/ghost", topology.CPUSet{} // nobody narrowed it
						ghost = &o
					}
					if ghost != nil {
						s.Observations = append([]workload.Observation{*ghost}, s.Observations...)
					}
					return s
				}
			}},
		{name: "a decider that gives CPUs twice", want: "cpu-used-twice", policy: "first-fit",
			manager: func(m manager) manager {
				return &leakyManager{m, func(ps []plan.Placement) []plan.Placement {
					out := append([]plan.Placement(nil), ps...)
					for i := range out {
						if out[i].Class == workload.Shared {
							out[i].CPUs = out[i].CPUs.Union(topology.CPUs(0, 1, 2, 3))
							out[i].Home.Add(0)
						}
					}
					return out
				}}
			}},
		{name: "a decider that never gives CPUs back", want: "vCPUs are booked for nobody", policy: "spread",
			manager: func(m manager) manager {
				return &hoarder{m.(*reference)}
			}},
	} {
		t.Run(x.name, func(t *testing.T) {
			const seed = 987654321
			try := func() *Failure {
				trace := generated(t, Generation{Kind: "mixed", Host: synthetic(t, "package:2 node:2 core:8 pu:2"), Seed: seed, Events: 200, Found: DefaultFound})
				r, err := Run(t.Context(), Options{Trace: trace, Seed: seed, Policies: []string{x.policy}, breakHomenode: x.homenode, breakManager: x.manager})
				if err != nil {
					t.Fatal(err)
				}
				return r.Failed()
			}
			f := try()
			if f == nil {
				t.Fatal("not caught")
			}
			if !strings.Contains(f.Error(), x.want) || !strings.Contains(f.Error(), fmt.Sprintf("seed %d", seed)) {
				t.Errorf("told as %q; want %q and the seed", f, x.want)
			}
			if again := try(); again == nil || again.Error() != f.Error() {
				t.Errorf("the same seed brings %v back as %v", f, again)
			}
		})
	}
}

// hoarder keeps the CPUs of what departs.
type hoarder struct{ *reference }

func (h *hoarder) depart(j *job) {
	before := append([]topology.CPUSet(nil), h.free...)
	h.reference.depart(j)
	copy(h.free, before)
}
