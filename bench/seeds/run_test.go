package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
)

// inside has switches of the kernel, and the state of a run, in a folder of the test.
func inside(t *testing.T) (top string) {
	t.Helper()
	top = t.TempDir()
	oldBalancing, oldCaches := balancingFile, cachesFile
	t.Cleanup(func() { balancingFile, cachesFile = oldBalancing, oldCaches })
	balancingFile, cachesFile = filepath.Join(top, "numa_balancing"), filepath.Join(top, "llc_balancing")
	for _, f := range []string{balancingFile, cachesFile} {
		if err := os.WriteFile(f, []byte("1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

// labOf is a lab for a made-up experiment on a machine of two nodes with a CPU each.
func labOf(t *testing.T, top, text string) *lab {
	t.Helper()
	h := synthetic(t, "node:2(memory=1GiB) core:1")
	if real, err := topology.FromSysfs(os.DirFS("/")); err != nil || !h.Allowed.SubsetOf(real.Allowed) {
		t.Skip("skipped: CPUs 0 and 1 are not both to be had")
	}
	return labOn(t, top, text, h, &options{blocks: 2, measure: time.Second, settled: true, seed: 7})
}

// labOn is a lab for a made-up experiment on a machine.
func labOn(t *testing.T, top, text string, h *topology.Host, o *options) *lab {
	t.Helper()
	e, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	l, skipped, err := e.prepare(h, o)
	if err != nil || len(skipped) > 0 {
		t.Fatal(skipped, err)
	}
	l.rest = 0
	l.raw, l.self = filepath.Join(top, "raw"), "seeds"
	l.state = &state{file: filepath.Join(top, "state.json"), Run: rand.Text(), Dir: filepath.Join(top, ours+"-dir")}
	l.say = func(format string, a ...any) { t.Logf(format, a...) }
	for _, d := range []string{l.raw, l.state.Dir} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.state.save(); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestThreadEndsMeanwhile: a thread that ends while taskset goes through the threads of a process stops no run. Another
// failure does.
func TestThreadEndsMeanwhile(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "taskset"), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	l := &lab{state: &state{Dir: t.TempDir()}}
	write("[ -e seen ] && exit 0; touch seen; echo \"failed to get pid 8's affinity: No such process\" >&2; exit 1\n")
	if err := l.confineRunning(t.Context(), os.Getpid(), topology.CPUs(0)); err != nil {
		t.Error(err)
	}
	write("echo 'failed to set affinity: Invalid argument' >&2; exit 1\n")
	err := l.confineRunning(t.Context(), os.Getpid(), topology.CPUs(0))
	if err == nil || !strings.Contains(err.Error(), "Invalid argument") {
		t.Errorf("%v", err)
	}
}

// Servers write where they may run; the load reads that and the switch.
const madeUp = `name: made-up
title: Made up
published: {source: a, url: "https://b", machine: c, result: d}
repeats: e
needs: {cpus: 1, nodes: 1, memory_mib: 1}
sizes: {servers: 2}
prepare: ["echo once >>${dir}/prepared"]
programs:
  - name: server
    role: server
    count: servers
    run: "taskset -cp $$ | sed 's/.*: //' >${dir}/new-${i}; mv ${dir}/new-${i} ${dir}/where-${i}; exec sleep 60"
    ready: test -s ${dir}/where-${i}
    fill: test ! -e ${dir}/fail
  - name: load
    role: load
    run: "echo first cpu $(head -c 1 ${dir}/where-0); echo last cpu $(tail -c 2 ${dir}/where-${servers - 1}); echo balancing $(cat BALANCING); echo prepared $(wc -l <${dir}/prepared); rm ${dir}/where-*"
metrics:
  - {name: first, unit: CPU, better: higher, of: [load], pattern: 'first cpu ([0-9])'}
  - {name: last, unit: CPU, better: higher, of: [load], pattern: 'last cpu ([0-9])'}
  - {name: balancing, unit: "", better: higher, of: [load], pattern: 'balancing ([01])'}
  - {name: prepared, unit: times, better: lower, of: [load], pattern: 'prepared ([0-9]+)'}
  - {name: absent, unit: "", better: lower, of: [load], pattern: 'absent ([0-9]+)', optional: true}
arms: [kernel, balancing, first-free, taskset, one]
variants: [{name: one, rule: first-free, with: {servers: 1}}]
periods: {settle: 0s, measure: 1s}
`

// TestRun: each arm switches and places as it should, in the order that the seed gives, and all is restored.
func TestRun(t *testing.T) {
	top := inside(t)
	l := labOf(t, top, strings.ReplaceAll(madeUp, "BALANCING", balancingFile))
	d, err := l.begin(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.experiment(t.Context(), d.add); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"kernel":     "first 0, last 1, balancing 0, prepared 1",
		"balancing":  "first 0, last 1, balancing 1, prepared 1",
		"first-free": "first 0, last 1, balancing 0, prepared 1",
		"taskset":    "first 0, last 1, balancing 0, prepared 1", // pinned after they wrote where they may run: 0,1
		"one":        "first 0, last 0, balancing 0, prepared 1",
	}
	var order []string
	for _, p := range d.Trial.Periods {
		arm := string(p.Arm)
		order = append(order, arm)
		got := ""
		for _, m := range []string{"first", "last", "balancing", "prepared"} {
			got += fmt.Sprintf(", %s %.0f", m, p.Values[m][0].Value)
		}
		if got[2:] != want[arm] {
			t.Errorf("%s: %s, want %s", arm, got[2:], want[arm])
		}
		if len(p.Values["absent"]) != 0 {
			t.Errorf("%s: a value from nothing", arm)
		}
	}
	var planned []string
	for _, block := range l.plan.Orders() {
		for _, a := range block {
			planned = append(planned, string(a))
		}
	}
	if !slices.Equal(order, planned) || len(order) != 10 {
		t.Errorf("order %v, planned %v", order, planned)
	}
	if !d.Trial.Balancing || !d.Trial.Caches {
		t.Errorf("the arms switch both; balancing %v, caches %v", d.Trial.Balancing, d.Trial.Caches)
	}
	if err := d.write(top); err != nil {
		t.Fatal(err)
	}
	var again document
	text, _ := os.ReadFile(filepath.Join(top, "results.json"))
	if err := json.Unmarshal(text, &again); err != nil || again.Schema != schema || len(again.Trial.Periods) != 10 {
		t.Errorf("results.json: %v, %d periods", err, len(again.Trial.Periods))
	}
	report, _ := os.ReadFile(filepath.Join(top, "report.md"))
	for _, want := range []string{"# Made up", "The machine has 2 NUMA nodes", "no difference can be claimed", "| `first-free` | 1 | +0.0 % | too few blocks | cannot tell |", "Published: d. On: c. Source: a, <https://b>"} {
		if !bytes.Contains(report, []byte(want)) {
			t.Errorf("report.md has no %q:\n%s", want, report)
		}
	}
	restored(t, l)
}

// restored checks that nothing runs, and that the switches are as they were.
func restored(t *testing.T, l *lab) {
	t.Helper()
	if pids := marked(l.state.Run, l.state.Dir); len(pids) > 0 {
		t.Errorf("processes %v are still there", pids)
	}
	if err := l.state.restore(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{balancingFile, cachesFile} {
		if now, _ := readSetting(f); now != "1" {
			t.Errorf("%s is %q, was 1", f, now)
		}
	}
}

// TestRunFails: a program that fails, and one that ends too early, are errors that say which and what it printed;
// nothing is left behind.
func TestRunFails(t *testing.T) {
	for _, x := range []struct{ from, to, want string }{
		{"exec sleep 60", "echo no memory; exit 3", ` ended (exit status 3); it printed: "no memory"`}, // which of the two servers is seen first is chance
		{"prepare: [\"echo once >>${dir}/prepared\"]", "prepare: [\"echo no disk; false\"]", "prepare: echo no disk; false: exit status 1; it printed: \"no disk\""},
		{"fill: test ! -e ${dir}/fail", "fill: echo full; false", "fill homenode-seeds-server-0: echo full; false: exit status 1; it printed: \"full\""},
		{"echo balancing", "echo balance", "balancing: instance 0 of load: nothing in its output fits"},
		{"echo first cpu", "exit 4; echo", "homenode-seeds-load-0 ended (exit status 4)"},
	} {
		top := inside(t)
		text := strings.ReplaceAll(madeUp, "BALANCING", balancingFile)
		if !strings.Contains(text, x.from) {
			t.Fatal(x.from)
		}
		l := labOf(t, top, strings.Replace(text, x.from, x.to, 1))
		err := l.experiment(t.Context(), func(period) {})
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s:\n got  %v\n want %s", x.to, err, x.want)
		}
		restored(t, l)
	}
}

// TestRunStops: a run that the user stops ends at once, and nothing is left behind.
func TestRunStops(t *testing.T) {
	top := inside(t)
	l := labOf(t, top, strings.Replace(strings.ReplaceAll(madeUp, "BALANCING", balancingFile), "run: \"echo first", "run: \"sleep 50; echo first", 1))
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		for len(marked(l.state.Run, l.state.Dir)) < 3 {
			time.Sleep(20 * time.Millisecond)
		}
		stop()
	}()
	if err := l.experiment(ctx, func(period) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	restored(t, l)
}

// TestCommandLine: what a user types wrong is one line; what is asked before a run changes nothing.
func TestCommandLine(t *testing.T) {
	for _, x := range []struct{ args, want string }{
		{"", "no experiment is named; -list shows all"},
		{"redsi", `there is no experiment "redsi"; did you mean redis? (-list shows all)`},
		{"-smok redis", "flag provided but not defined: -smok (-h shows all flags)"},
		{"-set keys redis", `invalid value "keys" for flag -set: want SIZE=FORMULA, such as keys=1000 (-h shows all flags)`},
		{"-set kyes=1 redis", `-set: redis has no size "kyes"; its sizes: clients, keys, rate, servers`},
		{"-set keys=cups redis", "-set: sizes: keys: cups: undefined: cups"},
		{"-arms kernel,humenode -dry-run redis", `redis: -arms: it has no arm "humenode"; its arms: kernel, balancing, cache-aware, numad, taskset, nova, kubelet, first-free, homenode`},
		{"-measure 1ms -dry-run redis", "redis: -measure: want 1s or more; -settle: 0s or more; -blocks: 1 or more"},
	} {
		err := run(t.Context(), strings.Fields(x.args), &bytes.Buffer{}, &bytes.Buffer{})
		if err == nil || err.Error() != x.want || !errors.As(err, &errUsage{}) {
			t.Errorf("%s:\n got  %v\n want %s", x.args, err, x.want)
		}
	}
	for _, args := range []string{"-list", "-describe all", "-packages", "-h"} {
		var out bytes.Buffer
		if err := run(t.Context(), strings.Fields(args), &out, &out); err != nil || out.Len() == 0 {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// TestMissing: what is missing is one line with the command that installs it, and status 2.
func TestMissing(t *testing.T) {
	e, err := Parse([]byte(madeUp))
	if err != nil {
		t.Fatal(err)
	}
	e.Needs = Needs{CPUs: 1 << 20, Nodes: 1, Memory: 1, Packages: []string{"server-x", "load-x"}, Commands: []string{"sh", "no-such-server"},
		ByHand: []ByHand{{Command: "no-such-load", From: "fetch it from X"}, {Command: "no-such-tool", From: "X", Optional: true}}}
	err = e.lacks()
	want := "missing: no-such-server; apt-get install server-x load-x; missing: no-such-load, which Debian does not have: fetch it from X"
	if err == nil || err.Error() != want || !errors.As(err, &errUsage{}) {
		t.Errorf("%v\nwant %s", err, want)
	}
	if err := e.small(synthetic(t, "node:1(memory=1GiB) core:2")); err == nil || !errors.As(err, &errCannot{}) || !strings.Contains(err.Error(), "it needs 1048576 CPUs, and the machine has 2") {
		t.Error(err)
	}
}

// TestDoReturns: a child that keeps the output open does not hold up the run.
func TestDoReturns(t *testing.T) {
	l := labOf(t, inside(t), madeUp)
	if err := l.do(t.Context(), "setsid sleep 15 & echo done", time.Minute); err != nil {
		t.Error(err)
	}
	if len(marked(l.state.Run, l.state.Dir)) == 0 {
		t.Error("it waited for the child")
	}
	if err := killMarked(l.state.Run, l.state.Dir, 0); err != nil {
		t.Error(err)
	}
	restored(t, l)
}

// TestSwitches: a switch is reported as set only where an arm sets it and the kernel has it.
func TestSwitches(t *testing.T) {
	l := labOf(t, inside(t), madeUp)
	if err := os.Remove(cachesFile); err != nil {
		t.Fatal(err)
	}
	d, err := l.begin(nil)
	if err != nil || !d.Trial.Balancing || d.Trial.Caches {
		t.Errorf("balancing %v, caches %v: %v", d.Trial.Balancing, d.Trial.Caches, err)
	}
}

// TestUnplaced: programs that Homenode started without a home are counted, and the report says so.
func TestUnplaced(t *testing.T) {
	l := labOf(t, inside(t), madeUp)
	all, err := l.instances("kernel", 0)
	if err != nil {
		t.Fatal(err)
	}
	servers := placedOf(all)
	for i, text := range []string{"homenode: runs on node 0\n", "homenode: runs anywhere: no node has 64 CPUs\nready\n"} {
		if err := os.WriteFile(servers[i].out, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if n := unplaced(all); n != 1 {
		t.Errorf("%d, want 1", n)
	}
	d, err := l.begin(nil)
	if err != nil {
		t.Fatal(err)
	}
	d.add(period{arm: "kernel", placed: 2, unplaced: 1, values: map[string]float64{}})
	if !strings.Contains(d.markdown(), "Homenode had no home for 1 of 2 programs") {
		t.Error(d.markdown())
	}
	source, err := os.ReadFile("../../ui/cli/run/run.go")
	if err != nil || !strings.Contains(string(source), `"%s anywhere: %s"`) {
		t.Errorf("homenode run prints another line: %v", err)
	}
}

// TestPlacedLate: a pod whose task is not there yet is waited for, and one that ends without is an error.
func TestPlacedLate(t *testing.T) {
	top := inside(t)
	l := labOf(t, top, madeUp)
	victim := l.shell("exec sleep 60")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	go victim.Wait()
	ctr := fmt.Sprintf("#!/bin/sh\necho x >>%[1]s/asked\n[ $(wc -l <%[1]s/asked) -lt 3 ] || echo pod %[2]d RUNNING\n", top, victim.Process.Pid)
	if err := os.WriteFile(filepath.Join(top, "ctr"), []byte(ctr), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", top+":"+os.Getenv("PATH"))
	client := l.shell("exec sleep 60") // as ctr is
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	go client.Wait()
	in := &instance{name: "pod", as: Pod, running: running{cmd: client, done: make(chan struct{})}, home: home{CPUs: topology.CPUs(1)}}
	if err := l.settle(t.Context(), ruleOf("taskset"), []*instance{in}); err != nil {
		t.Fatal(err)
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", victim.Process.Pid))
	if !bytes.Contains(status, []byte("Cpus_allowed_list:\t1\n")) {
		t.Errorf("it was not placed:\n%s", status)
	}
	gone := &instance{name: "gone", as: Pod, running: running{cmd: client, done: make(chan struct{})}}
	close(gone.done)
	if err := l.settle(t.Context(), ruleOf("taskset"), []*instance{gone}); err == nil || !strings.Contains(err.Error(), "gone was not placed") {
		t.Error(err)
	}
	if err := killMarked(l.state.Run, l.state.Dir, 0); err != nil {
		t.Error(err)
	}
	restored(t, l)
}

// TestSmokeOfNothing: a smoke run without one experiment is a failure.
func TestSmokeOfNothing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := exec.LookPath("redis-server"); err == nil {
		t.Skip("skipped: there is a redis-server beside PATH")
	}
	var out bytes.Buffer
	err := run(t.Context(), []string{"-smoke", "redis"}, &out, &out)
	if err == nil || errors.As(err, &errUsage{}) || !strings.Contains(err.Error(), "no experiment was run") || !strings.Contains(out.String(), "experiments: 0 run, 1 only checked") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestAsk: answers that are no success fail the load, and a load that is too large is refused.
func TestAsk(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler()}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	var out bytes.Buffer
	if err := askServer(&out, []string{socket, "20", "1", "1", "2"}); err == nil || err.Error() != "20 of 20 answers were no success" {
		t.Error(err)
	}
	err = askServer(&out, []string{socket, "1000000000", "1", "1000000000", "2"})
	if err == nil || !errors.As(err, &errUsage{}) || !strings.Contains(err.Error(), "want 1 to 50000000") {
		t.Error(err)
	}
}
