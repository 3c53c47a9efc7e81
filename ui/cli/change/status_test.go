package change

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/see"
)

// Devices and other managers are shown when there are any, and only then.
func TestStatusNamesDevicesAndOthers(t *testing.T) {
	show := func(s api.Status) []string {
		var out bytes.Buffer
		see.PrintStatus(&cli.Env{Stdout: &out, Getenv: func(string) string { return "" }}, s)
		lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
		for i := range lines {
			lines[i] = strings.Join(strings.Fields(lines[i]), " ")
		}
		return lines
	}
	s := api.Status{Mode: "observe", Version: "1"}
	bare := show(s)
	s.Devices = []api.Device{{Name: "eth0", Node: 1, Interrupts: 9, AtHome: 2, Fixed: 1, Steps: 6, State: "would move"},
		{Name: "nvme0n1", Interrupts: 3, AtHome: 1, State: "as planned", Why: "It has queues."}}
	s.Managers = []api.Manager{{Name: "irqbalance", Does: "spreads interrupts over CPUs", Owns: "the affinity of interrupts"}, {Name: "tuned", Does: "sets kernel settings"}}
	want := append(bare,
		"",
		"DEVICE NODE INTERRUPTS AT HOME FIXED TO SET STATE",
		"eth0 1 9 2 1 6 would move",
		"nvme0n1 0 3 1 0 0 as planned It has queues.",
		"",
		"ALSO PLACES HOW LEFT TO IT",
		"irqbalance spreads interrupts over CPUs the affinity of interrupts",
		"tuned sets kernel settings -")
	if diff := cmp.Diff(want, show(s)); diff != "" {
		t.Error(diff)
	}
}

// What locality is known from, and why from nothing better, is one line.
func TestStatusNamesSources(t *testing.T) {
	use, traffic := 3.25, int64(1200)
	s := api.Status{Mode: "observe", Version: "1",
		Nodes:     []api.Node{{ID: 0, CPUs: "0-3", CPUUse: &use, Bandwidth: &traffic}, {ID: 1}},
		Workloads: []api.Workload{{ID: "/a", LocalityFrom: workload.Counters}, {ID: "/b", LocalityFrom: workload.Residence}, {ID: "/c"}},
		Sources: []workload.SourceStatus{
			{Source: workload.Counters, Used: true, Text: "node-loads"},
			{Source: workload.Hints, Text: "kernel.numa_balancing is 0"},
			{Source: workload.Residence, Used: true},
			{Source: workload.IMC, Text: "none"},
		}}
	var out bytes.Buffer
	see.PrintStatus(&cli.Env{Stdout: &out, Getenv: func(string) string { return "" }}, s)
	for _, want := range []string{
		"locality: 1 by counters; no numa-hints (kernel.numa_balancing is 0); 1 by residence\n",
		"3.25", "1.3 GB/s",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// Moves that rest, and memory that did not move, are told below the table.
func TestStatusTellsOfMoves(t *testing.T) {
	var out bytes.Buffer
	see.PrintStatus(&cli.Env{Stdout: &out, Getenv: func(string) string { return "" }}, api.Status{Mode: "enforce", Workloads: []api.Workload{
		{ID: "/a", State: "paused", Why: "/a waits for memory 23 % of the time; it goes on below 10 %", Move: &plan.Move{State: "paused", Refused: 1}},
		{ID: "/b", State: "at home", Move: &plan.Move{State: "done", Refused: 16 << 20, Why: "16 MiB pinned for a device"}},
		{ID: "/c", State: "moving 40 %", Move: &plan.Move{State: "running", Refused: 16 << 20, Why: "16 MiB busy"}},
		{ID: "/d", State: "at home", Move: &plan.Move{State: "done"}},
	}})
	_, below, _ := strings.Cut(out.String(), "/d ")
	_, below, _ = strings.Cut(below, "\n")
	if want := "paused: /a: waits for memory 23 % of the time; it goes on below 10 %\ndid not move: /b: 16 MiB pinned for a device\n"; below != want {
		t.Errorf("%s\ngot %q, want %q", out.String(), below, want)
	}
}

func TestMoveIsTold(t *testing.T) {
	answer := api.MoveAnswer{Workload: "/a", Outcome: plan.Placed, From: topology.Nodes(0), FromCPUs: topology.CPUs(0, 1), To: topology.Nodes(1), CPUs: topology.CPUs(4, 5),
		Decision: plan.Decision{Reasons: []words.Reason{words.Plain("Because.")}},
		Steps:    []plan.Step{{Kind: plan.SetCPUs}, {Kind: plan.MovePages, Bytes: 3 << 30, Cost: plan.Cost{Seconds: 12}}}}
	stays := api.MoveAnswer{Workload: "/a", Outcome: plan.Kept, To: topology.Nodes(1), CPUs: topology.CPUs(4, 5)}
	already := api.MoveAnswer{Workload: "/a", Outcome: plan.Placed, From: topology.Nodes(1), FromCPUs: topology.CPUs(4, 5), To: topology.Nodes(1), CPUs: topology.CPUs(4, 5)}
	cancelled := api.MoveAnswer{Workload: "/a", Outcome: plan.Cancelled, Move: &plan.Move{Moved: 1 << 30, Planned: 3 << 30}}
	for _, c := range []struct {
		answer api.MoveAnswer
		dry    bool
		want   string
	}{
		{answer, false, "/a goes from node 0, CPUs 0-1, to node 1, CPUs 4-5.\n  3 GiB of its memory move, in 12 s or more.\n  Because.\n"},
		{answer, true, "/a would go from node 0, CPUs 0-1, to node 1, CPUs 4-5.\n  3 GiB of its memory would move, in 12 s or more.\n  Because.\n"},
		{stays, false, "/a stays on node 1, CPUs 4-5; what of its memory lies elsewhere is tried now.\n"},
		{stays, true, "/a stays on node 1, CPUs 4-5; what of its memory lies elsewhere would be tried now.\n"},
		{already, true, "/a is on node 1, CPUs 4-5, already.\n"},
		{cancelled, false, "/a: its move is cancelled after 1 GiB of 3 GiB; `homenode resume /a` goes on.\n"},
	} {
		var out bytes.Buffer
		if printMove(&cli.Env{Stdout: &out, Getenv: func(string) string { return "" }}, c.answer, c.dry); out.String() != c.want {
			t.Errorf("got %q, want %q", out.String(), c.want)
		}
	}
}
