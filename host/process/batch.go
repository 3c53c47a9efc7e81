package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	procfs "github.com/homenode/homenode/host/internal/proc"
)

// unit is what moves as a whole.
type unit struct {
	addr  uintptr
	pages int // base pages of a transparent huge page; 1 otherwise
}

// Reasons why bytes are not moved, as they stand in records.
var (
	whyBusy    = why{plan.Busy, "busy or pinned"}
	whyPinned  = why{plan.Pinned, "pinned for a device (VFIO, RDMA, io_uring)"}
	whyLocked  = why{plan.Locked, "locked (mlock) and busy"}
	whyShared  = why{plan.SharedMem, "shared with processes outside the workload"}
	whySpecial = why{plan.Special, "device memory or a special mapping"}
	whyDenied  = why{plan.Denied, "not permitted"}
)

// why is a reason for which memory is not moved.
type why struct {
	cause plan.Cause
	text  string
}

func whyNoHuge(bytes int64, node topology.NodeID) why {
	return why{plan.NoHugePage, fmt.Sprintf("no free huge page of %s on node %d", size(bytes), node)}
}

func whyNodeFull(node topology.NodeID) why {
	return why{plan.NodeFull, fmt.Sprintf("node %d is full", node)}
}

func whyOther(errno error) why { return why{plan.OtherCause, fmt.Sprintf("the kernel said %v", errno)} }

// process moves what one process has off home.
func (j *job) process(ctx context.Context, t *target) error {
	opened := make(chan *pagemap, 1)
	err := j.ask(t.Process, j.wait, func() error {
		opened <- j.proc.openPagemap(t.PID)
		return nil
	})
	if err != nil {
		return err
	}
	pm := <-opened
	defer pm.close()
	for i := range t.ranges {
		r := &t.ranges[i]
		if r.kind == left || r.off(j.fine) == 0 {
			continue
		}
		if err := j.memRange(ctx, t, r, pm); err != nil {
			return err
		}
	}
	return nil
}

// memRange walks one range in address order, a window at a time.
func (j *job) memRange(ctx context.Context, t *target, r *memRange, pm *pagemap) error {
	step := uintptr(basePage)
	if r.kind == huge {
		step = uintptr(r.pageSize)
	}
	window := step * queryBatch
	var seen int64
	j.run = run{node: topology.None}
	for start := r.start; start < r.end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if j.exhausted() {
			return nil
		}
		// Windows end at multiples of their size, which a huge page never crosses.
		end := min(r.end, start-start%window+window)
		units, off, err := j.find(t, r, pm, start, end, step)
		if err != nil {
			return err
		}
		if err := j.place(ctx, t, r, units); err != nil {
			return err
		}
		// In a range that is mostly empty the rest need not be looked at once all
		// that was off home has been met.
		if seen += off; seen >= r.off(j.fine) && r.total()*8 < int64(r.end-r.start) {
			return nil
		}
		start = end
	}
	return nil
}

// exhausted reports whether no home node takes any more.
func (j *job) exhausted() bool { return j.shares.next(topology.None, false, basePage) < 0 }

// find asks where the pages between start and end are and returns those off home.
func (j *job) find(t *target, r *memRange, pm *pagemap, start, end, step uintptr) (units []unit, off int64, err error) {
	var pages []uintptr
	switch {
	case r.kind == huge:
		for a := start; a < end; a += step {
			pages = append(pages, a)
		}
	case pm != nil:
		var there []uintptr
		err = j.ask(t.Process, j.wait, func() (err error) {
			there, err = pm.present(nil, start, end, r.kind == private)
			return err
		})
		if errors.Is(err, plan.ErrNoAnswer) {
			return nil, 0, err
		}
		if pages = there; err != nil {
			if isGone(err) {
				return nil, 0, exited(t.PID)
			}
			return nil, 0, fmt.Errorf("process %d: read pagemap: %w", t.PID, err)
		}
	case r.kind == private:
		return nil, 0, nil // its own pages cannot be told from the page cache
	default:
		for a := start; a < end; a += step {
			pages = append(pages, a)
		}
	}
	status, err := j.where(t, pages)
	if err != nil {
		return nil, 0, err
	}
	const sub = hugePage / basePage
	for i := 0; i < len(pages); i++ {
		if !j.strays(status[i]) {
			continue
		}
		u := unit{pages[i], 1}
		if r.thp && r.kind != huge && pages[i]%hugePage == 0 && i+sub <= len(pages) &&
			pages[i+sub-1] == pages[i]+hugePage-basePage && allEqual(status[i:i+sub]) {
			u.pages = sub
			i += sub - 1
		}
		units = append(units, u)
		off += int64(u.pages) * int64(step)
	}
	return units, off, nil
}

// strays reports whether a status is a node off home.
func (j *job) strays(status int32) bool {
	return status >= 0 && !j.fine.Has(topology.NodeID(status))
}

func allEqual(s []int32) bool {
	for _, v := range s {
		if v != s[0] {
			return false
		}
	}
	return true
}

// where asks the node of each page; a page that is not there has a negative
// status. The answer is for the very process of t.
func (j *job) where(t *target, pages []uintptr) ([]int32, error) {
	status := make([]int32, len(pages))
	for i := range status {
		status[i] = unwritten
	}
	for at := 0; at < len(pages); at += queryBatch {
		to := min(at+queryBatch, len(pages))
		if err := j.ask(t.Process, j.wait,
			func() error { return j.kernel.PageNodes(t.PID, pages[at:to], status[at:to]) }); err != nil {
			return nil, j.failed(t, topology.None, err)
		}
	}
	if err := j.proc.check(t.Process); err != nil {
		return nil, err
	}
	return status, nil
}

// failed explains an error of move_pages.
func (j *job) failed(t *target, node topology.NodeID, err error) error {
	if errors.Is(err, plan.ErrNoAnswer) {
		return err
	}
	if gone := j.proc.check(t.Process); gone != nil {
		return gone
	}
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL):
		// EINVAL is find_mm_struct's word for a process that is giving up its memory.
		return exited(t.PID)
	case node >= 0 && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENODEV)):
		return &NodeNotAllowedError{node, t.PID}
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("process %d: %w; moving pages of another user's process needs root", t.PID, err)
	case errors.Is(err, unix.ENOSYS):
		return plan.Unsupported("moving pages", "a kernel with CONFIG_MIGRATION and CONFIG_NUMA")
	}
	return fmt.Errorf("process %d: %w", t.PID, err)
}

// place cuts units into batches for one node each and moves them.
func (j *job) place(ctx context.Context, t *target, r *memRange, units []unit) error {
	most := int64(j.o.Batch) * basePage
	for len(units) > 0 {
		var batch []unit
		var bytes int64
		node := j.run.node
		for _, u := range units {
			b := j.bytes(r, u)
			// A batch is not cut at every hole in a sparse range.
			near := len(batch) > 0 || (u.addr >= j.run.end && u.addr-j.run.end <= hugePage)
			next := j.shares.next(node, near, b)
			if len(batch) > 0 && (next != node || bytes+b > most) {
				break
			}
			if node = next; node < 0 {
				return nil
			}
			j.shares.give(node, b)
			batch, bytes = append(batch, u), bytes+b
			j.run = run{node, u.addr + uintptr(b)}
		}
		units = units[len(batch):]
		moved, err := j.batch(ctx, t, r, batch, bytes, node)
		j.shares.give(node, moved-bytes)
		if err != nil {
			return err
		}
	}
	return nil
}

// run is where the last page went and where it ended, so that its neighbour can
// follow.
type run struct {
	node topology.NodeID
	end  uintptr
}

func (j *job) bytes(r *memRange, u unit) int64 {
	if r.kind == huge {
		return r.pageSize
	}
	return int64(u.pages) * basePage
}

// batch moves one batch to node and reports the bytes moved.
func (j *job) batch(ctx context.Context, t *target, r *memRange, units []unit, bytes int64,
	node topology.NodeID) (int64, error) {
	if err := j.ready(ctx, bytes); err != nil {
		return 0, err
	}
	before := j.record.Moved
	defer j.report()
	if r.kind == huge {
		n, err := j.freeHuge(node, r.pageSize)
		if err != nil {
			return 0, err
		}
		if n < len(units) {
			j.refuse(r, units[n:], whyNoHuge(r.pageSize, node))
			units = units[:n]
		}
	}
	shared, err := j.move(ctx, t, r, units, node, false)
	if err == nil && len(shared) > 0 {
		outside, lost := j.sharedOutside(ctx, r)
		if lost != nil {
			return j.record.Moved - before, lost
		}
		if outside {
			j.refuse(r, shared, whyShared)
		} else {
			_, err = j.move(ctx, t, r, shared, node, true)
		}
	}
	return j.record.Moved - before, err
}

// freeHuge is the huge pages of a size that node has free.
func (j *job) freeHuge(node topology.NodeID, bytes int64) (int, error) {
	name := fmt.Sprintf("sys/devices/system/node/node%d/hugepages/hugepages-%dkB/free_hugepages", node, bytes>>10)
	text, err := fs.ReadFile(j.o.Root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// sharedOutside reports whether a process outside the workload may share pages of r.
func (j *job) sharedOutside(ctx context.Context, r *memRange) (bool, error) {
	now := j.o.Clock.Now()
	if j.sharers == nil || now.Sub(j.sharers.read) > sharersFor {
		s, err := j.readSharers(ctx, now)
		if err != nil {
			return false, err
		}
		j.sharers = s
	}
	return j.sharers.outside(r), nil
}

// move tries units until each is on home, gone, refused or busy for too long. It
// returns those that more processes share. Each turn either settles a page or
// counts as idle, so that it ends.
func (j *job) move(ctx context.Context, t *target, r *memRange, pending []unit, node topology.NodeID,
	all bool) (shared []unit, err error) {
	for idle := 0; len(pending) > 0; {
		if err := j.proc.check(t.Process); err != nil {
			return nil, err
		}
		heads := make([]uintptr, len(pending))
		nodes := make([]int32, len(pending))
		status := make([]int32, len(pending))
		for i, u := range pending {
			heads[i] = u.addr
			nodes[i] = int32(node)
			status[i] = unwritten
		}
		callErr := j.ask(t.Process, j.wait,
			func() error { return j.kernel.MovePages(t.PID, heads, nodes, status, all) })
		if errors.Is(callErr, plan.ErrNoAnswer) {
			return nil, callErr
		}
		if all && errors.Is(callErr, unix.EPERM) {
			j.refuse(r, pending, whyShared) // no CAP_SYS_NICE
			return nil, nil
		}
		after, err := j.settle(t, r, pending, status)
		if err != nil {
			return nil, err
		}
		if after.full || errors.Is(callErr, unix.ENOMEM) {
			if !after.moved {
				j.noRoom(r, after.rest, node)
				if all {
					j.refuse(r, after.shared, whyShared)
					return nil, nil
				}
				return append(shared, after.shared...), nil
			}
		} else if callErr != nil && !errors.Is(callErr, unix.EBUSY) && !errors.Is(callErr, unix.EAGAIN) &&
			!errors.Is(callErr, unix.EINTR) {
			return nil, j.failed(t, node, callErr)
		}
		if all {
			j.refuse(r, after.shared, whyShared)
		} else {
			shared = append(shared, after.shared...)
		}
		pending = after.rest
		if len(pending) == 0 || after.progress {
			continue
		}
		idle++
		if idle == busyPasses {
			before := j.record.Refused
			j.refuse(r, pending, j.whyBusy(t, r))
			j.busy[t.PID] += j.record.Refused - before
			break
		}
		// With ctx ended the rest is neither moved nor refused, but untried.
		if err := sleep(ctx, j.o.Clock, busyDelay*(1<<(idle-1))); err != nil {
			return nil, err
		}
	}
	return shared, nil
}

// noRoom records that node had no page for units.
func (j *job) noRoom(r *memRange, units []unit, node topology.NodeID) {
	if r.kind == huge {
		j.refuse(r, units, whyNoHuge(r.pageSize, node))
		return
	}
	j.shares.full[node] = true
	j.refuse(r, units, whyNodeFull(node))
}

// settled is what a call has come to.
type settled struct {
	rest     []unit // to be tried again
	shared   []unit // shared by several processes
	moved    bool   // some page came home
	progress bool   // some page need not be tried again, or a unit was split
	full     bool   // the node had no room for a page
}

// settle asks where the pages are now and counts.
func (j *job) settle(t *target, r *memRange, pending []unit, status []int32) (s settled, err error) {
	var pages []uintptr
	for _, u := range pending {
		for k := range u.pages {
			pages = append(pages, u.addr+uintptr(k)*basePage)
		}
	}
	now, err := j.where(t, pages)
	if err != nil {
		return s, err
	}
	single := j.bytes(r, unit{pages: 1})
	for i, u := range pending {
		var stay []unit
		home := 0
		for k := range u.pages {
			switch {
			case j.strays(now[0]):
				stay = append(stay, unit{u.addr + uintptr(k)*basePage, 1})
			case now[0] >= 0:
				home++
			}
			now = now[1:]
		}
		j.record.Moved += int64(home) * single
		s.moved = s.moved || home > 0
		errno := unix.Errno(-status[i])
		if len(stay) == 0 || (u.pages > 1 && errno != unix.ENOMEM) {
			// What looked like a huge page and did not move as one goes page by page:
			// it may be none, and only its first page may have been the hindrance.
			s.rest = append(s.rest, stay...)
			s.progress = true
			continue
		}
		switch {
		case status[i] >= 0, status[i] == unwritten, errno == unix.EBUSY, errno == unix.EAGAIN:
			s.rest = append(s.rest, u)
			continue
		case errno == unix.EACCES:
			s.shared = append(s.shared, u)
		case errno == unix.ENOMEM:
			s.full = true
			s.rest = append(s.rest, u)
			continue
		case errno == unix.ENOENT, errno == unix.EFAULT:
			j.refuse(r, []unit{u}, whySpecial)
		case errno == unix.EPERM:
			j.refuse(r, []unit{u}, whyDenied)
		default:
			j.refuse(r, []unit{u}, whyOther(errno))
		}
		s.progress = true
	}
	return s, nil
}

// whyBusy tells pinned memory from busy memory as far as can be told: move_pages
// says EBUSY to both, but pages pinned for a device are counted as VmPin (RDMA,
// io_uring: account_pinned_pages) or, by VFIO, as VmLck beyond what is mlocked.
func (j *job) whyBusy(t *target, r *memRange) why {
	if j.busy[t.PID] < j.pinned(t) {
		return whyPinned
	}
	if r.locked {
		return whyLocked
	}
	return whyBusy
}

// pinned is the bytes of a process that are held for devices.
func (j *job) pinned(t *target) int64 {
	text, err := j.proc.read(t.PID, "status")
	if err != nil {
		return 0
	}
	s := procfs.ParseStatus(text)
	pin, lock := int64(s.Pinned)<<10, int64(s.Locked)<<10
	for i := range t.ranges {
		if r := &t.ranges[i]; r.locked {
			lock -= int64(r.end - r.start)
		}
	}
	return pin + max(0, lock)
}

// refuse counts units as not to be moved.
func (j *job) refuse(r *memRange, units []unit, why why) {
	for _, u := range units {
		bytes := j.bytes(r, u)
		if r.shared && r.file != (fileID{}) && !j.refusedPages.add(r.file, (uint64(u.addr-r.start)+r.offset)/basePage) {
			continue // met in another process before
		}
		j.record.Refused += bytes
		j.why[why] += bytes
	}
}
