package scope

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/homenode/homenode/core/plan"
)

// groups is cgroups of which processes are taken.
type groups struct {
	of    string
	calls []string
	fails string // the call that does
}

func (g *groups) call(what string) error {
	g.calls = append(g.calls, what)
	if what == g.fails {
		return errors.New("on purpose")
	}
	return nil
}

func (g *groups) Of(int) string { return g.of }
func (g *groups) Processes(group string) ([]int, error) {
	return []int{7}, g.call("processes " + group)
}
func (g *groups) Leave(_ context.Context, group, to string) error {
	return g.call("leave " + group + " for " + to)
}
func (g *groups) Fair(_ context.Context, group string, pids []int) error {
	if len(pids) > 0 {
		return g.call("fair processes")
	}
	return g.call("fair " + group)
}
func (g *groups) FreeNodes(context.Context, string, int) error { return g.call("nodes") }

// A batch command leaves its cgroup for the one where it was, and its threads the scheduler for batch work before
// and after that. One that another program has moved is not homenode's any more, and what fails stops the rest.
func TestBatchWorkLeavesItsCgroup(t *testing.T) {
	const group = "/homenode-batch/7"
	e := plan.Entry{Kind: plan.ProcessGroup, Workload: "pid:7", Path: "7@9", Old: "/user.slice", New: group}
	all := []string{"processes " + group, "fair " + group, "leave " + group + " for /user.slice", "fair processes"}
	for i := range len(all) + 1 {
		g := &groups{of: group}
		if i < len(all) {
			g.fails = all[i]
		}
		d := Driver{g}
		now, err := d.Read(context.Background(), e)
		if err != nil || now.Value != group || !e.Ours(now) {
			t.Errorf("%+v, %v", now, err)
		}
		err = d.Restore(context.Background(), []plan.Entry{e})[0]
		if want := all[:min(i+1, len(all))]; (err != nil) != (g.fails != "") || !slices.Equal(g.calls, want) {
			t.Errorf("%v: %q, want %q", err, g.calls, want)
		}
	}
	now, err := Driver{&groups{of: "/other"}}.Read(context.Background(), e)
	if err != nil || e.Ours(now) {
		t.Errorf("moved by another program: %+v, %v", now, err)
	}
}
