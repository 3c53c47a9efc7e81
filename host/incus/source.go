package incus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

// Managed says which instances homenode places.
type Managed string

// Choices of instances.
const (
	None   Managed = "none"   // they are cgroups and processes like others
	Marked Managed = "marked" // those with a key of homenode
	Every  Managed = "all"
)

// Options says what a Source works with.
type Options struct {
	Root   string // the machine's file tree; "" is /
	Manage Managed
	Grants []workload.Grant
	// Rule returns the rule of the configuration for some names, nil for none. nil: there is no configuration.
	Rule func(names []string, labels map[string]string) *workload.Rule
	Now  func() time.Time // time.Now when nil
}

// sockets is where the servers listen, below the root, and what their instances are called by.
var sockets = []struct{ server, socket, run string }{
	{"incus", "var/lib/incus/unix.socket", "run/incus"},
	{"lxd", "var/snap/lxd/common/lxd/unix.socket", "var/snap/lxd/common/lxd/logs"},
	{"lxd", "var/lib/lxd/unix.socket", "run/lxd"},
}

const (
	// patience is how long a scan waits for an answer that is due. One that comes later counts at the next scan.
	patience = 2 * time.Second
	// askWithin bounds a question: a busy host with some hundred containers takes that long for their states.
	askWithin = time.Minute
	// askEvery is how long an answer counts where no instance was seen to come or go. Configurations change so
	// seldom; the answer costs Incus a process for each container.
	askEvery = 30 * time.Second
	// After a failure the next question comes after retryFirst, then twice as late each time.
	retryFirst, retryMost = 10 * time.Second, 5 * time.Minute
)

// Source is the instances of Incus and LXD on this machine. Its methods may be called from several goroutines.
type Source struct {
	o Options

	patience time.Duration

	mu      sync.Mutex // guards the fields below; no file is read with it held
	known   map[string]*answer
	asked   map[string]chan *answer // questions under way
	running []instance
	odd     []string
	silent  bool // a server has not answered yet, or not since an instance came or went
}

// answer is what one server said.
type answer struct {
	at     time.Time
	seen   string // the value of seen then
	all    []instance
	odd    []string // problems in the answer
	err    error
	fails  int
	silent bool // neither this question nor one before it was answered
}

// errLate is of a server that has not answered its first question yet.
var errLate = errors.New("no answer yet")

// New makes a source; Refresh reads.
func New(o Options) *Source {
	o.Root = cmp.Or(o.Root, "/")
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Source{o: o, patience: patience, known: map[string]*answer{}, asked: map[string]chan *answer{}}
}

// Name is the source's.
func (s *Source) Name() string { return "Incus" }

// Wake is nil: what begins is found by its cgroup at the next scan.
func (s *Source) Wake() <-chan struct{} { return nil }

// Processes is the QEMU of each virtual machine.
func (s *Source) Processes() (out []workload.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.running {
		if s.running[i].machine {
			out = append(out, s.running[i].process)
		}
	}
	return out
}

// payloads is how LXC begins the name of the cgroup of a container.
const payloads = "lxc.payload."

// Refresh asks the servers where an answer is due. A host without Incus or LXD has no instances.
func (s *Source) Refresh(ctx context.Context) error {
	if s.o.Manage == None {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	answers := make([]*answer, len(sockets))
	var asked sync.WaitGroup
	for k, x := range sockets { // one that does not answer takes no time from the others
		asked.Go(func() { answers[k] = s.refresh(ctx, x.server, x.socket, x.run) })
	}
	asked.Wait()
	var errs []error
	var running []instance
	var odd []string
	silent := false
	for k, a := range answers {
		if a == nil {
			continue
		}
		silent = silent || a.silent
		if a.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", sockets[k].socket, a.err))
		}
		for _, i := range a.all {
			if s.find(&i) {
				running = append(running, i)
			}
		}
		odd = append(odd, a.odd...)
	}
	slices.SortFunc(running, func(a, b instance) int { return cmp.Compare(a.id(), b.id()) })
	running = slices.CompactFunc(running, func(a, b instance) bool { return a.id() == b.id() })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.odd = running, odd
	s.silent = silent
	return errors.Join(errs...)
}

// refresh asks one server where that is due, and waits for the answer as long as the context lasts; nil where there
// is no server.
func (s *Source) refresh(ctx context.Context, server, socket, run string) *answer {
	file := filepath.Join(s.o.Root, socket)
	if st, err := os.Stat(file); err != nil || st.Mode().Type() != fs.ModeSocket {
		s.keep(socket, nil, nil)
		return nil
	}
	s.mu.Lock()
	was, asked := s.known[socket], s.asked[socket]
	s.mu.Unlock()
	seen := s.seen(run)
	if asked == nil {
		now := s.o.Now()
		if was != nil && !was.due(now, seen) {
			return was
		}
		asked = make(chan *answer, 1)
		go func() { asked <- ask(context.WithoutCancel(ctx), server, file, was, answer{at: now, seen: seen}) }()
	}
	select {
	case a := <-asked:
		for k := range a.all {
			s.find(&a.all[k]) // its start is kept
		}
		s.keep(socket, a, nil)
		return a
	case <-ctx.Done():
		s.keep(socket, was, asked)
	}
	if was == nil {
		return &answer{err: errLate, silent: true}
	}
	older := *was
	older.silent = was.silent || was.seen != seen
	return &older
}

// keep remembers what a server answered, and the question under way.
func (s *Source) keep(socket string, a *answer, asked chan *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[socket], s.asked[socket] = a, asked
}

// due reports whether it is time to ask a server again.
func (a *answer) due(now time.Time, seen string) bool {
	age := now.Sub(a.at).Abs()
	if a.err != nil {
		wait := min(retryFirst<<min(max(a.fails-1, 0), 10), retryMost)
		return age >= wait
	}
	return a.seen != seen || age >= askEvery
}

// ask completes an answer. After a failure the older one, was, counts.
func ask(ctx context.Context, server, file string, was *answer, a answer) *answer {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	all, err := instancesOf(ctx, file)
	if err != nil {
		a.err = err
		a.fails = 1
		a.silent = true
		if was != nil {
			a.fails = was.fails + 1
			a.all = was.all
			a.odd = was.odd
			a.silent = was.silent
		}
	}
	for k := range all {
		i, ok, bad := read(server, &all[k])
		if ok {
			a.all = append(a.all, i)
		}
		if bad != "" && len(a.odd) < mostBad {
			a.odd = append(a.odd, bad)
		}
	}
	return &a
}

// seen returns a text that changes when an instance starts or stops, without a question: of the cgroups of containers,
// and of the folder with an entry for each running instance.
func (s *Source) seen(run string) string {
	var b strings.Builder
	entries, _ := os.ReadDir(filepath.Join(s.o.Root, "sys/fs/cgroup"))
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), payloads) {
			continue
		}
		if st, err := e.Info(); err == nil {
			fmt.Fprintln(&b, e.Name(), st.ModTime().UnixNano())
		}
	}
	if st, err := os.Stat(filepath.Join(s.o.Root, run)); err == nil {
		fmt.Fprintln(&b, st.ModTime().UnixNano())
	}
	return b.String()
}

// find completes an instance by its process; false when that has ended.
func (s *Source) find(i *instance) bool {
	pid := strconv.Itoa(i.process.PID)
	stat, err := s.text("proc", pid, "stat")
	if err != nil {
		return false
	}
	parsed, err := proc.ParseStat([]byte(stat))
	if err != nil || parsed.PID != i.process.PID {
		return false
	}
	if i.process.Start > 0 && i.process.Start != parsed.Start { // another process has the PID by now
		return false
	}
	i.process.Start = parsed.Start
	if i.machine {
		return strings.HasPrefix(string(parsed.Comm), "qemu")
	}
	text, err := s.text("proc", pid, "cgroup")
	if err != nil {
		return false
	}
	i.cgroup = payloadOf(proc.Cgroup([]byte(text)))
	return i.cgroup != ""
}

// payloadOf is the cgroup of the container that a cgroup lies in; "" for none.
func payloadOf(cgroup string) string {
	if !strings.HasPrefix(cgroup, "/") {
		return ""
	}
	parts := strings.Split(cgroup, "/")
	for k, part := range parts {
		if strings.HasPrefix(part, payloads) {
			return strings.Join(parts[:k+1], "/")
		}
	}
	return ""
}

// mostText bounds a file of /proc, bytes.
const mostText = 64 << 10

func (s *Source) text(parts ...string) (string, error) {
	f, err := os.Open(filepath.Join(append([]string{s.o.Root}, parts...)...))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostText))
	return string(b), err
}

// Claims returns the instances as of the last Refresh, and problems with them.
func (s *Source) Claims(*topology.Host) (out []workload.Claim, problems []workload.Problem) {
	s.mu.Lock()
	running, odd := s.running, s.odd
	silent := s.silent
	s.mu.Unlock()
	if silent { // what its instances are and ask for is not known
		why := words.Because(words.SourceFailed, s.Name())
		out = append(out, workload.Claim{Cgroups: []string{payloads + "*"}, Alone: why})
	}
	for k := range running {
		c, bad := s.claim(&running[k])
		out = append(out, c)
		if len(bad) > 0 { // one line: each is an event in the history, which the author of an instance must not fill
			problems = append(problems, workload.Problem{Subject: string(c.ID), Text: words.Some(bad, mostTroubles)})
		}
	}
	for _, text := range odd {
		problems = append(problems, workload.Problem{Subject: s.Name(), Text: text})
	}
	return out, problems
}

func (s *Source) claim(i *instance) (workload.Claim, []string) {
	spec := workload.Spec{ID: i.id(), Name: i.called(), Class: workload.Shared, Importance: workload.DefaultImportance,
		CPUs: i.cpus, Memory: i.memory, Given: i.machine}
	if i.huge {
		spec.HugePage = 2 << 10
	}
	c := workload.Claim{
		ID: spec.ID, Name: spec.Name, Also: []string{i.name}, Running: true, Ruled: true,
		Alone: s.alone(i), Owner: workload.NamespaceOwner(i.namespace()),
	}
	may := func(p workload.Permission) bool {
		return slices.ContainsFunc(s.o.Grants, func(g workload.Grant) bool { return g.Allows(p, i.namespace(), nil) })
	}
	if i.machine {
		c.Process = i.process
		c.Asked = i.asked(may)
	} else {
		c.Cgroups = []string{i.cgroup}
		if i.cpus > 0 { // by a key, which its author chose
			c.Asked.CPUs = workload.Own
		}
	}
	if s.o.Rule != nil {
		names := append([]string{string(spec.ID), spec.Name}, c.Cgroups...)
		if r := s.o.Rule(names, nil); r != nil {
			r.Apply(&spec)
			r.Vouch(&c.Asked)
		}
	}
	// No scheduler has placed instances by other requests: their limits count.
	backing := workload.Backing{Guaranteed: true, CPUs: i.cpus, Limit: i.memory}
	refused := i.wishes.Over(&spec, &c.Asked, backing, may)
	bad := slices.Clone(i.bad)
	for _, why := range refused {
		bad = append(bad, why.String())
	}
	c.Spec = &spec
	return c, bad
}

// asked says who chose the sizes of a virtual machine: the users of its project, or the administrator.
func (i *instance) asked(may func(workload.Permission) bool) (a workload.Asked) {
	if i.own.cpus {
		a.CPUs = workload.Own
	}
	switch {
	case !i.own.memory:
	case may(workload.MayBookMemory):
		a.Memory = workload.Operator
	default:
		a.Memory = workload.Own
	}
	return a
}

// alone says why an instance is not homenode's to place.
func (s *Source) alone(i *instance) words.Reason {
	switch {
	case i.off:
		return words.Because(words.IncusOff)
	case s.o.Manage != Every && !i.marked:
		return words.Because(words.IncusUnmarked)
	case i.nodes != "":
		return words.Because(words.IncusNodes, i.nodes)
	case i.limits != "" && i.machine:
		return words.Because(words.IncusPinned, i.limits)
	case i.limits != "":
		return words.Because(words.IncusLimits, i.limits)
	case len(i.devices) > 0:
		return words.Because(words.GuestDevices, strings.Join(i.devices, ", "))
	}
	return words.Reason{}
}
