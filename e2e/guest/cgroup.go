//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
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
