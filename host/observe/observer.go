package observe

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/perf"
	"github.com/homenode/homenode/host/internal/proc"
	"github.com/homenode/homenode/host/observe/files"
)

// Options is how an Observer looks. The zero value gives the defaults.
type Options struct {
	// MinMemory and MinCPU say what is big (see the package comment); 64 MiB and
	// 0.2 CPUs when 0: below that a move gains less than it costs to think about.
	MinMemory topology.KiB
	MinCPU    float64
	// MemoryEvery is how old the figures from numa_maps may get, 10 s when 0; a
	// process that is dear to read waits longer.
	MemoryEvery time.Duration
	// SelfPID is a process that is no workload: our own. 0 for none.
	SelfPID int
	// Named reports whether somebody named a cgroup, by its path and what people call it: it is
	// one workload however small it is. nil: none is. It is asked at each look.
	Named func(cgroup, name string) bool
	// Container is what people call the container with an ID, "" when nobody knows. May be nil.
	Container func(id string) string
	// Now is the clock, time.Now when nil.
	Now func() time.Time
	// PageSize is the unit of resident memory in /proc/PID/stat, this machine's when 0.
	PageSize topology.KiB
	// Host and Free read the machine, topology.FromSysfs and topology.ReadFree when nil.
	Host func(fs.FS) (*topology.Host, error)
	Free func(fs.FS, *topology.Host) (*topology.Host, error)
	// Counters opens hardware counters, where the machine has any. fsys must be the
	// live machine's.
	Counters bool
}

// Periods and budgets.
const (
	// settle is how long a thing must stay below half of the thresholds before it
	// is no longer reported, or a leaf must look like several workloads before it
	// is split: longer than a garbage collection or a batch of requests, shorter
	// than a person waits.
	settle = 30 * time.Second
	// affinityEvery bounds how old affinities may get.
	affinityEvery = 10 * time.Second
	// cpusetEvery bounds how old the CPU sets and memory nodes of cgroups may get. What
	// homenode changes itself is read at the next look (Changed).
	cpusetEvery = 10 * time.Second
	// threadBudget is how many threads are looked at in one look, the longest
	// unseen workloads first: at 7 µs each 2 ms of a 2 s period. 1,500 threads that are
	// all busy are so seen every 10 s, and nothing is decided sooner.
	threadBudget = 300
	// statusBudget is the same for affinities where each costs a status file of 20 µs.
	statusBudget = 300
	// processesEvery bounds how old the figures of the processes of a busy cgroup may get,
	// while they are the same ones and its memory has not changed.
	processesEvery = 4 * time.Second
	// busy is the use below which it does not matter where a workload runs.
	busy = 0.02
	// enoughTicks are needed to say where a workload ran: with fewer the shares
	// would be noise of the 10 ms clock.
	enoughTicks = 10
	// shortWindow is too short to measure use in ticks of 10 ms.
	shortWindow = 50 * time.Millisecond
)

// Observer looks at one machine again and again. It implements daemon.Observer.
type Observer struct {
	opts  Options
	fsys  fs.FS
	files files.Reader

	marked marks

	// turn is held by the one look that is under way; guards all below.
	turn     chan struct{}
	began    atomic.Int64 // of the look that has the turn, Unix nanoseconds
	with     control.Attention
	host     *topology.Host
	lower    topology.NodeSet     // nodes to which the kernel demotes
	tiered   map[workload.ID]bool // what of their memory is used is read, too
	nodeOf   []int                // by CPU; -1 when unknown
	top      string
	topKnown bool
	look     uint64
	hides    bool // processes of others cannot be seen, as of the first look
	now      time.Time
	last     time.Time
	uptime   time.Duration
	initCPUs topology.CPUSet // affinity of PID 1: what a thread has that nobody pinned
	initAt   time.Time
	hugeUsed bool
	// cpusChanged: CPUs went off or on since the last look but one. The kernel brings
	// the sets of cgroups up to date a moment after it has said so.
	cpusChanged bool
	cpusWere    [2]topology.CPUSet // online in the last two looks

	procs      map[int]*process
	kthreads   map[int]struct{}
	kthreadAt  time.Time
	vhosts     map[int]map[int]struct{} // threads of the kernel by the process that they work for
	ended      map[int]time.Duration    // CPU time by PID of what waits for its parent
	dozers     int                      // see dozerBudget
	leaves     map[string]*leaf
	works      map[workload.ID]*work
	smaller    []workload.Smaller // of this look
	registered map[int]uint64     // start time by PID
	owners     *proc.Owners
	cpuSets    map[string]topology.CPUSet
	nodeSets   map[string]topology.NodeSet

	maps     *mapsReader
	sharedBy map[uint64]workload.ID // which workload has a shared file, by fileKey.name
	problems problems
	counters counters
	hinting  hinting
	aware    cacheAware
	traffic  traffic
	signals  signals
	groups   groups
	cpuLook  cpuLook

	buf   []byte
	tids  []int
	found []*leaf
}

// New returns an Observer of the machine below fsys, which holds sys/ and proc/.
// For the live machine give files.Root("/"), which is several times cheaper to read
// than os.DirFS("/").
func New(fsys fs.FS, opts Options) *Observer {
	opts.MinMemory = cmp.Or(opts.MinMemory, 64<<10)
	opts.MinCPU = cmp.Or(opts.MinCPU, 0.2)
	opts.MemoryEvery = cmp.Or(opts.MemoryEvery, 10*time.Second)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.PageSize = cmp.Or(opts.PageSize, topology.KiB(os.Getpagesize()/1024))
	if opts.Host == nil {
		opts.Host = topology.FromSysfs
	}
	if opts.Free == nil {
		opts.Free = topology.ReadFree
	}
	o := &Observer{
		opts:       opts,
		fsys:       fsys,
		turn:       make(chan struct{}, 1),
		procs:      map[int]*process{},
		kthreads:   map[int]struct{}{},
		vhosts:     map[int]map[int]struct{}{},
		ended:      map[int]time.Duration{},
		leaves:     map[string]*leaf{},
		works:      map[workload.ID]*work{},
		registered: map[int]uint64{},
		cpuSets:    map[string]topology.CPUSet{},
		nodeSets:   map[string]topology.NodeSet{},
		maps:       newMapsReader(),
		owners:     proc.NewOwners(fsys),
		buf:        make([]byte, 16<<10),
	}
	if opts.Counters {
		o.counters.opener = perf.Kernel{}
	}
	o.files = files.Of(fsys)
	return o
}

// lookDeadline ends a look that hangs, if its context does not. The first reads much that
// later ones know, perhaps while the whole host starts.
const (
	lookDeadline  = 10 * time.Second
	firstDeadline = 30 * time.Second
)

// Look reads the machine and every workload on it. It returns when ctx ends, or after ten
// seconds, the first after thirty, though the kernel may hold up what it reads; the next
// looks then fail until that has come back.
func (o *Observer) Look(ctx context.Context, with control.Attention) (workload.Snapshot, error) {
	within := lookDeadline
	if o.began.Load() == 0 {
		within = firstDeadline
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return workload.Snapshot{}, err
	}
	select {
	case o.turn <- struct{}{}:
	case <-ctx.Done():
		since := time.Since(time.Unix(0, o.began.Load())).Round(time.Second)
		return workload.Snapshot{}, fmt.Errorf("the kernel %w to a look begun %s ago: %w", plan.ErrNoAnswer, since,
			ctx.Err())
	}
	o.began.Store(time.Now().UnixNano())
	type looked struct {
		snapshot workload.Snapshot
		err      error
	}
	done := make(chan looked, 1)
	go func() {
		var l looked
		defer func() {
			<-o.turn
			done <- l
		}()
		defer proc.Caught("looking at the host", &l.err)
		l.snapshot, l.err = o.scan(ctx, with)
	}()
	select {
	case l := <-done:
		return l.snapshot, l.err
	case <-ctx.Done():
	}
	select { // it may be about to say so itself
	case l := <-done:
		return l.snapshot, l.err
	case <-time.After(afterEnd):
		return workload.Snapshot{}, fmt.Errorf("look: the kernel %w: %w", plan.ErrNoAnswer, ctx.Err())
	}
}

// afterEnd is what a look has to come to its end by itself once its context has ended.
const afterEnd = 50 * time.Millisecond

// scan is a look. It belongs to who has the turn.
func (o *Observer) scan(ctx context.Context, with control.Attention) (workload.Snapshot, error) {
	o.last = o.now
	o.now = o.opts.Now()
	o.with = with
	o.look++
	clear(o.registered)
	for _, p := range with.Registered {
		o.registered[p.PID] = p.Start
	}
	o.problems, o.dozers = problems{}, dozerBudget
	o.signals.begin(&o.with)
	o.tiered = o.with.Tiered
	o.applyMarks()
	if err := o.readHost(); err != nil {
		return workload.Snapshot{}, err
	}
	if err := o.findLeaves(); err != nil {
		return workload.Snapshot{}, err
	}
	o.allowWorkloads()
	if o.look == 1 {
		o.hides = o.hidden()
	}
	if o.hides {
		o.problems.add("proc", "processes of others are left out", errHidden)
	}
	var reported []*work
	o.smaller = make([]workload.Smaller, 0, len(o.smaller))
	for _, l := range o.found {
		o.readLeaf(l)
		reported = append(reported, o.decide(l)...)
	}
	slices.SortFunc(reported, func(a, b *work) int { return cmp.Compare(a.id, b.id) })

	o.readAffinities(reported)
	o.readThreads(reported)
	o.readSlices(reported)
	o.readCounters(reported)
	o.readSignals(reported)
	o.readGroups(reported)
	o.readHints(reported)
	o.readWide(reported)
	if err := o.readMaps(ctx, reported); err != nil {
		return workload.Snapshot{}, err
	}
	o.shareOut(reported)
	snap := workload.Snapshot{Host: o.host, Small: len(o.smaller), Smaller: o.smaller, Uptime: o.uptime}
	snap.CacheAware = o.readCacheAware()
	held := byNode{}
	for _, w := range reported {
		obs, holds := o.observation(w)
		snap.Observations = append(snap.Observations, obs)
		held.addAll(holds)
	}
	snap.Unmanaged = o.unmanaged(held)
	snap.Nodes = o.nodeUse()
	snap.Pressure = o.pressure()
	snap.Sources = o.sources()
	snap.Signals = o.signalsHere()
	snap.Shrunk = o.shrunk()
	snap.Problems = append(o.problems.list(), o.tellUnread(reported)...)
	o.forget()
	return snap, nil
}

// marks is what others asked of the next look. It has a lock of its own: nobody waits for
// a look to say so.
type marks struct {
	sync.Mutex
	stale, changed []workload.ID
}

// Stale makes the next Look read the memory of the workload anew, whatever it
// costs: for after its pages were moved.
func (o *Observer) Stale(id workload.ID) {
	o.marked.Lock()
	defer o.marked.Unlock()
	o.marked.stale = append(o.marked.stale, id)
}

// Changed makes the next Look read anew what the workload may use.
func (o *Observer) Changed(id workload.ID) {
	o.marked.Lock()
	defer o.marked.Unlock()
	o.marked.changed = append(o.marked.changed, id)
}

func (o *Observer) applyMarks() {
	o.marked.Lock()
	stale, changed := o.marked.stale, o.marked.changed
	o.marked.stale, o.marked.changed = nil, nil
	o.marked.Unlock()
	for _, id := range changed {
		if w := o.works[id]; w != nil {
			w.leaf.cpusetAt = time.Time{}
			w.wide.stale = true
		}
	}
	for _, id := range stale {
		w := o.works[id]
		if w == nil {
			continue
		}
		for _, p := range w.procs {
			p.mapsStale, p.hintsStale = true, true
		}
		w.access.forget()
		w.grouped.forget(time.Time{}) // from before, whenever it was read
	}
}

// allowWorkloads makes what the host allows that of the top of the hierarchy, where
// workloads are, rather than that of this process: a service in a slice that is
// confined (AllowedCPUs=, as host prepare sets it) places on all CPUs all the same.
func (o *Observer) allowWorkloads() {
	if o.top == "" {
		return
	}
	cpus, mems := o.host.Allowed, o.host.AllowedMems
	if b, err := o.files.Read(o.top+"/cpuset.cpus.effective", o.buf); err == nil {
		cpus = o.cpuSet(b).Intersect(o.host.Online)
	}
	if b, err := o.files.Read(o.top+"/cpuset.mems.effective", o.buf); err == nil {
		mems = o.nodeSet(b).Intersect(o.host.WithMemory())
	}
	if cpus.Empty() || mems.Empty() || (cpus.Equal(o.host.Allowed) && mems.Equal(o.host.AllowedMems)) {
		return
	}
	h := *o.host
	h.Allowed, h.AllowedMems = cpus, mems
	o.host = &h
}

// readHost brings the facts about the machine up to date.
func (o *Observer) readHost() error {
	before := o.host
	if o.host == nil {
		h, err := o.opts.Host(o.fsys)
		if err != nil {
			return fmt.Errorf("read host: %w", err)
		}
		o.host = h
	} else if h, err := o.opts.Free(o.fsys, o.host); err != nil {
		o.problems.add("host", "memory as of an earlier look", err)
	} else {
		o.host = h
	}
	o.lower = o.host.Lower()
	if before == nil || !before.Online.Equal(o.host.Online) || len(before.Nodes) != len(o.host.Nodes) {
		o.nodeOf = o.nodeOf[:0]
		for _, n := range o.host.Nodes {
			for cpu := range n.CPUs.All() {
				for int(cpu) >= len(o.nodeOf) {
					o.nodeOf = append(o.nodeOf, -1)
				}
				o.nodeOf[cpu] = int(n.ID)
			}
		}
	}
	o.cpusChanged = !o.host.Online.Equal(o.cpusWere[0]) || !o.host.Online.Equal(o.cpusWere[1])
	o.cpusWere = [2]topology.CPUSet{o.host.Online, o.cpusWere[0]}
	o.hugeUsed = false
	for _, n := range o.host.Nodes {
		for _, p := range n.HugePages {
			o.hugeUsed = o.hugeUsed || p.Total > p.Free
		}
	}
	o.uptime = 0
	if b, err := o.files.Read("proc/uptime", o.buf); err == nil {
		o.uptime = proc.Uptime(b)
	} else {
		o.problems.add("proc/uptime", "CPU use of what is seen for the first time unknown", err)
	}
	if o.initAt.IsZero() || o.now.Sub(o.initAt) >= affinityEvery {
		o.initAt = o.now
		if b, err := o.files.Read("proc/1/status", o.buf); err == nil {
			o.initCPUs = o.cpuSet(proc.ParseStatus(b).CPUs)
		}
	}
	return nil
}

// cpuSet reads a list and keeps the set: a host has few different ones.
func (o *Observer) cpuSet(list []byte) topology.CPUSet { return kept(o.cpuSets, list) }

func (o *Observer) nodeSet(list []byte) topology.NodeSet { return kept(o.nodeSets, list) }

func kept[T ~int](sets map[string]topology.Set[T], list []byte) topology.Set[T] {
	for len(list) > 0 && (list[len(list)-1] == '\n' || list[len(list)-1] == ' ') {
		list = list[:len(list)-1]
	}
	if s, ok := sets[string(list)]; ok {
		return s
	}
	s, err := topology.ParseSet[T](string(list))
	if err != nil {
		return topology.Set[T]{}
	}
	if len(sets) > 4096 {
		clear(sets)
	}
	sets[string(list)] = s
	return s
}

// shrunk is the workloads that this look no longer reports though they run, rising.
func (o *Observer) shrunk() []workload.ID {
	var out []workload.ID
	for id, w := range o.works {
		runs := w.leaf.look == o.look && (w.leaf.idle || len(w.leaf.procs) > 0)
		if w.root != nil {
			runs = w.root.look == o.look
		}
		if w.look != o.look && runs {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// forget drops what was not there in this look.
func (o *Observer) forget() {
	o.files.CloseUnread()
	for pid, p := range o.procs {
		if p.look != o.look {
			delete(o.procs, pid)
		}
	}
	for path, l := range o.leaves {
		if l.look != o.look {
			delete(o.leaves, path)
		}
	}
	for id, w := range o.works {
		if w.look != o.look {
			o.stopCounting(w)
			o.stopCycles(w)
			delete(o.works, id)
		}
	}
}
