package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/bus"
	"github.com/homenode/homenode/host/libvirt/domain"
)

func twoNodes() *topology.Host {
	return plantest.Draw(`
		0 0-7  16G 10 21
		1 8-15 16G 21 10`)
}

// sharedXML is a guest of two vCPUs that homenode put on node 0.
func sharedXML(t *testing.T, name string) string {
	t.Helper()
	o := guest.Order{Name: name, Flavor: guest.Flavor{Name: "s", Class: workload.Shared, VCPUs: 2, Memory: 1 << 20, SMT: workload.SMTPrefer, Emulator: guest.Share, IOThreads: 1, Queues: 1, Importance: 50}}
	d, err := domain.New(twoNodes(), &o, guest.Home{Placement: shared(name, topology.Nodes(0), 0, 1, 2, 3)}, domain.Machine{Arch: "x86_64"})
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

// running is a document as it is of a guest that runs.
func running(xml string) string { return strings.Replace(xml, "<domain", "<domain id='5'", 1) }

func shared(name string, home topology.NodeSet, cpus ...topology.CPUID) plan.Placement {
	return plan.Placement{Workload: guest.ID(name), Class: workload.Shared, Importance: 50, VCPUs: 2, Home: home, CPUs: topology.CPUs(cpus...),
		Memory: []workload.NodeMemory{{Node: home.Min(), KiB: 1 << 20}}, Asked: 1 << 20}
}

var errLater = errors.New("at its next start")

// put brings a guest to a home as vm move does, step by step.
func put(w *Watch, h *topology.Host, name string, p plan.Placement) error {
	ctx := context.Background()
	all, _, err := w.All(ctx, h)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(s guest.Guest) bool { return s.Name == name })
	if i < 0 {
		return guest.ErrGone
	}
	do := func(s plan.Step) error {
		if _, err := w.Changes(ctx, s); err != nil {
			return err
		}
		return w.Apply(ctx, s, nil)
	}
	steps, now := all[i].Steps(guest.Home{Placement: p, Emulator: p.CPUs})
	for i, s := range steps {
		if err := do(s); err != nil {
			for _, back := range guest.Reverse(steps[:i+1]) {
				_ = do(back)
			}
			return err
		}
	}
	if !now {
		return errLater
	}
	return nil
}

func open(t *testing.T, uri string) *Client {
	t.Helper()
	c, err := Open(context.Background(), uri)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func testWatch(t *testing.T, uri string) *Watch {
	t.Helper()
	return watch(t, func(o *WatchOptions) { o.URI, o.Process = uri, nil })
}

func TestGuests(t *testing.T) {
	f := startFake(t)
	f.add(t, "b", "", sharedXML(t, "b"))
	run := f.add(t, "a", running(sharedXML(t, "a")), sharedXML(t, "a"))
	f.edit(func() { run.rss = 700 << 10 })
	f.add(t, "broken", "", "<domain><name>broken</name><vcpu>none</vcpu></domain>")
	leaving := f.add(t, "leaving", running(sharedXML(t, "leaving")), "")
	f.edit(func() {
		f.meddle = func(method string) {
			leaving.gone = leaving.gone || method == "GetXMLDesc" // it vanishes between the list and the look
		}
	})
	f.add(t, "odd", "<domain id='6'><name>odd</name><vcpu cpuset='99'>1</vcpu></domain>", "<domain><name>odd</name></domain>")
	guests, unread, err := testWatch(t, "").All(context.Background(), twoNodes())
	if err != nil {
		t.Fatal(err)
	}
	if len(guests) != 3 || guests[2].Manual != "bound to CPUs 99, which this host does not have" || guests[0].Name != "a" || !guests[0].Running || guests[0].Resident != 700<<10 || guests[1].Name != "b" || guests[1].Running || guests[1].Resident != 0 {
		t.Errorf("guests: %+v", guests)
	}
	if len(unread) != 1 || unread[0].Running || unread[0].Text != `domain "broken": vcpu: "none"; want 1 to 32768` {
		t.Errorf("unread: %+v", unread)
	}
}

func TestPutMovesARunningGuest(t *testing.T) {
	f := startFake(t)
	defined := strings.Replace(sharedXML(t, "a"), "</devices>", "<graphics type='vnc' passwd='secret'/></devices>", 1)
	g := f.add(t, "a", running(sharedXML(t, "a")), defined)
	f.edit(func() { g.threads = []uint32{1} })
	c, h := testWatch(t, ""), twoNodes()
	to := shared("a", topology.Nodes(1), 8, 9, 10, 11)
	if err := put(c, h, "a", to); err != nil {
		t.Fatal(err)
	}
	live, config := g.now()
	for _, want := range []string{"<vcpupin vcpu='0' cpuset='8,9,10,11'/>", "<vcpupin vcpu='1' cpuset='8,9,10,11'/>", "<emulatorpin cpuset='8,9,10,11'/>", "<iothreadpin iothread='1' cpuset='8,9,10,11'/>", "<memory mode='restrictive' nodeset='1'/>"} {
		if !strings.Contains(live, want) {
			t.Errorf("as it runs, no %s in\n%s", want, live)
		}
	}
	if !strings.Contains(config, "passwd='secret'") || !strings.Contains(config, "cpuset='8-11'") {
		t.Errorf("its definition:\n%s", config)
	}
	guests, _, err := c.All(context.Background(), h)
	if err != nil || len(guests) != 1 || guests[0].Manual != "" || guests[0].Home.Placement.Home.String() != "1" || guests[0].Home.Placement.CPUs.String() != "8-11" || guests[0].Next != nil {
		t.Errorf("it stands as %+v, %v", guests, err)
	}
	// Once more changes nothing.
	if err := put(c, h, "a", to); err != nil {
		t.Error(err)
	}
	if live2, config2 := g.now(); live2 != live || config2 != config {
		t.Errorf("once more:\n%s\n%s", live2, config2)
	}
	// Where its memory stays, libvirt is not asked to move it.
	f.called("")
	if err := put(c, h, "a", shared("a", topology.Nodes(1), 8, 9)); err != nil || f.called("SetNumaParameters") {
		t.Errorf("%v, or it was asked", err)
	}
}

func TestPutTrouble(t *testing.T) {
	h := twoNodes()
	to := shared("a", topology.Nodes(1), 8, 9)
	tests := []struct {
		name string
		edit func(f *fake, g *fakeGuest)
		is   error
		want string
	}{
		{"gone", func(_ *fake, g *fakeGuest) { g.gone = true }, guest.ErrGone, ""},
		{"gone while it is pinned", func(f *fake, g *fakeGuest) {
			f.meddle = func(method string) {
				g.gone = g.gone || method == "PinVcpu"
			}
		}, fs.ErrNotExist, `guest "a": PinVcpu`},
		{"not allowed", func(f *fake, _ *fakeGuest) {
			f.refuse["PinVcpu"] = &dbus.Error{Name: "org.freedesktop.DBus.Error.AccessDenied", Body: []any{"Rejected send message"}}
		}, fs.ErrPermission, "Rejected send message"},
		{"not allowed by libvirt", func(f *fake, _ *fakeGuest) {
			f.refuse["DomainDefineXML"] = libvirtError("access denied: 'domain' denied access")
		}, fs.ErrPermission, "access denied"},
		{"daemon gone", func(f *fake, _ *fakeGuest) {
			f.refuse["GetXMLDesc"] = libvirtError("Failed to connect socket to '/run/libvirt/virtqemud-sock'")
		}, ErrUnavailable, "does not answer"},
		{"moving refused", func(f *fake, _ *fakeGuest) {
			f.refuse["SetNumaParameters"] = libvirtError("Requested operation is not valid: change of nodeset for running domain requires restrictive numa mode")
		}, nil, "requires restrictive numa mode"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := startFake(t)
			g := f.add(t, "a", running(sharedXML(t, "a")), sharedXML(t, "a"))
			f.edit(func() { tt.edit(f, g) })
			live, config := g.now()
			c := testWatch(t, "")
			err := put(c, h, "a", to)
			if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v; want %v with %q", err, tt.is, tt.want)
			}
			now, defined := g.now()
			if defined != config {
				t.Errorf("its definition was changed all the same:\n%s", defined)
			}
			f.edit(func() { clear(f.refuse) })
			if g.gone {
				return
			}
			was, is := threads(t, live), threads(t, now)
			if !slices.Equal(was, is) {
				t.Errorf("it runs on %q, before on %q", is, was)
			}
			if s, _, err := testWatch(t, "").All(context.Background(), h); err != nil || s[0].Manual != "" || s[0].Next != nil {
				t.Errorf("it stands as %+v, %v", s, err)
			}
		})
	}
}

// threads is where a guest of two vCPUs and one IOThread runs and its memory lies.
func threads(t *testing.T, xml string) []string {
	t.Helper()
	d, err := domain.Parse([]byte(xml))
	if err != nil {
		t.Fatal(err)
	}
	out := []string{d.MemoryNodes()}
	for _, x := range []domain.Thread{{Kind: domain.VCPU, ID: 0}, {Kind: domain.VCPU, ID: 1}, {Kind: domain.EmulatorThread}, {Kind: domain.IOThread, ID: 1}} {
		cpus, err := d.Pins()(x)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, cpus.String())
	}
	return out
}

// However a move ends, whatever fails and whether or not it can be put back, no
// half of it counts as a hand's, and the next move succeeds.
func TestHalfAMoveIsOurs(t *testing.T) {
	h := twoNodes()
	methods := []string{"SetMetadata", "PinVcpu", "PinEmulator", "PinIOThread", "SetNumaParameters", "DomainDefineXML"}
	for _, method := range methods {
		for nth := range 3 {
			for _, forGood := range []bool{false, true} {
				t.Run(fmt.Sprint(method, nth, forGood), func(t *testing.T) {
					f := startFake(t)
					g := f.add(t, "a", running(sharedXML(t, "a")), sharedXML(t, "a"))
					calls := 0
					f.edit(func() {
						g.threads = []uint32{1}
						f.meddle = func(called string) {
							delete(f.refuse, method)
							if called != method {
								return
							}
							if calls++; calls == nth+1 || forGood && calls > nth {
								f.refuse[method] = libvirtError("out of luck")
							}
						}
					})
					c := testWatch(t, "")
					before, _ := g.now()
					err := put(c, h, "a", shared("a", topology.Nodes(1), 8, 9))
					f.edit(func() { f.meddle = nil; clear(f.refuse) })
					after, _ := g.now()
					all, _, bad := testWatch(t, "").All(context.Background(), h)
					if bad != nil || all[0].Manual != "" {
						t.Fatalf("after %v it stands as %+v, %v", err, all, bad)
					}
					if err != nil && !forGood && all[0].Home.Placement.CPUs.String() != "8-9" && !slices.Equal(threads(t, before), threads(t, after)) {
						t.Errorf("after %v it runs on %q, before on %q", err, threads(t, after), threads(t, before))
					}
					if err := put(c, h, "a", shared("a", topology.Nodes(1), 10)); err != nil {
						t.Fatal(err)
					}
					all, _, bad = testWatch(t, "").All(context.Background(), h)
					if bad != nil || all[0].Manual != "" || all[0].Home.Placement.CPUs.String() != "10" || all[0].Next != nil {
						t.Errorf("then it stands as %+v, %v", all, bad)
					}
					// A hand is seen again.
					f.edit(func() { g.live = strings.ReplaceAll(g.live, "cpuset='10'", "cpuset='9'") })
					if all, _, bad = testWatch(t, "").All(context.Background(), h); bad != nil || all[0].Manual == "" {
						t.Errorf("pinned by hand it stands as %+v, %v", all, bad)
					}
				})
			}
		}
	}
}

// What libvirt cannot move while it runs comes to its home at its next start, and
// is not touched until then.
func TestPutWaitsForTheNextStart(t *testing.T) {
	h := twoNodes()
	plain := "<domain><name>a</name><memory>1048576</memory><vcpu>2</vcpu></domain>"
	strict := strings.Replace(sharedXML(t, "a"), "restrictive", "strict", 1)
	pinned := shared("a", topology.Nodes(1), 8, 9)
	pinned.Class, pinned.Pins, pinned.Bound = workload.Dedicated, []topology.CPUID{8, 9}, true
	tests := []struct {
		name, xml string
		to        plan.Placement
	}{
		{"not bound by anyone", plain, shared("a", topology.Nodes(1), 8, 9)},
		{"bound strictly", strict, shared("a", topology.Nodes(1), 8, 9)},
		{"dedicated", boundXML("a", 0, dedicatedOn0), pinned},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := startFake(t)
			g := f.add(t, "a", running(tt.xml), tt.xml)
			if err := put(testWatch(t, ""), h, "a", tt.to); err != errLater {
				t.Fatalf("%v; want %v", err, errLater)
			}
			live, config := g.now()
			if live != running(tt.xml) {
				t.Errorf("as it runs:\n%s", live)
			}
			d, err := domain.Parse([]byte(config))
			if err != nil {
				t.Fatal(err)
			}
			all, _, err := testWatch(t, "").All(context.Background(), h)
			if err != nil || len(all) != 1 || all[0].Next == nil || all[0].Next.Placement.CPUs.String() != "8-9" {
				t.Errorf("it stands as %+v, %v", all, err)
			}
			if s, err := d.Guest(h); err != nil || !s.Placed || s.Manual != "" || s.Home.Placement.CPUs.String() != "8-9" || s.Home.Placement.Class != tt.to.Class {
				t.Errorf("its definition stands as %+v, %v", s, err)
			}
		})
	}
}

// A guest that is adopted and released has its definition back, byte by byte; undoing the
// release places it again.
func TestAdoptAndRelease(t *testing.T) {
	f := startFake(t)
	plain := "<domain><name>a</name><memory>1048576</memory><vcpu>2</vcpu></domain>"
	g := f.add(t, "a", running(plain), plain)
	c := testWatch(t, "")
	if err := put(c, twoNodes(), "a", shared("a", topology.Nodes(1), 8, 9)); err != errLater {
		t.Fatal(err)
	}
	_, adopted := g.now()
	if adopted == plain {
		t.Fatal("not adopted")
	}
	entries := doAll(t, c, step(plan.SetNext, "a", ""))
	if _, config := g.now(); config != plain {
		t.Errorf("released:\n%s", config)
	}
	if err := c.Apply(t.Context(), step(plan.SetNext, "b", ""), nil); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, guest.ErrGone) {
		t.Errorf("a guest that is not there: %v", err)
	}
	slices.Reverse(entries)
	for i, err := range c.Restore(t.Context(), entries) {
		if err != nil {
			t.Errorf("%s: %v", entries[i].Kind, err)
		}
	}
	if _, config := g.now(); config != adopted {
		t.Errorf("the release undone:\n%s\nwant\n%s", config, adopted)
	}
}

func TestPutOfAGuestThatIsOff(t *testing.T) {
	f := startFake(t)
	g := f.add(t, "a", "", sharedXML(t, "a"))
	if err := put(testWatch(t, ""), twoNodes(), "a", shared("a", topology.Nodes(1), 8, 9)); err != nil {
		t.Fatal(err)
	}
	if live, config := g.now(); live != "" || !strings.Contains(config, "<vcpu placement='static' cpuset='8-9'>") || f.called("PinVcpu") {
		t.Errorf("pinned, or defined as\n%s", config)
	}
}

func TestUnreachable(t *testing.T) {
	bus.Start(t) // without a service
	if _, err := Open(context.Background(), ""); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "install libvirt-dbus") {
		t.Errorf("no service: %v", err)
	}
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent")
	if _, err := Open(context.Background(), ""); !errors.Is(err, ErrUnavailable) {
		t.Errorf("no bus: %v", err)
	}
	if _, err := Open(context.Background(), "xen:///"); !errors.Is(err, ErrURI) {
		t.Errorf("no such URI: %v", err)
	}
}

// TestConnectionEnds: whatever a call was doing as its connection ended, libvirt is unavailable.
func TestConnectionEnds(t *testing.T) {
	for _, end := range []error{net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET, io.EOF} {
		err := explain("guest \"a\"", &net.OpError{Op: "read", Net: "unix", Err: end})
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v", err)
		}
	}
}

func TestServiceGoesAway(t *testing.T) {
	f := startFake(t)
	c := open(t, "")
	f.conn.Close()
	if _, err := c.lookup(context.Background(), "a"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("service gone: %v", err)
	}
	c.bus.Close()
	if _, err := c.lookup(context.Background(), "a"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("bus gone: %v", err)
	}
}

// TestRealService asks libvirt-dbus itself, on libvirt's own made-up host: what
// homenode writes is taken by libvirt's parser and read back the same.
func TestRealService(t *testing.T) {
	program, err := exec.LookPath("libvirt-dbus")
	if err != nil {
		t.Skip("no libvirt-dbus here (package libvirt-dbus)")
	}
	bus.Start(t)
	cmd := exec.Command(program, "--session")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	session, err := dbus.ConnectSessionBus()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	waitForService(t, session)
	c, w, h := open(t, "test:///default"), testWatch(t, "test:///default"), twoNodes()
	if err := w.Define(context.Background(), []byte(sharedXML(t, "a"))); err != nil {
		t.Fatal(err)
	}
	o := guest.Order{Name: "wide", Flavor: guest.Flavor{Name: "d", Class: workload.Dedicated, VCPUs: 12, Memory: 4 << 20, SMT: workload.SMTPrefer, Emulator: guest.Isolate, IOThreads: 2, Queues: 4, MaxNodes: 2, Network: 2048, Disk: guest.DiskLimit{IOPS: 7}},
		Disks: []guest.Disk{{Source: "/var/lib/wide.img", Format: "raw"}}, NICs: []guest.NIC{{Kind: guest.Network, Source: "default", MAC: "52:54:00:12:34:56"}}}
	room, err := guest.NewRoom(plan.State{Host: h, Policy: plan.DefaultPolicy()}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	home, d := room.Place(&o)
	if d.Outcome != plan.Placed || home.Placement.Home.Len() != 2 {
		t.Fatalf("%s: %v", d.Outcome, d.Reasons)
	}
	doc, err := domain.New(h, &o, home, domain.Machine{Arch: "x86_64"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Define(context.Background(), doc.Bytes()); err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	if err := put(w, h, "a", shared("a", topology.Nodes(1), 8, 9)); err != nil {
		t.Fatal(err)
	}
	guests, unread, err := w.All(context.Background(), h)
	if err != nil || len(unread) > 0 {
		t.Fatal(err, unread)
	}
	names := map[string]guest.Guest{}
	for _, g := range guests {
		names[g.Name] = g
	}
	if g := names["a"]; g.Manual != "" || g.Flavor != "s" || g.Home.Placement.CPUs.String() != "8-9" || g.UUID == "" {
		t.Errorf("a stands as %+v", g)
	}
	g := names["wide"]
	if g.Manual != "" || g.Home.Spare == nil || !slices.Equal(g.Home.Placement.Pins, home.Placement.Pins) || !g.Home.Emulator.Equal(home.Emulator) || workload.Total(g.Home.Placement.Memory) != 4<<20 {
		t.Errorf("wide stands as %+v, was placed %+v", g, home)
	}
	if g := names["test"]; !g.Running || g.Spec.CPUs != 2 {
		t.Errorf("libvirt's own: %+v", g)
	}
	// All that is changed is put back: libvirt's own text is the same as before.
	definition := func(name string) string {
		d, _, err := w.definition(t.Context(), name, true)
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	apart := guest.Next{Pins: []topology.CPUID{15, 14, 13, 12, 11, 10, 9, 8, 1, 2, 3, 4}, Emulator: topology.CPUs(5), Nodes: topology.Nodes(0, 1)}
	for _, s := range []plan.Step{
		step(plan.SetNext, "a", "0-3/0"), step(plan.SetNext, "a", ""), step(plan.SetNext, "wide", apart.String()), step(plan.SetNext, "wide", ""),
		step(plan.SetLimits, "wide", "network=512"), step(plan.SetLimits, "wide", "network=0"), // its made-up driver takes no limits of disks
	} {
		before := definition(guest.NameOf(s.Workload))
		entries := doAll(t, w, s)
		if definition(guest.NameOf(s.Workload)) == before {
			t.Errorf("%s to %q changed nothing", s.Kind, s.To)
		}
		slices.Reverse(entries)
		for i, err := range w.Restore(t.Context(), entries) {
			if err != nil {
				t.Errorf("%s of %s: %v", entries[i].Kind, entries[i].Path, err)
			}
		}
		if after := definition(guest.NameOf(s.Workload)); after != before {
			t.Errorf("%s to %q and back: %s", s.Kind, s.To, cmp.Diff(before, after))
		}
	}
	// What libvirt writes comes back byte by byte.
	path, err := c.lookup(context.Background(), "wide")
	if err != nil {
		t.Fatal(err)
	}
	var text string
	if err := c.call(context.Background(), path, domainIface+".GetXMLDesc", &text, uint32(0)); err != nil {
		t.Fatal(err)
	}
	read, err := domain.Parse([]byte(text))
	if err != nil || read.String() != text {
		t.Errorf("%v: reading changed it", err)
	}
	read.Place(h, home, domain.Mark{Flavor: "d", SMT: workload.SMTPrefer, Emulator: guest.Isolate})
	if got := read.String(); got != text {
		t.Errorf("placing it where it is changed it:\n%s\n%s", text, got)
	}
}

// waitForService returns when somebody owns the service's name.
func waitForService(t *testing.T, conn *dbus.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	if err := conn.AddMatchSignal(dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, service)); err != nil {
		t.Fatal(err)
	}
	for {
		var owned bool
		if err := conn.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, service).Store(&owned); err != nil {
			t.Fatal(err)
		}
		if owned {
			return
		}
		select {
		case <-signals:
		case <-ctx.Done():
			t.Fatal("libvirt-dbus does not come up")
		}
	}
}

// libvirt is not asked to set memory nodes of a guest whose hypervisor holds its lock: the write
// would stop all cgroups of the host. What was done before is undone.
func TestNodesOfAGuestThatDoesNotAnswer(t *testing.T) {
	f := startFake(t)
	g := f.add(t, "a", running(sharedXML(t, "a")), sharedXML(t, "a"))
	was, _ := g.now()
	var asked workload.Process
	answer := plan.ErrNoAnswer
	w := watch(t, func(o *WatchOptions) {
		o.Answers = func(p workload.Process) error {
			asked = p
			return answer
		}
	})
	to := shared("a", topology.Nodes(1), 8, 9)
	f.called("")
	if err := put(w, twoNodes(), "a", to); !errors.Is(err, plan.ErrNoAnswer) || f.called("SetNumaParameters") || asked.PID != 77 {
		t.Errorf("%v, process %d asked, or libvirt was", err, asked.PID)
	}
	if now, _ := g.now(); boundTo(now) != boundTo(was) {
		t.Errorf("left behind:\n%s\nof\n%s", now, was)
	}
	answer = nil
	if err := put(w, twoNodes(), "a", to); err != nil {
		t.Error(err)
	}
}

// boundTo is the lines of a definition that name memory nodes.
func boundTo(xml string) (out string) {
	for line := range strings.Lines(xml) {
		if strings.Contains(line, "nodeset=") {
			out += line
		}
	}
	return out
}
