//go:build linux

package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CgroupRoot is where the cgroup v2 hierarchy is mounted.
const CgroupRoot = "/sys/fs/cgroup"

// Group is a cgroup's folder.
type Group string

// NewGroup makes a leaf below the root, or below another group.
func (t *T) NewGroup(parent Group, name string) Group {
	g := Group(filepath.Join(string(parent), name))
	if err := os.Mkdir(string(g), 0o755); err != nil {
		t.Fatalf("make cgroup: %v", err)
	}
	return g
}

// File returns the path of a file of the cgroup.
func (g Group) File(name string) string { return filepath.Join(string(g), name) }

// Path is the name below the root, as /proc/PID/cgroup writes it.
func (g Group) Path() string { return string(g)[len(CgroupRoot):] }

// Subtree lists all cgroups below dir, deepest first, as rmdir wants them.
func Subtree(dir string) []string {
	var r []string
	filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && p != dir {
			r = append(r, p)
		}
		return nil
	})
	slices.Reverse(r) // a walk names a folder before what is in it
	return r
}

// RunIn starts a command in a cgroup.
func (t *T) RunIn(g Group, c *exec.Cmd) {
	dir, err := os.Open(string(g))
	t.Do(err)
	defer dir.Close()
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	t.Do(c.Start())
}

// PIDsIn are the processes of a cgroup.
func (t *T) PIDsIn(g Group) (pids []int) {
	for text := range strings.FieldsSeq(ReadText(g.File("cgroup.procs"))) {
		pid, err := strconv.Atoi(text)
		t.Do(err)
		pids = append(pids, pid)
	}
	return pids
}

// Used is the CPU time of a cgroup so far.
func (g Group) Used() time.Duration {
	for line := range strings.Lines(ReadText(g.File("cpu.stat"))) {
		if v, ok := strings.CutPrefix(line, "usage_usec "); ok {
			us, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return time.Duration(us) * time.Microsecond
		}
	}
	return 0
}

// Inode is the cgroup's ID.
func (t *T) Inode(g Group) uint64 {
	var s syscall.Stat_t
	t.Do(syscall.Stat(string(g), &s))
	return s.Ino
}

// Uses is the CPUs that a cgroup uses on average, over so long.
func (g Group) Uses(over time.Duration) float64 {
	used, start := g.Used(), time.Now()
	time.Sleep(over)
	return float64(g.Used()-used) / float64(time.Since(start))
}

// Make makes a cgroup and its parents, each with the controllers for those below.
func (g Group) Make() error {
	if err := os.MkdirAll(string(g), 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	for dir := CgroupRoot; ; {
		if err := WriteText(dir+"/cgroup.subtree_control", "+cpuset +cpu +memory +pids"); err != nil {
			return err
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(string(g), dir), "/")
		if rest == "" {
			return nil
		}
		next, _, _ := strings.Cut(rest, "/")
		dir = filepath.Join(dir, next)
	}
}
