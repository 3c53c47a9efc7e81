package nri

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Managed says what is done with containers.
type Managed string

// What may be done.
const (
	None    Managed = "none"    // no runtime is asked: containers are cgroups
	Observe Managed = "observe" // they have names and are watched; nothing is changed
	All     Managed = "all"     // enforce mode gives them homes
)

// Socket is where containerd and CRI-O listen for plugins.
const Socket = "/var/run/nri/nri.sock"

// Options is what a Plugin works with. The functions may be called by several goroutines.
type Options struct {
	Socket  string // "" is Socket
	Manage  Managed
	Enforce bool // the daemon carries plans out
	// that a container's start may wait for its home; 0 is a quarter of what the runtime waits
	Within     time.Duration
	BestEffort workload.Class   // of pods that ask for nothing; "" is shared
	Mount      string           // of cgroup v2; without it nothing is changed by this plugin
	Proc       string           // where proc(5) is
	Root       fs.FS            // the machine's files; nil in a test without them
	Grants     []workload.Grant // what the operator lets the authors of pods ask for
	// Key signs the mark of what is set before a container starts; without one, marks are written for this
	// process alone.
	Key []byte
	// Rule is what the configuration wishes for the first of some names, and labels.
	Rule func(names []string, labels map[string]string) *workload.Rule
	// Identify is a running process with its start time.
	Identify func(pid int) (workload.Process, error)
	Log      *slog.Logger
}

const (
	// within is how long a container's start may wait for its home where the runtime does not say
	// how long it waits: two seconds by default (plugin_request_timeout of containerd), and
	// plugins that take longer are dropped. withinMost is the most, however long it waits.
	within, withinMost = 500 * time.Millisecond, 2 * time.Second
	// hold is how long a home is kept for a container that was created and is not seen yet.
	hold = time.Minute
)

// Plugin knows the containers of a runtime. It is a source of workloads; Driver changes them.
type Plugin struct {
	o    Options
	wake chan struct{}

	daemon atomic.Pointer[control.Standing] // nil until it joins
	files  files

	mu      sync.Mutex     // guards what follows; nobody waits for anything with it held
	runtime *link          // nil while there is no connection
	unasked bool           // it takes updates that it has not asked for
	waits   time.Duration  // it waits so long for an answer; 0 is not known
	first   chan struct{}  // closed by the first Synchronize; nil once a scan has waited for it
	told    bool           // first is closed
	synced  bool           // the runtime has told all that it has
	name    string         // of the runtime, with its version
	host    *topology.Host // as the newest scan saw it; nil before the first
	last    error          // of the newest try to connect to a socket that is there
	pods    map[string]*pod
	// waiting is where a workload is to be that no scan has seen yet.
	waiting map[workload.ID]workload.Placement
	// asked is the cgroups that Changes was last asked about for a step on the first of them:
	// those are to be changed.
	asked map[string][]string
}

// Mount returns where cgroup v2 is mounted, "" where cgroup v1 is.
func Mount(at string) string {
	if _, err := os.Stat(filepath.Join(at, "cgroup.controllers")); err != nil {
		return ""
	}
	return at
}

// New makes a plugin; Run connects it.
func New(o Options) *Plugin {
	o.Socket = cmp.Or(o.Socket, Socket)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if len(o.Key) == 0 {
		o.Key = make([]byte, sha256.Size)
		rand.Read(o.Key)
	}
	return &Plugin{o: o, first: make(chan struct{}), files: tree(o.Mount), wake: make(chan struct{}, 1),
		pods: map[string]*pod{}, waiting: map[workload.ID]workload.Placement{}, asked: map[string][]string{}}
}

// Join implements daemon.Joining.
func (p *Plugin) Join(d control.Standing) { p.daemon.Store(&d) }

// now returns the homes, the journal and the holds as they are now; nothing is known without a daemon.
func (p *Plugin) now() control.Attention {
	if d := p.daemon.Load(); d != nil {
		return (*d).Attention()
	}
	return control.Attention{}
}

// files is cgroups, so that tests have their own.
type files interface {
	read(cgroup, file string) (string, error)
	object(cgroup string) string // its inode, in decimal digits; "" when it is not there
}

type tree string

func (t tree) read(cgroup, file string) (string, error) {
	text, err := os.ReadFile(filepath.Join(string(t), cgroup, file))
	return strings.TrimSpace(string(text)), err
}

func (t tree) object(cgroup string) string {
	var s unix.Stat_t
	if unix.Stat(filepath.Join(string(t), cgroup), &s) != nil {
		return ""
	}
	return strconv.FormatUint(s.Ino, 10)
}

// Name is the source's.
func (p *Plugin) Name() string { return "containers" }

// Wake receives when containers have come or gone.
func (p *Plugin) Wake() <-chan struct{} { return p.wake }

func (p *Plugin) notify() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// firstWithin is how long the first scan waits for a runtime that is there: what runs is then
// known from the start by its name.
const firstWithin = 3 * time.Second

// Refresh reports why a runtime that is there is not connected. What was known of its
// containers stands: they run on without it. Claims tells of those that have started by now:
// of one that starts while the host is looked at, what is seen may be older than its sets.
func (p *Plugin) Refresh(ctx context.Context) error {
	p.mu.Lock()
	first := p.first
	p.mu.Unlock()
	if first != nil && p.expected() {
		ctx, cancel := context.WithTimeout(ctx, firstWithin)
		defer cancel()
		select {
		case <-first:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first = nil
	for _, in := range p.pods {
		for _, c := range in.containers {
			c.seen = c.started
		}
	}
	return p.last
}

// Configure tells which runtime this is.
func (p *Plugin) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	p.mu.Lock()
	p.name = words.Printable(runtime + " " + version)
	p.mu.Unlock()
	return 0, nil
}

// Synchronize learns all that the runtime has. Where it would write other CPUs than homenode
// has set while it was away, it is told.
func (p *Plugin) Synchronize(_ context.Context, sandboxes []*api.PodSandbox,
	containers []*api.Container) ([]*api.ContainerUpdate, error) {
	defer p.caught()
	pods := map[string]*pod{}
	for _, s := range sandboxes {
		pods[s.GetId()] = p.o.grant(podOf(s))
	}
	wrote := p.entries()
	for _, c := range containers {
		if in := pods[c.GetPodSandboxId()]; in != nil {
			one := p.containerOf(c)
			p.unchosen(one, wrote)
			in.containers = append(in.containers, one)
			in.resized = true // perhaps: what a sandbox was made with never changes
		}
	}
	for _, in := range pods {
		slices.SortStableFunc(in.containers,
			func(a, b *container) int { return int(max(-1, min(1, a.created-b.created))) })
	}
	unique(pods)
	p.mu.Lock()
	for id, in := range pods {
		for _, c := range in.containers { // one that was seen is seen, also while the host is looked at
			if was := p.pods[id]; was != nil {
				c.seen = c.started &&
					slices.ContainsFunc(was.containers, func(x *container) bool { return x.id == c.id && x.seen })
			}
		}
	}
	p.pods = pods
	p.last = nil
	p.synced = true
	if p.first != nil && !p.told {
		close(p.first)
		p.told = true
	}
	p.mu.Unlock()
	p.notify()
	return p.outdated(), nil
}

// containerOf is a container as the runtime tells it, with the cgroup of its process where
// only that tells.
func (p *Plugin) containerOf(c *api.Container) *container {
	out := containerOf(c, marks{p.o.Key})
	p.learnProcess(out, c.GetPid())
	return out
}

// outdated is updates for what the runtime would write otherwise than homenode has.
func (p *Plugin) outdated() (out []*api.ContainerUpdate) {
	if !p.acts() {
		return nil
	}
	wrote := p.entries()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, in := range p.pods {
		for _, c := range in.containers {
			if u := c.update(c.written(wrote)); u != nil && !c.stopped {
				out = append(out, u)
			}
		}
	}
	p.mayKnow(out)
	return out
}

// update is what tells the runtime other sets, or nil where it knows.
func (c *container) update(want sets) *api.ContainerUpdate {
	u := &api.ContainerUpdate{ContainerId: c.id, IgnoreFailure: true}
	if want.cpus != "" && want.cpus != c.told.cpus {
		u.SetLinuxCPUSetCPUs(want.cpus)
	}
	if want.mems != "" && want.mems != c.told.mems {
		u.SetLinuxCPUSetMems(want.mems)
	}
	if u.Linux == nil {
		return nil
	}
	return u
}

// written is what homenode has written for a container.
func (c *container) written(wrote map[setting]plan.Entry) sets {
	return sets{wrote[setting{plan.CgroupCPUs, c.cgroup}].New, wrote[setting{plan.CgroupMems, c.cgroup}].New}
}

type setting struct {
	kind plan.SettingKind
	path string
}

// entries is the journal's of cgroups: what homenode has set, and can restore.
func (p *Plugin) entries() map[setting]plan.Entry {
	return entriesOf(p.now().Journal)
}

func entriesOf(journal []plan.Entry) map[setting]plan.Entry {
	out := map[setting]plan.Entry{}
	for _, e := range journal {
		if (e.Kind == plan.CgroupCPUs || e.Kind == plan.CgroupMems) && e.State != plan.Failed {
			out[setting{e.Kind, e.Path}] = e
		}
	}
	return out
}

// unchosen takes off a container's sets what its runtime tells because homenode has told the
// runtime: what homenode has set and nobody since, and all that there is, which an undo tells.
func (p *Plugin) unchosen(c *container, wrote map[setting]plan.Entry) {
	for kind, set := range map[plan.SettingKind]*string{plan.CgroupCPUs: &c.cpus, plan.CgroupMems: &c.mems} {
		if *set == "" || c.cgroup == "" {
			continue
		}
		if e, ok := wrote[setting{kind, c.cgroup}]; ok {
			if now, err := p.files.read(c.cgroup, string(kind)); err == nil &&
				e.Ours(plan.Setting{Kind: kind, Path: c.cgroup, Value: now}) {
				*set = e.Old
				continue
			}
		}
		if every, err := p.files.read("/", string(kind)+".effective"); err == nil && *set == every {
			*set = ""
		}
	}
}

// acts reports whether containers are given homes.
func (p *Plugin) acts() bool { return p.o.Enforce && p.o.Manage == All && p.o.Mount != "" }

// caught keeps a bug here from holding up a container, or ending the daemon.
func (p *Plugin) caught() {
	if r := recover(); r != nil {
		p.o.Log.Error("a request of the container runtime was not understood", "bug", r, "stack", string(debug.Stack()))
	}
}

// change takes p.mu; what it returns gives it back, also when a bug ends the request, and has a
// scan look at what has changed.
func (p *Plugin) change() func() {
	p.mu.Lock()
	return func() {
		p.mu.Unlock()
		p.notify()
	}
}

// RunPodSandbox, and the next, keep up with pods.
func (p *Plugin) RunPodSandbox(_ context.Context, s *api.PodSandbox) error {
	defer p.caught()
	defer p.change()()
	p.podNow(s)
	return nil
}

// podNow is the pod that a request is about. p.mu is held until the request is done with it: the
// next puts another in its place.
func (p *Plugin) podNow(s *api.PodSandbox) *pod {
	now := p.o.grant(podOf(s))
	if was := p.pods[now.id]; was != nil {
		now.containers = was.containers
		now.resized = was.resized
		now.told = was.told
		if now.resources == (resources{}) || now.told {
			now.resources = was.resources
		}
	}
	p.pods[now.id] = now
	unique(p.pods)
	return now
}

// UpdatePodSandbox takes new sizes of a pod, which the kubelet tells before its containers grow
// and after they shrink. Runtimes have it since 2025; others tell of the containers alone.
func (p *Plugin) UpdatePodSandbox(_ context.Context, s *api.PodSandbox, _, r *api.LinuxResources) error {
	defer p.caught()
	defer p.change()()
	in := p.podNow(s)
	if now := resourcesOf(r); now != (resources{}) {
		in.resources = now
		in.resized = false
		in.told = true
	}
	return nil
}

// StopPodSandbox frees what a pod held.
func (p *Plugin) StopPodSandbox(_ context.Context, s *api.PodSandbox) error {
	defer p.caught()
	defer p.change()()
	delete(p.pods, s.GetId())
	return nil
}

// RemovePodSandbox frees what a pod held.
func (p *Plugin) RemovePodSandbox(ctx context.Context, s *api.PodSandbox) error {
	return p.StopPodSandbox(ctx, s)
}

// CreateContainer gives a container its home before it starts. It refuses nothing.
func (p *Plugin) CreateContainer(ctx context.Context, s *api.PodSandbox,
	c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	defer p.caught()
	one := p.containerOf(c)
	one.started = false
	want, alone := p.learn(s, one)
	if alone {
		return nil, nil, nil
	}
	set, home := p.begin(ctx, one, &want)
	if set == (sets{}) {
		return nil, nil, nil
	}
	p.mu.Lock()
	one.given = set
	one.mark = marked
	one.told = sets{set.cpus, cmp.Or(set.mems, one.told.mems)}
	if want.inTurn && set.mems == "" {
		one.turn = p.turn(one, home)
	}
	p.mu.Unlock()
	a := &api.ContainerAdjustment{}
	if set.cpus != "" {
		a.SetLinuxCPUSetCPUs(set.cpus)
	}
	if set.mems != "" {
		a.SetLinuxCPUSetMems(set.mems)
	}
	if one.turn != "" {
		a.SetLinuxMemoryPolicy(api.MpolMode_MPOL_WEIGHTED_INTERLEAVE, one.turn)
	}
	a.AddAnnotation(prefix+markKey, marks{p.o.Key}.write(one.id, set))
	return a, nil, nil
}

// turn returns the nodes for the pages of a container in turn, by the kernel's weights: the home and the slower memory
// next to it; "" for one node, and on a kernel without weights, where the container would not start. The caller
// holds mu.
func (p *Plugin) turn(c *container, home topology.NodeSet) string {
	if p.host == nil || p.o.Root == nil {
		return ""
	}
	nodes := p.host.BandwidthNodes(home)
	if may, err := topology.ParseNodeSet(c.mems); err == nil && !may.Empty() {
		nodes = nodes.Intersect(may)
	}
	for n := range nodes.All() {
		if _, err := fs.Stat(p.o.Root, hostprep.InterleaveWeight(n)); err != nil {
			return ""
		}
	}
	if nodes.Len() < 2 {
		return ""
	}
	return nodes.String()
}

// want is a request for a home.
type want struct {
	spec   workload.Spec
	from   workload.Origin
	names  []string // see group.names
	inTurn bool     // see wanted.inTurn
}

// owner returns the party responsible for a pod: all pods of its namespace are bounded together.
func (p *pod) owner() workload.Owner { return workload.NamespaceOwner(p.namespace) }

// learn is what a workload wants with one container more, and whether it is left alone.
func (p *Plugin) learn(s *api.PodSandbox, one *container) (w want, alone bool) {
	now := p.now()
	defer p.change()()
	in := p.podNow(s)
	in.containers = slices.DeleteFunc(slices.Clone(in.containers),
		func(x *container) bool { return x.id == one.id || (x.stopped && x.name == one.name) })
	in.containers = append(in.containers, one)
	g := in.groupOf(one)
	wanted := p.o.spec(&g)
	from := workload.Origin{Owner: in.owner(), Asked: wanted.asked}
	return want{wanted.Spec, from, g.names(), wanted.inTurn}, !p.alone(&g, &now).None()
}

// begin is the sets that a container begins with, and its home; none where it is not homenode's to place or
// no answer comes in time.
func (p *Plugin) begin(ctx context.Context, c *container, w *want) (out sets, nodes topology.NodeSet) {
	now := p.now()
	if !p.acts() || c.cgroup == "" || now.Holds.Has(w.spec.ID) {
		return out, nodes
	}
	if booked, _, ok := booked(c, w.from.Owner, &now); ok {
		return sets{booked.CPUs.String(), booked.Home.String()}, booked.Home
	}
	ctx, cancel := context.WithTimeout(ctx, p.within())
	defer cancel()
	home, ok := now.Home(w.spec.ID)
	if !ok {
		home, ok = p.waitsFor(w.spec.ID)
	}
	if !ok {
		var err error
		if home, err = p.admit(ctx, w, c); err != nil {
			p.o.Log.Debug("a container starts without a home of its own", "workload", w.spec.ID, "err", err)
			return out, nodes
		}
	}
	out.cpus = home.CPUs.String()
	if home.Class == workload.Dedicated && home.Bound && c.mems == "" {
		out.mems = home.MemoryNodes().String()
	}
	return out, home.MemoryNodes()
}

// within is how long a start may wait.
func (p *Plugin) within() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.o.Within > 0:
		return p.o.Within
	case p.waits > 0:
		return min(p.waits/4, withinMost)
	}
	return within
}

// waitsFor returns the home of a workload that has begun, and that no scan has seen yet.
func (p *Plugin) waitsFor(id workload.ID) (workload.Placement, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	home, ok := p.waiting[id]
	return home, ok
}

var errNoDaemon = errors.New("no daemon has joined")

// admit has a home found and kept. Dedicated work for which there is no room begins as shared,
// so that it takes nobody's own CPUs.
func (p *Plugin) admit(ctx context.Context, w *want, c *container) (workload.Placement, error) {
	spec := w.spec
	spec.CPUs = max(1, spec.CPUs)
	if nodes, err := topology.ParseNodeSet(c.mems); err == nil && !nodes.Empty() {
		spec.Nodes = nodes
	}
	d := p.daemon.Load()
	if d == nil {
		return workload.Placement{}, errNoDaemon
	}
	asked := control.PlaceRequest{Spec: spec, From: w.from, Hold: hold, Names: w.names}
	home, err := (*d).Admit(ctx, asked)
	if err != nil && ctx.Err() == nil && spec.Class == workload.Dedicated {
		asked.Spec.Class = workload.Shared
		home, err = (*d).Admit(ctx, asked)
	}
	if err == nil {
		p.mu.Lock()
		p.waiting[spec.ID] = home
		p.mu.Unlock()
	}
	return home, err
}

// booked is what is booked for the claims of a container: its CPUs and home are those of all
// together. missing is a claim that nothing is booked for. The author of a pod can write the variable that names
// claims: a booking of another party than the pod's namespace is none of the pod's.
func booked(c *container, of workload.Owner,
	now *control.Attention) (all workload.Placement, missing workload.ID, ok bool) {
	for _, id := range c.claims {
		one, known := now.Held[id]
		if !known || one.Owner != of {
			return all, id, false
		}
		all.CPUs, all.Home = all.CPUs.Union(one.CPUs), all.Home.Union(one.Home)
	}
	return all, "", len(c.claims) > 0 && !all.CPUs.Empty()
}

// PostStartContainer learns that a container runs.
func (p *Plugin) PostStartContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	defer p.caught()
	defer p.change()()
	if _, one := find(p.pods, c.GetId()); one != nil {
		one.started = true
		p.learnProcess(one, c.GetPid())
	}
	return nil
}

// UpdateContainer takes new sizes of a container. Its sets stay, unless who asks sets them:
// then they are theirs.
func (p *Plugin) UpdateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container,
	r *api.LinuxResources) (updates []*api.ContainerUpdate, _ error) {
	defer p.caught()
	defer p.change()()
	if in, one := find(p.pods, c.GetId()); one != nil {
		one.resize(r)
		in.resized = !in.told
		updates = p.answer(1, func(c *container) bool { return c == one }) // else it would write what it was told last
	}
	return updates, nil
}

// resize is what an update says anew; what it leaves out stays.
func (c *container) resize(r *api.LinuxResources) {
	now := resourcesOf(r)
	if now.shares > 0 {
		c.has.shares = now.shares
	}
	if now.quota != 0 {
		c.has.quota, c.has.period = now.quota, max(now.period, c.has.period)
	}
	if now.memory > 0 {
		c.has.memory = now.memory
	}
	if cpus := r.GetCpu().GetCpus(); cpus != "" && cpus != c.told.cpus {
		c.cpus = cpus
		c.told.cpus = cpus
		c.given.cpus = ""
		c.owed = false
	}
	if mems := r.GetCpu().GetMems(); mems != "" && mems != c.told.mems {
		c.mems = mems
		c.told.mems = mems
		c.given.mems = ""
		c.owed = false
	}
}

// mostOwed bounds what the runtime is told with one answer: nothing else of it goes on meanwhile.
const mostOwed = 8

// StopContainer is told of a container's end. Its answer has what the runtime is to know of
// others; a start is not kept waiting for that.
func (p *Plugin) StopContainer(_ context.Context, _ *api.PodSandbox,
	c *api.Container) (updates []*api.ContainerUpdate, _ error) {
	defer p.caught()
	defer p.change()()
	if _, one := find(p.pods, c.GetId()); one != nil {
		one.stopped = true
	}
	updates = p.answer(mostOwed, func(*container) bool { return true })
	return updates, nil
}

// RemoveContainer forgets a container.
func (p *Plugin) RemoveContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	defer p.caught()
	defer p.change()()
	if in, one := find(p.pods, c.GetId()); one != nil {
		in.containers = slices.DeleteFunc(slices.Clone(in.containers), func(x *container) bool { return x == one })
	}
	return nil
}
