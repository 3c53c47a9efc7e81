//go:build linux

package home

import (
	"encoding/json"
	"os"
	"slices"
	"strings"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// homenodeHost: host prepare moves what runs in system.slice and agents onto a core
// of each node, with interrupts and unbound work; a second run has nothing to do; undo
// puts everything back.
func homenodeHost(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot,
		lab.WalkerSpec{Name: "system.slice", Slot: 1, MiB: 16, Threads: 3, Place: "bind:0"},
		lab.WalkerSpec{Name: "agent", Slot: 3, MiB: 16, Threads: 2, Place: "bind:2", Plain: true})
	before, settings := lab.TakeSnapshot(ws), lab.HostSettings()
	var reserve lab.Set
	for n := range t.Shape.Nodes { // SMT2, siblings side by side
		reserve |= t.Set("0-1") << (n * t.Shape.CPUsPerNode)
	}
	args := []string{"host", "prepare", "--agents", "walker", "--state-dir", lab.StateFolder,
		"--reserve", reserve.String()}
	plan := t.Must(lab.Homenode(append(args, "--dry-run")...), lab.ExitOK).Out
	t.Same("after a dry run", before, lab.TakeSnapshot(ws), lab.All)
	t.Same("settings after a dry run", settings, lab.HostSettings(), lab.All)
	if !strings.Contains(plan, "set-cpus /system.slice") || !strings.Contains(plan, "set-irq") {
		t.Fatalf("no step for system.slice or interrupts: %s", plan)
	}
	done := t.Must(lab.Homenode(args...), lab.ExitOK).Out
	t.Logf("%s", done[max(0, strings.LastIndex(done, "\n"+"reserve")-150):])
	for _, w := range ws {
		for tid, may := range lab.Allowed(w.PID) {
			if !may.Within(reserve) {
				t.Fatalf("%s: thread %d may use CPUs %s; the reserve is %s", w.Name, tid, may, reserve)
			}
		}
	}
	if own := lab.Allowed(os.Getpid())[os.Getpid()]; own.Within(reserve) {
		t.Fatalf("this process, in no slice of the host's, may use CPUs %s", own)
	}
	moved := settings.Changes(lab.HostSettings(), lab.All)
	if len(moved) == 0 {
		t.Fatalf("no interrupt and no unbound work was moved: %s", done)
	}
	for name, value := range lab.HostSettings() {
		if strings.HasSuffix(name, "_list") && settings[name] != value && !t.Set(value).Within(reserve) {
			t.Fatalf("%s is %s", name, value)
		}
	}
	var again struct{ Done, Failed *int }
	second := t.Must(lab.Homenode(append(args, "--json")...), lab.ExitOK)
	t.Do(json.Unmarshal([]byte(second.Out), &again))
	if again.Done == nil || again.Failed == nil || *again.Done+*again.Failed != 0 {
		t.Fatalf("the second run changed something: %s", second)
	}
	type finding struct{ Subject, Severity string }
	var report struct{ Findings []finding }
	r := lab.Homenode("host", "report", "--reserve", reserve.String(), "--agents", "walker", "--json")
	t.Do(json.Unmarshal([]byte(r.Out), &report))
	if !slices.Contains(report.Findings, finding{"system.slice", "healthy"}) {
		t.Fatalf("report: %s", r)
	}
	// A daemon takes nothing of it for a workload's, keeps it, and undoes it when asked.
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Exclude: "'**'"})
	t.Do(json.Unmarshal([]byte(t.Must(lab.Homenode(append(args, "--json")...), lab.ExitOK).Out), &again))
	if *again.Done+*again.Failed != 0 {
		t.Fatalf("a run by the daemon changed something: %+v", again)
	}
	undone := func(what string) {
		t.Must(lab.Homenode("undo", "host"), lab.ExitOK)
		t.Same("after undo of "+what, before, lab.TakeSnapshot(ws), lab.All)
		t.Same("settings after undo of "+what, settings, lab.HostSettings(), lab.All)
	}
	undone("what was prepared without a daemon")
	t.Must(lab.Homenode(args...), lab.ExitOK)
	for _, w := range ws {
		for tid, may := range lab.Allowed(w.PID) {
			if !may.Within(reserve) {
				t.Fatalf("by the daemon: %s: thread %d may use CPUs %s; the reserve is %s", w.Name, tid, may, reserve)
			}
		}
	}
	undone("what the daemon prepared")
	t.Stop(d)
	t.Walking(ws)
	t.Textf("%d settings moved and put back; %d interrupts and masks", len(before), len(moved))
}
