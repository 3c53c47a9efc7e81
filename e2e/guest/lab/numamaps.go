//go:build linux

package lab

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/e2e/suite"
)

// Mapping is one line of /proc/PID/numa_maps: numa(7).
type Mapping struct {
	Start  uint64
	Policy string
	Anon   bool
	File   string
	Nodes  map[int]int // pages by node
}

// NumaMaps reads the numa_maps of a process.
func NumaMaps(pid int) ([]Mapping, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/numa_maps", pid))
	if err != nil {
		return nil, err
	}
	var r []Mapping
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		start, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil {
			return nil, fmt.Errorf("numa_maps of %d: %w", pid, err)
		}
		m := Mapping{Start: start, Policy: f[1], Nodes: map[int]int{}}
		if len(f) > 2 && strings.HasPrefix(f[2], "(many)") { // "prefer (many):0-1"
			m.Policy += " " + f[2]
		}
		for _, word := range f[2:] {
			key, value, _ := strings.Cut(word, "=")
			n, err := strconv.Atoi(value)
			switch {
			case key == "file":
				m.File = value
			case err != nil:
			case key == "anon":
				m.Anon = true
			case strings.HasPrefix(key, "N"):
				if node, err := strconv.Atoi(key[1:]); err == nil {
					m.Nodes[node] = n
				}
			}
		}
		r = append(r, m)
	}
	return r, nil
}

// AnonByNode counts a process's anonymous pages.
func AnonByNode(pid int) (map[int]int, error) {
	maps, err := NumaMaps(pid)
	r := map[int]int{}
	for _, m := range maps {
		if m.Anon {
			for node, n := range m.Nodes {
				r[node] += n
			}
		}
	}
	return r, err
}

// OwnByNode counts a process's pages that are in no file: anonymous ones and shared memory.
func OwnByNode(pid int) (map[int]int, error) {
	maps, err := NumaMaps(pid)
	r := map[int]int{}
	for _, m := range maps {
		shared := slices.ContainsFunc([]string{"/dev/zero", "/dev/shm/", "/SYSV", "/memfd:"},
			func(of string) bool { return strings.HasPrefix(m.File, of) })
		if m.Anon || shared {
			for node, n := range m.Nodes {
				r[node] += n
			}
		}
	}
	return r, err
}

// BufferOf finds the mapping of a walker's buffer.
func BufferOf(pid, slot int) (Mapping, error) {
	maps, err := NumaMaps(pid)
	if err != nil {
		return Mapping{}, err
	}
	for _, m := range maps {
		if m.Start == suite.Base(slot) {
			return m, nil
		}
	}
	return Mapping{}, fmt.Errorf("numa_maps of %d: no buffer of slot %d", pid, slot)
}

// Share is the part of the pages that lies on the given nodes.
func Share(byNode map[int]int, nodes Set) float64 {
	on, all := 0, 0
	for node, n := range byNode {
		all += n
		if nodes.Has(node) {
			on += n
		}
	}
	if all == 0 {
		return 0
	}
	return float64(on) / float64(all)
}

// ByNodeText writes "N0=1 N2=5".
func ByNodeText(byNode map[int]int) string {
	var parts []string
	for node := range 64 {
		if n := byNode[node]; n > 0 {
			parts = append(parts, fmt.Sprintf("N%d=%d", node, n))
		}
	}
	return strings.Join(parts, " ")
}
