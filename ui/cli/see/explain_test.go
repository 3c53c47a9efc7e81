package see

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

func explained(x api.Explanation) []string {
	var out bytes.Buffer
	e := &cli.Env{Stdout: &out, Getenv: func(string) string { return "" }}
	printExplanation(&out, e.Paint(), x, 8)
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return lines
}

// TestExplainShowsTypes: memory by type has a line of its own, and says what the kernel moved there.
func TestExplainShowsTypes(t *testing.T) {
	x := api.Explanation{Workload: api.Workload{ID: "/db", Class: workload.Shared, State: "at home", MemoryKiB: 100,
		MemoryByType: []api.TypeKiB{{Type: "dram", KiB: 86}, {Type: "cxl", KiB: 13, Demoted: true}, {Type: "special", KiB: 1}}}}
	want := "types DRAM 86.0 %, CXL 13.0 % (the kernel moves cold pages there; they count as local and stay), memory without CPUs 1.0 %"
	if got := explained(x); !slices.Contains(got, want) {
		t.Errorf("%q", got)
	}
}

// TestExplainShowsKernelMemory: page tables by node, and what helps where they lie off home.
func TestExplainShowsKernelMemory(t *testing.T) {
	x := api.Explanation{Workload: api.Workload{ID: "/db", Class: workload.Shared, State: "at home", Home: "1",
		Kernel: &api.KernelMemory{PageTables: []api.NodeKiB{{Node: 0, KiB: 1028}, {Node: 1, KiB: 8}}, Stacks: []api.NodeKiB{{Node: 0, KiB: 64}}}}}
	off := "1 MiB of page tables lie off its home. No page move takes them along, and page walks are in no locality."
	got := explained(x)
	for _, want := range []string{"kernel page tables 1 MiB on node 0, 8 KiB on node 1; kernel stacks 64 KiB on node 0", off, "A restart at home allocates them there."} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	x.Workload.Home = "0"
	if got := explained(x); slices.Contains(got, off) {
		t.Errorf("all at home: %q", got)
	}
	x.Workload.Kernel = nil
	for _, line := range explained(x) {
		if strings.HasPrefix(line, "kernel ") {
			t.Errorf("nothing known: %q", line)
		}
	}
}

func TestExplainTellsWhatIsNear(t *testing.T) {
	rate := 120.0
	x := api.Explanation{Workload: api.Workload{ID: "/web", Class: workload.Shared, State: "at home", Near: []string{"nvme0n1"}, Links: []api.Link{
		{Kind: workload.ByTap, Name: "eth0", Nodes: "1", MiBs: &rate, Weight: 0.23, Evidence: "tap vnet3 → br0 → eth0"},
		{Kind: workload.ByVhostUser, Name: "ovs-vswitchd", Evidence: "unix socket"},
		{Kind: workload.ByTap, Name: "eth1", Nodes: "0", MiBs: &rate, Weight: 0.5, Evidence: "tap vnet4 (vhost) → eth1", Why: "It weighs as 500 MiB/s: …"},
	}}}
	want := []string{
		"near nvme0n1 (configured)",
		"near eth0 on node 1 (learned: tap vnet3 → br0 → eth0; 120.0 MiB/s; weight 0.23)",
		"near ovs-vswitchd (learned: unix socket; does not count)",
		"near eth1 on node 0 (learned: tap vnet4 (vhost) → eth1; 120.0 MiB/s; weight 0.50)",
		"It weighs as 500 MiB/s: …",
	}
	var got []string
	for _, l := range explained(x) {
		if strings.HasPrefix(l, "near ") || strings.HasPrefix(l, "It weighs ") {
			got = append(got, l)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestExplainDevice(t *testing.T) {
	x := api.Explanation{
		Device: &api.DeviceDetail{
			Device: api.Device{Name: "eth0", Kind: "nic", Node: 1, Interrupts: 2, Queues: 2, MostQueues: 8, State: "moving", Why: "Because."},
			ID:     "device:eth0", PCI: "0000:81:00.0", Allowed: "6-7", Avoided: "4-5",
			Settings: []api.DeviceSetting{{Path: "0000:81:00.0/40", Name: "eth0-TxRx-0", Now: "0-7", To: "6", Why: "It belongs to a queue."},
				{Path: "0000:81:00.0/eth0/rx-0", Name: "eth0/rx-0", Why: "RPS."}},
			Users: []api.DeviceUser{{Workload: "/web", How: "told to be near it"}},
		},
		Journal: []plan.Entry{{Kind: plan.IRQAffinity, Path: "0000:81:00.0/41", Old: "0", New: "7", State: plan.Applied}},
	}
	want := []string{
		"device:eth0 nic 0000:81:00.0 on node 1, 2 interrupts, 2 of 8 queues",
		"may go to CPUs 6-7 of node 1; 4-5 are dedicated",
		"state moving",
		"why Because.",
		"",
		"SETTING NAME NOW BY PLAN WHY",
		"0000:81:00.0/40 eth0-TxRx-0 0-7 6 It belongs to a queue.",
		"0000:81:00.0/eth0/rx-0 eth0/rx-0 - - RPS.",
		"",
		"used by",
		"/web, no home: told to be near it",
		"",
		"changed so far; `homenode undo` restores it",
		"irq of 0000:81:00.0/41: 0 → 7 (applied)",
	}
	if diff := cmp.Diff(want, explained(x)); diff != "" {
		t.Error(diff)
	}
}

// The first reason of held work is the hold.
func TestExplainHeld(t *testing.T) {
	x := api.Explanation{Workload: api.Workload{ID: "vm:a", State: api.StateHeld, Why: "Undone by the user."}}
	x.Decision.Reasons = words.Reasons(words.Because(words.OnlyNode, 0))
	got := strings.Join(explained(x), "\n")
	if !strings.Contains(got, "why\nUndone by the user.\n") {
		t.Error(got)
	}
	x.Workload.State = api.StateAtHome
	if got := strings.Join(explained(x), "\n"); strings.Contains(got, "Undone") {
		t.Error(got)
	}
}

// TestExplainShortensListsOfEvents: a list that a terminal folds is shortened once, as a whole.
func TestExplainShortensListsOfEvents(t *testing.T) {
	const list = "7-11,21-23,30-35,43-47,55-59,67-71,80-83,92-95,103-107,117-119,126-131,139-143"
	x := api.Explanation{Events: []plan.Event{{Kind: plan.EventStep, Text: "set-cpus: 0-191 → " + list + ". Batch work runs there."}}}
	var out bytes.Buffer
	printShortened(&out, view.Paint{Width: 80}, x, 8)
	got := strings.Join(strings.Fields(out.String()), " ")
	want := "set-cpus: 0-191 → 7-11,21-23,30-35,… (56 CPUs). Batch work runs there."
	if !strings.HasSuffix(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}
