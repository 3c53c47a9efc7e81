package place

import (
	"fmt"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// partitioned is a node of 8 CPUs, the upper half of which are for dedicated work.
func partitioned() plan.State {
	st := plan.State{Host: plantest.Draw("0 0-7 64G 10"), Policy: plan.DefaultPolicy()}
	st.Policy.Split, st.Policy.Dedicated = true, topology.CPUs(4, 5, 6, 7)
	return st
}

func place(l *Ledger, id workload.ID, class workload.Class, cpus int) Result {
	r := l.Place(Request{Spec: workload.Spec{ID: id, Class: class, CPUs: cpus, MaxNodes: 1, Given: true}})
	if r.Placed() {
		l.Commit(r.Placement)
	}
	return r
}

func TestPartitionAtAdmission(t *testing.T) {
	st := partitioned()
	l := NewLedger(st)
	if r := place(l, "o", workload.Batch, 1); r.Placement.CPUs.String() != "0-7" {
		t.Errorf("batch work on %v", r.Placement.CPUs)
	}
	if r := place(l, "d5", workload.Dedicated, 5); r.Placed() {
		t.Errorf("5 dedicated on 4 CPUs: %v", r.Placement.CPUs)
	}
	if r := place(l, "d", workload.Dedicated, 4); r.Placement.CPUs.String() != "4-7" {
		t.Errorf("dedicated on %v: %v", r.Placement.CPUs, r.Decision.Reasons)
	}
	// Four CPUs carry twelve vCPUs at three each, and no more.
	for i, want := range []bool{true, true, true, false} {
		r := place(l, workload.ID(fmt.Sprint("s", i)), workload.Shared, 4)
		if r.Placed() != want || want && r.Placement.CPUs.String() != "0-3" {
			t.Errorf("shared %d: %v on %v: %v", i, r.Placed(), r.Placement.CPUs, r.Decision.Reasons)
		}
	}
	if bad := plan.Check(st, l.Placements()); len(bad) > 0 {
		t.Error(bad)
	}
	for _, p := range l.Placements() {
		if p.Workload == "o" && p.CPUs.String() != "0-3" {
			t.Errorf("batch work beside dedicated on %v", p.CPUs)
		}
	}
}

func TestPartitionsOfOneClass(t *testing.T) {
	for _, tt := range []struct {
		partition         plan.Partition
		dedicated, shared bool
	}{{"any", true, true}, {"shared", false, true}, {"dedicated", true, false}} {
		st := partitioned()
		if err := tt.partition.Apply(st.Host, &st.Policy); err != nil {
			t.Fatal(err)
		}
		for class, want := range map[workload.Class]bool{workload.Dedicated: tt.dedicated, workload.Shared: tt.shared, workload.Batch: true} {
			if r := place(NewLedger(st), "w", class, 1); r.Placed() != want || !want && len(r.Decision.Reasons) == 0 {
				t.Errorf("%s: %s work placed is %v: %v", tt.partition, class, r.Placed(), r.Decision.Reasons)
			}
		}
	}
}

// The ratio of a host holds at admission, 3 to 5 and any other.
func TestOvercommitAtAdmission(t *testing.T) {
	for _, ratio := range []float64{1, 3, 4.5, 5} {
		for _, split := range []bool{false, true} {
			st := partitioned()
			st.Policy.Overcommit, st.Policy.Split = ratio, split
			cpus := 8.0
			if split {
				cpus = 4
			}
			l, n := NewLedger(st), 0
			for place(l, workload.ID(fmt.Sprint("s", n)), workload.Shared, 1).Placed() {
				n++
			}
			if n != int(ratio*cpus) {
				t.Errorf("%v times %v CPUs take %d vCPUs", ratio, cpus, n)
			}
		}
	}
}

func TestInTheWay(t *testing.T) {
	st := partitioned()
	l := NewLedger(st)
	place(l, "d", workload.Dedicated, 2)
	for i := range 3 {
		place(l, workload.ID(fmt.Sprint("s", i)), workload.Shared, 4)
	}
	st.Placements = l.Placements()
	for _, tt := range []struct {
		dedicated string
		want      []string
	}{
		{"4-7", nil}, {"4-5", nil}, {"6-7", []string{"d"}}, {"3-7", []string{"s0", "s1", "s2"}},
		{"0-3", []string{"d", "s0", "s1", "s2"}}, {"0-7", []string{"s0", "s1", "s2"}},
	} {
		st.Policy.Dedicated, _ = topology.ParseCPUSet(tt.dedicated)
		got := InTheWay(st)
		ok := len(got) == len(tt.want)
		for i := range tt.want {
			code := words.PartitionNoRoom
			if tt.want[i] == "d" {
				code = words.PartitionCPUs
			}
			ok = ok && got[i].Code == code && fmt.Sprint(got[i].Args[0]) == tt.want[i]
		}
		if !ok {
			t.Errorf("%s: %q, want %q", tt.dedicated, got, tt.want)
		}
	}
	st.Policy.Split = false
	if got := InTheWay(st); got != nil {
		t.Error(got)
	}
}

// Of a home a node that has memory only stands in nobody's way.
func TestMemoryAloneIsNotInTheWay(t *testing.T) {
	st := onHost(withCXL)
	st.Policy.Split, st.Policy.Dedicated = true, topology.CPUs(4, 5)
	p := floating("s", 0, 2)
	p.Home = topology.Nodes(0, 2)
	st.Placements = []plan.Placement{p}
	if got := InTheWay(st); got != nil {
		t.Errorf("%q", got)
	}
}

// A home on a node that the host no longer has stands in nobody's way.
func TestInTheWayOfAHostThatShrank(t *testing.T) {
	h, err := topology.FromSynthetic("node:1(memory=4GiB) core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	st := plan.State{Host: h, Policy: plan.Policy{Split: true, Overcommit: 1, Dedicated: topology.CPUs(2, 3)}}
	st.Placements = []plan.Placement{{Workload: "w", Class: workload.Shared, VCPUs: 1, Home: topology.Nodes(5), CPUs: topology.CPUs(40)}}
	if got := InTheWay(st); got != nil {
		t.Errorf("%q", got)
	}
}
