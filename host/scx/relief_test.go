package scx

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// TestRelief: a thread that waits and does not run is given back, one that runs or sleeps is not;
// it is with the scheduler again after its rest, and meanwhile counts as if it were.
func TestRelief(t *testing.T) {
	all := threads{1: {Policy: policyExt, Nice: 7}, 2: {Policy: policyExt}, 3: {Policy: policyExt}, 4: {Policy: 0}}
	made(t, all)
	ran := map[int]uint64{1: 5}
	kernel.ran = func(tid int) (uint64, error) { return ran[tid], nil }
	kernel.ready = func(tid int) bool { return tid != 3 }
	d, list := grouped(t, 1, 2, 3, 4)
	r := &d.relief
	now := time.Unix(0, 0)
	look := func(want int) {
		t.Helper()
		now = now.Add(5 * time.Second)
		ran[2] += 100 // that one has a slice now and then
		n, err := r.Look(now, CgroupThreads(d.dir("/encode")))
		if err != nil || n != want {
			t.Fatalf("after %v: %d given back, want %d, %v", now.Sub(time.Unix(0, 0)), n, want, err)
		}
	}
	look(0) // what they ran is learned
	look(0) // 1 waits
	look(1)
	if diff := cmp.Diff(map[int]uint32{1: 0, 2: 7, 3: 7, 4: 0}, all.policies()); diff != "" || all[1].Nice != 7 {
		t.Fatalf("given back:\n%s", diff)
	}
	step := plan.Step{Kind: plan.SetPolicy, Target: plan.Target{Kind: workload.InKernel, Cgroup: "/encode"}, To: plan.PolicyExt}
	take := func() {
		t.Helper()
		if err := d.Apply(context.Background(), step, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.left("/encode"); n != 1 {
		t.Errorf("%d are left, want the one that is new", n)
	}
	take()
	if diff := cmp.Diff(map[int]uint32{1: 0, 2: 7, 3: 7, 4: 7}, all.policies()); diff != "" {
		t.Errorf("taken while one rests:\n%s", diff)
	}
	// That one is in the journal with a policy of its own: it has that again.
	entry := plan.Entry{Kind: plan.TaskPolicy, Path: plan.ProcessPath(workload.Process{PID: 1, Start: 10}), Old: "batch", New: plan.PolicyExt}
	if s, err := d.Read(context.Background(), entry); err != nil || s.Value != entry.New {
		t.Errorf("reads %+v, %v", s, err)
	}
	if err := d.Restore(context.Background(), []plan.Entry{entry})[0]; err != nil || all[1].Policy != 3 {
		t.Errorf("put back: policy %d, %v", all[1].Policy, err)
	}
	all[1].Policy = 0
	ran[4] = 1
	for range 12 {
		ran[4]++
		look(0)
	}
	take()
	if all[1].Policy != policyExt || d.left("/encode") != 0 || r.givenBack() != 1 {
		t.Errorf("after its rest: policy %d, %d given back", all[1].Policy, r.givenBack())
	}
	delete(all, 1)
	if err := os.WriteFile(list, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	look(0)
	if len(r.waits) != 0 {
		t.Errorf("threads that ended are kept: %v", r.waits)
	}
}
