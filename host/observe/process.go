package observe

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
	"github.com/homenode/homenode/host/observe/files"
)

// process is what is known of one process.
type process struct {
	pid       int
	id        workload.ID // as a workload, once it was asked for
	start     uint64
	firstSeen time.Time
	comm      string
	ownAs     string // comm when own was found out
	own       bool   // one of this program
	shell     bool   // of a terminal
	ppid      int
	threads   int
	cpu       int
	ticks     uint64
	rss       topology.KiB
	use       float64   // over the last window; the lifetime mean at first
	seen      time.Time // of stat
	look      uint64
	window    time.Duration // that use is over; 0 for the lifetime
	delta     uint64        // ticks since the last look; all of them at first
	readAt    time.Time     // when stat was read
	clock     time.Duration // CPU time just before that; -1 when not known

	// What status says, as of statusAt.
	huge     topology.KiB
	mems     topology.NodeSet
	uid      int
	statusAt time.Time
	cgroup   string
	owner    workload.Owner // of the root of a workload; see ownerOf
	// statusClock is the process's clock when its stat was read before that.
	statusClock time.Duration

	// Within its leaf, in this look.
	leaf           *leaf
	child, sibling *process
	hadParent      bool   // in the leaf
	sum            amount // of itself and its descendants that no tracked process has
	// A process that is reported as root of a workload stays so (see settle).
	tracked    bool
	belowSince time.Time
	joins      *process // that it shares most of its memory with: they are one workload

	aff       []mask // one per different affinity among the threads
	affAt     time.Time
	affCPUs   topology.CPUSet // of the leaf when aff was read
	seenTicks []threadTicks   // rising by TID
	ranAt     time.Time       // of seenTicks; the process's own ticks then are ranTicks
	ranTicks  uint64

	mapsState
	// hintsStale: its pages were moved; the kernel's samples count from scan hintsFrom on.
	hintsStale bool
	hintsFrom  uint64
	vhost      map[int]uint64 // ticks of the threads of the kernel that work for it
}

// mem is resident memory with huge pages.
func (p *process) mem() topology.KiB { return p.rss + p.huge }

// shells is the names of programs that people type commands into. The one that leads the
// session of a terminal (credentials(7)) is what sshd, login, su, tmux or screen started
// for somebody; any other program there was itself what was to run.
var shells = map[string]bool{"sh": true, "bash": true, "rbash": true, "dash": true, "ash": true, "busybox": true,
	"zsh": true, "fish": true,
	"ksh": true, "ksh93": true, "mksh": true, "csh": true, "tcsh": true, "nu": true, "xonsh": true, "elvish": true,
	"pwsh": true}

// apart reports whether what a process started is looked at by itself: it is the shell of a
// terminal, and `homenode run` has not placed it with all that it starts.
func (o *Observer) apart(p *process) bool { return p.shell && !o.isRegistered(p) }

// amount is memory and CPU use.
type amount struct {
	mem topology.KiB
	use float64
}

func (a *amount) add(b amount) { a.mem += b.mem; a.use += b.use }

func (o *Observer) big(a amount) bool {
	return a.mem >= o.opts.MinMemory || a.use >= o.opts.MinCPU
}

// keep reports whether what is reported stays so.
func (o *Observer) keep(a amount) bool {
	return a.mem*2 >= o.opts.MinMemory || a.use*2 >= o.opts.MinCPU
}

// isOwn reports whether a process is one of this program, of the same user: a `homenode
// status` that runs for a moment is no workload. Anybody can take the name, and anybody
// can run the program and, as its tracer, have it do something else.
func (o *Observer) isOwn(p *process) bool {
	if o.opts.SelfPID == 0 {
		return false
	}
	if p.ownAs != p.comm { // new, or another program since
		p.ownAs, p.own = p.comm, false
		exe, err := o.files.Link(proc.File(p.pid, "exe"))
		if err != nil {
			return false
		}
		if self, err := o.files.Link(proc.File(o.opts.SelfPID, "exe")); err != nil || exe != self {
			return false
		}
		b, err := o.files.Record(proc.File(o.opts.SelfPID, "status"), o.buf)
		if err != nil {
			return false
		}
		uid := proc.ParseStatus(b).UID
		o.readStatus(p)
		p.own = p.uid == uid
	}
	return p.own
}

// hidden reports whether processes of other users are not there to be seen (proc(5), hidepid).
func (o *Observer) hidden() bool {
	if _, err := o.files.Record("proc/1/stat", o.buf); err == nil {
		return false
	}
	b, _ := o.files.Read("proc/self/mountinfo", o.buf)
	for line := range bytes.Lines(b) {
		if bytes.Contains(line, []byte(" /proc ")) && bytes.Contains(line, []byte(" - proc ")) &&
			bytes.Contains(line, []byte("hidepid=")) {
			return true
		}
	}
	return false
}

var errHidden = errors.New("/proc is mounted with hidepid, and this process may not see them")

const (
	// sleeperEvery bounds how old the figures may get of a process that has used no CPU time.
	// Without using any it can lose memory to the kernel and get some from other processes.
	// Its parent is another one when the first has ended: link reads it anew then.
	sleeperEvery = time.Minute
	// dozerEvery is the same where it has used less than dozes since its stat was read: in that
	// time a program maps a few MiB. Many processes that wake for a moment cost no more by that.
	dozerEvery = 10 * time.Second
	dozes      = time.Millisecond
	// dozerBudget is how many of those are read in one scan all the same, 4 ms of a 2 s period.
	dozerBudget = 300
)

// process is what is known of a process after this scan; nil for what is no workload or has
// ended. Its stat is read when it has run since the last reading. A process that spends t is
// so read at a cost of 1.5 % of t at most.
func (o *Observer) process(pid int) *process {
	clock, err := o.files.Clock(pid)
	if err != nil {
		return o.readProcess(pid, -1)
	}
	if ended, is := o.ended[pid]; is && ended == clock {
		return nil
	}
	p := o.procs[pid]
	if p == nil || o.mustRead(p, clock) {
		return o.readProcess(pid, clock)
	}
	p.renew(o.look)
	if window := o.now.Sub(p.seen); window >= shortWindow {
		p.use = 0
		p.window = window
		p.seen = o.now
	}
	return p
}

// mustRead reports whether the stat of a process needs another read; clock is its CPU time.
func (o *Observer) mustRead(p *process, clock time.Duration) bool {
	ran, age := clock-p.clock, o.now.Sub(p.readAt)
	switch {
	case p.clock < 0 || ran < 0 || ran >= dozes:
		return true
	case ran == 0:
		return age >= sleeperEvery-sleeperEvery/16*time.Duration(p.pid%8) // spread, as affinities
	case o.dozers > 0:
		o.dozers--
		return true
	}
	return age >= dozerEvery
}

// readProcess reads /proc/PID/stat; clock is the CPU time before that, -1 when it is not known.
func (o *Observer) readProcess(pid int, clock time.Duration) *process {
	b, err := o.files.Record(proc.File(pid, "stat"), o.buf)
	if err != nil {
		if !files.Gone(err) {
			o.problems.add("proc/PID/stat", "processes left out", err)
		}
		return nil
	}
	s, err := proc.ParseStat(b)
	if err != nil {
		if !files.Gone(err) {
			o.problems.add("proc/PID/stat", "processes left out", fmt.Errorf("pid %d: %w", pid, err))
		}
		return nil
	}
	if s.Flags&proc.KernelThread != 0 {
		o.kthreads[pid] = struct{}{}
		if of, is := vhostOwner(s.Comm); is {
			if o.vhosts[of] == nil {
				o.vhosts[of] = map[int]struct{}{}
			}
			o.vhosts[of][pid] = struct{}{}
		}
		return nil
	}
	if (s.State == 'Z' || s.State == 'X') && s.Threads <= 1 {
		o.ended[pid] = clock
		return nil // waiting for its parent
	}
	p := o.procs[pid]
	if p == nil || p.start != s.Start {
		p = &process{pid: pid, start: s.Start, firstSeen: o.now}
		p.pssAnon = topology.None
		o.procs[pid] = p
	}
	if p.comm != string(s.Comm) {
		p.comm = string(s.Comm)
	}
	p.renew(o.look)
	p.readAt, p.clock = o.now, clock
	p.ppid = s.Parent
	p.threads = s.Threads
	p.cpu = s.CPU
	p.shell = s.Terminal != 0 && s.Session == pid && shells[p.comm]
	p.rss = topology.KiB(s.RSS) * o.opts.PageSize
	switch window := o.now.Sub(p.seen); {
	case p.seen.IsZero():
		p.delta = s.Ticks
		if age := o.age(s.Start); age > 0 {
			p.use = ticksDuration(s.Ticks).Seconds() / age.Seconds()
		}
		p.ticks, p.seen = s.Ticks, o.now
	case window >= shortWindow:
		p.use, p.window = 0, window
		if s.Ticks > p.ticks {
			p.delta = s.Ticks - p.ticks
			p.use = ticksDuration(p.delta).Seconds() / window.Seconds()
		}
		p.ticks, p.seen = s.Ticks, o.now
	}
	if o.hugeUsed && o.now.Sub(p.statusAt) >= settle && !p.slept(p.statusClock) {
		o.readStatus(p)
	}
	return p
}

// slept reports whether the process has used no CPU time since its clock was as given.
func (p *process) slept(clock time.Duration) bool { return clock >= 0 && p.clock == clock }

// readStatus reads /proc/PID/status.
func (o *Observer) readStatus(p *process) {
	b, err := o.files.Record(proc.File(p.pid, "status"), o.buf)
	if err != nil {
		if !files.Gone(err) {
			o.problems.add("proc/PID/status", "affinity unknown", err)
		}
		return
	}
	s := proc.ParseStatus(b)
	p.huge = s.Huge
	p.uid = s.UID
	p.statusAt = o.now
	p.statusClock = p.clock
	p.mems = o.nodeSet(s.Mems)
}

// age is how long ago a process started; 0 when unknown.
func (o *Observer) age(start uint64) time.Duration {
	if o.uptime <= 0 || start > 1<<40 {
		return 0
	}
	// A new process may be younger than a tick.
	return max(o.uptime-ticksDuration(start), time.Second/proc.TicksPerSecond)
}

func ticksDuration(ticks uint64) time.Duration {
	return time.Duration(min(ticks, 1<<36)) * (time.Second / proc.TicksPerSecond)
}

// renew takes a process over into a look as it was.
func (p *process) renew(look uint64) {
	p.look, p.delta = look, 0
	p.child = nil
	p.sibling = nil
	p.sum = amount{}
}
