//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/e2e/suite"
)

// mapping is one line of /proc/PID/numa_maps: numa(7).
type mapping struct {
	start  uint64
	policy string
	anon   bool
	file   string
	nodes  map[int]int // pages by node
}

func numaMaps(pid int) ([]mapping, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/numa_maps", pid))
	if err != nil {
		return nil, err
	}
	var r []mapping
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		start, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil {
			return nil, fmt.Errorf("numa_maps of %d: %w", pid, err)
		}
		m := mapping{start: start, policy: f[1], nodes: map[int]int{}}
		if len(f) > 2 && strings.HasPrefix(f[2], "(many)") { // "prefer (many):0-1"
			m.policy += " " + f[2]
		}
		for _, word := range f[2:] {
			key, value, _ := strings.Cut(word, "=")
			n, err := strconv.Atoi(value)
			switch {
			case key == "file":
				m.file = value
			case err != nil:
			case key == "anon":
				m.anon = true
			case strings.HasPrefix(key, "N"):
				if node, err := strconv.Atoi(key[1:]); err == nil {
					m.nodes[node] = n
				}
			}
		}
		r = append(r, m)
	}
	return r, nil
}

// anonByNode counts a process's anonymous pages.
func anonByNode(pid int) (map[int]int, error) {
	maps, err := numaMaps(pid)
	r := map[int]int{}
	for _, m := range maps {
		if m.anon {
			for node, n := range m.nodes {
				r[node] += n
			}
		}
	}
	return r, err
}

// ownByNode counts a process's pages that are in no file: anonymous ones and shared memory.
func ownByNode(pid int) (map[int]int, error) {
	maps, err := numaMaps(pid)
	r := map[int]int{}
	for _, m := range maps {
		shared := slices.ContainsFunc([]string{"/dev/zero", "/dev/shm/", "/SYSV", "/memfd:"}, func(of string) bool { return strings.HasPrefix(m.file, of) })
		if m.anon || shared {
			for node, n := range m.nodes {
				r[node] += n
			}
		}
	}
	return r, err
}

// bufferOf finds the mapping of a walker's buffer.
func bufferOf(pid, slot int) (mapping, error) {
	maps, err := numaMaps(pid)
	if err != nil {
		return mapping{}, err
	}
	for _, m := range maps {
		if m.start == suite.Base(slot) {
			return m, nil
		}
	}
	return mapping{}, fmt.Errorf("numa_maps of %d: no buffer of slot %d", pid, slot)
}

// share is the part of the pages that lies on the given nodes.
func share(byNode map[int]int, nodes set) float64 {
	on, all := 0, 0
	for node, n := range byNode {
		all += n
		if nodes.has(node) {
			on += n
		}
	}
	if all == 0 {
		return 0
	}
	return float64(on) / float64(all)
}

// byNodeText writes "N0=1 N2=5".
func byNodeText(byNode map[int]int) string {
	var parts []string
	for node := range 64 {
		if n := byNode[node]; n > 0 {
			parts = append(parts, fmt.Sprintf("N%d=%d", node, n))
		}
	}
	return strings.Join(parts, " ")
}
