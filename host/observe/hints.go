package observe

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

const (
	// hintsEvery is how often the kernel's samples of a workload are read: it scans a
	// process once a second to once a minute (sysctl numa_balancing_scan_period_*).
	hintsEvery = 10 * time.Second
	// hintThreads of a workload are asked at a time, others in the next turn; hintFiles
	// is for all in one look, at some 20 µs each.
	hintThreads = 8
	hintFiles   = 40
	// leastFaults is needed to speak of a share.
	leastFaults = 256
	// hintScans of a process must follow a move of its pages before its samples count
	// again: the kernel halves the old ones at each (task_numa_placement, kernel/sched/fair.c).
	hintScans = 3
)

// hints is what the kernel's NUMA balancing has sampled of a workload.
type hints struct {
	figure workload.Accesses
	at     time.Time // of figure
	tried  time.Time
	turn   int    // which threads were asked last
	faults uint64 // hinting faults of the cgroup when last looked at
	known  bool   // faults is
}

// hinting is what is known of the kernel's NUMA balancing.
type hinting struct {
	at     time.Time
	on     bool
	why    string // not on
	faults uint64 // of the whole machine, and the local ones
	local  uint64
	share  float64 // of those since the last look at it that were local; negative when there were none
}

// readHinting looks whether the kernel samples accesses at all.
func (o *Observer) readHinting() {
	h := &o.hinting
	if !h.at.IsZero() && o.now.Sub(h.at) < hintsEvery {
		return
	}
	h.at = o.now
	h.on = false
	h.share = -1
	b, err := o.files.Read("proc/sys/kernel/numa_balancing", o.buf)
	mode, ok := proc.Number(bytes.TrimSpace(b))
	switch {
	case err != nil || !ok:
		h.why = "the kernel has no NUMA balancing, or one node only"
		return
	case mode&1 == 0: // 2 alone samples for memory tiers, not for nodes
		h.why = fmt.Sprintf("kernel.numa_balancing is %d", mode)
		return
	}
	h.on, h.why = true, ""
	if b, err = o.files.Read("proc/vmstat", o.buf); err != nil {
		return
	}
	faults, local := uint64(0), uint64(0)
	eachKey(b, func(key []byte, n uint64) {
		switch string(key) {
		case "numa_hint_faults":
			faults = n
		case "numa_hint_faults_local":
			local = n
		}
	})
	if faults > h.faults && local >= h.local && h.faults > 0 {
		h.share = float64(local-h.local) / float64(faults-h.faults)
	}
	h.faults, h.local = faults, local
}

// eachKey calls each for every line "key 17".
func eachKey(b []byte, each func(key []byte, n uint64)) {
	for line := range bytes.Lines(b) {
		key, value, ok := bytes.Cut(bytes.TrimSuffix(line, []byte{'\n'}), []byte{' '})
		if n, isNumber := proc.Number(value); ok && isNumber {
			each(key, n)
		}
	}
}

// readHints reads what was sampled of the busy workloads that no counter tells of, the
// longest unasked first.
func (o *Observer) readHints(reported []*work) {
	if len(o.host.Nodes) < 2 {
		o.hinting.why = "there is one node"
		return
	}
	o.readHinting()
	if !o.hinting.on {
		return
	}
	var due []*work
	for _, w := range reported {
		a := &w.access
		if o.use(w) >= busy && o.now.Sub(a.hints.tried) >= hintsEvery &&
			(a.figure.From == "" || o.now.Sub(a.at) >= countOld) &&
			w.grouped.accesses(o.now).From == "" {
			due = append(due, w)
		}
	}
	slices.SortStableFunc(due, func(a, b *work) int { return a.access.hints.tried.Compare(b.access.hints.tried) })
	budget := hintFiles
	for _, w := range due {
		if budget <= 0 {
			return
		}
		budget -= o.readHintsOf(w)
	}
}

// readHintsOf reads the samples of some threads of w and returns how many files that took.
func (o *Observer) readHintsOf(w *work) int {
	h := &w.access.hints
	h.tried = o.now
	files := 0
	if w.kind == workload.InCgroup && w.leaf.dir != "" {
		files++
		if !o.faulted(w.leaf.dir, h) {
			h.figure = workload.Accesses{}
			return files
		}
	}
	var local, all uint64
	for _, id := range w.sample(h.turn) {
		files++
		b, err := o.files.Read(proc.TaskFile(id.p.pid, id.tid, "sched"), o.buf)
		if err != nil {
			continue
		}
		s := parseSched(b)
		if !id.p.fresh(s.scans) || s.node < 0 {
			continue
		}
		for n, faults := range s.faults {
			all += faults
			if n == s.node {
				local += faults
			}
		}
	}
	h.turn += hintThreads
	h.figure = workload.Accesses{}
	if all >= leastFaults {
		h.figure, h.at = workload.Accesses{From: workload.Hints, Local: float64(local) / float64(all)}, o.now
	}
	return files
}

// faulted reports whether the cgroup had hinting faults since it was last asked about:
// without any, what its threads tell is old. Kernels before 6.12 do not count by cgroup.
func (o *Observer) faulted(dir string, h *hints) bool {
	b, err := o.files.Read(dir+"/memory.stat", o.buf)
	if err != nil {
		return true
	}
	faults, has := uint64(0), false
	eachKey(b, func(key []byte, n uint64) {
		if string(key) == "numa_hint_faults" {
			faults, has = n, true
		}
	})
	grown := !h.known || faults > h.faults
	h.faults, h.known = faults, has
	return !has || (grown && faults > 0)
}

// threadID is a thread of a workload.
type threadID struct {
	p   *process
	tid int
}

// sample is up to hintThreads of the threads of w, others at each turn.
func (w *work) sample(turn int) []threadID {
	var all []threadID
	for _, p := range w.procs {
		if len(p.seenTicks) == 0 {
			all = append(all, threadID{p, p.pid})
		}
		for _, t := range p.seenTicks {
			all = append(all, threadID{p, t.tid})
		}
	}
	out := make([]threadID, min(len(all), hintThreads))
	for i := range out {
		out[i] = all[(turn+i)%len(all)]
	}
	return out
}

// fresh reports whether samples taken up to the given scan say where pages are now.
func (p *process) fresh(scans uint64) bool {
	if p.hintsStale {
		p.hintsStale, p.hintsFrom = false, scans+hintScans
	}
	return scans >= p.hintsFrom
}

// sched is the part of /proc/PID/task/TID/sched that is used here.
type sched struct {
	scans  uint64   // of the process, so far
	node   int      // where the thread is; -1 when not told
	faults []uint64 // of the thread by node of the memory, the older the less
}

// parseSched reads what kernel/sched/debug.c writes (sched_show_numa):
// "mm->numa_scan_seq : 12", "current_node=0, numa_group_id=7" and
// "numa_faults node=0 task_private=10 task_shared=2 group_private=10 group_shared=2".
func parseSched(b []byte) sched {
	s := sched{node: topology.None}
	for line := range bytes.Lines(b) {
		switch {
		case bytes.HasPrefix(line, []byte("mm->numa_scan_seq")):
			if _, value, ok := bytes.Cut(line, []byte{':'}); ok {
				s.scans, _ = proc.Number(bytes.TrimSpace(value))
			}
		case bytes.HasPrefix(line, []byte("current_node=")):
			value, _, _ := bytes.Cut(line[len("current_node="):], []byte{','})
			if n, ok := proc.Number(bytes.TrimSpace(value)); ok && n <= proc.MaxNode {
				s.node = int(n)
			}
		case bytes.HasPrefix(line, []byte("numa_faults ")):
			s.addFaults(line)
		}
	}
	return s
}

func (s *sched) addFaults(line []byte) {
	node, sum := -1, uint64(0)
	for _, word := range bytes.Fields(line) {
		key, value, ok := bytes.Cut(word, []byte{'='})
		n, isNumber := proc.Number(value)
		if !ok || !isNumber {
			continue
		}
		switch string(key) {
		case "node":
			if n <= proc.MaxNode {
				node = int(n)
			}
		case "task_private", "task_shared":
			sum += min(n, 1<<40)
		}
	}
	if node < 0 {
		return
	}
	for node >= len(s.faults) {
		s.faults = append(s.faults, 0)
	}
	s.faults[node] += sum
}
