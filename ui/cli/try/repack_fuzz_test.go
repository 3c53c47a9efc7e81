package try

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
)

// FuzzRunning: whatever a file of running workloads says, the answer is a state
// that can be, or one line.
func FuzzRunning(f *testing.F) {
	f.Add("- {name: a, class: dedicated, cpus: 2, memory: 2GiB, at: {cpus: 0-1}}\n- {name: b, class: dedicated, cpus: 2, memory: 1GiB, at: {cpus: 4-5}}\n")
	f.Add("- {name: a, cpus: 3, memory: 4GiB, at: {cpus: '0-1,4', memory: {0: 3GiB, 1: 1GiB}}, stay: no}")
	f.Add("- {name: a, class: batch, cpus: 1}\n- {name: b, cpus: 1, near: [a], nodes: '1', huge_page: 2MiB, memory: 1KiB}")
	h, err := topology.FromSynthetic("package:2 node:1(memory=16GiB) core:4 pu:1")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e := &cli.Env{Stdin: strings.NewReader(text)}
		st := plan.State{Host: h, Policy: plan.DefaultPolicy()}
		l, running, err := cli.ReadRunning(e, "-", st)
		if err != nil {
			if code, line := cli.ExitStatus(err); code != cli.ExitUsage || strings.Contains(cli.OneLine(line), "\n") {
				t.Fatalf("status %d: %q", code, line)
			}
			return
		}
		if v := plan.Check(st, l.Placements()); v != nil {
			t.Fatalf("%v", v)
		}
		spec := workload.Spec{ID: "\x00new", Class: workload.Dedicated, CPUs: 4, Memory: 1 << 20}
		admit(l, running, []workload.Spec{spec}, &repackOptions{most: 2}, false)
		if v := plan.Check(st, l.Placements()); v != nil {
			t.Fatalf("after admitting: %v", v)
		}
	})
}
