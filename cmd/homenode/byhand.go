package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/host/process"
	"github.com/homenode/homenode/ui/cli"
)

// byHand is what taskset, migratepages, numactl and numastat ask of this machine.
type byHand struct{}

func (byHand) Affinity(tid int) (topology.CPUSet, error)    { return process.AffinityOf(tid) }
func (byHand) SetAffinity(tid int, c topology.CPUSet) error { return process.SetAffinityOf(tid, c) }
func (byHand) Threads(pid int) ([]int, error)               { return process.ThreadsOf(pid) }
func (byHand) Migrate(pid int, from, to topology.NodeSet) (int, error) {
	return process.Migrate(pid, from, to)
}

// Commands is the processes, this one aside, whose command line has a text in it.
func (byHand) Commands(text string) (map[int]string, error) {
	proc := filepath.Join(machine, "proc")
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	found := map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline"))
		if err != nil || len(line) == 0 || !strings.Contains(string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})),
			text) {
			continue
		}
		name, _, _ := bytes.Cut(line, []byte{0})
		found[pid] = filepath.Base(string(name))
	}
	return found, nil
}

func (byHand) Segment(o cli.Segment) (cli.OpenSegment, error) {
	s, err := process.OpenSegment(process.SegmentOptions{KeyFile: o.KeyFile, File: o.File, ID: o.ID, Offset: o.Offset,
		Length: o.Length, Huge: o.Huge, Mode: o.Mode})
	if err != nil {
		return nil, err
	}
	return segment{s}, nil
}

type segment struct{ *process.Segment }

func (s segment) SetPolicy(policy cli.Memory, nodes topology.NodeSet, strict bool) error {
	return s.Segment.SetPolicy(told[policy], nodes, strict)
}

func (s segment) Dump(w io.Writer, nodes bool) error {
	pages, err := s.Pages(nodes)
	for _, r := range pages {
		line := fmt.Sprintf("pages %d-%d: %s", r.From, r.To, r.Policy)
		if !r.Nodes.Empty() {
			line += ", " + words.Nodes(r.Nodes)
		}
		switch {
		case nodes && r.Node >= 0:
			line += fmt.Sprintf("; on node %d", r.Node)
		case nodes:
			line += "; not allocated"
		}
		fmt.Fprintln(w, line)
	}
	return err
}
