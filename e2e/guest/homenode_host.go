//go:build linux

package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
)

// homenodeHost: host prepare moves what runs in system.slice and agents onto a core
// of each node, with interrupts and unbound work; a second run has nothing to do; undo
// puts everything back.
func homenodeHost(t *T) {
	ws := t.startWalkers(cgroupRoot,
		walkerSpec{name: "system.slice", slot: 1, mib: 16, threads: 3, place: "bind:0"},
		walkerSpec{name: "agent", slot: 3, mib: 16, threads: 2, place: "bind:2", plain: true})
	before, settings := takeSnapshot(ws), hostSettings()
	var reserve set
	for n := range t.shape.Nodes { // SMT2, siblings side by side
		reserve |= t.set("0-1") << (n * t.shape.CPUsPerNode)
	}
	args := []string{"host", "prepare", "--agents", "walker", "--state-dir", stateFolder, "--reserve", reserve.String()}
	plan := t.must(homenode(append(args, "--dry-run")...), exitOK).out
	t.same("after a dry run", before, takeSnapshot(ws), all)
	t.same("settings after a dry run", settings, hostSettings(), all)
	if !strings.Contains(plan, "set-cpus /system.slice") || !strings.Contains(plan, "set-irq") {
		t.Fatalf("no step for system.slice or interrupts: %s", plan)
	}
	done := t.must(homenode(args...), exitOK).out
	t.Logf("%s", done[max(0, strings.LastIndex(done, "\n"+"reserve")-150):])
	for _, w := range ws {
		for tid, may := range allowed(w.pid) {
			if !may.within(reserve) {
				t.Fatalf("%s: thread %d may use CPUs %s; the reserve is %s", w.name, tid, may, reserve)
			}
		}
	}
	if own := allowed(os.Getpid())[os.Getpid()]; own.within(reserve) {
		t.Fatalf("this process, in no slice of the host's, may use CPUs %s", own)
	}
	moved := settings.changes(hostSettings(), all)
	if len(moved) == 0 {
		t.Fatalf("no interrupt and no unbound work was moved: %s", done)
	}
	for name, value := range hostSettings() {
		if strings.HasSuffix(name, "_list") && settings[name] != value && !t.set(value).within(reserve) {
			t.Fatalf("%s is %s", name, value)
		}
	}
	var again struct{ Done, Failed *int }
	second := t.must(homenode(append(args, "--json")...), exitOK)
	t.Do(json.Unmarshal([]byte(second.out), &again))
	if again.Done == nil || again.Failed == nil || *again.Done+*again.Failed != 0 {
		t.Fatalf("the second run changed something: %s", second)
	}
	type finding struct{ Subject, Severity string }
	var report struct{ Findings []finding }
	r := homenode("host", "report", "--reserve", reserve.String(), "--agents", "walker", "--json")
	t.Do(json.Unmarshal([]byte(r.out), &report))
	if !slices.Contains(report.Findings, finding{"system.slice", "healthy"}) {
		t.Fatalf("report: %s", r)
	}
	// A daemon takes nothing of it for a workload's, keeps it, and undoes it when asked.
	d := t.startDaemon(daemonOptions{mode: "enforce", exclude: "'**'"})
	t.Do(json.Unmarshal([]byte(t.must(homenode(append(args, "--json")...), exitOK).out), &again))
	if *again.Done+*again.Failed != 0 {
		t.Fatalf("a run by the daemon changed something: %+v", again)
	}
	undone := func(what string) {
		t.must(homenode("undo", "host"), exitOK)
		t.same("after undo of "+what, before, takeSnapshot(ws), all)
		t.same("settings after undo of "+what, settings, hostSettings(), all)
	}
	undone("what was prepared without a daemon")
	t.must(homenode(args...), exitOK)
	for _, w := range ws {
		for tid, may := range allowed(w.pid) {
			if !may.within(reserve) {
				t.Fatalf("by the daemon: %s: thread %d may use CPUs %s; the reserve is %s", w.name, tid, may, reserve)
			}
		}
	}
	undone("what the daemon prepared")
	t.stop(d)
	t.walking(ws)
	t.Textf("%d settings moved and put back; %d interrupts and masks", len(before), len(moved))
}
