package proc

import (
	"fmt"
	"sync"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Reading numa_maps, maps, smaps, smaps_rollup, pagemap, cmdline or environ of a process
// and moving its pages wait for the lock of its address space (mmap_lock), which the
// process may hold for as long as it likes: in mmap(2) of a file on a dead NFS server,
// or on a FUSE server of its own. So each such call is made in a goroutine that may be
// left behind. Calls are counted by owner (workload.Owner): a user has as many UIDs as
// subuid(5) gives, and as many processes as there are.

const (
	// Deadline is after what time a process does not answer. The kernel walks some 25 GiB
	// of small pages a second.
	Deadline = 2 * time.Second

	// mostCalls bounds the calls at work: each holds a thread. keptForSystem of them are
	// for work of the system, so that users together cannot hold up the host's own.
	mostCalls     = 16
	keptForSystem = 8
	// mostOfOwner bounds those of one owner. Four fill the time of a look. When free of
	// the places that are not the system's are left, each is for an owner who has none.
	mostOfOwner = 4
	free        = 4

	// A call that was given up is lost: it gives its place back, but keeps its thread until the
	// process answers. mostLostOfOwner is after how many the other processes of that owner are
	// not asked any more: twice as many as one owner has at work, so that one slow round is
	// forgiven. Above manyLost, which three such owners reach, one lost call is enough, and
	// an owner has one at work.
	mostLostOfOwner = 8
	manyLost        = 24
	// mostLost bounds those of all owners but the system, and mostLostOfSystem those of the
	// system, for which a dead NFS server is enough. A thread in the kernel costs 16 KiB of
	// kernel stack and 16 KiB of the Go runtime's. A daemon has three Calls (observer, mover,
	// links): at most 3 × (48 + 48 + 16) = 336 threads. The unit's TasksMax=512 leaves 176 for
	// the rest, of which it uses some 30; the Go runtime ends a program that gets no thread.
	mostLost         = 48
	mostLostOfSystem = 48

	// A process that did not answer is asked again after firstPause, then after twice as
	// long each time up to lastPause.
	firstPause = 10 * time.Second
	lastPause  = 10 * time.Minute
)

// ErrBusy is for a call that was not made since too many are at work. It may be made later.
var ErrBusy = fmt.Errorf("too many calls wait for processes that do not answer: %w", plan.ErrNoAnswer)

// LostError is for a call that was not made since so many processes of the owner do not answer
// that the others are not asked.
type LostError struct {
	Owner workload.Owner
	Lost  int // calls about processes of the owner that did not come back
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%d processes of %v do not answer: the others are not asked", e.Lost, e.Owner)
}

// Unwrap returns plan.ErrNoAnswer.
func (e *LostError) Unwrap() error { return plan.ErrNoAnswer }

// Calls makes calls that another process may hold up for ever. Its methods may be called
// from several goroutines.
type Calls struct {
	now func() time.Time

	mu      sync.Mutex
	n, lost count // n: at work
	byOwner map[workload.Owner]*ofOwner
	silent  map[workload.Process]*silence
}

// count is of calls.
type count struct{ all, system int }

func (c *count) add(owner workload.Owner, n int) {
	c.all += n
	if owner == workload.SystemOwner {
		c.system += n
	}
}

// others is the calls of all owners but the system.
func (c *count) others() int { return c.all - c.system }

// ofOwner is the calls of one owner.
type ofOwner struct{ n, lost int }

// silence is of a process that did not answer.
type silence struct {
	calls int // lost and not back yet
	pause time.Duration
	until time.Time
}

// NewCalls returns Calls on a clock, time.Now when nil.
func NewCalls(now func() time.Time) *Calls {
	if now == nil {
		now = time.Now
	}
	return &Calls{now: now, byOwner: map[workload.Owner]*ofOwner{}, silent: map[workload.Process]*silence{}}
}

// Call is a call under way. Wait and Abandon belong to the goroutine that began it.
type Call struct {
	of      *Calls
	process workload.Process
	owner   workload.Owner
	done    chan struct{}
	gaveUp  bool // guarded by of.mu, as are lost and back
	lost    bool // given up before it was back
	back    bool
	bug     error // read once done is closed
}

// Begin makes a call about a process of an owner. The error wraps plan.ErrNoAnswer when it is
// not made: because the process has lately not answered, too many calls are at work (ErrBusy),
// or too many of the owner's did not come back (*LostError).
func (c *Calls) Begin(p workload.Process, owner workload.Owner, call func()) (*Call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.silent[p]; s != nil && (s.calls > 0 || c.now().Before(s.until)) {
		return nil, fmt.Errorf("process %d %w", p.PID, plan.ErrNoAnswer)
	}
	if err := c.room(owner); err != nil {
		return nil, err
	}
	k := &Call{of: c, process: p, owner: owner, done: make(chan struct{})}
	c.count(owner, 1, 0)
	go func() {
		defer c.ended(k)
		defer Caught("asking about a process", &k.bug)
		call()
	}()
	return k, nil
}

// room returns why an owner may have no call more, nil when it may.
func (c *Calls) room(owner workload.Owner) error {
	has := ofOwner{}
	if of := c.byOwner[owner]; of != nil {
		has = *of
	}
	if owner == workload.SystemOwner {
		if c.lost.system >= mostLostOfSystem {
			return &LostError{owner, has.lost}
		}
		// All at work may yet be lost.
		if c.n.all >= mostCalls || c.lost.system+c.n.system >= mostLostOfSystem {
			return ErrBusy
		}
		return nil
	}
	atWork, lost := mostOfOwner, mostLostOfOwner
	if c.lost.others() >= manyLost {
		atWork, lost = 1, 1
	}
	if has.lost >= lost || c.lost.others() >= mostLost {
		return &LostError{owner, has.lost}
	}
	if has.lost+has.n >= lost || c.lost.others()+c.n.others() >= mostLost {
		return ErrBusy
	}
	left := mostCalls - keptForSystem - c.n.others()
	if has.n >= atWork || left <= 0 {
		return ErrBusy
	}
	if has.n > 0 && left <= free {
		return ErrBusy
	}
	return nil
}

// count adds calls of an owner at work, and lost ones.
func (c *Calls) count(owner workload.Owner, n, lost int) {
	c.n.add(owner, n)
	c.lost.add(owner, lost)
	of := c.byOwner[owner]
	if of == nil {
		of = &ofOwner{}
		c.byOwner[owner] = of
	}
	of.n += n
	of.lost += lost
	if *of == (ofOwner{}) {
		delete(c.byOwner, owner)
	}
}

func (c *Calls) ended(k *Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.back = true
	close(k.done)
	if k.lost {
		c.count(k.owner, 0, -1)
	} else {
		c.count(k.owner, -1, 0)
	}
	s := c.silent[k.process]
	switch {
	case s == nil:
	case k.lost:
		s.calls--
	default:
		delete(c.silent, k.process) // it answers again
	}
}

// Wait reports whether the call is back within d.
func (k *Call) Wait(d time.Duration) bool {
	select {
	case <-k.done:
		return true
	default:
	}
	if d <= 0 {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-k.done:
		return true
	case <-t.C:
		return false
	}
}

// Bug is the panic of a call that is back, nil for none.
func (k *Call) Bug() error { return k.bug }

// Abandon gives a call up because the process did not answer in time. Its place is free at once;
// the call may still come back.
func (k *Call) Abandon() {
	c := k.of
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.gaveUp {
		return
	}
	k.gaveUp = true
	now := c.now()
	for p, s := range c.silent { // of processes that have ended, or that nobody asks any more
		if s.calls == 0 && now.Sub(s.until) > lastPause {
			delete(c.silent, p)
		}
	}
	s := c.silent[k.process]
	if s == nil {
		s = &silence{}
		c.silent[k.process] = s
	}
	s.pause = min(max(firstPause, 2*s.pause), lastPause)
	s.until = now.Add(s.pause)
	if !k.back {
		k.lost = true
		s.calls++
		c.count(k.owner, -1, 1)
	}
}

// Do makes a call and waits for it up to Deadline. The error wraps plan.ErrNoAnswer when
// there was no answer; what the call itself says it must keep where it is not read
// before Do has returned nil.
func (c *Calls) Do(p workload.Process, owner workload.Owner, call func()) error {
	k, err := c.Begin(p, owner, call)
	if err != nil {
		return err
	}
	if !k.Wait(Deadline) {
		k.Abandon()
		return fmt.Errorf("process %d %w", p.PID, plan.ErrNoAnswer)
	}
	return k.Bug()
}
