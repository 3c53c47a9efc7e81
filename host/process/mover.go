package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/numa"
	procfs "github.com/homenode/homenode/host/internal/proc"
)

// MoverOptions says how fast pages move. The zero value is good.
type MoverOptions struct {
	Root fs.FS // the machine's file tree; nil is "/"

	// Bandwidth is the most bytes a second of all moves together; 0 is DefaultBandwidth, below 0 no cap.
	Bandwidth int64
	// Batch is the pages of one call, which is the longest that the mover holds
	// on without a look at ctx; 0 is DefaultBatch.
	Batch int
	// Pause is asked before each batch of a step, and told whether the move rests. While
	// it returns true the move rests, for the reason it gives; nil never does.
	Pause func(step plan.Step, paused bool) (why string, pause bool)
	// Sweep ends a move to a single node with migrate_pages(2) when at most 64 MiB
	// are left, or when numa_maps cannot be read. Off by default: as root that
	// call moves pages shared with other programs too, as of the C library, and it
	// cannot be paced.
	Sweep bool

	Clock Clock // nil is the wall clock
}

const (
	// DefaultBandwidth is a hundredth to a fiftieth of what a node's memory does,
	// so that neighbours do not feel it, and 240 s for 60 GiB.
	DefaultBandwidth = 256 << 20
	// DefaultBatch is 16 MiB of small pages: some ten milliseconds a call. Each call
	// makes every CPU of the machine empty its page lists and waits for all of them
	// (lru_cache_disable in mm/migrate.c, do_pages_move), which disturbs the CPUs of
	// others: few large calls are kinder than many small ones, and in a guest with 16
	// CPUs eight times as fast. The mmap lock is taken page by page.
	DefaultBatch = 4096

	queryBatch = 4096                  // addresses asked for at once
	busyPasses = 3                     // times a busy page is tried
	busyDelay  = 10 * time.Millisecond // before the second try; the third waits twice that
	pauseCheck = time.Second           // how often Pause is asked while it says so
	sweepMost  = 64 << 20

	// restMost is how long a move rests in all. The daemon has few moves in flight, so
	// that those that rest hold up all others; ended, it is tried again after them.
	restMost = 5 * time.Minute

	unwritten    = -1 << 20 // a status that the kernel never writes
	incompleteOf = 100      // one part in so many may stay off home

	// answerIn is how long a call on a process of a move may take: numa_maps of a
	// terabyte in small pages takes 40 seconds.
	answerIn = 2 * time.Minute
	// strangerIn is that for others, of which only maps is read.
	strangerIn = 5 * time.Second
)

// Mover moves pages. It may carry out several moves at once.
type Mover struct {
	o      MoverOptions
	proc   proc
	kernel kernel
	pace   *pacer
	calls  *procfs.Calls
	owners *procfs.Owners
	wait   time.Duration // for a call on a process of a move
}

// NewMover returns a mover.
func NewMover(o MoverOptions) *Mover {
	o.Root = cmp.Or(o.Root, os.DirFS("/"))
	o.Bandwidth = cmp.Or(o.Bandwidth, DefaultBandwidth)
	if o.Batch <= 0 {
		o.Batch = DefaultBatch
	}
	o.Clock = cmp.Or[Clock](o.Clock, wallClock{})
	return &Mover{o: o, proc: proc{o.Root}, kernel: numa.Kernel{}, pace: &pacer{clock: o.Clock, bandwidth: o.Bandwidth},
		calls: procfs.NewCalls(nil), owners: procfs.NewOwners(o.Root), wait: answerIn}
}

// Move brings the pages of the step's processes that lie off home to the home
// nodes. It calls progress after each batch with what was done in this call, and
// stops between batches when ctx ends, returning its error; a later call goes on,
// for it asks anew where each page is. It returns an error that wraps ESRCH when
// all processes have exited, *SilentError when one did not answer, after the others were
// moved, *NodeFullError when a node had no room, and *IncompleteError when more than a hundredth is left for other
// reasons.
func (m *Mover) Move(ctx context.Context, step plan.Step, progress func(plan.Move)) error {
	home, err := topology.ParseNodeSet(step.To)
	if err != nil {
		return fmt.Errorf("%s: move pages to %w", step.Workload, err)
	}
	if home.Empty() {
		return fmt.Errorf("%s: move pages to no node", step.Workload)
	}
	if len(step.Target.Processes) == 0 {
		return fmt.Errorf("%s: move pages of no process", step.Workload)
	}
	if os.Getpagesize() != basePage {
		return plan.Unsupported("moving pages", "pages of 4 KiB")
	}
	if progress == nil {
		progress = func(plan.Move) {}
	}
	j := &job{Mover: m, home: home, fine: home.Union(step.Target.Stays),
		step: step, progress: progress, silent: map[int]bool{}, owners: map[int]workload.Owner{}, why: map[why]int64{},
		busy: map[int]int64{}, refusedPages: pageSet{},
		members: map[int]workload.Process{}, run: run{node: topology.None},
		record: plan.Move{Workload: step.Workload, Home: home.String(), Planned: step.Bytes, Started: m.o.Clock.Now(),
			State: "running"}}
	for _, p := range step.Target.Processes {
		j.members[p.PID] = p
	}
	err = j.all(ctx)
	switch {
	case err == nil:
		j.record.State = "done"
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		j.record.State = "cancelled"
	default:
		j.record.State = "failed"
	}
	j.report()
	return err
}

// Answers returns an error that wraps plan.ErrNoAnswer when something holds the lock of a
// process's memory for longer than Deadline. It asks where one page is, which takes that lock
// in every kernel (do_pages_stat_array, mm/migrate.c) and moves nothing.
func (m *Mover) Answers(p workload.Process) error {
	j := &job{Mover: m, owners: map[int]workload.Owner{}}
	return j.ask(p, procfs.Deadline, func() error {
		return m.kernel.PageNodes(p.PID, []uintptr{0}, make([]int32, 1))
	})
}

// job is one move.
type job struct {
	*Mover
	step     plan.Step
	home     topology.NodeSet
	fine     topology.NodeSet // nodes whose pages are not moved: the home, and what the step says stays
	progress func(plan.Move)
	record   plan.Move
	shares   *shares
	run      run
	rested   time.Duration
	members  map[int]workload.Process
	sharers  *sharers
	silent   map[int]bool           // processes that did not answer
	owners   map[int]workload.Owner // of processes that were asked

	why          map[why]int64 // bytes refused, by reason
	busy         map[int]int64 // bytes refused as busy, by process
	refusedPages pageSet
	swept        bool
}

// target is one process of the move.
type target struct {
	workload.Process
	ranges []memRange
}

func (j *job) all(ctx context.Context) error {
	now, targets, err := j.survey(ctx)
	if err != nil {
		if j.o.Sweep && errors.Is(err, unix.EACCES) {
			return j.sweep(ctx, j.step.Target.Processes)
		}
		return err
	}
	if j.record.Planned == 0 {
		j.record.Planned = now.off
	}
	maps.DeleteFunc(now.on, func(n topology.NodeID, _ int64) bool { return j.step.Target.Stays.Has(n) })
	j.shares = newShares(j.step, j.home, now.on)
	for i := range targets {
		if err := j.process(ctx, &targets[i]); err != nil && !isGone(err) && !j.isSilent(targets[i].PID, err) {
			return err
		}
	}
	return j.finish(ctx)
}

// ask makes a call that takes the lock of a process's memory, and waits that long for it.
// One that does not come back is left behind, and must own what it writes to.
func (j *job) ask(p workload.Process, most time.Duration, call func() error) error {
	if most == 0 {
		return call()
	}
	owner, ok := j.owners[p.PID]
	if !ok {
		owner, _ = j.Mover.owners.Of(p.PID) // of one that has ended, the call says so
		j.owners[p.PID] = owner
	}
	var err error
	c, lost := j.calls.Begin(p, owner, func() { err = call() })
	if lost != nil {
		return lost
	}
	if !c.Wait(most) {
		c.Abandon()
		return &SilentError{[]int{p.PID}}
	}
	return cmp.Or(c.Bug(), err)
}

// read reads a file of a process that takes the lock of its memory. What parse has brought
// is not to be looked at after an error that wraps plan.ErrNoAnswer: it may yet go on.
func (j *job) read(p workload.Process, file string, most time.Duration, parse func(io.Reader) error) error {
	return j.ask(p, most, func() error { return j.proc.parse(p.PID, file, parse) })
}

// isSilent remembers a process that did not answer: the others are moved all the same.
func (j *job) isSilent(pid int, err error) bool {
	if !errors.Is(err, plan.ErrNoAnswer) {
		return false
	}
	j.silent[pid] = true
	return true
}

// silence is the error of those that did not answer.
func (j *job) silence() error {
	if len(j.silent) == 0 {
		return nil
	}
	return &SilentError{slices.Sorted(maps.Keys(j.silent))}
}

// survey looks where all processes of the step have their memory.
func (j *job) survey(ctx context.Context) (survey, []target, error) {
	s := survey{on: map[topology.NodeID]int64{}}
	seen := map[sharedRange]int64{}
	var targets []target
	var dead []int
	for _, p := range j.step.Target.Processes {
		if err := ctx.Err(); err != nil {
			return s, nil, err
		}
		err := j.proc.check(p)
		var ranges []memRange
		if err == nil {
			ranges, err = j.proc.ranges(p.PID,
				func(file string, parse func(io.Reader) error) error { return j.read(p, file, j.wait, parse) })
		}
		if err == nil {
			err = j.proc.check(p)
		}
		if isGone(err) {
			dead = append(dead, p.PID)
			continue
		}
		if j.isSilent(p.PID, err) {
			continue
		}
		if err != nil {
			return s, nil, err
		}
		ranges = meant(ranges, j.step.Target.AskedFor)
		targets = append(targets, target{p, ranges})
		s.add(ranges, j.fine, seen)
	}
	if len(targets) == 0 {
		if err := j.silence(); err != nil {
			return s, nil, err
		}
		return s, nil, &GoneError{PIDs: dead, Moved: j.record.Moved}
	}
	return s, targets, nil
}

// meant is the ranges for which the process asked for a node; all where a step names none.
func meant(all []memRange, asked topology.NodeSet) []memRange {
	if asked.Empty() {
		return all
	}
	return slices.DeleteFunc(all, func(r memRange) bool { return !asked.Has(r.asked) })
}

// finish looks again and says what is left.
func (j *job) finish(ctx context.Context) error {
	now, targets, err := j.survey(ctx)
	if err != nil {
		return err
	}
	if j.o.Sweep && !j.swept && now.off > 0 && now.off <= sweepMost && j.home.Len() == 1 && j.shares.firstFull() < 0 {
		j.swept = true
		var live []workload.Process
		for _, t := range targets {
			live = append(live, t.Process)
		}
		if err := j.sweep(ctx, live); err != nil {
			return err
		}
		return j.finish(ctx)
	}
	if err := j.silence(); err != nil {
		return err
	}
	if now.off*incompleteOf <= now.movable {
		return nil
	}
	if n := j.shares.firstFull(); n >= 0 {
		return &NodeFullError{n, now.off}
	}
	return &IncompleteError{now.off, cmp.Or(j.reasons(), "they came while the rest was moved")}
}

// sweep lets the kernel move whatever it finds to a home of one node: to several,
// the call divides pages by the number of their node.
func (j *job) sweep(ctx context.Context, of []workload.Process) error {
	text, err := fs.ReadFile(j.o.Root, "sys/devices/system/node/has_memory")
	if err != nil {
		return err
	}
	nodes, err := topology.ParseNodeSet(string(text))
	if err != nil {
		return err
	}
	live := 0
	for _, p := range of {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := j.proc.check(p); isGone(err) {
			continue
		} else if err != nil {
			return err
		}
		err := j.ask(p, j.wait, func() error {
			_, err := j.kernel.MigratePages(p.PID, nodes.Minus(j.fine), j.home)
			return err
		})
		if err != nil && !isGone(err) && !j.isSilent(p.PID, err) {
			return fmt.Errorf("process %d: %w", p.PID, err)
		}
		live++
	}
	if err := j.silence(); err != nil {
		return err
	}
	if live == 0 {
		return &GoneError{PIDs: pids(of), Moved: j.record.Moved}
	}
	return nil
}

// refusals is what was refused by reason, the most first.
func (j *job) refusals() []plan.Refusal {
	var out []plan.Refusal
	for w, bytes := range j.why {
		out = append(out, plan.Refusal{Cause: w.cause, Bytes: bytes, Why: w.text})
	}
	slices.SortFunc(out, func(a, b plan.Refusal) int {
		return cmp.Or(-cmp.Compare(a.Bytes, b.Bytes), strings.Compare(a.Why, b.Why))
	})
	return out
}

// reasons is that in words.
func (j *job) reasons() string {
	var all []string
	for _, r := range j.refusals() {
		all = append(all, size(r.Bytes)+" "+r.Why)
	}
	return strings.Join(all, "; ")
}

func (j *job) report() {
	j.record.Why, j.record.RefusedBy = j.reasons(), j.refusals()
	j.record.Seconds = j.o.Clock.Now().Sub(j.record.Started).Seconds()
	j.progress(j.record)
}

// ready waits until a batch of that many bytes may go.
func (j *job) ready(ctx context.Context, bytes int64) error {
	if err := j.pace.take(ctx, bytes); err != nil {
		return err
	}
	for j.o.Pause != nil {
		why, pause := j.o.Pause(j.step, j.record.State == "paused")
		if !pause {
			break
		}
		if j.record.State != "paused" {
			j.record.State = "paused"
			paused := j.record
			paused.Why = why
			j.progress(paused)
		}
		if j.rested >= restMost {
			return &RestError{j.rested, why}
		}
		if err := sleep(ctx, j.o.Clock, pauseCheck); err != nil {
			return err
		}
		j.rested += pauseCheck
	}
	j.record.State = "running"
	return nil
}
