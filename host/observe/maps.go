package observe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

const (
	// mapsShare of the time between looks goes to reading numa_maps again: a seventh of
	// the 1 % of one CPU that the daemon may cost.
	mapsShare = 0.0015
	// mapsCredit is how much of it can be saved up.
	mapsCredit = 100 * time.Millisecond
	// firstShare goes to reading what was never read, the largest first, until all is
	// read: with 40 ms a look nothing is late for it, and what is not read yet says so.
	firstShare = 0.02
	// firstCredit is how much of it can be saved up, and what the first look has.
	firstCredit = 100 * time.Millisecond
	// stillTimes is how many times MemoryEvery the figures of a process get that has
	// nothing new to tell (see still).
	stillTimes = 3
	// sleptTimes is the same for a process that has used no CPU time since: it has neither
	// touched memory nor set a policy. Only the kernel or another program can have moved pages.
	sleptTimes = 30
	// lookPatience is how long one look waits, in all, for processes that answer slowly,
	// and onePatience for one of them before it goes on with the next. What is not back
	// then is taken by a later look.
	lookPatience = 500 * time.Millisecond
	onePatience  = 100 * time.Millisecond
	// leastForked is the memory shared with processes forked from which it is worth
	// another walk over the page tables to count it once.
	leastForked = 1 << 10
	// unaskedFor is how long a process is not tried again that is not read because of others
	// of its owner.
	unaskedFor = 10 * time.Second
)

// mapsState is what was read of the memory of a process, and of the reading.
type mapsState struct {
	maps      *numaMaps
	mapsAt    time.Time // when the reading began
	mapsCost  time.Duration
	mapsRSS   topology.KiB
	mapsIn    topology.KiB  // charged to the leaf then
	mapsClock time.Duration // of the process then
	mapsErr   error
	mapsStale bool
	pssAnon   topology.KiB // anonymous memory with each page shared out over its users; None when not read
	used      topology.KiB // that it has accessed, shared out likewise; 0 when not read
	usedAt    time.Time
	reading   *reading // under way
	// silent: the last reading did not come back in time.
	silent   bool
	tookLast time.Duration // the last reading that came back
	// unasked: not read because so many other processes of unaskedOf do not answer; not
	// tried again until unaskedUntil.
	unasked      bool
	unaskedOf    workload.Owner
	unaskedUntil time.Time
}

// reading is a reading of numa_maps under way.
type reading struct {
	call     *proc.Call
	began    time.Time // by the machine's clock, whatever the Observer's is
	wasStale bool
	fromMaps bool // memory, not only policies
	asksUse  bool // what it has accessed, too

	// What came back; not to be read before call is.
	maps    *numaMaps
	pssAnon topology.KiB
	used    topology.KiB
	err     error
	took    time.Duration
}

// mapsReader reads the memory of processes.
type mapsReader struct {
	calls       *proc.Calls
	seed        maphash.Seed
	parsers     chan *mapsParser // not in use
	credit      time.Duration    // for what was read before
	firstCredit time.Duration    // for what was not
	slow        []*process       // with a reading under way
	refused     int              // in this look
	// As the constants of the same names; tests have less time.
	deadline, lookPatience, onePatience time.Duration
}

func newMapsReader() *mapsReader {
	return &mapsReader{
		calls: proc.NewCalls(nil), firstCredit: firstCredit,
		seed: maphash.MakeSeed(), parsers: make(chan *mapsParser, 2),
		deadline: proc.Deadline, lookPatience: lookPatience, onePatience: onePatience,
	}
}

// toRead is a process that is due to be read.
type toRead struct {
	w      *work
	p      *process
	credit *time.Duration // that pays for it; nil: whatever it costs
	order  int
}

// In this order.
const (
	afterMove = iota
	neverRead
	readBefore
)

// readMaps reads numa_maps of the processes whose pages were moved; then of those never
// read that nothing else tells the memory of, and of the largest of each cgroup for its
// policies, the largest first; then of the others, the oldest figures first. The last two
// go as far as their credit does.
func (o *Observer) readMaps(ctx context.Context, reported []*work) error {
	m := o.maps
	if !o.last.IsZero() {
		window := float64(o.now.Sub(o.last))
		m.credit = min(m.credit+time.Duration(window*mapsShare), mapsCredit)
		m.firstCredit = min(m.firstCredit+time.Duration(window*firstShare), firstCredit)
	}
	m.refused = 0
	o.takeSlow()
	patience := m.lookPatience
	for _, t := range o.mapsDue(reported) {
		if t.credit != nil && *t.credit <= 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		waited := o.readMapsOf(t.w, t.p, min(patience, m.onePatience))
		if t.p.reading != nil {
			patience -= waited
		}
		if t.credit != nil {
			*t.credit -= t.p.mapsCost
		}
	}
	for _, p := range m.slow {
		if p.silent || patience <= 0 {
			continue
		}
		began := time.Now()
		p.reading.call.Wait(patience)
		patience -= time.Since(began)
	}
	o.takeSlow()
	return ctx.Err()
}

// mapsDue lists the processes to read in the order in which that is worth it.
func (o *Observer) mapsDue(reported []*work) []toRead {
	m := o.maps
	var due []toRead
	for _, w := range reported {
		for _, p := range w.procs {
			t := toRead{w: w, p: p}
			switch {
			case p.reading != nil, p.unasked && o.now.Before(p.unaskedUntil):
				continue
			case p.mapsStale:
				t.order = afterMove
			case p.mapsAt.IsZero() && (o.onlyMapsTell(w, p) || (p == w.largest() && !w.anyRead())):
				t.order, t.credit = neverRead, &m.firstCredit
			case p.mapsAt.IsZero(), o.mapsOld(w, p), o.useDue(w, p):
				t.order, t.credit = readBefore, &m.credit
			default:
				continue
			}
			due = append(due, t)
		}
	}
	slices.SortStableFunc(due, func(a, b toRead) int {
		switch {
		case a.order != b.order:
			return a.order - b.order
		case a.order == readBefore:
			return a.p.knownSince().Compare(b.p.knownSince())
		}
		return cmp.Compare(b.p.mem(), a.p.mem())
	})
	return due
}

// moved reports whether numa_maps of p has not been read since its pages were moved.
func (p *process) moved() bool {
	return p.mapsStale || (p.reading != nil && p.reading.wasStale)
}

// onlyMapsTell reports whether nothing but numa_maps tells where the memory of p lies.
func (o *Observer) onlyMapsTell(w *work, p *process) bool {
	return w.kind != workload.InCgroup || !w.leaf.hasStat || p.huge > 0
}

// knownSince is when p was last read, or first seen.
func (p *process) knownSince() time.Time {
	if p.mapsAt.IsZero() {
		return p.firstSeen
	}
	return p.mapsAt
}

// largest is the process with the most memory.
func (w *work) largest() *process {
	largest := w.procs[0]
	for _, p := range w.procs {
		if p.mem() > largest.mem() {
			largest = p
		}
	}
	return largest
}

func (w *work) anyRead() bool {
	return slices.ContainsFunc(w.procs, func(p *process) bool { return p.maps != nil || p.reading != nil })
}

// mapsOld reports whether the figures of p are due to be read again.
func (o *Observer) mapsOld(w *work, p *process) bool {
	age := o.now.Sub(p.mapsAt)
	every := o.opts.MemoryEvery
	switch {
	case p.slept(p.mapsClock):
		every *= sleptTimes
	case o.still(w, p):
		every *= stillTimes
	}
	if age >= max(every, time.Duration(float64(p.mapsCost)/mapsShare)) {
		return true
	}
	// For a cgroup memory.numa_stat tells what changes between.
	change := p.rss - p.mapsRSS
	return !(w.kind == workload.InCgroup && w.leaf.hasStat) && max(change, -change) > max(p.mapsRSS/100, 1<<10)
}

// still reports whether numa_maps of p can have told little new since it was read:
// where its memory lies its cgroup says, no huge pages are in use, and what is charged to
// the cgroup has not changed by 1 %. A new policy on the old memory is what it may have.
func (o *Observer) still(w *work, p *process) bool {
	if w.kind != workload.InCgroup || !w.leaf.hasStat || o.hugeUsed || p.maps == nil {
		return false
	}
	change := w.leaf.charged - p.mapsIn
	return max(change, -change) <= p.mapsIn/100
}

// readMapsOf begins a reading of p and waits for it; it returns how long.
func (o *Observer) readMapsOf(w *work, p *process, patience time.Duration) time.Duration {
	r := &reading{began: time.Now(), wasStale: p.mapsStale, fromMaps: !(w.kind == workload.InCgroup && w.leaf.hasStat),
		pssAnon: topology.None}
	began := o.opts.Now()
	pid := p.pid
	r.asksUse = o.tiered[w.id]
	call, err := o.maps.calls.Begin(workload.Process{PID: pid, Start: p.start}, o.ownerNow(p),
		func() { o.maps.read(o.fsys, pid, r) })
	if err != nil {
		o.refused(p, err)
		return 0
	}
	p.unasked = false
	r.call, p.reading = call, r
	p.mapsAt = o.now
	p.mapsStale = false
	p.mapsRSS = p.rss
	p.mapsIn = w.leaf.charged
	p.mapsCost = 0
	p.mapsClock = p.clock
	if call.Wait(patience) {
		o.take(p)
		p.mapsCost = o.opts.Now().Sub(began)
		return 0
	}
	o.maps.slow = append(o.maps.slow, p)
	return time.Since(r.began)
}

// refused notes why a process is not read.
func (o *Observer) refused(p *process, err error) {
	var lost *proc.LostError
	switch {
	case errors.As(err, &lost):
		p.unasked = true
		p.unaskedOf = lost.Owner
		p.unaskedUntil = o.now.Add(unaskedFor)
	case errors.Is(err, proc.ErrBusy):
		o.maps.refused++
	}
}

// read reads numa_maps of a process, and what else is needed to count what it shares
// once. It runs beside the look, in goroutines of its own.
func (m *mapsReader) read(fsys fs.FS, pid int, r *reading) {
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	f, err := fsys.Open(proc.File(pid, "numa_maps"))
	if err != nil {
		r.err = err
		return
	}
	defer f.Close()
	var parser *mapsParser
	select {
	case parser = <-m.parsers:
	default:
		parser = newMapsParser(m.seed)
	}
	defer func() {
		select {
		case m.parsers <- parser:
		default:
		}
	}()
	parser.apart = r.fromMaps
	if r.maps, r.err = parser.parse(f); r.err != nil {
		return
	}
	if r.fromMaps && !r.maps.identify(fsys, pid, m.seed) {
		r.maps.mergeShared()
	}
	forked := r.fromMaps && r.maps.forked >= leastForked
	if !forked && !r.asksUse {
		return
	}
	b, err := fs.ReadFile(fsys, proc.File(pid, "smaps_rollup"))
	if err != nil {
		return
	}
	if forked {
		r.pssAnon = parsePssAnon(b)
	}
	if r.asksUse {
		r.used = parseUsed(b)
	}
}

// takeSlow takes what has come back of readings that took longer than the look that
// began them waited, and gives up on those that are over their time.
func (o *Observer) takeSlow() {
	m := o.maps
	m.slow = slices.DeleteFunc(m.slow, func(p *process) bool {
		switch {
		case p.reading.call.Wait(0):
			p.mapsCost = p.reading.took
			o.take(p)
			return true
		case time.Since(p.reading.began) >= max(m.deadline, 3*p.tookLast):
			p.reading.call.Abandon()
			p.silent = true
		}
		return false
	})
}

// take takes over what a reading that is back has brought.
func (o *Observer) take(p *process) {
	r := p.reading
	p.reading = nil
	p.silent = false
	p.tookLast = r.took
	if bug := r.call.Bug(); bug != nil {
		r.err = bug
	}
	if r.err != nil {
		// Kernels without CONFIG_NUMA have no such file; a process that has ended is
		// not there in the next look. What was read before says nothing of now: after a
		// move of pages it would have them moved again.
		p.maps = nil
		p.mapsErr = r.err
		p.mapsStale = p.mapsStale || r.wasStale
		return
	}
	p.maps = r.maps
	p.mapsErr = nil
	p.pssAnon = r.pssAnon
	if r.asksUse {
		p.used, p.usedAt = r.used, p.mapsAt
	}
}

// parsePssAnon reads Pss_Anon of smaps_rollup (Linux 5.4): anonymous memory with
// each page divided by the number of processes that have it, so that what a
// server shares with the workers it forked is counted once.
func parsePssAnon(b []byte) topology.KiB { return rollup(b, "Pss_Anon:") }

// parseUsed reads of smaps_rollup how much memory a process has accessed since the kernel last asked (Referenced:
// page table entries and pages that are marked so). Shared memory counts in the part of Pss in Rss. 0 when unknown.
func parseUsed(b []byte) topology.KiB {
	rss := rollup(b, "Rss:")
	pss := rollup(b, "Pss:")
	referenced := rollup(b, "Referenced:")
	if rss <= 0 || pss < 0 || referenced <= 0 {
		return 0
	}
	part := min(1, float64(pss)/float64(rss))
	return topology.KiB(part * float64(min(referenced, rss)))
}

// rollup reads a line of smaps_rollup; None where there is none.
func rollup(b []byte, key string) topology.KiB {
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		value, ok := bytes.CutPrefix(line, []byte(key))
		if !ok {
			continue
		}
		f := bytes.Fields(value)
		if len(f) == 0 {
			continue
		}
		n, ok := proc.Number(f[0])
		if ok && n < proc.MaxKiB {
			return topology.KiB(n)
		}
	}
	return topology.None
}

// usedEvery is how old what a process has accessed may get, where that is read: page tables are walked for it.
const usedEvery = 5 * time.Second

// useDue reports whether the use of a process must be read again.
func (o *Observer) useDue(w *work, p *process) bool {
	if !o.tiered[w.id] {
		return false
	}
	age := o.now.Sub(p.usedAt)
	return age >= max(usedEvery, time.Duration(float64(p.mapsCost)/mapsShare))
}

// usedOf returns the memory that the processes of a workload have accessed, as far as it was read.
func (o *Observer) usedOf(w *work) (used topology.KiB) {
	if !o.tiered[w.id] {
		return 0
	}
	for _, p := range w.procs {
		used += p.used
	}
	return used
}

// tellUnread says which processes do not answer, and how many were not asked.
func (o *Observer) tellUnread(reported []*work) (out []workload.Problem) {
	unasked := map[workload.Owner]int{}
	for _, w := range reported {
		for _, p := range w.procs {
			if p.unasked && !p.silent {
				unasked[p.unaskedOf]++
			}
			if p.silent {
				out = append(out, workload.Problem{
					Subject: words.Printable(string(w.id)), Code: words.ProcessSilent,
					Text: words.Because(words.ProcessSilent, p.pid, words.Printable(p.comm)).String(),
				})
			}
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(unasked)) {
		out = append(out, workload.Problem{
			Subject: "proc/PID/numa_maps", Code: words.OwnerUnasked,
			Text: words.Because(words.OwnerUnasked, words.Printable(owner.String()), unasked[owner]).String(),
		})
	}
	if o.maps.refused > 0 {
		out = append(out, workload.Problem{
			Subject: "proc/PID/numa_maps", Code: words.ReadsRefused,
			Text: words.Because(words.ReadsRefused).String(),
		})
	}
	return out
}
