package process

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// The kernel's own threads, of which one has CPUs of its own, beside others that are made all
// the time: divided, divided again and put back.
func TestRealDivide(t *testing.T) {
	all, err := AffinityOf(0)
	if err != nil || all.Len() < 2 {
		t.Skipf("CPUs %s, %v", all, err)
	}
	cmd, lines := childProcess(t, "busy")
	lines.Scan()
	pid, ctx := cmd.Process.Pid, context.Background()
	d := rooted(pid)
	s, err := d.proc.stat(pid)
	if err != nil {
		t.Fatal(err)
	}
	own := topology.CPUs(all.Max())
	parts := []topology.CPUSet{topology.CPUs(all.Min()), all} // with two CPUs, those of one are the pinned thread's
	step := plan.Step{Kind: plan.DivideThreads, Workload: "/a", To: plan.JoinSets(parts), Target: plan.Target{Kind: workload.InProcess, Processes: []workload.Process{s.Process}}}
	tids, err := d.proc.threads(pid)
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]topology.CPUSet{}
	for i, tid := range tids {
		has, err := AffinityOf(tid)
		if err == nil && !has.Equal(own) {
			want[tid] = parts[i%2]
		} else {
			want[tid] = own
		}
		step.Threads = append(step.Threads, plan.ThreadSet{TID: tid, CPUs: parts[i%2]})
	}
	check := func(what string) {
		t.Helper()
		for _, tid := range slices.Sorted(maps.Keys(want)) {
			if has, err := AffinityOf(tid); err == nil && !has.Equal(want[tid]) {
				t.Errorf("%s: thread %d has CPUs %s, want %s", what, tid, has, want[tid])
			}
		}
	}
	changes, err := d.Changes(ctx, step)
	if err != nil || len(changes) != 1 {
		t.Fatalf("changes %+v, %v", changes, err)
	}
	if err := d.Apply(ctx, step, nil); err != nil {
		t.Fatal(err)
	}
	check("divided")
	c := changes[0]
	for _, err := range d.Restore(ctx, []plan.Entry{{Seq: 1, Kind: c.Kind, Path: c.Path, Groups: c.Groups, Ticks: c.Ticks, Old: c.Value, New: c.Will}}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for tid := range want {
		if !want[tid].Equal(own) {
			want[tid] = all
		}
	}
	check("put back")
}
