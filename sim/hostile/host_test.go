package hostile

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// A made-up runtime: its workloads are known by a source and changed by a driver.
const (
	inMade   workload.Kind    = "made"
	madeCPUs plan.SettingKind = "made.cpus" // Path is "NAME@N", the Nth start
	madeMems plan.SettingKind = "made.mems"
	madeNext plan.SettingKind = "made.next" // Path is NAME; it outlives a restart of the machine
)

// hostFiles is settings of the host that somebody asks to change.
var hostFiles = []string{"proc/sys/vm/a", "proc/sys/vm/b"}

// slice is the cgroup that all others lie in.
const slice = "/hostile.slice"

type key struct {
	kind plan.SettingKind
	path string
}

// cell is one setting.
type cell struct {
	value  string
	theirs string // what would stand without homenode
	object string

	wrote  int    // event at which somebody else wrote it last
	set    int    // … homenode set it last; 0 when it was put back
	read   int    // … homenode read it last, to change it
	seen   string // theirs, then
	resets int    // how often homenode set it anew after it went back to nothing
	back   bool   // somebody else wrote what was so before homenode
	ever   bool   // homenode has set it
}

// ours: what stands is homenode's doing.
func (c *cell) ours() bool { return c.value != c.theirs }

// job is a workload.
type job struct {
	id     workload.ID
	name   string
	kind   workload.Kind
	inode  uint64
	number int // of the start, of a made-up runtime
	root   workload.Process
	mem    []workload.NodeMemory
	use    float64
	uid    int
	waits  float64
	many   int // processes that do nothing besides
	wish   *workload.Spec
	owner  workload.Owner // of a process; "" for that of its UID
	locked bool           // a process in it holds its own mmap lock
}

// process is one process; dead ones stay as ancestors.
type process struct {
	workload.Process
	parent *process
	job    workload.ID
	alive  bool
}

// host is the machine. Only homenode's changes go through its driver.
type host struct {
	random *rand.Rand
	top    *topology.Host
	event  int // now
	inode  uint64
	ticks  uint64
	starts int

	cells   map[key]*cell
	jobs    map[workload.ID]*job
	byPID   map[int]*process
	all     map[workload.Process]*process
	defined map[string]bool // names of the made-up runtime
	devices []irq.Device
	kernel  kernel
	lacks   plan.SettingKind // what this kernel has not, or nobody may write; "" for none
	guarded bool             // the driver writes memory nodes only of cgroups that it could freeze
	absent  absent           // hardware that was taken away
	sources sources          // that claim cgroups beside the made-up runtime
}

func newHost(r *rand.Rand) *host {
	shapes := []string{"node:2 core:4 pu:2", "node:2 core:8 pu:1", "node:4 core:4 pu:2"}
	if r.IntN(2) == 0 { // with several last-level caches a node
		shapes = []string{"node:2 llc:2 core:2 pu:2", "node:2 llc:4 core:2 pu:1", "node:4 llc:2 core:2 pu:2"}
	}
	text := shapes[r.IntN(3)]
	top, err := topology.FromSynthetic(text)
	if err != nil {
		panic(err)
	}
	for i := range top.Nodes {
		top.Nodes[i].Memory, top.Nodes[i].Free = 64<<20, 64<<20
	}
	top.AllowedMems = nodesOf(top)
	lacks := []plan.SettingKind{"", "", "", plan.CPUController, plan.CgroupIdle, plan.CgroupMax, plan.CgroupFreeze, plan.CacheGroup, plan.CacheTasks}[r.IntN(9)]
	h := &host{random: r, lacks: lacks, top: top, ticks: 1000, all: map[workload.Process]*process{}, defined: map[string]bool{}}
	h.guarded, h.absent.node = r.IntN(2) == 0, topology.None
	h.kernel = kernel{takes: r.IntN(4) > 0, newest: "v1"}
	h.boot()
	return h
}

func nodesOf(top *topology.Host) topology.NodeSet {
	var out topology.NodeSet
	for _, n := range top.Nodes {
		out.Add(n.ID)
	}
	return out
}

// boot begins anew: only definitions stay.
func (h *host) boot() {
	before := h.cells
	h.cells, h.jobs, h.byPID = map[key]*cell{}, map[workload.ID]*job{}, map[int]*process{}
	for k, c := range before {
		if k.kind == madeNext {
			h.cells[k] = c
		}
	}
	for _, p := range h.all {
		p.alive = false
	}
	h.inode++
	h.cells[key{plan.CgroupControllers, "/"}] = &cell{object: "1"}
	h.cells[key{plan.CgroupControllers, slice}] = &cell{object: fmt.Sprint(h.inode)}
	h.cells[theScheduler] = &cell{}
	h.cells[theCache] = &cell{}
	h.cells[key{plan.CPUController, "/"}] = &cell{object: "1"}
	h.cells[key{plan.CPUController, slice}] = &cell{object: fmt.Sprint(h.inode)}
	for _, file := range hostFiles {
		h.cells[key{plan.HostFile, file}] = &cell{value: "0", theirs: "0"}
	}
	h.devices = nil
	for d := range 2 {
		dev := irq.Device{Name: fmt.Sprintf("eth%d", d), Kind: topology.NIC, PCI: fmt.Sprintf("0000:0%d:00.0", d), Node: topology.NodeID(d)}
		for n := range 3 {
			x := irq.Interrupt{Number: 40 + 8*d + n, Name: fmt.Sprintf("eth%d-TxRx-%d", d, n), CPUs: h.top.Online}
			dev.Interrupts = append(dev.Interrupts, x)
			all := h.top.Online.String()
			h.cells[key{plan.IRQAffinity, irq.Path(&dev, &x)}] = &cell{value: all, theirs: all}
		}
		h.devices = append(h.devices, dev)
	}
}

func (h *host) sortedJobs() []*job {
	out := make([]*job, 0, len(h.jobs))
	for _, id := range slices.Sorted(maps.Keys(h.jobs)) {
		out = append(out, h.jobs[id])
	}
	return out
}

func (h *host) sortedCells() []key {
	return slices.SortedFunc(maps.Keys(h.cells), func(a, b key) int {
		return strings.Compare(string(a.kind)+"\x00"+a.path, string(b.kind)+"\x00"+b.path)
	})
}

// spawn starts a process. PIDs are few, so that they are used again.
func (h *host) spawn(of workload.ID, parent *process) *process {
	h.ticks += uint64(h.random.IntN(3)) + 1
	pid := 100 + h.random.IntN(200)
	for h.byPID[pid] != nil {
		pid++
	}
	p := &process{Process: workload.Process{PID: pid, Start: h.ticks}, parent: parent, job: of, alive: true}
	h.byPID[pid], h.all[p.Process] = p, p
	c := &cell{value: h.top.Allowed.String(), theirs: h.top.Allowed.String()}
	if parent != nil {
		was := h.cells[affinity(parent.Process)]
		c.value, c.theirs, c.set, c.read, c.seen = was.value, was.theirs, was.set, was.read, was.seen
		if !was.ours() {
			c.wrote = was.wrote
		}
	}
	h.cells[affinity(p.Process)] = c
	return p
}

func (h *host) exit(p *process) {
	p.alive = false
	delete(h.byPID, p.PID)
	delete(h.cells, affinity(p.Process))
}

func affinity(p workload.Process) key { return key{plan.Affinity, plan.ProcessPath(p)} }

// hostileNames: what a user may call a cgroup or a program.
var hostileNames = []string{"a\x1b[2Jb", "\x07bell", "new\nline", strings.Repeat("x", 255), "homenode", "init.scope", "hоmenode", "../../etc", "a b", "*", "[", "\xff\xfe", "{a,b}", "-rf"}

func (h *host) name(n int) string {
	if h.random.IntN(4) == 0 {
		return hostileNames[h.random.IntN(len(hostileNames))] + fmt.Sprint(n)
	}
	return fmt.Sprintf("w%d", n)
}

// arrive starts a workload.
func (h *host) arrive() *job {
	h.starts++
	j := &job{name: h.name(h.starts % 24), use: float64(h.random.IntN(40)) / 10, number: h.starts}
	nodes := h.top.Nodes
	left := topology.KiB(h.random.IntN(4 << 20))
	j.mem = make([]workload.NodeMemory, 0, len(nodes))
	for i := range nodes {
		part := left
		if i < len(nodes)-1 {
			part = topology.KiB(h.random.Int64N(int64(left) + 1))
		}
		left -= part
		j.mem = append(j.mem, workload.NodeMemory{Node: nodes[i].ID, KiB: part})
	}
	switch n := h.random.IntN(10); {
	case n < 5:
		j.kind = workload.InCgroup
		switch h.random.IntN(6) {
		case 0, 1:
			j.name = "dedicated-" + j.name
		case 2, 3:
			j.name = "batch-" + j.name
		}
		j.id = workload.ID(slice + "/" + strings.ReplaceAll(j.name, "/", "_"))
		if h.jobs[j.id] != nil {
			return nil
		}
		h.makeGroup(j)
		if h.random.IntN(20) == 0 {
			j.many = 2000
		}
	case n < 8:
		j.kind = workload.InProcess
		j.uid = []int{0, 1000, 1001}[h.random.IntN(3)]
		if h.random.IntN(6) == 0 { // somebody pinned it before
			h.ticks++
		}
	default:
		j.kind = inMade
		j.name = fmt.Sprintf("made%d", h.random.IntN(6))
		j.id = workload.ID("made:" + j.name)
		if h.jobs[j.id] != nil {
			return nil
		}
		h.defined[j.name] = true
		h.cells[key{madeCPUs, j.instance()}] = &cell{}
		h.cells[key{madeMems, j.instance()}] = &cell{}
		if k := (key{madeNext, j.name}); h.cells[k] == nil {
			h.cells[k] = &cell{}
		}
		j.wish = &workload.Spec{ID: j.id, Name: j.name, Class: workload.Shared, Importance: 50, CPUs: 1 + h.random.IntN(3), Memory: workload.Total(j.mem), Given: true}
		if h.random.IntN(4) == 0 {
			j.wish.Class = workload.Dedicated
		}
	}
	h.begin(j)
	return j
}

// begin starts the first process of a workload.
func (h *host) begin(j *job) {
	p := h.spawn("", nil)
	if j.kind == workload.InProcess {
		j.id = control.ProcessID(p.PID)
	}
	p.job, j.root = j.id, p.Process
	h.jobs[j.id] = j
}

func (j *job) instance() string { return fmt.Sprintf("%s@%d", j.name, j.number) }

func (h *host) makeGroup(j *job) {
	h.inode++
	j.inode = h.inode
	for _, kind := range []plan.SettingKind{plan.CgroupCPUs, plan.CgroupMems} {
		h.cells[key{kind, string(j.id)}] = &cell{object: fmt.Sprint(j.inode)}
	}
	h.cells[key{plan.TaskPolicy, string(j.id)}] = &cell{value: "other", theirs: "other", object: fmt.Sprint(j.inode)}
	h.cells[key{plan.CacheTasks, string(j.id)}] = &cell{object: fmt.Sprint(j.inode)}
	for kind, unset := range plan.CgroupFiles {
		h.cells[key{kind, string(j.id)}] = &cell{value: unset, theirs: unset, object: fmt.Sprint(j.inode)}
	}
	if h.random.IntN(8) == 0 { // limited by its unit
		c := h.cells[key{plan.CgroupMax, string(j.id)}]
		c.value, c.theirs, c.wrote = "50000 100000", "50000 100000", 1
	}
	if h.random.IntN(8) == 0 { // confined by its unit
		c := h.cells[key{plan.CgroupCPUs, string(j.id)}]
		c.value = h.someCPUs()
		c.theirs, c.wrote = c.value, 1
	}
}

func (h *host) dropGroup(j *job) {
	maps.DeleteFunc(h.cells, func(k key, _ *cell) bool { return k.path == string(j.id) })
}

// depart ends a workload; some of a tree's processes may live on.
func (h *host) depart(j *job, all bool) {
	delete(h.jobs, j.id)
	for _, p := range h.processes(j.id) {
		if all || p.Process == j.root {
			h.exit(p)
		} else {
			p.job = ""
		}
	}
	switch j.kind {
	case workload.InCgroup:
		h.dropGroup(j)
	case inMade:
		delete(h.cells, key{madeCPUs, j.instance()})
		delete(h.cells, key{madeMems, j.instance()})
	}
}

// processes is those of a workload, rising by PID.
func (h *host) processes(of workload.ID) []*process {
	var out []*process
	for _, pid := range slices.Sorted(maps.Keys(h.byPID)) {
		if p := h.byPID[pid]; p.job == of {
			out = append(out, p)
		}
	}
	return out
}

// someCPUs is a CPU set that somebody may write.
func (h *host) someCPUs() string {
	var s topology.CPUSet
	all := slices.Collect(h.top.Online.All())
	for range 1 + h.random.IntN(3) {
		s.Add(all[h.random.IntN(len(all))])
	}
	return s.String()
}

// nothing is the value of a setting that confines nobody.
func (h *host) nothing(k key) string {
	if unset, ok := plan.CgroupFiles[k.kind]; ok {
		return unset
	}
	if k.kind == plan.TaskPolicy {
		return "other"
	}
	if k.kind == plan.Affinity || k.kind == plan.IRQAffinity {
		return h.top.Online.String()
	}
	return ""
}

// overwrite has somebody else write a setting.
func (h *host) overwrite(k key, known func(string) bool) string {
	c := h.cells[k]
	if k.kind == plan.Scheduler || k.kind == plan.TaskPolicy { // see kernel
		return ""
	}
	var value string
	switch {
	case h.random.IntN(3) == 0:
		value = h.nothing(k)
	case k.kind == plan.CgroupWeight: // nobody can while cpu.idle is 1, and it goes with that
		return ""
	case k.kind == plan.CgroupMax:
		value = fmt.Sprintf("%d00 100000", 10+h.random.IntN(3000))
	case k.kind == plan.CacheTasks: // the threads go into a group of its own, or back into the default one
		value = anotherGroup
	case k.kind.IsCgroupFile():
		value = fmt.Sprint(h.random.IntN(2))
	case k.kind == plan.CgroupMems || k.kind == madeMems:
		value = fmt.Sprint(h.top.Nodes[h.random.IntN(len(h.top.Nodes))].ID)
	default:
		value = h.someCPUs()
	}
	if k.kind == madeNext || k.kind.IsController() || value == c.value || known(value) && value != h.nothing(k) {
		return ""
	}
	c.back = value == c.theirs
	c.value, c.theirs, c.wrote = value, value, h.event
	h.cached()
	return fmt.Sprintf("somebody sets %s %s to %q", k.kind, k.path, value)
}

func cpusOf(value string, otherwise topology.CPUSet) topology.CPUSet {
	s, err := topology.ParseCPUSet(value)
	if err != nil || !s.Intersects(otherwise) { // when all are offline, the kernel gives what the parent has
		return otherwise
	}
	return s.Intersect(otherwise)
}

func memsOf(value string, otherwise topology.NodeSet) topology.NodeSet {
	s, err := topology.ParseNodeSet(value)
	if err != nil || s.Empty() {
		return otherwise
	}
	return s
}

// snapshot is what an observer sees. gave is what homenode says it gave by affinity.
func (h *host) snapshot(gave func(workload.ID) []topology.CPUSet) (workload.Snapshot, []control.Claimed) {
	top := h.asSeen()
	s := workload.Snapshot{Host: &top}
	made := control.Claimed{Source: "made"}
	for _, j := range h.sortedJobs() {
		for _, m := range j.mem {
			for i := range top.Nodes {
				if top.Nodes[i].ID == m.Node {
					top.Nodes[i].Free = max(0, top.Nodes[i].Free-m.KiB)
				}
			}
		}
		procs := h.processes(j.id)
		o := workload.Observation{ID: j.id, Name: j.name, Kind: j.kind, CPUUse: j.use, Memory: slices.Clone(j.mem), UID: j.uid, Owner: j.owner, Waited: j.waits, WaitedFrom: workload.PSI,
			CPUs: top.Allowed, Mems: top.AllowedMems}
		for _, p := range procs {
			o.Processes = append(o.Processes, p.Process)
		}
		for n := range j.many {
			o.Processes = append(o.Processes, workload.Process{PID: 1000000 + n, Start: uint64(1000 + n)})
		}
		o.Threads = len(o.Processes)
		switch j.kind {
		case workload.InCgroup:
			o.Cgroup, o.CgroupID = string(j.id), j.inode
			o.CPUs = cpusOf(h.cells[key{plan.CgroupCPUs, string(j.id)}].value, top.Allowed)
			o.Mems = memsOf(h.cells[key{plan.CgroupMems, string(j.id)}].value, top.AllowedMems)
		case workload.InProcess:
			o.Cgroup = "/"
			o.CPUs = cpusOf(h.cells[affinity(j.root)].value, top.Allowed)
			for _, p := range procs {
				value := cpusOf(h.cells[affinity(p.Process)].value, top.Allowed)
				if !value.Equal(top.Allowed) && !slices.ContainsFunc(gave(j.id), value.Equal) {
					o.Pinned, o.PinnedWhy = true, fmt.Sprintf("PID %d", p.PID)
				}
			}
		case inMade:
			made.Claims = append(made.Claims, h.claim(j))
			o.ID, o.Kind = control.ProcessID(j.root.PID), workload.InProcess
		}
		s.Observations = append(s.Observations, o)
	}
	slices.SortFunc(s.Observations, func(a, b workload.Observation) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for i := range top.Nodes {
		use := workload.NodeUse{Node: top.Nodes[i].ID, CPUUse: float64(h.random.IntN(4)), Bandwidth: topology.None}
		for _, j := range h.jobs {
			use.CPUUse += j.use / float64(len(top.Nodes))
		}
		s.Nodes = append(s.Nodes, use)
	}
	for _, name := range slices.Sorted(maps.Keys(h.defined)) {
		if h.jobs[workload.ID("made:"+name)] == nil {
			made.Claims = append(made.Claims, workload.Claim{ID: workload.ID("made:" + name), Name: name, Driver: inMade, Caps: workload.Caps{NextStart: true}, Next: h.next(name, 1),
				Spec: &workload.Spec{ID: workload.ID("made:" + name), Name: name, Class: workload.Shared, Importance: 50, CPUs: 1, Given: true}})
		}
	}
	slices.SortFunc(made.Claims, func(a, b workload.Claim) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return s, h.claimed(made)
}

func (h *host) claim(j *job) workload.Claim {
	spec := *j.wish
	cpus, _ := topology.ParseCPUSet(h.cells[key{madeCPUs, j.instance()}].value)
	mems, _ := topology.ParseNodeSet(h.cells[key{madeMems, j.instance()}].value)
	return workload.Claim{ID: j.id, Name: j.name, Process: j.root, Running: true, Driver: inMade, Spec: &spec, CPUs: cpus, Mems: mems,
		Caps: workload.Caps{MemoryFollows: true, AtOnce: 1 << 18, NextStart: true}, Next: h.next(j.name, spec.CPUs)}
}

func (h *host) next(name string, cpus int) *workload.Next {
	c := h.cells[key{madeNext, name}]
	n := &workload.Next{Spec: workload.Spec{ID: workload.ID("made:" + name), Name: name, Class: workload.Shared, Importance: 50, CPUs: cpus, Given: true}, Ours: c.ours()}
	at, nodes, _ := strings.Cut(c.value, "/")
	n.CPUs, _ = topology.ParseCPUSet(at)
	n.Mems, _ = topology.ParseNodeSet(nodes)
	return n
}

// targets is the settings that a step is about.
func (h *host) targets(s *plan.Step) []key {
	switch {
	case s.Kind == plan.SetIRQ:
		return []key{{plan.IRQAffinity, s.Target.Device}}
	case s.Kind == plan.SetFile:
		return []key{{plan.HostFile, s.Target.Host}}
	case s.Kind == plan.SetNext:
		return []key{{madeNext, strings.TrimPrefix(string(s.Workload), "made:")}}
	case s.Kind == plan.SetScheduler:
		return []key{theScheduler}
	case s.Kind == plan.SetCache:
		return []key{theCache}
	case s.Kind == plan.SetCacheTasks:
		return []key{{plan.CacheTasks, s.Target.Cgroup}}
	case s.Kind == plan.SetPolicy:
		return []key{{plan.TaskPolicy, s.Target.Cgroup}}
	case s.Kind == plan.SetCgroup:
		var out []key
		kind := plan.SettingKind(s.Target.File)
		if kind != plan.CgroupFreeze {
			out = append(out, key{plan.CPUController, path.Dir(s.Target.Cgroup)})
		}
		if kind == plan.CgroupIdle && s.To == "1" {
			out = append(out, key{plan.CgroupWeight, s.Target.Cgroup})
		}
		return append(out, key{kind, s.Target.Cgroup})
	case s.Target.Kind == workload.InCgroup:
		kind := plan.CgroupCPUs
		if s.Kind == plan.SetMems {
			kind = plan.CgroupMems
		}
		return []key{{plan.CgroupControllers, path.Dir(s.Target.Cgroup)}, {kind, s.Target.Cgroup}}
	case s.Target.Kind == inMade:
		j := h.jobs[s.Workload]
		if j == nil || j.kind != inMade || !slices.Contains(s.Target.Processes, j.root) {
			return nil // another start of it
		}
		if s.Kind == plan.SetMems {
			return []key{{madeMems, j.instance()}}
		}
		return []key{{madeCPUs, j.instance()}}
	case s.Target.Kind == workload.InProcess:
		var out []key
		for _, pid := range slices.Sorted(maps.Keys(h.byPID)) {
			for p := h.byPID[pid]; p != nil && (p.alive || p.PID == pid); p = p.parent {
				if slices.Contains(s.Target.Processes, p.Process) {
					out = append(out, affinity(h.byPID[pid].Process))
					break
				}
			}
		}
		return out
	}
	panic(fmt.Sprintf("a step that nobody knows: %+v", s))
}

// will is what a step makes of a setting.
func will(k key, s *plan.Step) string {
	switch {
	case k.kind == plan.CgroupControllers:
		return "cpuset"
	case k.kind == plan.CPUController:
		return "cpu"
	case k.kind == plan.CgroupWeight:
		return "idle"
	}
	return s.To
}
