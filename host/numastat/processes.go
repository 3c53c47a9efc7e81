package numastat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

// Total is the name of the last row of Processes.
const Total = "total"

// kinds of memory, in the order of the table.
var kinds = [...]string{"heap", "stack", "private", "shared memory", "file", "huge pages"}

const (
	heap = iota
	stack
	private
	shared
	file
	huge
)

// Processes is where the memory of processes lies, by kind, summed: what several of them
// share counts once for each. Those that cannot be read, or do not answer in
// time, are left out and named.
func Processes(ctx context.Context, root fs.FS, pids []int) (workload.Figures, []workload.Unread) {
	calls, owners := proc.NewCalls(nil), proc.NewOwners(root)
	sum := table{}
	var unread []workload.Unread
	for _, pid := range pids {
		t, err := read(ctx, root, calls, owners, pid)
		if err != nil {
			unread = append(unread, workload.Unread{PID: pid, Why: why(err)})
			continue
		}
		for node, by := range t {
			for kind, kib := range by {
				sum.add(node, kind, kib)
			}
		}
	}
	out := workload.Figures{Nodes: []topology.NodeID{}, Rows: []workload.Figure{}}
	for _, node := range slices.Sorted(maps.Keys(sum)) {
		out.Nodes = append(out.Nodes, topology.NodeID(node))
	}
	all := workload.Figure{Name: Total, Unit: workload.InKiB, ByNode: make([]int64, len(out.Nodes))}
	for kind, name := range kinds {
		row := workload.Figure{Name: name, Unit: workload.InKiB}
		for i, node := range out.Nodes {
			kib := sum[int(node)][kind]
			row.ByNode = append(row.ByNode, kib)
			all.ByNode[i] += kib
		}
		out.Rows = append(out.Rows, row)
	}
	out.Rows = append(out.Rows, all)
	return out, unread
}

// table is KiB by node and kind.
type table map[int]*[len(kinds)]int64

func (t table) add(node, kind int, kib int64) {
	if t[node] == nil {
		t[node] = new([len(kinds)]int64)
	}
	t[node][kind] += kib
}

func read(ctx context.Context, root fs.FS, calls *proc.Calls, owners *proc.Owners, pid int) (table, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	owner, _ := owners.Of(pid) // of one that has ended, the call says so
	var t table
	var err error
	if late := calls.Do(workload.Process{PID: pid}, owner, func() { t, err = parse(root, pid) }); late != nil {
		return nil, late
	}
	return t, err
}

func parse(root fs.FS, pid int) (table, error) {
	f, err := root.Open(proc.File(pid, "numa_maps"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := table{}
	var m proc.Mapping
	err = proc.EachLine(bufio.NewReaderSize(f, proc.LongestLine), func(line []byte) error {
		if m.Parse(line) {
			for _, n := range m.Nodes {
				t.add(n.Node, kindOf(&m), int64(n.Pages*m.PageKiB))
			}
		}
		return nil
	})
	return t, err
}

// kindOf is what a mapping counts as. One of a file holds pages that the process has
// changed for itself too: numa_maps does not say on which node those lie.
func kindOf(m *proc.Mapping) int {
	switch {
	case m.Huge:
		return huge
	case m.Heap:
		return heap
	case m.Stack:
		return stack
	case !m.HasFile:
		return private
	}
	if proc.InShmem(m.File) {
		return shared
	}
	return file
}

func why(err error) string {
	switch {
	case errors.Is(err, plan.ErrNoAnswer):
		return "it does not answer: the lock of its memory is held"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return "there is no such process, or the kernel has no numa_maps"
	case errors.Is(err, fs.ErrPermission):
		return "no permission to read it"
	}
	return fmt.Sprint(err)
}
