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
// left behind.

const (
	// Deadline is after what time a process does not answer. The kernel walks some 25 GiB
	// of small pages a second.
	Deadline = 2 * time.Second
	// mostCalls bounds the calls under way, those left behind too: each holds a thread.
	mostCalls = 16
	// mostOfUser bounds those of one ordinary user, so that nobody uses all of them up.
	mostOfUser = 4
	// A process that did not answer is asked again after firstPause, then after twice as
	// long each time up to lastPause.
	firstPause = 10 * time.Second
	lastPause  = 10 * time.Minute
)

// ErrBusy is for a call that was not made since too many wait.
var ErrBusy = fmt.Errorf("too many calls wait for processes that do not answer: %w", plan.ErrNoAnswer)

// Calls makes calls that another process may hold up for ever. Its methods may be called
// from several goroutines.
type Calls struct {
	now func() time.Time

	mu     sync.Mutex
	n      int         // under way
	byUser map[int]int // of ordinary users
	silent map[workload.Process]*silence
}

// silence is of a process that did not answer.
type silence struct {
	calls int // left behind and not back yet
	pause time.Duration
	until time.Time
}

// NewCalls returns Calls on a clock, time.Now when nil.
func NewCalls(now func() time.Time) *Calls {
	if now == nil {
		now = time.Now
	}
	return &Calls{now: now, byUser: map[int]int{}, silent: map[workload.Process]*silence{}}
}

// Call is a call under way. Wait and Abandon belong to the goroutine that began it.
type Call struct {
	of        *Calls
	process   workload.Process
	done      chan struct{}
	abandoned bool // guarded by of.mu, as is back
	back      bool
	bug       error // read once done is closed
}

// Begin makes a call about a process of a user. The error wraps plan.ErrNoAnswer when it is
// not made: because the process has lately not answered, or too many calls wait.
func (c *Calls) Begin(p workload.Process, user int, call func()) (*Call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.silent[p]; s != nil && (s.calls > 0 || c.now().Before(s.until)) {
		return nil, fmt.Errorf("process %d %w", p.PID, plan.ErrNoAnswer)
	}
	if c.n >= mostCalls || user != 0 && c.byUser[user] >= mostOfUser {
		return nil, ErrBusy
	}
	c.n++
	if user != 0 {
		c.byUser[user]++
	}
	k := &Call{of: c, process: p, done: make(chan struct{})}
	go func() {
		defer c.ended(k, user)
		defer Caught("asking about a process", &k.bug)
		call()
	}()
	return k, nil
}

func (c *Calls) ended(k *Call, user int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.back = true
	close(k.done)
	c.n--
	if user != 0 {
		if c.byUser[user]--; c.byUser[user] == 0 {
			delete(c.byUser, user)
		}
	}
	s := c.silent[k.process]
	switch {
	case s == nil:
	case k.abandoned:
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

// Abandon says that the process did not answer in time. The call may still come back.
func (k *Call) Abandon() {
	c := k.of
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.abandoned {
		return
	}
	k.abandoned = true
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
		s.calls++
	}
}

// Do makes a call and waits for it up to Deadline. The error wraps plan.ErrNoAnswer when
// there was no answer; what the call itself says it must keep where it is not read
// before Do has returned nil.
func (c *Calls) Do(p workload.Process, user int, call func()) error {
	k, err := c.Begin(p, user, call)
	if err != nil {
		return err
	}
	if !k.Wait(Deadline) {
		k.Abandon()
		return fmt.Errorf("process %d %w", p.PID, plan.ErrNoAnswer)
	}
	return k.Bug()
}
