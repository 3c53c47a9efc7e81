package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/libvirt/domain"
)

func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// restrictive is VIR_DOMAIN_NUMATUNE_MEM_RESTRICTIVE. A guest that runs without
// numatune gets this mode with its first nodes: libvirt would else take it for
// strict and refuse the next change.
const restrictive int32 = 3

// target is one running guest that is about to be changed.
type target struct {
	c    *Client
	name string
	path dbus.ObjectPath
	live *domain.Document
	// online and nodes stand for "bound nowhere".
	online topology.CPUSet
	nodes  topology.NodeSet
}

// open finds a running guest. run is libvirt's ID of the run that is meant, 0 for any:
// another run is another guest of the same name.
func (w *Watch) open(ctx context.Context, name string, run int) (*target, error) {
	w.mu.Lock()
	c, err := w.connect(ctx)
	h := w.host
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	t := &target{c: c, name: name}
	if h != nil {
		t.online, t.nodes = h.Online, h.AllowedMems
	}
	if t.path, err = c.lookup(ctx, name); err != nil {
		return nil, err
	}
	if t.live, err = c.xml(ctx, t.path, 0); err != nil {
		return nil, fmt.Errorf("guest %q: %w", name, err)
	}
	if have := t.live.Run(); have == 0 || run > 0 && have != run {
		return nil, fmt.Errorf("guest %q: that run of it has ended: %w", name, fs.ErrNotExist)
	}
	return t, nil
}

// runPath names a running guest in a setting.
func runPath(name string, run int) string { return fmt.Sprintf("%s@%d", name, run) }

func parseRunPath(path string) (name string, run int, err error) {
	i := strings.LastIndexByte(path, '@')
	if i > 0 {
		run, err = strconv.Atoi(path[i+1:])
	}
	if i <= 0 || err != nil || run <= 0 {
		return "", 0, fmt.Errorf("%q is not NAME@ID", path)
	}
	return path[:i], run, nil
}

// Settings reads what a step would change.
func (w *Watch) Settings(ctx context.Context, step plan.Step) ([]plan.Setting, error) {
	name := guest.NameOf(step.Workload)
	if name == "" {
		return nil, fmt.Errorf("%s is no guest", step.Workload)
	}
	if step.Kind == plan.SetNext {
		d, _, err := w.definition(ctx, name, false)
		if err != nil {
			return nil, err
		}
		value, err := nextOf(d)
		w.mu.Lock()
		delete(w.yielded, yieldKey(plan.Entry{Kind: plan.GuestDefinition, Path: name}))
		w.mu.Unlock()
		return []plan.Setting{{Kind: plan.GuestDefinition, Path: name, Value: value}}, err
	}
	t, err := w.open(ctx, name, 0)
	if err != nil {
		return nil, err
	}
	path := runPath(name, t.live.Run())
	w.mu.Lock()
	w.runs[name] = t.live.Run()
	delete(w.yielded, yieldKey(plan.Entry{Kind: plan.GuestCPUs, Path: path}))
	delete(w.yielded, yieldKey(plan.Entry{Kind: plan.GuestMems, Path: path}))
	w.mu.Unlock()
	switch step.Kind {
	case plan.SetCPUs:
		value, err := t.pins(ctx)
		return []plan.Setting{{Kind: plan.GuestCPUs, Path: path, Value: value}}, err
	case plan.SetMems:
		_, nodes, err := t.live.Bound()
		if err == nil && nodes.Empty() {
			nodes = t.nodes
		}
		if err == nil && nodes.Empty() {
			err = errors.New("the nodes of this host are not known yet")
		}
		return []plan.Setting{{Kind: plan.GuestMems, Path: path, Value: nodes.String()}}, err
	}
	return nil, fmt.Errorf("guests take no %s step", step.Kind)
}

// pins is where each thread may run: one list when that is the same for all, else
// "0=0-3 1=4-7 emulator=0-7 io1=0-7".
func (t *target) pins(ctx context.Context) (string, error) {
	threads, err := t.c.threads(ctx, t.path, t.live)
	if err != nil {
		return "", err
	}
	var parts []string
	first, same := "", true
	for _, th := range threads {
		cpus, err := t.live.CPUsOf(th)
		if err != nil {
			return "", err
		}
		if cpus.Empty() {
			cpus = t.online
		}
		if cpus.Empty() {
			return "", errors.New("the CPUs of this host are not known yet")
		}
		first = cmp.Or(first, cpus.String())
		same = same && cpus.String() == first
		parts = append(parts, threadName(th)+"="+cpus.String())
	}
	if same {
		return first, nil
	}
	return strings.Join(parts, " "), nil
}

func threadName(t domain.Thread) string {
	switch t.Kind {
	case domain.VCPU:
		return strconv.Itoa(int(t.ID))
	case domain.IOThread:
		return fmt.Sprintf("io%d", t.ID)
	}
	return "emulator"
}

// parsePins reads what pins wrote: the CPUs of each thread by name, and all of them
// together, for threads that were not there then.
func parsePins(text string) (by map[string]topology.CPUSet, all topology.CPUSet, err error) {
	by = map[string]topology.CPUSet{}
	for part := range strings.FieldsSeq(text) {
		name, list, own := strings.Cut(part, "=")
		if !own {
			list = part
		}
		set, err := topology.ParseCPUSet(list)
		if err != nil {
			return nil, all, fmt.Errorf("CPUs of a guest %q: %w", text, err)
		}
		if own {
			by[name] = set
		}
		all = all.Union(set)
	}
	if all.Empty() {
		return nil, all, fmt.Errorf("CPUs of a guest %q: none", text)
	}
	return by, all, nil
}

// Apply makes a step true: all threads of a running guest onto CPUs, its memory onto
// nodes, or its definition onto both. The mark tells first of where it goes, so
// that what a failure leaves behind is known for homenode's. It changes the run of the
// guest that Settings was asked about, if it was, and nothing that a hand has bound.
func (w *Watch) Apply(ctx context.Context, step plan.Step, _ func(plan.Move)) error {
	name := guest.NameOf(step.Workload)
	return w.change(ctx, name, lockWithin, timeOf(step.Kind == plan.SetMems), func(ctx context.Context) error {
		switch step.Kind {
		case plan.SetNext:
			return w.define(ctx, name, step.To)
		case plan.SetCPUs, plan.SetMems:
			w.mu.Lock()
			run := w.runs[name]
			w.mu.Unlock()
			t, err := w.open(ctx, name, run)
			if err == nil {
				err = ours(t.live)
			}
			if err != nil {
				return err
			}
			if step.Kind == plan.SetCPUs {
				return t.setCPUs(ctx, step.To)
			}
			return t.setNodes(ctx, step.To)
		}
		return fmt.Errorf("guests take no %s step", step.Kind)
	})
}

const (
	// changeWithin bounds a change that moves no memory: each call takes milliseconds, and
	// a libvirt that hangs must not hold up who waits.
	changeWithin = 20 * time.Second
	// moveWithin bounds one that does: a TiB at 1 GiB a second.
	moveWithin = 20 * time.Minute
	// lockWithin is how long it waits for another change, of the daemon's or of homenode vm:
	// what is put off is tried again. A daemon that waits for all memory of a large
	// guest would be taken for dead. An undo has more patience.
	lockWithin = 2 * time.Second
	// busyFor is how long after such a wait nothing waits again, so that a hundred
	// guests do not wait one after the other.
	busyFor = 10 * time.Second
)

var errBusy = errors.New("another change of a guest is under way")

// errHand means that a hand has bound a guest after homenode: what it wrote stands.
var errHand = errors.New("homenode leaves it alone")

// ours is an error for what a hand has bound since the last look.
func ours(d *domain.Document) error {
	if why := d.Manual(); why != "" {
		return fmt.Errorf("%w: %s", errHand, why)
	}
	return nil
}

// change runs a change of a guest with nobody else at it.
func (w *Watch) change(ctx context.Context, name string, wait, within time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	unlock, err := w.lock(ctx, wait)
	if err != nil {
		return fmt.Errorf("guest %q: %w", name, err)
	}
	defer unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if k := w.known[name]; k != nil {
			k.stale = true
		}
	}()
	if err := do(ctx); err != nil {
		return fmt.Errorf("guest %q: %w", name, err)
	}
	return nil
}

// lock waits for its turn, but not for long.
func (w *Watch) lock(ctx context.Context, wait time.Duration) (unlock func(), err error) {
	w.mu.Lock()
	if wait <= lockWithin && w.o.Now().Before(w.busy) {
		wait = 0
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil {
			w.busy = time.Time{}
		} else if wait > 0 {
			w.busy = w.o.Now().Add(busyFor)
		}
	}()
	select {
	case w.changing <- struct{}{}:
	default:
		select {
		case w.changing <- struct{}{}:
		case <-ctx.Done():
			return nil, errBusy
		}
	}
	if w.o.Lock == nil {
		return func() { <-w.changing }, nil
	}
	lock, err := w.o.Lock(ctx)
	if err != nil {
		<-w.changing
		return nil, err
	}
	return func() { lock.Close(); <-w.changing }, nil
}

func timeOf(memory bool) time.Duration {
	if memory {
		return moveWithin
	}
	return changeWithin
}

// remark changes the mark of a running guest; one without gets one.
func (t *target) remark(ctx context.Context, change func(*domain.Mark)) error {
	m, ok := t.live.Mark()
	if !ok {
		var err error
		if m, err = t.live.NewMark(); err != nil {
			return err
		}
	}
	change(&m)
	before := t.live.MarkText()
	t.live.SetMark(m)
	if text := t.live.MarkText(); text != before {
		return t.c.mark(ctx, t.path, text)
	}
	return nil
}

// intend lets the mark tell that the guest goes to more CPUs or nodes. What an
// earlier change left behind stays in it.
func (t *target) intend(ctx context.Context, cpus, nodes string) error {
	return t.remark(ctx, func(m *domain.Mark) {
		m.ToCPUs, m.ToNodes = cmp.Or(cpus, m.ToCPUs, m.CPUs), cmp.Or(nodes, m.ToNodes, m.Nodes)
	})
}

// arrived lets the mark tell where the guest is now.
func (t *target) arrived(ctx context.Context, cpus topology.CPUSet, nodes topology.NodeSet) error {
	return t.remark(ctx, func(m *domain.Mark) {
		m.CPUs, m.Nodes, m.ToCPUs, m.ToNodes = cpus.String(), nodes.String(), "", ""
	})
}

func (t *target) setCPUs(ctx context.Context, list string) error {
	by, all, err := parsePins(list)
	if err != nil {
		return err
	}
	_, nodes, err := t.live.Bound()
	if err != nil {
		return err
	}
	threads, err := t.c.threads(ctx, t.path, t.live)
	if err != nil {
		return err
	}
	if err := t.intend(ctx, all.String(), ""); err != nil {
		return err
	}
	_, now, _ := t.live.VCPUs()
	var vcpus topology.CPUSet
	for _, th := range threads {
		cpus, own := by[threadName(th)]
		if !own {
			cpus = all
		}
		if err := t.c.pin(ctx, t.path, th, cpus); err != nil {
			return err
		}
		if th.Kind == domain.VCPU && int(th.ID) < now {
			vcpus = vcpus.Union(cpus)
		}
	}
	return t.arrived(ctx, vcpus, nodes)
}

func (t *target) setNodes(ctx context.Context, list string) error {
	to, err := topology.ParseNodeSet(list)
	if err != nil || to.Empty() {
		return fmt.Errorf("nodes %q: %w", list, cmp.Or(err, errors.New("none")))
	}
	cpus, _, err := t.live.Bound()
	if err != nil {
		return err
	}
	if err := t.intend(ctx, "", to.String()); err != nil {
		return err
	}
	params := map[string]dbus.Variant{"numa_nodeset": dbus.MakeVariant(to.String())}
	if t.live.MemoryMode() == "" {
		params["numa_mode"] = dbus.MakeVariant(restrictive)
	}
	if err := t.c.call(ctx, t.path, domainIface+".SetNumaParameters", nil, params, affectLive); err != nil {
		return err
	}
	return t.arrived(ctx, cpus, to)
}

// definition is what libvirt has written down of a guest.
func (w *Watch) definition(ctx context.Context, name string, secure bool) (*domain.Document, *Client, error) {
	w.mu.Lock()
	c, err := w.connect(ctx)
	w.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	path, err := c.lookup(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	// To define a transient guest would make it stay.
	v, err := c.property(ctx, path, domainIface, "Persistent")
	if err != nil {
		return nil, nil, err
	}
	if persistent, _ := v.(bool); !persistent {
		return nil, nil, fmt.Errorf("guest %q has no definition: %w", name, fs.ErrNotExist)
	}
	flags := xmlInactive
	if secure {
		flags |= xmlSecure
	}
	d, err := c.xml(ctx, path, flags)
	return d, c, err
}

// nextOf is where a definition puts its guest, "" for nowhere by homenode.
func nextOf(d *domain.Document) (string, error) {
	if _, ok := d.Mark(); !ok {
		return "", nil
	}
	cpus, nodes, err := d.Bound()
	return cpus.String() + "/" + nodes.String(), err
}

// define writes into the definition of a shared guest where its next start is; "" takes
// homenode's bindings and mark off.
func (w *Watch) define(ctx context.Context, name, next string) error {
	d, c, err := w.definition(ctx, name, true)
	if err != nil {
		return err
	}
	mark, ok := d.Mark()
	if next == "" {
		if !ok {
			return nil // somebody else was faster
		}
		if err := ours(d); err != nil {
			return err
		}
		d.Release()
		return c.Define(ctx, d.Bytes())
	}
	if !ok {
		if mark, err = d.NewMark(); err != nil {
			return err
		}
	}
	if mark.Class != workload.Shared {
		return errors.New("it is dedicated: homenode vm move gives it another home")
	}
	if err := ours(d); err != nil {
		return err
	}
	list, nodes, _ := strings.Cut(next, "/")
	p := plan.Placement{Class: mark.Class, Importance: mark.Importance}
	if p.CPUs, err = topology.ParseCPUSet(list); err == nil {
		p.Home, err = topology.ParseNodeSet(nodes)
	}
	if err != nil || p.CPUs.Empty() || p.Home.Empty() {
		return fmt.Errorf("next start %q: want CPUS/NODES", next)
	}
	d.Place(nil, guest.Home{Placement: p}, mark)
	return c.Define(ctx, d.Bytes())
}

// Restore puts an old value back. What a hand has bound since is the hand's: nothing of
// homenode's is left there, and the error is that of a thing that is gone.
func (w *Watch) Restore(ctx context.Context, e plan.Entry) error {
	name, run := e.Path, 0
	if e.Kind != plan.GuestDefinition {
		var err error
		if name, run, err = parseRunPath(e.Path); err != nil {
			return err
		}
	}
	err := w.change(ctx, name, changeWithin, timeOf(e.Kind == plan.GuestMems), func(ctx context.Context) error {
		if e.Kind == plan.GuestDefinition {
			return w.redefine(ctx, name, e.Old)
		}
		t, err := w.open(ctx, name, run)
		if err == nil {
			err = ours(t.live)
		}
		if err != nil {
			return err
		}
		if e.Kind == plan.GuestCPUs {
			return t.setCPUs(ctx, e.Old)
		}
		return t.setNodes(ctx, e.Old)
	})
	if errors.Is(err, errHand) {
		w.mu.Lock()
		w.yielded[yieldKey(e)] = true
		w.mu.Unlock()
		return fmt.Errorf("%w: %w", err, fs.ErrNotExist)
	}
	return err
}

// redefine puts a definition back to where it had its guest, as far as it is homenode's
// still: one without a mark is somebody else's, of the same name or not.
func (w *Watch) redefine(ctx context.Context, name, old string) error {
	d, _, err := w.definition(ctx, name, false)
	if err != nil {
		return err
	}
	if _, ok := d.Mark(); !ok && old != "" {
		return fmt.Errorf("%w: its definition bears no mark any more", errHand)
	}
	return w.define(ctx, name, old)
}

func yieldKey(e plan.Entry) string { return string(e.Kind) + " " + e.Path }

// Present returns nil while the guest, in that run of it, exists, as of the last Look. Without
// one, as in an undo without a daemon, it looks.
func (w *Watch) Present(e plan.Entry) error {
	w.mu.Lock()
	looked := w.looked
	w.mu.Unlock()
	if !looked {
		_ = w.Look(context.Background()) // bounded; on an error nobody knows
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	name, run := e.Path, 0
	if e.Kind != plan.GuestDefinition {
		var err error
		if name, run, err = parseRunPath(e.Path); err != nil {
			return err
		}
	}
	if w.yielded[yieldKey(e)] {
		return fmt.Errorf("guest %q: bound by hand since: %w", e.Path, fs.ErrNotExist)
	}
	switch k := w.known[name]; {
	case w.last != nil || !w.looked, k != nil && k.unread != "": // nobody knows
		return nil
	case k == nil, run == 0 && k.config == nil, run > 0 && (k.live == nil || k.live.Run() != run):
		return fmt.Errorf("guest %q: %w", e.Path, fs.ErrNotExist)
	}
	return nil
}
