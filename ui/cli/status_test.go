package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/workload"
)

// Devices and other managers are shown when there are any, and only then.
func TestStatusNamesDevicesAndOthers(t *testing.T) {
	show := func(s api.Status) []string {
		var out bytes.Buffer
		printStatus(&Env{Stdout: &out, Getenv: func(string) string { return "" }}, s)
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
	s.Rivals = []measure.Manager{{Name: "irqbalance", Does: "spreads interrupts over CPUs", Owns: "the affinity of interrupts"}, {Name: "tuned", Does: "sets kernel settings"}}
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
	printStatus(&Env{Stdout: &out, Getenv: func(string) string { return "" }}, s)
	for _, want := range []string{
		"locality: 1 by counters; no numa-hints (kernel.numa_balancing is 0); 1 by residence\n",
		"3.25", "1200 MiB/s",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
