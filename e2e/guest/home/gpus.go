//go:build linux

package home

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// Tags of the marks of homenodeGPUs.
const (
	tagGPUsAlone = 0x40 + iota
	tagGPUs
	tagGPUsChanged
)

const gpuWorkers = 4

// homenodeGPUs: a process tree of four workers that have two GPUs on each side open. Each worker is
// brought to the node of its own GPU, threads and memory; also when it takes another one, has ten
// thousand files open before it, or names that a terminal obeys. A GPU that is unplugged does no harm.
func homenodeGPUs(t *lab.T) {
	gpus := t.MakeUpGPUs(gpuWorkers / t.Shape.Nodes)
	topologyShows(t, gpus)

	var specs []lab.WalkerSpec
	for i := range gpuWorkers {
		specs = append(specs, lab.WalkerSpec{Name: fmt.Sprintf("worker%d", i), Slot: i, MiB: 24, Threads: 2,
			Place: "bind:0", Unbind: true})
	}
	ws := startTree(t, "train", specs...)
	t.Declare(ws)
	of := t.TakeGPUs(ws, gpus)
	lab.Warm(10 * time.Second)
	t.RecordGPUs(ws, of)
	t.Measure(ws, tagGPUsAlone, "kernel alone", lab.MeasuredPasses)

	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", MinAge: "0s", Memory: "16MiB"})
	start := time.Now()
	t.AwaitAtGPUs(ws, of)
	took := time.Since(start)
	t.RecordGPUs(ws, of)
	t.Measure(ws, tagGPUs, "homenode", lab.MeasuredPasses)
	explainsWorkers(t, ws, gpus)

	// Each worker takes a GPU of the other node, the first behind ten thousand open files, and has a file
	// open whose name a terminal would obey.
	hostile := "/dev/nvidia\x1b[31m\u202e"
	t.Do(os.WriteFile(hostile, nil, 0o644))
	t.Defer(func() { os.Remove(hostile) })
	of = t.TakeGPUs(ws, []*lab.GPU{gpus[2], gpus[3], gpus[0], gpus[1]})
	fmt.Fprintf(ws[0].In, "open 10000 %s /dev/nvidia2\n", hostile)
	t.Expect(ws[0], "opened")
	start = time.Now()
	t.AwaitAtGPUs(ws, of)
	changed := time.Since(start)
	t.RecordGPUs(ws, of)
	t.Measure(ws, tagGPUsChanged, "homenode, other GPUs", lab.MeasuredPasses)
	for _, c := range [][]string{{"status"}, {"explain", "/train"}} {
		out := t.Must(lab.Homenode(c...), lab.ExitOK).Out
		odd := func(r rune) bool {
			control := unicode.IsControl(r) && r != '\n' && r != '\t'
			return control || r == '\u202e'
		}
		if i := strings.IndexFunc(out, odd); i >= 0 {
			t.Fatalf("%s prints what a terminal obeys: %q", c[0], lab.Cut(out[i:]))
		}
	}

	// The GPU of the last worker goes.
	gpus[1].Unplug(t)
	lab.Warm(35 * time.Second) // longer than the time between two surveys
	t.Alive(d)
	t.Walking(ws)
	t.AwaitAtGPUs(ws[:3], of[:3])

	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	for _, w := range ws {
		for tid, cpus := range lab.Allowed(w.PID) {
			if cpus != lab.CPUsOf(lab.SetOf(0, 1)) {
				t.Fatalf("after undo thread %d of %s has CPUs %s", tid, w.Name, cpus)
			}
		}
	}
	if s := t.Status(); s.Self.Journal != 0 {
		t.Fatalf("after undo --all %d entries are left in the journal", s.Self.Journal)
	}
	t.Alive(d)
	t.Walking(ws)
	t.Textf("four workers at their GPUs after %.1f s; with other GPUs after %.1f s", took.Seconds(), changed.Seconds())
}

// topologyShows checks that homenode topology has the GPUs and what is near them.
func topologyShows(t *lab.T, gpus []*lab.GPU) {
	var host struct {
		Devices []struct {
			GPU, Model, UUID, PCI, Chars string
			Node                         int
		}
		Peers []struct{ GPU, Peer, Relation string }
	}
	r := t.Must(lab.Homenode("topology", "--json"), lab.ExitOK)
	t.Do(json.Unmarshal([]byte(r.Out), &host))
	found := 0
	for _, d := range host.Devices {
		if d.GPU == "" {
			continue
		}
		g := gpus[found]
		want := fmt.Sprintf("gpu%d %s %s %s %d 195:%d", found, g.Model, g.UUID, g.PCI, g.Node, g.Minor)
		if got := fmt.Sprintf("%s %s %s %s %d %s", d.GPU, d.Model, d.UUID, d.PCI, d.Node, d.Chars); got != want {
			t.Fatalf("topology has %q, wanted %q", got, want)
		}
		found++
	}
	if found != len(gpus) {
		t.Fatalf("topology has %d GPUs of %d: %s", found, len(gpus), lab.Cut(r.Out))
	}
	relations := map[string]string{}
	for _, p := range host.Peers {
		relations[p.GPU+" "+p.Peer] = p.Relation
	}
	for pair, want := range map[string]string{"gpu0 gpu1": "PIX", "gpu0 gpu2": "SYS", "gpu2 0000:85:00.0": "PIX",
		"gpu2 0000:15:00.0": "SYS"} {
		if relations[pair] != want {
			t.Fatalf("topology relates %s as %q, wanted %q: %v", pair, relations[pair], want, relations)
		}
	}
	text := t.Must(lab.Homenode("topology"), lab.ExitOK).Out
	t.LogLines("topology", text, 80)
}

// explainsWorkers checks what explain has of the workers.
func explainsWorkers(t *lab.T, ws []*lab.Walker, gpus []*lab.GPU) {
	text := t.Must(lab.Homenode("explain", "/train"), lab.ExitOK).Out
	t.LogLines("explain", text, 80)
	for i, w := range ws {
		for _, want := range []string{fmt.Sprintf("PID %d: gpu%d on node %d", w.PID, i, gpus[i].Node), "NVIDIA H100"} {
			if !strings.Contains(text, want) {
				t.Fatalf("explain has no %q", want)
			}
		}
	}
	if !strings.Contains(text, "promises no gain") {
		t.Fatalf("explain does not say what it promises")
	}
}
