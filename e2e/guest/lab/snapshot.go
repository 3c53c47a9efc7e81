//go:build linux

package lab

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Snapshot is every value that homenode might change, by a name for it.
type Snapshot map[string]string

// TakeSnapshot reads the affinities and memory policies of the walkers and every
// writable file of every cgroup.
func TakeSnapshot(ws []*Walker) Snapshot {
	s := Snapshot{}
	for _, w := range ws {
		// Threads of the Go runtime come and go, so the masks count, not the threads.
		masks := map[Set]bool{}
		for _, cpus := range Allowed(w.PID) {
			masks[cpus] = true
		}
		s["affinity of "+w.Name] = strings.Join(SetKeys(masks), " ")
		if m, err := BufferOf(w.PID, w.Slot); err == nil {
			s["memory policy of "+w.Name] = m.Policy
		}
		s["cgroup of "+w.Name] = ReadText(fmt.Sprintf("/proc/%d/cgroup", w.PID))
	}
	for _, dir := range append(Subtree(CgroupRoot), CgroupRoot) {
		for _, e := range entries(dir) {
			s[e] = ReadText(e)
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

// WithPlaces adds where the pages lie, for tests in which none may move.
func (s Snapshot) WithPlaces(ws []*Walker) Snapshot {
	for _, w := range ws {
		if m, err := BufferOf(w.PID, w.Slot); err == nil {
			s["pages of "+w.Name] = ByNodeText(m.Nodes)
		}
	}
	return s
}

// Changes lists how another snapshot differs; keep chooses the names to look at.
func (s Snapshot) Changes(later Snapshot, keep func(string) bool) []string {
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

// All keeps everything of a snapshot.
func All(string) bool { return true }

// About keeps what belongs to one walker.
func About(w *Walker) func(string) bool {
	return func(n string) bool {
		return strings.HasSuffix(n, " of "+w.Name) || (w.Group != "" && strings.HasPrefix(n, string(w.Group)+"/"))
	}
}

// Same fails the test when anything differs.
func (t *T) Same(what string, before, after Snapshot, keep func(string) bool) {
	if d := before.Changes(after, keep); len(d) > 0 {
		t.Fatalf("%s: %d of %d values differ: %s", what, len(d), len(before), strings.Join(d, "; "))
	}
}

// HostSettings reads where the host's interrupts and unbound work may go.
func HostSettings() Snapshot {
	return FilesOf("/proc/irq/*/smp_affinity_list", "/proc/irq/default_smp_affinity",
		"/sys/devices/virtual/workqueue/cpumask", "/sys/devices/virtual/workqueue/*/cpumask")
}

// FilesOf reads the files that patterns name.
func FilesOf(patterns ...string) Snapshot {
	s := Snapshot{}
	for _, pattern := range patterns {
		names, _ := filepath.Glob(pattern)
		for _, n := range names {
			s[n] = ReadText(n)
		}
	}
	return s
}
