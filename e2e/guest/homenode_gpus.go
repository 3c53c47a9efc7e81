//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
)

func init() { tests["homenode.gpus"] = homenodeGPUs }

// Tags of the marks of homenodeGPUs.
const (
	tagGPUsAlone = 0x40 + iota
	tagGPUs
	tagGPUsChanged
)

const (
	gpuWorkers = 4
	// gpuLimit is a survey of links (30 s), several scans and page moves, on an emulated machine.
	gpuLimit = 120 * time.Second
)

// homenodeGPUs: a process tree of four workers that have two GPUs on each side open. Each worker is
// brought to the node of its own GPU, threads and memory; also when it takes another one, has ten
// thousand files open before it, or names that a terminal obeys. A GPU that is unplugged does no harm.
func homenodeGPUs(t *T) {
	gpus := t.makeUpGPUs(gpuWorkers / t.shape.Nodes)
	t.topologyShows(gpus)

	var specs []walkerSpec
	for i := range gpuWorkers {
		specs = append(specs, walkerSpec{name: fmt.Sprintf("worker%d", i), slot: i, mib: 24, threads: 2, place: "bind:0", unbind: true})
	}
	ws := t.startTree("train", specs...)
	t.declare(ws)
	of := t.takeGPUs(ws, gpus, 0, 1, 2, 3)
	warm(10 * time.Second)
	t.recordHomes(ws, of)
	t.measure(ws, tagGPUsAlone, "kernel alone", measuredPasses)

	d := t.startDaemon(daemonOptions{mode: "enforce", minAge: "0s", memory: "16MiB"})
	start := time.Now()
	t.workersAtGPUs(ws, of)
	took := time.Since(start)
	t.recordHomes(ws, of)
	t.measure(ws, tagGPUs, "homenode", measuredPasses)
	t.explainsWorkers(ws, gpus)

	// Each worker takes a GPU of the other node, the first behind ten thousand open files, and has a file
	// open whose name a terminal would obey.
	hostile := "/dev/nvidia\x1b[31m\u202e"
	t.Do(os.WriteFile(hostile, nil, 0o644))
	t.Defer(func() { os.Remove(hostile) })
	of = t.takeGPUs(ws, gpus, 2, 3, 0, 1)
	fmt.Fprintf(ws[0].in, "open 10000 %s /dev/nvidia2\n", hostile)
	t.expect(ws[0], "opened")
	start = time.Now()
	t.workersAtGPUs(ws, of)
	changed := time.Since(start)
	t.recordHomes(ws, of)
	t.measure(ws, tagGPUsChanged, "homenode, other GPUs", measuredPasses)
	for _, c := range [][]string{{"status"}, {"explain", "/train"}} {
		out := t.must(homenode(c...), exitOK).out
		odd := func(r rune) bool {
			control := unicode.IsControl(r) && r != '\n' && r != '\t'
			return control || r == '\u202e'
		}
		if i := strings.IndexFunc(out, odd); i >= 0 {
			t.Fatalf("%s prints what a terminal obeys: %q", c[0], cut(out[i:]))
		}
	}

	// The GPU of the last worker goes.
	gpus[1].unplug(t)
	warm(35 * time.Second) // longer than the time between two surveys
	t.alive(d)
	t.walking(ws)
	t.workersAtGPUs(ws[:3], of[:3])

	t.must(homenode("undo", "--all"), exitOK)
	for _, w := range ws {
		for tid, cpus := range allowed(w.pid) {
			if cpus != cpusOf(setOf(0, 1)) {
				t.Fatalf("after undo thread %d of %s has CPUs %s", tid, w.name, cpus)
			}
		}
	}
	if s := t.status(); s.Self.Journal != 0 {
		t.Fatalf("after undo --all %d entries are left in the journal", s.Self.Journal)
	}
	t.alive(d)
	t.walking(ws)
	t.Textf("four workers at their GPUs after %.1f s; with other GPUs after %.1f s", took.Seconds(), changed.Seconds())
}

// takeGPUs has each worker open a GPU, and returns the GPU of each.
func (t *T) takeGPUs(ws []*walker, gpus []*madeUpGPU, which ...int) []*madeUpGPU {
	var of []*madeUpGPU
	for i, w := range ws {
		g := gpus[which[i]]
		fmt.Fprintf(w.in, "open /dev/%s\n", g.name)
		t.expect(w, "opened")
		of = append(of, g)
	}
	return of
}

func (t *T) recordHomes(ws []*walker, of []*madeUpGPU) {
	for i, w := range ws {
		t.record("HOME %d %d", w.slot, of[i].node)
	}
}

// workersAtGPUs waits until all threads of each worker are on the node of its GPU, and 99 % of its buffer.
func (t *T) workersAtGPUs(ws []*walker, of []*madeUpGPU) {
	t.until(gpuLimit, time.Second, "each worker is at its GPU", func() (bool, string) {
		for i, w := range ws {
			for tid, cpus := range allowed(w.pid) {
				if !cpus.within(nodeCPUs(of[i].node)) {
					return false, fmt.Sprintf("thread %d of %s has CPUs %s, its GPU is on node %d", tid, w.name, cpus, of[i].node)
				}
			}
			b := t.buffer(w)
			if part := share(b.nodes, setOf(of[i].node)); part < 0.99 {
				return false, fmt.Sprintf("%.1f %% of the buffer of %s are on node %d", 100*part, w.name, of[i].node)
			}
		}
		return true, ""
	})
}

// topologyShows checks that homenode topology has the GPUs and what is near them.
func (t *T) topologyShows(gpus []*madeUpGPU) {
	var host struct {
		Devices []struct {
			GPU, Model, UUID, PCI, Chars string
			Node                         int
		}
		Peers []struct{ GPU, Peer, Relation string }
	}
	r := t.must(homenode("topology", "--json"), exitOK)
	t.Do(json.Unmarshal([]byte(r.out), &host))
	found := 0
	for _, d := range host.Devices {
		if d.GPU == "" {
			continue
		}
		g := gpus[found]
		want := fmt.Sprintf("gpu%d %s %s %s %d 195:%d", found, g.model, g.uuid, g.pci, g.node, g.minor)
		if got := fmt.Sprintf("%s %s %s %s %d %s", d.GPU, d.Model, d.UUID, d.PCI, d.Node, d.Chars); got != want {
			t.Fatalf("topology has %q, wanted %q", got, want)
		}
		found++
	}
	if found != len(gpus) {
		t.Fatalf("topology has %d GPUs of %d: %s", found, len(gpus), cut(r.out))
	}
	relations := map[string]string{}
	for _, p := range host.Peers {
		relations[p.GPU+" "+p.Peer] = p.Relation
	}
	for pair, want := range map[string]string{"gpu0 gpu1": "PIX", "gpu0 gpu2": "SYS", "gpu2 0000:85:00.0": "PIX", "gpu2 0000:15:00.0": "SYS"} {
		if relations[pair] != want {
			t.Fatalf("topology relates %s as %q, wanted %q: %v", pair, relations[pair], want, relations)
		}
	}
	text := t.must(homenode("topology"), exitOK).out
	t.logLines("topology", text, 80)
}

// explainsWorkers checks what explain has of the workers.
func (t *T) explainsWorkers(ws []*walker, gpus []*madeUpGPU) {
	text := t.must(homenode("explain", "/train"), exitOK).out
	t.logLines("explain", text, 80)
	for i, w := range ws {
		for _, want := range []string{fmt.Sprintf("PID %d: gpu%d on node %d", w.pid, i, gpus[i].node), "NVIDIA H100"} {
			if !strings.Contains(text, want) {
				t.Fatalf("explain has no %q", want)
			}
		}
	}
	if !strings.Contains(text, "promises no gain") {
		t.Fatalf("explain does not say what it promises")
	}
}
