package proxmox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

// Managed says which guests homenode places. What the others hold counts all the same.
type Managed string

// Which guests.
const (
	None   Managed = "none"   // they are cgroups like others
	Marked Managed = "marked" // those with a tag or a note for homenode
	Every  Managed = "all"    // all that nobody has bound
)

// Options says what a Source works with.
type Options struct {
	Root   string // the machine's file tree; "" is /
	Manage Managed
	Now    func() time.Time // time.Now when nil
}

// Source is the guests of Proxmox VE on this machine. Its methods may be called from
// several goroutines.
type Source struct {
	o Options

	mu      sync.Mutex // guards what follows; nothing is read or asked with it held
	guests  map[int]*guest
	changed map[int]bool // what their threads may use was changed since they were read
	daemon  control.Standing
}

// guest is what is known of one that runs. It is not changed once it is in Source.guests.
type guest struct {
	vmid    int
	process workload.Process // its QEMU; zero when not known
	config  config
	stamp   string // of the configuration's file; "" when there is none
	unread  string // why the configuration could not be read

	at      time.Time // when its threads were read
	named   map[int]int
	threads map[int]topology.CPUSet // by vCPU thread: what it may use
	main    topology.CPUSet         // what the first thread of QEMU may use
	run     run                     // by QMP, else vCPUs by their names
	owed    bool                    // QMP is to be asked
	silent  string                  // why QMP did not tell
	retry   time.Time               // no question before
	fails   int
}

const (
	// rereadEvery is how long what the threads of a guest may use is taken for granted.
	rereadEvery = 10 * time.Second
	// asking bounds the conversations of one Refresh: the rest has its turn with the next.
	asking = 2 * time.Second
	// A socket that was taken or silent is tried again after retryFirst, then twice as late
	// each time.
	retryFirst, retryMost = 10 * time.Second, 5 * time.Minute
)

// scopes is the cgroup of all guests, and configs their configurations: links to the folder
// of this node in the cluster's file system.
const (
	scopes  = "/qemu.slice"
	configs = "etc/pve/qemu-server"
	running = "run/qemu-server"
)

// New makes a source; Refresh reads.
func New(o Options) *Source {
	o.Root = cmp.Or(o.Root, "/")
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Source{o: o, guests: map[int]*guest{}, changed: map[int]bool{}}
}

// Name is the source's.
func (s *Source) Name() string { return "Proxmox VE" }

// Wake is nil: what begins is found by its cgroup at the next look.
func (s *Source) Wake() <-chan struct{} { return nil }

// Processes is none: a process that is observed by itself has no cgroup, and a guest is changed
// by its scope.
func (s *Source) Processes() []workload.Process { return nil }

func (s *Source) known() (out []*guest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.guests)) {
		out = append(out, s.guests[id])
	}
	return out
}

// Refresh brings what is known up to date. A host without Proxmox VE has no guests of it.
func (s *Source) Refresh(ctx context.Context) error {
	if s.o.Manage == None {
		return nil
	}
	ids, err := s.vmids()
	if err != nil {
		return err
	}
	s.mu.Lock()
	before, changed := maps.Clone(s.guests), s.changed
	s.changed = map[int]bool{}
	s.mu.Unlock()
	now := map[int]*guest{}
	began := s.o.Now()
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			s.stale(slices.Collect(maps.Keys(changed))...)
			return err
		}
		now[id] = s.read(ctx, id, before[id], changed[id], s.o.Now().Sub(began) < asking)
	}
	s.mu.Lock()
	s.guests = now
	s.mu.Unlock()
	return nil
}

// stale has the threads of guests read at the next look.
func (s *Source) stale(vmids ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range vmids {
		s.changed[id] = true
	}
}

// IsScope reports whether a cgroup is that of a guest.
func IsScope(cgroup string) bool {
	_, ok := vmidOf(strings.TrimPrefix(cgroup, scopes+"/"))
	return ok && strings.HasPrefix(cgroup, scopes+"/")
}

// vmidOf is the guest whose scope has a name.
func vmidOf(name string) (int, bool) {
	number, isScope := strings.CutSuffix(name, ".scope")
	id, err := strconv.Atoi(number)
	return id, isScope && err == nil && id > 0 && strconv.Itoa(id) == number
}

// vmids is the guests that have a cgroup, rising.
func (s *Source) vmids() (ids []int, err error) {
	entries, err := os.ReadDir(s.path("sys/fs/cgroup", scopes))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if id, ok := vmidOf(e.Name()); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, err
}

func (s *Source) path(parts ...string) string {
	return filepath.Join(append([]string{s.o.Root}, parts...)...)
}

// text is a small file.
func (s *Source) text(parts ...string) (string, error) {
	f, err := os.Open(s.path(parts...))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostConfig+1))
	if err == nil && len(b) > mostConfig {
		err = fmt.Errorf("%s: more than %d bytes", f.Name(), mostConfig)
	}
	return string(b), err
}

// read is a guest as it is now; of what lasts, was tells, unless it was changed.
func (s *Source) read(ctx context.Context, id int, was *guest, changed, mayAsk bool) *guest {
	g := &guest{vmid: id, process: s.qemu(id)}
	if was != nil && was.process == g.process {
		*g = *was
	}
	name := strconv.Itoa(id) + ".conf"
	if st, err := os.Stat(s.path(configs, name)); err != nil {
		g.stamp = ""
		g.unread = ""
		changed = true
		if !errors.Is(err, fs.ErrNotExist) {
			g.unread = err.Error()
		}
	} else if stamp := fmt.Sprint(st.ModTime().UnixNano(), st.Size()); stamp != g.stamp {
		text, err := s.text(configs, name)
		g.config = readConfig(text)
		g.stamp = stamp
		g.unread = ""
		changed = true
		if err != nil {
			g.stamp = ""
			g.unread = err.Error()
			g.config = config{}
		}
	}
	if g.process.PID == 0 || (!changed && s.o.Now().Sub(g.at) < rereadEvery) {
		return g
	}
	g.at = s.o.Now()
	named, _ := s.vcpus(g.process.PID)
	if was == nil || was.process != g.process || !maps.Equal(named, g.named) { // or a vCPU came or went
		g.owed = true
		g.retry = time.Time{}
		g.fails = 0
		g.run.vcpus = named
	}
	switch {
	case !g.owed || g.at.Before(g.retry):
	case mayAsk:
		s.ask(ctx, g, named)
	default:
		g.at = time.Time{}
	}
	g.named = named
	g.main = s.allowed(g.process.PID, g.process.PID)
	g.threads = map[int]topology.CPUSet{}
	for _, tid := range g.run.vcpus {
		g.threads[tid] = s.allowed(g.process.PID, tid)
	}
	return g
}

// ask has QEMU tell by QMP; where it does not, or tells what cannot be, its threads' names do.
func (s *Source) ask(ctx context.Context, g *guest, named map[int]int) {
	r, err := ask(ctx, s.path(running, strconv.Itoa(g.vmid)+".qmp"))
	if err == nil {
		for _, tid := range r.vcpus {
			_, gone := os.Stat(s.path("proc", strconv.Itoa(g.process.PID), "task", strconv.Itoa(tid)))
			if gone != nil { // QEMU may be its guest's by now: no other process is touched on its word
				err = fmt.Errorf("query-cpus-fast: thread %d is none of QEMU's", tid)
			}
		}
	}
	if err == nil {
		g.run = r
		g.owed = false
		g.silent = ""
		g.fails = 0
		return
	}
	g.run, g.silent = run{vcpus: named}, err.Error()
	g.retry = s.o.Now().Add(min(retryFirst<<min(g.fails, 10), retryMost))
	g.fails++
}

// qemu is the QEMU of a guest: the process of its PID file, where that is in its scope.
func (s *Source) qemu(id int) (p workload.Process) {
	inside, err := s.text("sys/fs/cgroup", scopes, strconv.Itoa(id)+".scope", "cgroup.procs")
	if err != nil {
		return p
	}
	text, err := s.text(running, strconv.Itoa(id)+".pid")
	if err != nil {
		return p
	}
	pid := strings.TrimSpace(text)
	if !slices.Contains(strings.Fields(inside), pid) {
		return p
	}
	stat, err := s.text("proc", pid, "stat")
	if err != nil {
		return p
	}
	if parsed, err := proc.ParseStat([]byte(stat)); err == nil && strconv.Itoa(parsed.PID) == pid {
		p = workload.Process{PID: parsed.PID, Start: parsed.Start}
	}
	return p
}

// mostTasks bounds the threads of one QEMU: vCPUs, IOThreads and up to 64 workers.
const mostTasks = 16384

// vcpus is the threads of a QEMU: those whose names say which vCPU they are, and all.
func (s *Source) vcpus(pid int) (named map[int]int, tasks map[int]bool) {
	named, tasks = map[int]int{}, map[int]bool{}
	dir := s.path("proc", strconv.Itoa(pid), "task")
	entries, _ := os.ReadDir(dir)
	for _, e := range entries[:min(len(entries), mostTasks)] {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		tasks[tid] = true
		comm, err := s.text("proc", strconv.Itoa(pid), "task", e.Name(), "comm")
		if err != nil {
			continue
		}
		if vcpu, ok := proc.VCPU([]byte(strings.TrimSpace(comm))); ok {
			if _, twice := named[vcpu]; !twice {
				named[vcpu] = tid
			}
		}
	}
	return named, tasks
}

// allowed is the CPUs that a thread may use; empty when it has ended.
func (s *Source) allowed(pid, tid int) topology.CPUSet {
	text, err := s.text("proc", strconv.Itoa(pid), "task", strconv.Itoa(tid), "status")
	if err != nil {
		return topology.CPUSet{}
	}
	cpus, _ := topology.ParseCPUSet(string(proc.ParseStatus([]byte(text)).CPUs))
	return cpus
}

// Join implements daemon.Joining.
func (s *Source) Join(d control.Standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.daemon = d
}

// standing returns the homes and the journal as they are now, where there is a daemon.
func (s *Source) standing() (now control.Attention, known bool) {
	s.mu.Lock()
	d := s.daemon
	s.mu.Unlock()
	if d == nil {
		return now, false
	}
	return d.Attention(), true
}

// Claims is what is known of the guests as of the last Refresh.
func (s *Source) Claims(h *topology.Host) (out []workload.Claim, problems []workload.Problem) {
	now, known := s.standing()
	for _, g := range s.known() {
		var pins topology.CPUSet
		if known {
			pins = g.pinned(now.Journal)
		}
		c, bad := s.claim(g, h, pins)
		out = append(out, c)
		for _, text := range bad {
			problems = append(problems, workload.Problem{Subject: string(c.ID), Text: text})
		}
	}
	slices.SortFunc(out, func(a, b workload.Claim) int { return cmp.Compare(a.ID, b.ID) })
	return out, problems
}

func id(vmid int) workload.ID { return workload.ID("vm:" + strconv.Itoa(vmid)) }

func cgroupOf(vmid int) string { return scopes + "/" + strconv.Itoa(vmid) + ".scope" }

func (s *Source) claim(g *guest, h *topology.Host, pins topology.CPUSet) (workload.Claim, []string) {
	spec := s.spec(g)
	c := workload.Claim{
		ID: spec.ID, Name: spec.Name, Also: []string{strconv.Itoa(g.vmid)}, Cgroups: []string{cgroupOf(g.vmid)},
		Running: true,
		Caps:    workload.Caps{PinsThreads: true}, Spec: &spec, Alone: s.alone(g, pins),
	}
	for _, vcpu := range slices.Sorted(maps.Keys(g.run.vcpus)) {
		c.VCPUSets = append(c.VCPUSets, g.threads[g.run.vcpus[vcpu]])
	}
	// What it is given by others is its own where that is no more than a CPU for each vCPU.
	if own := g.bound(pins).Intersect(h.Online); !c.Alone.None() && !own.Empty() && own.Len() <= g.vcpus() {
		spec.Class = workload.Dedicated
		spec.CPUs = own.Len()
		spec.SMT = ""
		c.Fixed = true
		c.Holds = []workload.Placement{{
			Workload: c.ID, Class: workload.Dedicated, Importance: spec.Importance, VCPUs: own.Len(),
			Home: h.NodesOf(own),
			CPUs: own, Pins: own.Slice(),
		}}
	}
	c.Fixed = c.Fixed || g.config.lock == "migrate"
	bad := slices.Clone(g.config.bad)
	if g.unread != "" {
		bad = append(bad, g.unread)
	}
	if g.silent != "" && g.process.PID > 0 {
		text := "QMP: " + g.silent
		if len(g.run.vcpus) > 0 {
			text += "; its vCPU threads are told by their names"
		}
		bad = append(bad, text)
	}
	return c, bad
}

// vcpus is how many it has now: no more than its configuration lets it have, whatever its QEMU
// says, which books CPUs with that. 0, where there is none, leaves it to what is seen.
func (g *guest) vcpus() int {
	if n := len(g.run.vcpus); n > 0 {
		return min(n, g.config.possible)
	}
	return g.config.vcpus
}

// memory is how much it has, likewise: Proxmox writes what it plugs into the configuration.
func (g *guest) memory() topology.KiB {
	return min(cmp.Or(g.run.memory, g.config.memory), g.config.memory)
}

// bound is the CPUs that somebody else has given a guest: Proxmox by its setting affinity, or
// who pinned its vCPU threads.
func (g *guest) bound(pins topology.CPUSet) topology.CPUSet {
	if !g.config.affinity.Empty() {
		return g.config.affinity
	}
	return pins
}

// pinned is the CPUs of the vCPU threads where they have other ones than their QEMU and
// homenode has not given them.
func (g *guest) pinned(journal []plan.Entry) (all topology.CPUSet) {
	var ours []string
	for _, e := range journal {
		if e.Kind == plan.Affinity && e.Path == plan.ProcessPath(g.process) {
			ours = append(append(ours, e.New), e.Past...)
		}
	}
	theirs := false
	for tid, cpus := range g.threads {
		if cpus.Empty() { // it has ended
			continue
		}
		all = all.Union(cpus)
		gave := func(text string) bool { return strings.Contains(text+";", fmt.Sprintf(";%d=%s;", tid, cpus)) }
		theirs = theirs || (!cpus.Equal(g.main) && !slices.ContainsFunc(ours, gave))
	}
	if !theirs {
		return topology.CPUSet{}
	}
	return all
}

// spec is what a guest wants: by its configuration, what QEMU says of itself before that, and
// what its tags and notes ask for.
func (s *Source) spec(g *guest) workload.Spec {
	c := &g.config
	name := words.Printable(c.name[:min(len(c.name), 256)])
	spec := workload.Spec{
		ID: id(g.vmid), Name: cmp.Or(name, "vm"+strconv.Itoa(g.vmid)), Class: workload.Shared,
		Importance: workload.DefaultImportance,
		CPUs:       g.vcpus(), Memory: g.memory(), MaxNodes: c.most, Given: true,
	}
	switch c.huge {
	case "2":
		spec.HugePage = 2 << 10
	case "1024":
		spec.HugePage = 1 << 20
	case "any": // as hugepages_size of PVE::QemuServer::Memory chooses
		spec.HugePage = 2 << 10
		if _, err := os.Stat(s.path("sys/kernel/mm/hugepages/hugepages-1048576kB")); err == nil &&
			spec.Memory%(1<<20) == 0 {
			spec.HugePage = 1 << 20
		}
	}
	c.rule.Apply(&spec)
	if spec.Class != workload.Dedicated && c.limit > 0 {
		spec.CPUs = min(spec.CPUs, int(math.Ceil(c.limit)))
	}
	return spec
}

// alone says why a guest is not homenode's to place. pins is the CPUs that another program gave its threads.
func (s *Source) alone(g *guest, pins topology.CPUSet) words.Reason {
	c := &g.config
	switch {
	case g.stamp == "":
		return words.Because(words.ProxmoxNoConfig)
	case c.off:
		return words.Because(words.ProxmoxOff)
	case s.o.Manage != Every && !c.marked:
		return words.Because(words.ProxmoxUnmarked)
	case g.process.PID == 0:
		return words.Because(words.GuestNoProcess)
	case c.lock == "migrate":
		return words.Because(words.ProxmoxMigrates)
	case !c.affinity.Empty():
		return words.Because(words.ProxmoxAffinity, c.affinity)
	case c.nodes != "":
		return words.Because(words.ProxmoxNodes, c.nodes+": hostnodes")
	case g.run.binding != "":
		return words.Because(words.ProxmoxNodes, g.run.binding)
	case len(c.devices) > 0:
		return words.Because(words.GuestDevices, words.Printable(strings.Join(c.devices, ", ")))
	}
	if !pins.Empty() {
		return words.Because(words.ProxmoxPinned, pins)
	}
	return words.Reason{}
}
