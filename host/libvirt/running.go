package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/godbus/dbus/v5"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/libvirt/domain"
)

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
	host *topology.Host // nil when it is not known yet
	// online and allowed stand for "bound nowhere".
	online  topology.CPUSet
	allowed topology.NodeSet
}

// open finds a running guest that nobody else has bound. run is libvirt's ID of the run that is meant, 0 for any:
// another run is another guest of the same name.
func (w *Watch) open(ctx context.Context, name string, run int) (*target, error) {
	c, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	h := w.host
	w.mu.Unlock()
	t := &target{c: c, name: name, host: h}
	if h != nil {
		t.online, t.allowed = h.Online, h.AllowedMems
	}
	if t.path, err = c.lookup(ctx, name); err != nil {
		return nil, err
	}
	if t.live, err = c.xml(ctx, t.path, 0); err != nil {
		return nil, fmt.Errorf("guest %q: %w", name, err)
	}
	if have := t.live.Run(); have == 0 || (run > 0 && have != run) {
		return nil, fmt.Errorf("guest %q: %w", name, gone("that run of it has ended"))
	}
	return t, nil
}

// pins is where each thread may run: one list when that is the same for all, else
// "0=0-3 1=4-7 emulator=0-7 io1=0-7". A thread that nothing is said of where others have
// CPUs has come since, as a vCPU that was plugged in, and says nothing.
func (t *target) pins(ctx context.Context) (string, error) {
	threads, err := t.c.threads(ctx, t.path, t.live)
	if err != nil {
		return "", err
	}
	var parts []string
	first, same := "", true
	cpusOf := t.live.Pins()
	for _, th := range threads {
		cpus, err := cpusOf(th)
		if err != nil {
			return "", err
		}
		if cpus.Empty() {
			continue
		}
		first = cmp.Or(first, cpus.String())
		same = same && cpus.String() == first
		parts = append(parts, threadName(th)+"="+cpus.String())
	}
	switch {
	case first == "" && t.online.Empty():
		return "", errors.New("the CPUs of this host are not known yet")
	case first == "":
		return t.online.String(), nil
	case same:
		return first, nil
	}
	return strings.Join(parts, " "), nil
}

// nodes is where its memory may lie.
func (t *target) nodes() (string, error) {
	_, nodes, err := t.live.Bound()
	if err == nil && nodes.Empty() {
		nodes = t.allowed
	}
	if err == nil && nodes.Empty() {
		err = errors.New("the nodes of this host are not known yet")
	}
	return nodes.String(), err
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

// remark changes the mark of a running guest; one without gets one.
func (t *target) remark(ctx context.Context, change func(*domain.Mark) error) error {
	m, ok := t.live.Mark()
	var err error
	if !ok {
		m, err = t.live.NewMark()
	}
	if err == nil {
		err = change(&m)
	}
	if err != nil {
		return err
	}
	before := t.live.MarkText()
	t.live.SetMark(m)
	if text := t.live.MarkText(); text != before {
		return t.c.mark(ctx, t.path, text)
	}
	return nil
}

// intend lets the mark tell that the guest goes to more CPUs or nodes.
func (t *target) intend(ctx context.Context, cpus, nodes string) error {
	return t.remark(ctx, func(m *domain.Mark) error { return m.Intend(cpus, nodes) })
}

// arrived lets the mark tell where the guest is now.
func (t *target) arrived(ctx context.Context, cpus topology.CPUSet, nodes topology.NodeSet) error {
	return t.remark(ctx, func(m *domain.Mark) error {
		m.CPUs = cpus.String()
		m.Nodes = nodes.String()
		m.ToCPUs = ""
		m.ToNodes = ""
		return nil
	})
}

// threadsOn is a list of CPUs for a guest as what each of its threads gets, in the words of
// pins: of one that is placed cell by cell, what floats is on the CPUs of its cell's node.
func (t *target) threadsOn(ctx context.Context, list string) (string, error) {
	if strings.Contains(list, "=") {
		return list, nil
	}
	cpus, err := topology.ParseCPUSet(list)
	if err != nil {
		return "", err
	}
	of, composed, err := t.live.Within(t.host, cpus)
	if err != nil || !composed {
		return list, err
	}
	threads, err := t.c.threads(ctx, t.path, t.live)
	if err != nil {
		return "", err
	}
	var parts []string
	first, same := "", true
	for _, th := range threads {
		set := of(th).String()
		first = cmp.Or(first, set)
		same = same && set == first
		parts = append(parts, threadName(th)+"="+set)
	}
	if same {
		return first, nil
	}
	return strings.Join(parts, " "), nil
}

// setCell pins the vCPUs of one cell, and lets the emulator follow; the others stay.
func (t *target) setCell(ctx context.Context, cell int, list string) error {
	cpus, err := topology.ParseCPUSet(list)
	if err != nil {
		return err
	}
	of, err := t.live.Cell(cell, cpus)
	if err != nil {
		return err
	}
	threads, err := t.c.threads(ctx, t.path, t.live)
	if err != nil {
		return err
	}
	var parts []string
	for _, th := range threads {
		parts = append(parts, threadName(th)+"="+of(th).String())
	}
	return t.setCPUs(ctx, strings.Join(parts, " "))
}

func (t *target) setCPUs(ctx context.Context, list string) error {
	list, err := t.threadsOn(ctx, list)
	if err != nil {
		return err
	}
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
	if err := t.readBack(ctx); err != nil {
		return err
	}
	cpusOf := t.live.Pins()
	for _, th := range threads {
		want, own := by[threadName(th)]
		if !own {
			want = all
		}
		if now, err := cpusOf(th); !th.Off && (err != nil || !now.Equal(want)) {
			return errors.Join(err, fmt.Errorf("its thread %s was to be on CPUs %s and is on %s", threadName(th), want,
				now))
		}
	}
	return t.arrived(ctx, vcpus, nodes)
}

// readBack reads the guest as it is after a change.
func (t *target) readBack(ctx context.Context) error {
	now, err := t.c.xml(ctx, t.path, 0)
	if err == nil && now.Run() != t.live.Run() {
		err = gone("that run of it has ended")
	}
	if err == nil {
		t.live = now
	}
	return err
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
	if err := t.readBack(ctx); err != nil {
		return err
	}
	if _, now, err := t.live.Bound(); err != nil || !now.Equal(to) {
		return errors.Join(err, fmt.Errorf("its memory was to be on nodes %s and may be on %s", to, now))
	}
	return t.arrived(ctx, cpus, to)
}

// mark writes the mark of a running guest.
func (c *Client) mark(ctx context.Context, path dbus.ObjectPath, text string) error {
	return c.call(ctx, path, domainIface+".SetMetadata", nil, metadataOfOwn, text, domain.Prefix, domain.Namespace,
		affectLive)
}

// pin pins threads of one kind and ID.
func (c *Client) pin(ctx context.Context, path dbus.ObjectPath, t domain.Thread, cpus topology.CPUSet) error {
	switch t.Kind {
	case domain.VCPU:
		err := c.call(ctx, path, domainIface+".PinVcpu", nil, t.ID, cpuMap(cpus), affectLive)
		if t.Off && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) &&
			!errors.Is(err, ErrUnavailable) {
			return nil // not every driver of libvirt pins one that is not there yet; the next look finds it when it is
		}
		return err
	case domain.IOThread:
		return c.call(ctx, path, domainIface+".PinIOThread", nil, t.ID, cpuMap(cpus), affectLive)
	}
	return c.call(ctx, path, domainIface+".PinEmulator", nil, cpuMap(cpus), affectLive)
}

// threads is the threads of a running guest: vCPUs, emulator, IOThreads. A vCPU that
// may be plugged in counts: it comes up where it is pinned.
func (c *Client) threads(ctx context.Context, path dbus.ObjectPath, live *domain.Document) ([]domain.Thread, error) {
	most, now, err := live.VCPUs()
	if err != nil {
		return nil, err
	}
	var out []domain.Thread
	for vcpu := range most {
		out = append(out, domain.Thread{Kind: domain.VCPU, ID: uint32(vcpu), Off: vcpu >= now})
	}
	out = append(out, domain.Thread{Kind: domain.EmulatorThread})
	ids, err := c.iothreads(ctx, path)
	for _, id := range ids {
		out = append(out, domain.Thread{Kind: domain.IOThread, ID: id})
	}
	return out, err
}

// iothreads is the IDs of the IOThreads of a running guest.
func (c *Client) iothreads(ctx context.Context, path dbus.ObjectPath) ([]uint32, error) {
	var threads []struct {
		ID   uint32
		CPUs []bool
	}
	if err := c.call(ctx, path, domainIface+".GetIOThreadInfo", &threads, affectLive); err != nil {
		return nil, err
	}
	ids := make([]uint32, len(threads))
	for i := range threads {
		ids[i] = threads[i].ID
	}
	return ids, nil
}

// cpuMap is a CPU set as libvirt-dbus takes it: a bool for each CPU from 0.
func cpuMap(s topology.CPUSet) []bool {
	m := make([]bool, max(0, int(s.Max())+1))
	for cpu := range s.All() {
		m[cpu] = true
	}
	return m
}
