package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// hypervisor is a libvirt with guests on a machine: Guests and Driver in one.
type hypervisor struct {
	m     *machine
	vms   []*vm
	wake  chan struct{}
	lost  error
	calls []string
	fail  error        // of the next Apply
	moved topology.KiB // by changes of nodes
	midst func(*vm)    // called in the middle of a change of nodes
}

// vm is one guest: where it is bound as it runs, and by its definition.
type vm struct {
	name      string
	run       int // 0: off
	vcpus     int
	memory    topology.KiB
	class     workload.Class
	now, next binding
	transient bool
	pid       workload.Process
	gone      bool
}

type binding struct {
	cpus   topology.CPUSet
	nodes  topology.NodeSet
	marked bool
	manual string
	loose  bool
}

func (b *binding) String() string { return b.cpus.String() + "/" + b.nodes.String() }

// start runs a guest whose memory lies on nodes.
func (hv *hypervisor) start(v *vm, on ...topology.NodeID) {
	v.run = len(hv.calls) + len(hv.vms) + 1
	v.now = v.next
	id := hv.m.add("machine.slice/machine-qemu\\x2d"+fmt.Sprint(v.run)+"\\x2d"+v.name+".scope/libvirt", 1, v.memory, on...)
	thing := hv.m.live[id]
	v.pid = workload.Process{PID: 5000 + v.run, Start: 9}
	thing.obs.Processes = []workload.Process{v.pid}
	thing.obs.Pinned, thing.obs.PinnedWhy = true, "libvirt's own pins"
}

func (hv *hypervisor) stop(v *vm) {
	delete(hv.m.live, hv.thing(v).obs.ID)
	v.run, v.gone = 0, v.transient
}

func (hv *hypervisor) thing(v *vm) *thing {
	for _, th := range hv.m.live {
		if slices.Contains(th.obs.Processes, v.pid) {
			return th
		}
	}
	return nil
}

func (hv *hypervisor) Look(context.Context) error { return hv.lost }
func (hv *hypervisor) Wake() <-chan struct{}      { return hv.wake }

func (hv *hypervisor) Processes() (out []workload.Process) {
	for _, v := range hv.vms {
		if v.run > 0 && !v.gone {
			out = append(out, v.pid)
		}
	}
	return out
}

func (hv *hypervisor) Guests(h *topology.Host) (out []guest.Seen, _ []guest.Unread) {
	for _, v := range hv.vms {
		if v.gone {
			continue
		}
		x := guest.Seen{Run: v.run}
		if !v.transient {
			d := v.standing(h, &v.next)
			x.Defined, x.Standing = &d, d
		}
		if v.run > 0 {
			x.Standing = v.standing(h, &v.now)
			x.Running, x.Process = true, v.pid
		}
		out = append(out, x)
	}
	return out, nil
}

// standing is what host/libvirt/domain reads from XML.
func (v *vm) standing(h *topology.Host, b *binding) guest.Standing {
	s := guest.Standing{Name: v.name, Placed: b.marked, Manual: b.manual, Emulator: guest.Share, BoundCPUs: b.cpus, BoundNodes: b.nodes, Loose: b.loose,
		Spec: workload.Spec{ID: guest.ID(v.name), Name: v.name, Class: v.class, Importance: 50, CPUs: v.vcpus, Memory: v.memory, Given: true}}
	p := plan.Placement{Workload: s.Spec.ID, Class: v.class, Importance: 50, VCPUs: v.vcpus, CPUs: b.cpus, Asked: v.memory}
	if !b.nodes.Empty() {
		s.Mode = "restrictive"
	}
	if p.CPUs.Empty() {
		p.CPUs = h.Online
	}
	if v.class == workload.Dedicated {
		p.Pins, p.Bound, s.Mode = p.CPUs.Slice(), true, "strict"
	}
	nodes := b.nodes
	if nodes.Empty() {
		nodes = h.AllowedMems
	}
	for _, n := range h.Nodes {
		if n.CPUs.Intersects(p.CPUs) || b.nodes.Has(n.ID) {
			p.Home.Add(n.ID)
		}
		if nodes.Has(n.ID) {
			p.Memory = append(p.Memory, workload.NodeMemory{Node: n.ID, KiB: v.memory / topology.KiB(nodes.Len())})
		}
	}
	s.Home.Placement = p
	return s
}

func (hv *hypervisor) find(id workload.ID) (*vm, error) {
	for _, v := range hv.vms {
		if guest.ID(v.name) == id && !v.gone {
			return v, nil
		}
	}
	return nil, fmt.Errorf("guest %s: %w", id, fs.ErrNotExist)
}

func (hv *hypervisor) Settings(_ context.Context, s plan.Step) ([]plan.Setting, error) {
	v, err := hv.find(s.Workload)
	if err != nil {
		return nil, err
	}
	h, path := hv.m.host(), fmt.Sprintf("%s@%d", v.name, v.run)
	switch s.Kind {
	case plan.SetNext:
		old := ""
		if v.next.marked {
			old = v.next.String()
		}
		return []plan.Setting{{Kind: plan.GuestDefinition, Path: v.name, Value: old}}, nil
	case plan.SetCPUs:
		cpus := v.now.cpus
		if cpus.Empty() {
			cpus = h.Online
		}
		return []plan.Setting{{Kind: plan.GuestCPUs, Path: path, Value: cpus.String()}}, nil
	}
	nodes := v.now.nodes
	if nodes.Empty() {
		nodes = h.AllowedMems
	}
	return []plan.Setting{{Kind: plan.GuestMems, Path: path, Value: nodes.String()}}, nil
}

func (hv *hypervisor) Apply(_ context.Context, s plan.Step, _ func(plan.Move)) error {
	v, err := hv.find(s.Workload)
	if err != nil {
		return err
	}
	hv.calls = append(hv.calls, fmt.Sprintf("%s %s %s", s.Kind, v.name, s.To))
	if err := hv.fail; err != nil {
		hv.fail = nil
		return err
	}
	path := fmt.Sprintf("%s@%d", v.name, v.run)
	kind := map[plan.StepKind]plan.SettingKind{plan.SetCPUs: plan.GuestCPUs, plan.SetMems: plan.GuestMems}[s.Kind]
	if s.Kind == plan.SetNext {
		kind, path = plan.GuestDefinition, v.name
	}
	hv.m.mustBeJournalled(kind, path, "")
	return hv.set(v, kind, s.To)
}

func (hv *hypervisor) set(v *vm, kind plan.SettingKind, to string) (err error) {
	switch kind {
	case plan.GuestCPUs:
		if v.now.cpus, err = topology.ParseCPUSet(to); err == nil {
			v.now.loose = false
			err = hv.m.setCPUs(hv.thing(v), to)
		}
	case plan.GuestMems:
		if v.now.nodes, err = topology.ParseNodeSet(to); err != nil {
			return err
		}
		if hv.midst != nil {
			hv.midst(v)
		}
		o := &hv.thing(v).obs
		var mem []workload.NodeMemory
		left := workload.Total(o.Memory) - workload.On(o.Memory, v.now.nodes) // the kernel moves it
		hv.moved += left
		for n := range v.now.nodes.All() {
			if kib := workload.On(o.Memory, topology.Nodes(n)) + left; kib > 0 {
				mem = append(mem, workload.NodeMemory{Node: n, KiB: kib})
			}
			left = 0
		}
		o.Memory, o.Anon = mem, mem
	case plan.GuestDefinition:
		if to == "" {
			v.next = binding{}
			return nil
		}
		cpus, nodes, _ := strings.Cut(to, "/")
		v.next.marked = true
		if v.next.cpus, err = topology.ParseCPUSet(cpus); err == nil {
			v.next.nodes, err = topology.ParseNodeSet(nodes)
		}
		return err
	}
	v.now.marked = true
	return err
}

func (hv *hypervisor) Restore(_ context.Context, e plan.Entry) error {
	name, run, _ := strings.Cut(e.Path, "@")
	v, err := hv.find(guest.ID(name))
	if err != nil || run != "" && run != fmt.Sprint(v.run) {
		return fmt.Errorf("%s: %w", e.Path, fs.ErrNotExist)
	}
	return hv.set(v, e.Kind, e.Old)
}

func (hv *hypervisor) Present(e plan.Entry) error {
	name, run, _ := strings.Cut(e.Path, "@")
	v, err := hv.find(guest.ID(name))
	if err == nil && run != "" && run != fmt.Sprint(v.run) {
		err = fs.ErrNotExist
	}
	return err
}

// guestRig is a daemon on a machine with guests.
func guestRig(t *testing.T, nodes, per int, mode Mode, manage GuestsToManage, vms ...*vm) (*rig, *hypervisor) {
	t.Helper()
	m := newMachine(t, nodes, per)
	hv := &hypervisor{m: m, vms: vms, wake: make(chan struct{}, 1)}
	r := newRig(t, m, mode, func(c *Config) { c.Libvirt.Manage = manage })
	r.withGuests(hv)
	return r, hv
}

func (r *rig) withGuests(hv *hypervisor) {
	r.o.Guests = hv
	r.o.Drivers[workload.InGuest] = hv
}

func plainVM(name string, vcpus int, memory topology.KiB) *vm {
	return &vm{name: name, vcpus: vcpus, memory: memory, class: workload.Shared}
}

// dedicatedVM is as `vm define` leaves it.
func dedicatedVM(name string, node topology.NodeID, cpus ...topology.CPUID) *vm {
	v := &vm{name: name, vcpus: len(cpus), memory: 1 << 20, class: workload.Dedicated}
	v.next = binding{cpus: topology.CPUs(cpus...), nodes: topology.Nodes(node), marked: true}
	return v
}

func TestGuestIsPlacedAsItStarts(t *testing.T) {
	a := plainVM("a", 2, 1<<20)
	r, hv := guestRig(t, 2, 8, Enforce, AllGuests, a)
	r.ticks(t, 1)
	if !slices.Equal(hv.calls, []string{"set-next a 0-7/0"}) && !slices.Equal(hv.calls, []string{"set-next a 8-15/1"}) {
		t.Fatalf("while it is off: %v", hv.calls)
	}
	a.next, hv.calls = binding{}, nil // its definition is renewed by hand
	hv.start(a, 0, 1)
	hv.thing(a).obs.Memory = []workload.NodeMemory{{Node: 0, KiB: 4 << 10}, {Node: 1, KiB: 4 << 10}} // it has only begun
	r.ticks(t, 1)
	home := a.now.nodes
	if home.Len() != 1 || !slices.ContainsFunc(r.m.host().Nodes, func(n topology.Node) bool { return home.Has(n.ID) && n.CPUs.Equal(a.now.cpus) }) {
		t.Fatalf("one look after its start it is bound to %v: %v", &a.now, hv.calls)
	}
	r.ticks(t, 1)
	w := r.status(t)["vm:a"]
	if w.Kind != workload.InGuest || w.Home != home.String() || w.State != "at home" || w.CPUs != 2 || *w.Locality != 1 || a.next.String() != a.now.String() || !a.next.marked {
		t.Errorf("then: %+v; defined at %v", w, &a.next)
	}
	if n := len(r.status(t)); n != 1 {
		t.Errorf("%d workloads; the guest is there twice", n)
	}
	calls := len(hv.calls)
	r.ticks(t, 5)
	if len(hv.calls) != calls {
		t.Errorf("it goes on: %v", hv.calls[calls:])
	}
	x, err := r.Explain(t.Context(), "vm:a")
	if err != nil || len(x.Journal) != 3 || x.Decision.Outcome != plan.Kept {
		t.Errorf("explained: %+v, %v", x, err)
	}
	result, err := r.Undo(t.Context(), api.Which{ID: "vm:a"})
	if err != nil || len(result.Restored) != 3 || len(result.Failed) > 0 || a.now.String() != "0-15/0-1" || a.next.marked {
		t.Fatalf("undone: %+v, %v; it is at %v", result, err, &a.now)
	}
	r.ticks(t, 3)
	if a.now.String() != "0-15/0-1" || a.next.marked {
		t.Errorf("changed although it is held: %v", &a.now)
	}
	if err := r.Resume(t.Context(), api.Which{ID: "vm:a"}); err != nil {
		t.Fatal(err)
	}
	r.ticks(t, 2)
	if a.now.nodes.Len() != 1 || !a.next.marked {
		t.Errorf("resumed, it is at %v", &a.now)
	}
	hv.stop(a)
	r.ticks(t, 1)
	if len(r.view.plan.Placements) != 0 || r.status(t)["vm:a"].ID != "" {
		t.Errorf("destroyed, it still holds %+v", r.view.plan.Placements)
	}
}

func TestGuestsThatAreLeftAlone(t *testing.T) {
	plain, manual := plainVM("plain", 2, 1<<20), plainVM("manual", 2, 1<<20)
	auto := plainVM("auto", 1, 1<<18)
	strict := plainVM("out", 1, 1<<18)
	manual.next = binding{cpus: topology.CPUs(0, 1), manual: "bound by hand (vcpupin)"}
	auto.next = binding{manual: "placement='auto': libvirt asks numad where it goes at every start"}
	byHand := dedicatedVM("byhand", 0, 2, 3)
	byHand.next.marked, byHand.next.manual = false, "bound by hand (vcpupin, numatune)"
	r, hv := guestRig(t, 2, 8, Enforce, MarkedGuests, plain, manual, auto, byHand, strict)
	r.o.Config.Manage.Exclude = []string{"vm:out"}
	for _, v := range hv.vms {
		hv.start(v, 0, 1)
	}
	id := r.m.add("web", 8, 1<<20, 0)
	r.ticks(t, 4)
	if len(hv.calls) > 0 {
		t.Errorf("changed: %v", hv.calls)
	}
	for name, why := range map[string]string{
		"plain": "homenode vm adopt plain", "manual": "It is bound by hand", "auto": "asks numad", "byhand": "bound by hand (vcpupin, numatune)", "out": "manage.exclude",
	} {
		if w := r.status(t)[guest.ID(name)]; w.State != "left alone" || !strings.Contains(w.Why, why) {
			t.Errorf("%s: %s, %s", name, w.State, w.Why)
		}
	}
	// What a hand pinned one to one holds its CPUs all the same.
	for _, p := range r.view.plan.Placements {
		if p.Workload == id && p.CPUs.Intersects(topology.CPUs(2, 3)) {
			t.Errorf("%s runs on %v", id, p.CPUs)
		}
	}
	if p := placementOf(r.view.plan.Placements, "vm:byhand"); p == nil || p.CPUs.String() != "2-3" {
		t.Errorf("byhand holds %+v", p)
	}
}

func TestObserveChangesNoGuest(t *testing.T) {
	a, off := plainVM("a", 2, 1<<20), plainVM("off", 2, 1<<20)
	r, hv := guestRig(t, 2, 8, Observe, AllGuests, a, off)
	hv.start(a, 0, 1)
	r.ticks(t, 3)
	if w := r.status(t)["vm:a"]; len(hv.calls) > 0 || len(w.Steps) != 2 || w.Steps[0].Kind != plan.SetCPUs || w.Steps[1].Kind != plan.SetMems {
		t.Errorf("calls %v, planned %+v", hv.calls, w.Steps)
	}
}

// A dedicated guest takes its CPUs as it is defined: what floats makes way at the next
// look, and has them back when the guest is gone.
func TestFloatingGuestsAvoidDedicatedOnes(t *testing.T) {
	a := plainVM("a", 2, 1<<20)
	r, hv := guestRig(t, 1, 8, Enforce, AllGuests, a)
	hv.start(a, 0)
	r.ticks(t, 2)
	d := dedicatedVM("d", 0, 2, 3, 4, 5)
	hv.vms = append(hv.vms, d)
	r.ticks(t, 1)
	if a.now.cpus.String() != "0-1,6-7" {
		t.Fatalf("it runs on %v beside %v: %v", a.now.cpus, d.next.cpus, r.history(t))
	}
	r.ticks(t, 1)
	if a.next.cpus.String() != "0-1,6-7" {
		t.Errorf("it would start on %v", a.next.cpus)
	}
	hv.start(d, 0)
	calls := len(hv.calls)
	r.ticks(t, 3)
	if len(hv.calls) != calls || d.now.String() != "2-5/0" {
		t.Errorf("the dedicated one was touched: %v", hv.calls[calls:])
	}
	if w := r.status(t)["vm:d"]; w.State != "at home" || w.Class != workload.Dedicated {
		t.Errorf("it is %s: %s", w.State, w.Why)
	}
	hv.stop(d)
	d.gone = true
	r.ticks(t, 2)
	if a.now.cpus.String() != "0-7" || a.next.cpus.String() != "0-7" {
		t.Errorf("afterwards %v, %v", &a.now, &a.next)
	}
}

// A hand pins the last CPU of a home to itself: what floats there goes elsewhere, or stays
// as it is when libvirt cannot be asked. The others are placed all the same.
func TestLastCPUPinnedByHand(t *testing.T) {
	for _, lost := range []bool{false, true} {
		sa, pinned, other := plainVM("sa", 1, 1<<20), dedicatedVM("pinned", 0, 3), plainVM("other", 1, 1<<20)
		pinned.next.marked, pinned.next.manual = false, "bound by hand (vcpupin)"
		sa.next = binding{cpus: topology.CPUs(3), nodes: topology.Nodes(0), marked: true}
		other.next = binding{cpus: topology.CPUs(4, 5, 6, 7), nodes: topology.Nodes(1), marked: true}
		r, hv := guestRig(t, 2, 4, Enforce, MarkedGuests, sa, other, dedicatedVM("coming", 0, 0, 1, 2))
		hv.start(sa, 0)
		hv.start(other, 1)
		r.ticks(t, 1)
		hv.vms = append(hv.vms, pinned)
		hv.start(pinned, 0)
		if lost {
			hv.lost = errors.New("no answer")
		}
		web := r.m.add("web", 1, 1<<20, 1)
		r.ticks(t, 3)
		if r.view.halted != "" {
			t.Fatalf("lost %t: %s", lost, r.view.halted)
		}
		if w := r.status(t)[web]; w.State != "at home" || w.Home != "1" {
			t.Errorf("lost %t: web is %s on %s: %s", lost, w.State, w.Home, w.Why)
		}
		want, state := "4-7/1", "at home"
		if lost {
			want, state = "3/0", "left alone"
		}
		if w := r.status(t)["vm:sa"]; sa.now.String() != want || w.State != state {
			t.Errorf("lost %t: it is at %v, %s: %s", lost, &sa.now, w.State, w.Why)
		}
		if pinned.now.String() != "3/0" {
			t.Errorf("lost %t: bound by hand and now at %v", lost, &pinned.now)
		}
	}
}

// While libvirt does not answer nothing is done to guests, what they hold stays
// theirs, and the rest of the daemon goes on.
func TestLibvirtGoesAndComes(t *testing.T) {
	a, b := plainVM("a", 2, 1<<20), plainVM("b", 2, 1<<20)
	r, hv := guestRig(t, 2, 8, Enforce, AllGuests, a)
	hv.start(a, 0)
	r.ticks(t, 2)
	held := r.view.plan.Placements
	hv.lost = errors.New("libvirt cannot be reached: no D-Bus here")
	id := r.m.add("web", 2, 1<<20, 0, 1)
	calls := len(hv.calls)
	r.ticks(t, 3)
	s, err := r.Status(t.Context())
	if err != nil || len(s.Problems) != 1 || !strings.HasPrefix(s.Problems[0], "libvirt: libvirt cannot be reached") {
		t.Errorf("problems: %v, %v", s.Problems, err)
	}
	if w := r.status(t)["vm:a"]; w.State != "left alone" || !strings.Contains(w.Why, "does not answer") || len(hv.calls) != calls {
		t.Errorf("meanwhile: %+v, calls %v", w, hv.calls[calls:])
	}
	if p := placementOf(r.view.plan.Placements, "vm:a"); p == nil || !p.Home.Equal(held[0].Home) {
		t.Errorf("it holds %+v, had %+v", p, held[0])
	}
	if w := r.status(t)[id]; w.State != "at home" {
		t.Errorf("the rest: %s, %s", w.State, w.Why)
	}
	// One ends and one is started meanwhile.
	hv.stop(a)
	r.ticks(t, 1)
	hv.vms = append(hv.vms, b)
	hv.start(b, 0, 1)
	hv.lost = nil
	r.ticks(t, 2)
	if w := r.status(t)["vm:b"]; w.State != "at home" || b.now.nodes.Len() != 1 {
		t.Errorf("afterwards: %+v", w)
	}
	if s, _ := r.Status(t.Context()); len(s.Problems) != 0 {
		t.Errorf("problems: %v", s.Problems)
	}
}

// A host without libvirt is in order.
func TestNoLibvirtIsNoProblem(t *testing.T) {
	r, hv := guestRig(t, 2, 8, Observe, MarkedGuests)
	hv.lost = errors.New("libvirt cannot be reached")
	r.ticks(t, 2)
	if s, err := r.Status(t.Context()); err != nil || len(s.Problems) != 0 {
		t.Errorf("%v, %v", s.Problems, err)
	}
}

func TestGuestVanishesUnderItsSteps(t *testing.T) {
	a := plainVM("a", 2, 1<<20)
	r, hv := guestRig(t, 2, 8, Enforce, AllGuests, a)
	hv.start(a, 0, 1)
	a.transient = true
	hv.fail = fmt.Errorf("PinVcpu: %w: Domain not found", fs.ErrNotExist)
	r.ticks(t, 1)
	hv.stop(a)
	r.ticks(t, 15)
	if j, err := r.store.Journal(); err != nil || len(j) != 0 {
		t.Errorf("journal of what is gone: %+v, %v", j, err)
	}
	if len(r.status(t)) != 0 {
		t.Errorf("%+v", r.status(t))
	}
}

// What `vm move` or another homenode did while the daemon runs stands.
func TestGuestMovedBesideTheDaemon(t *testing.T) {
	a := plainVM("a", 2, 1<<20)
	r, hv := guestRig(t, 2, 8, Enforce, AllGuests, a)
	hv.start(a, 0)
	r.ticks(t, 2)
	if a.now.String() != "0-7/0" {
		t.Fatalf("at %v", &a.now)
	}
	for range 2 { // while it runs, and while it does not
		to := map[string]string{"0-7/0": "8-15/1", "8-15/1": "0-7/0"}[a.now.String()]
		cpus, nodes, _ := strings.Cut(to, "/")
		for kind, value := range map[plan.SettingKind]string{plan.GuestCPUs: cpus, plan.GuestMems: nodes, plan.GuestDefinition: to} {
			if err := hv.set(a, kind, value); err != nil {
				t.Fatal(err)
			}
		}
		calls := len(hv.calls)
		r.ticks(t, 3)
		if a.now.String() != to || a.next.String() != to || len(hv.calls) != calls {
			t.Errorf("moved to %s, it is at %v: %v", to, &a.now, hv.calls[calls:])
		}
		hv.m.store = r.store
		r.start(t, Enforce, func(c *Config) { c.Libvirt.Manage = AllGuests })
		r.withGuests(hv)
	}
}

// A daemon that ends and starts again changes nothing of guests at home.
func TestRestartUnderGuests(t *testing.T) {
	a, d := plainVM("a", 2, 1<<20), dedicatedVM("d", 1, 8, 9)
	r, hv := guestRig(t, 2, 8, Enforce, MarkedGuests, a, d)
	a.next = binding{cpus: topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7), nodes: topology.Nodes(0), marked: true}
	hv.start(a, 0)
	hv.start(d, 1)
	for range 3 {
		r.ticks(t, 2)
		r.start(t, Enforce)
		r.withGuests(hv)
	}
	if len(hv.calls) > 0 {
		t.Errorf("changed: %v", hv.calls)
	}
}

// A vCPU that is plugged in comes to the home of the others.
func TestPluggedVCPU(t *testing.T) {
	a := plainVM("a", 2, 1<<20)
	r, hv := guestRig(t, 2, 8, Enforce, AllGuests, a)
	hv.start(a, 0)
	r.ticks(t, 3)
	home := a.now.cpus
	a.vcpus, a.now.loose, hv.calls = 3, true, nil
	r.ticks(t, 1)
	if !slices.Equal(hv.calls, []string{"set-cpus a " + home.String()}) || r.status(t)["vm:a"].CPUs != 3 {
		t.Errorf("%v", hv.calls)
	}
}

// The memory of a large guest moves at the pace of all page moves, beside the loop: its
// nodes are widened first and narrowed last, and nobody is held up.
func TestLargeGuestMovesAtAPace(t *testing.T) {
	a := plainVM("a", 2, 4<<20)
	r, hv := guestRig(t, 2, 8, Enforce, MarkedGuests, a)
	a.next = binding{cpus: topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7), nodes: topology.Nodes(0), marked: true}
	hv.start(a, 0)
	r.ticks(t, 2)
	if len(hv.calls) > 0 {
		t.Fatalf("at home: %v", hv.calls)
	}
	hv.vms = append(hv.vms, dedicatedVM("fill", 0, 0, 1, 2, 3, 4, 5, 6, 7)) // it has to leave
	begun, end := make(chan struct{}), make(chan struct{})
	r.m.midMove = func(*thing) { close(begun); <-end }
	if err := r.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-begun:
	case <-time.After(10 * time.Second):
		t.Fatalf("no pages move: %v; %v; %v", hv.calls, r.history(t), r.view.plan.Steps)
	}
	if a.now.nodes.String() != "0-1" {
		t.Errorf("while its pages move it is bound to %v", a.now.nodes)
	}
	r.changing.Lock() // it is free: an undo or a step of somebody else could come here
	r.changing.Unlock()
	for range 2 { // looks go on, and find it on its way
		if err := r.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	close(end)
	r.wait()
	r.m.midMove = nil
	r.ticks(t, 2)
	if w := r.status(t)["vm:a"]; w.State != "at home" || a.now.String() != "8-15/1" || a.next.String() != "8-15/1" || hv.moved > 0 || w.Move == nil || w.Move.Moved != 4<<30 {
		t.Errorf("%+v at %v, defined at %v; %d KiB went with its nodes: %v", w, &a.now, &a.next, hv.moved, hv.calls)
	}
}

// A move whose guest has another home by now ends, as for all other work.
func TestLargeGuestChangesItsMind(t *testing.T) {
	a := plainVM("a", 2, 4<<20)
	r, hv := guestRig(t, 2, 8, Enforce, MarkedGuests, a)
	a.next = binding{cpus: topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7), nodes: topology.Nodes(0), marked: true}
	hv.start(a, 0)
	r.ticks(t, 2)
	hv.vms = append(hv.vms, dedicatedVM("fill", 0, 0, 1, 2, 3, 4, 5, 6, 7))
	begun, end := make(chan struct{}), make(chan struct{})
	r.m.midMove = func(*thing) { close(begun); <-end }
	if err := r.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-begun
	r.mu.Lock()
	m := r.moving["vm:a"]
	r.mu.Unlock()
	if m == nil || m.record.Home != "1" {
		t.Fatalf("no move to node 1: %+v", m)
	}
	hv.vms[1] = dedicatedVM("fill", 1, 8, 9, 10, 11, 12, 13, 14, 15)
	if err := r.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if home := r.status(t)["vm:a"].Home; home != "0" {
		t.Errorf("home %s", home)
	}
	if m.ctx.Err() == nil {
		t.Error("its pages go on to node 1")
	}
	close(end)
	r.wait()
	r.m.midMove = nil
	r.ticks(t, 3)
	if w := r.status(t)["vm:a"]; w.State != "at home" || a.now.String() != "0-7/0" {
		t.Errorf("%+v at %v", w, &a.now)
	}
}

// Where pages cannot be moved one by one they go with the nodes; a daemon that ends in
// the middle goes on where it was.
func TestLargeGuestThatStopsHalfWay(t *testing.T) {
	for _, restart := range []bool{false, true} {
		a := plainVM("a", 2, 4<<20)
		r, hv := guestRig(t, 2, 8, Enforce, MarkedGuests, a)
		a.next = binding{cpus: topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7), nodes: topology.Nodes(0), marked: true}
		hv.start(a, 0)
		r.ticks(t, 1)
		hv.vms = append(hv.vms, dedicatedVM("fill", 0, 0, 1, 2, 3, 4, 5, 6, 7))
		if restart {
			begun := make(chan struct{})
			r.m.midMove = func(*thing) {
				close(begun)
				r.mu.Lock()
				m := r.moving["vm:a"]
				r.mu.Unlock()
				<-m.ctx.Done()
			}
			ctx, cancel := context.WithCancel(t.Context())
			if err := r.Tick(ctx); err != nil {
				t.Fatal(err)
			}
			<-begun
			cancel()
			r.wait()
			r.m.midMove = nil
			r.start(t, Enforce)
			r.withGuests(hv)
		} else {
			r.m.failErr, r.m.failAt = errBroken, r.m.calls+1
		}
		r.ticks(t, 3)
		if w := r.status(t)["vm:a"]; w.Home != "1" || a.now.String() != "8-15/1" || *w.Locality != 1 {
			t.Errorf("restart %v: %+v at %v: %v", restart, w, &a.now, hv.calls)
		}
	}
}

// An undo that comes while the kernel moves the memory of a small guest, which no page
// move is a part of, waits for that: else the change would stand without a record.
func TestUndoWhileASmallGuestMoves(t *testing.T) {
	a := plainVM("a", 2, 1<<20)
	r, hv := guestRig(t, 2, 8, Enforce, AllGuests, a)
	hv.start(a, 0, 1)
	hv.thing(a).obs.Memory = []workload.NodeMemory{{Node: 0, KiB: 4 << 10}, {Node: 1, KiB: 4 << 10}}
	undone := make(chan error, 1)
	early := false
	hv.midst = func(*vm) {
		hv.midst = nil
		go func() {
			_, err := r.Undo(t.Context(), api.Which{ID: "vm:a"})
			undone <- err
		}()
		for held := false; !held; {
			r.mu.Lock()
			held = r.held.has("vm:a")
			r.mu.Unlock()
		}
		select {
		case err := <-undone:
			early = true
			undone <- err
		case <-time.After(100 * time.Millisecond):
		}
	}
	r.ticks(t, 1)
	if err := <-undone; err != nil || early {
		t.Errorf("undone in the middle of the change: %v, %v", early, err)
	}
	if entries, _ := r.store.Journal(); a.now.String() != "0-15/0-1" || len(entries) > 0 {
		t.Errorf("undone, it is at %v, and the journal has %+v", &a.now, entries)
	}
}

// What has CPUs of its own is libvirt's to move: an order for it is refused, not
// answered as if something happened.
func TestDedicatedGuestIsNotToldToMove(t *testing.T) {
	a := dedicatedVM("a", 0, 0, 1)
	r, hv := guestRig(t, 2, 8, Enforce, MarkedGuests, a)
	a.now = a.next
	hv.start(a, 0)
	r.ticks(t, 2)
	for _, dry := range []bool{true, false} {
		x, err := r.Move(t.Context(), api.MoveOrder{ID: "vm:a", To: topology.Nodes(1), DryRun: dry})
		if code(err) != api.NoRoom || !strings.Contains(err.Error(), "homenode vm move") {
			t.Errorf("dry run %v: %+v, %v", dry, x, err)
		}
	}
}

// tickClock fires After when it is told to.
type tickClock struct {
	handClock
	fire chan time.Time
}

func (c *tickClock) After(time.Duration) <-chan time.Time { return c.fire }

// An event is looked at when it comes, not when the period ends.
func TestEventsAreLookedAtAtOnce(t *testing.T) {
	a := plainVM("a", 2, 1<<20)
	r, hv := guestRig(t, 2, 8, Enforce, AllGuests, a)
	clock := &tickClock{fire: make(chan time.Time)}
	clock.now = r.clock.now
	r.o.Clock = clock
	looked := make(chan struct{})
	r.o.Looked = func(bool) { looked <- struct{}{} }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	<-looked
	hv.start(a, 0, 1)
	hv.thing(a).obs.Memory = nil
	hv.wake <- struct{}{}
	<-looked // without the clock
	if a.now.nodes.Len() != 1 {
		t.Errorf("it is at %v", &a.now)
	}
	clock.fire <- time.Time{} // the rest after it
	clock.fire <- time.Time{} // a period
	<-looked
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A guest that `vm adopt` took over goes to the home that it wrote into its definition,
// as it runs.
func TestAdoptedGuest(t *testing.T) {
	a := plainVM("a", 2, 1<<20)
	r, hv := guestRig(t, 2, 8, Enforce, MarkedGuests, a)
	hv.start(a, 0, 1)
	r.ticks(t, 2)
	if len(hv.calls) > 0 {
		t.Fatalf("before: %v", hv.calls)
	}
	a.next = binding{cpus: topology.CPUs(8, 9, 10, 11, 12, 13, 14, 15), nodes: topology.Nodes(1), marked: true}
	r.ticks(t, 2)
	if a.now.String() != "8-15/1" || a.next.String() != "8-15/1" {
		t.Errorf("it is at %v: %v", &a.now, hv.calls)
	}
}
