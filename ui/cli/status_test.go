package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/measure"
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
