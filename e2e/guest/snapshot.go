//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// snapshot is every value that homenode might change, by a name for it.
type snapshot map[string]string

// takeSnapshot reads the affinities and memory policies of the walkers and every
// writable file of every cgroup.
func takeSnapshot(ws []*walker) snapshot {
	s := snapshot{}
	for _, w := range ws {
		// Threads of the Go runtime come and go, so the masks count, not the threads.
		masks := map[set]bool{}
		for _, cpus := range allowed(w.pid) {
			masks[cpus] = true
		}
		s["affinity of "+w.name] = strings.Join(setKeys(masks), " ")
		if m, err := bufferOf(w.pid, w.slot); err == nil {
			s["memory policy of "+w.name] = m.policy
		}
		s["cgroup of "+w.name] = readText(fmt.Sprintf("/proc/%d/cgroup", w.pid))
	}
	for _, dir := range append(subtree(cgroupRoot), cgroupRoot) {
		for _, e := range entries(dir) {
			s[e] = readText(e)
		}
	}
	return s
}

// entries lists the files of a cgroup that hold settings: readable and writable,
// without those that tell what happens (pressure triggers, peaks, members).
func entries(dir string) []string {
	var r []string
	d, _ := os.ReadDir(dir)
	for _, e := range d {
		info, err := e.Info()
		name := e.Name()
		if err != nil || e.IsDir() || info.Mode().Perm()&0o600 != 0o600 ||
			strings.HasSuffix(name, ".pressure") || strings.HasSuffix(name, ".peak") ||
			name == "cgroup.procs" || name == "cgroup.threads" {
			continue
		}
		r = append(r, filepath.Join(dir, name))
	}
	return r
}

// withPlaces adds where the pages lie, for tests in which none may move.
func (s snapshot) withPlaces(ws []*walker) snapshot {
	for _, w := range ws {
		if m, err := bufferOf(w.pid, w.slot); err == nil {
			s["pages of "+w.name] = byNodeText(m.nodes)
		}
	}
	return s
}

// changes lists how another snapshot differs; keep chooses the names to look at.
func (s snapshot) changes(later snapshot, keep func(string) bool) []string {
	names := maps.Clone(s)
	maps.Copy(names, later)
	var r []string
	for _, n := range slices.Sorted(maps.Keys(names)) {
		was, had := s[n]
		is, has := later[n]
		if keep(n) && (was != is || had != has) {
			r = append(r, fmt.Sprintf("%s: %q, then %q", n, was, is))
		}
	}
	return r
}

func all(string) bool { return true }

// about keeps what belongs to one walker.
func about(w *walker) func(string) bool {
	return func(n string) bool {
		return strings.HasSuffix(n, " of "+w.name) || w.group != "" && strings.HasPrefix(n, string(w.group)+"/")
	}
}

// same fails the test when anything differs.
func (t *T) same(what string, before, after snapshot, keep func(string) bool) {
	if d := before.changes(after, keep); len(d) > 0 {
		t.Fatalf("%s: %d of %d values differ: %s", what, len(d), len(before), strings.Join(d, "; "))
	}
}

// hostSettings reads where the host's interrupts and unbound work may go.
func hostSettings() snapshot {
	return filesOf("/proc/irq/*/smp_affinity_list", "/proc/irq/default_smp_affinity",
		"/sys/devices/virtual/workqueue/cpumask", "/sys/devices/virtual/workqueue/*/cpumask")
}

// filesOf reads the files that patterns name.
func filesOf(patterns ...string) snapshot {
	s := snapshot{}
	for _, pattern := range patterns {
		names, _ := filepath.Glob(pattern)
		for _, n := range names {
			s[n] = readText(n)
		}
	}
	return s
}
