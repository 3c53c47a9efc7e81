//go:build linux

package main

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

const cgroupRoot = "/sys/fs/cgroup"

// group is a cgroup's folder.
type group string

// newGroup makes a leaf below the root, or below another group.
func (t *T) newGroup(parent group, name string) group {
	g := group(filepath.Join(string(parent), name))
	if err := os.Mkdir(string(g), 0o755); err != nil {
		t.Fatalf("make cgroup: %v", err)
	}
	return g
}

func (g group) file(name string) string { return filepath.Join(string(g), name) }

// path is the name below the root, as /proc/PID/cgroup writes it.
func (g group) path() string { return string(g)[len(cgroupRoot):] }

// subtree lists all cgroups below dir, deepest first, as rmdir wants them.
func subtree(dir string) []string {
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

// runIn starts a command in a cgroup.
func (t *T) runIn(g group, c *exec.Cmd) {
	dir, err := os.Open(string(g))
	t.Do(err)
	defer dir.Close()
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	t.Do(c.Start())
}

// pidsIn are the processes of a cgroup.
func (t *T) pidsIn(g group) (pids []int) {
	for text := range strings.FieldsSeq(readText(g.file("cgroup.procs"))) {
		pid, err := strconv.Atoi(text)
		t.Do(err)
		pids = append(pids, pid)
	}
	return pids
}

// used is the CPU time of a cgroup so far.
func (g group) used() time.Duration {
	for line := range strings.Lines(readText(g.file("cpu.stat"))) {
		if v, ok := strings.CutPrefix(line, "usage_usec "); ok {
			us, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return time.Duration(us) * time.Microsecond
		}
	}
	return 0
}

// inode is the cgroup's ID.
func (t *T) inode(g group) uint64 {
	var s syscall.Stat_t
	t.Do(syscall.Stat(string(g), &s))
	return s.Ino
}

// uses is the CPUs that a cgroup uses on average, over so long.
func (g group) uses(over time.Duration) float64 {
	used, start := g.used(), time.Now()
	time.Sleep(over)
	return float64(g.used()-used) / float64(time.Since(start))
}

// make makes a cgroup and its parents, each with the controllers for those below.
func (g group) make() error {
	if err := os.MkdirAll(string(g), 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	for dir := cgroupRoot; ; {
		if err := writeText(dir+"/cgroup.subtree_control", "+cpuset +cpu +memory +pids"); err != nil {
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
