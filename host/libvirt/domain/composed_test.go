package domain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// composed is flavors that are placed cell by cell.
const composed = `flavors:
- {name: mixed, class: mixed, vcpus: 4, dedicated_vcpus: 2-3, smt: isolate, memory: 4GiB}
- {name: mixed-uneven, class: mixed, vcpus: 8, dedicated_vcpus: 1-7, memory: 4GiB, cells: [{vcpus: 0-1, memory: 1GiB}, {vcpus: 2-7, memory: 3GiB}]}
- {name: uneven, class: dedicated, vcpus: 7, memory: 4GiB, emulator: isolate, cells: [{vcpus: "0-1,6", memory: 1GiB}, {vcpus: 2-5, memory: 3GiB, huge_pages: 2MiB}]}
- {name: realtime, class: mixed, vcpus: 2, dedicated_vcpus: 1, realtime: 1, memory: 1GiB, only_nodes: 1, network: 1MiB, network_peak: 2MiB, network_burst: 3MiB, disk: {iops: 5, burst_iops: 9, rate: 1MiB, burst_rate: 2MiB, burst_seconds: 60}}
- {name: floating, class: shared, vcpus: 4, memory: 4GiB, cells: [{vcpus: 0-1, memory: 1GiB}, {vcpus: 2-3, memory: 3GiB}]}
`

// composedGuests orders each of them on a host of its own: its order, its home, its
// document and the room with it.
func composedGuests(t *testing.T, each func(o *guest.Order, h guest.Home, d *Document, r *guest.Room)) {
	t.Helper()
	c, err := guest.ReadCatalogue(strings.NewReader(composed), "f")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c {
		r, err := guest.NewRoom(plan.State{Host: eight(), Policy: plan.DefaultPolicy()}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		o := guest.Order{Flavor: f, Name: f.Name, UUID: "5c2f8a5e-0000-4a7e-9d55-000000000001"}
		if f.Name == "realtime" {
			o.CPU, o.Graphics = "Skylake-Server", "vnc"
			o.Disks, o.NICs = []guest.Disk{{Source: "/d.img", Format: "raw"}}, []guest.NIC{{Kind: guest.Network, Source: "n"}}
		}
		h, decision := r.Place(&o)
		if decision.Outcome != plan.Placed {
			t.Fatalf("%s: %v", f.Name, decision.Reasons)
		}
		r.Commit(h)
		d, err := New(eight(), &o, h, Machine{Arch: "x86_64"})
		if err != nil {
			t.Fatal(err)
		}
		each(&o, h, d, r)
	}
}

func TestComposedGolden(t *testing.T) {
	composedGuests(t, func(o *guest.Order, _ guest.Home, d *Document, _ *guest.Room) {
		isGolden(t, "testdata/new/"+o.Name+".xml", d)
	})
}

// booked is a room's ledger as text.
func booked(r *guest.Room) string {
	all := r.Placements()
	for i := range all {
		all[i].Bound = all[i].Bound && len(all[i].Memory) > 0
	}
	return fmt.Sprintf("%+v", all)
}

// A guest that was placed cell by cell reads back as what the ledger has of it, its next
// start as its home, and placing it there again changes nothing.
func TestComposedReadsBack(t *testing.T) {
	host := eight()
	composedGuests(t, func(o *guest.Order, h guest.Home, d *Document, r *guest.Room) {
		s, err := d.Guest(host)
		if err != nil || s.Manual != "" {
			t.Fatalf("%s: %v, %q", o.Name, err, s.Manual)
		}
		read, err := guest.NewRoom(plan.State{Host: host, Policy: plan.DefaultPolicy()}, []guest.Guest{s}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := booked(read), booked(r); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", o.Name, got, want)
		}
		if next, err := d.Next(); err != nil || next != h.Next() {
			t.Errorf("%s: next start %q, %v; want %q", o.Name, next, err, h.Next())
		}
		before := d.String()
		mark, _ := d.Mark()
		n, err := guest.ParseNext(h.Next())
		if err == nil {
			err = d.PlaceNext(host, n, mark)
		}
		if err != nil || d.String() != before {
			t.Errorf("%s: %v, placed where it is:\n%s\nwas\n%s", o.Name, err, d, before)
		}
		if m, err := ParseAbout(d.About()); err != nil || m.Composed != mark.Composed || m.Own != mark.Own || m.Only != mark.Only || m.Only != o.OnlyNodes().String() {
			t.Errorf("%s: mark %q reads back as %+v, %v", o.Name, d.About(), m, err)
		}
		if _, _, ok, err := d.Wants(host); ok || err != nil {
			t.Errorf("%s: the hook places it: %v", o.Name, err)
		}
		d.Release()
		if text := d.String(); strings.Contains(text, "homenode") || strings.Contains(text, "pin ") || strings.Contains(text, "numatune") {
			t.Errorf("%s: released:\n%s", o.Name, text)
		}
		if err := d.PlaceNext(host, n, mark); err != nil {
			t.Errorf("%s: %v", o.Name, err)
		}
		if next, err := d.Next(); err != nil || next != h.Next() {
			t.Errorf("%s: back after a release: %q, %v; want %q", o.Name, next, err, h.Next())
		}
	})
}

// When the shared CPUs of its home change, what floats follows, cell by cell, and what has
// a CPU of its own keeps it.
func TestComposedFloatsWithin(t *testing.T) {
	host := eight()
	want := map[string]string{
		"mixed":        "0=5-6 1=5-6 2=0 3=1 emulator=5-6/0 cell0=0",
		"mixed-uneven": "0=5-6 1=0 2=8 3=12 4=9 5=13 6=10 7=14 emulator=5-6/0-1 cell0=0 cell1=1",
	}
	composedGuests(t, func(o *guest.Order, h guest.Home, d *Document, _ *guest.Room) {
		s, err := d.Guest(host)
		if err != nil {
			t.Fatal(err)
		}
		if o.Name == "floating" { // its cells follow one by one
			return
		}
		cpus := topology.CPUs(5, 6)
		p := h.Placement
		p.CPUs = cpus
		s.Running = true
		steps, now := s.Steps(guest.Home{Placement: p})
		if o.Name == "uneven" || o.Name == "realtime" { // all its vCPUs have CPUs of their own
			return
		}
		if !now || len(steps) != 2 || steps[0].Kind != plan.SetCPUs || steps[0].From != s.BoundCPUs.String() || steps[0].To != cpus.String() || steps[1].Kind != plan.SetNext {
			t.Fatalf("%s: %v, %+v", o.Name, now, steps)
		}
		n, err := guest.ParseNext(steps[1].To)
		if err != nil {
			t.Fatal(err)
		}
		of, ok, err := d.Within(host, cpus)
		if !ok || err != nil {
			t.Fatalf("%s: %v", o.Name, err)
		}
		mark, _ := d.Mark()
		if err := d.PlaceNext(host, n, mark); err != nil {
			t.Fatalf("%s: %v", o.Name, err)
		}
		if next, err := d.Next(); err != nil || next != want[o.Name] {
			t.Errorf("%s: %q, %v; want %q", o.Name, next, err, want[o.Name])
		}
		pins := d.Pins()
		for v := range o.Flavor.VCPUs {
			th := Thread{Kind: VCPU, ID: uint32(v)}
			if cpus, err := pins(th); err != nil || !cpus.Equal(of(th)) {
				t.Errorf("%s: vCPU %d on CPUs %v as it runs, %v in its definition", o.Name, v, of(th), cpus)
			}
		}
	})
	// Nothing is left on a node that a cell floats on.
	composedGuests(t, func(o *guest.Order, _ guest.Home, d *Document, _ *guest.Room) {
		if _, ok, err := d.Within(host, topology.CPUs(8)); ok && err == nil && o.Name != "realtime" {
			t.Errorf("%s: no error", o.Name)
		}
	})
}

// A guest that sees no NUMA nodes gets those of its home when it is told to, and undo gives back
// the bytes it had, whatever it said of its CPU.
func TestAddCells(t *testing.T) {
	host := eight()
	for _, cpu := range []string{"", "<cpu mode='host-passthrough'/>", "<cpu mode='host-model'>\n  <topology sockets='1' cores='6' threads='1'/>\n</cpu>", "<cpu mode='custom' match='exact'></cpu>"} {
		text := "<domain type='kvm'>\n<name>a</name>\n<memory unit='GiB'>4</memory>\n<vcpu>6</vcpu>\n" + cpu + "\n<os><type>hvm</type></os>\n</domain>"
		d, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		s, err := d.Guest(host)
		if err != nil || s.SeesNodes {
			t.Fatal(err)
		}
		r, err := guest.NewRoom(plan.State{Host: host, Policy: plan.DefaultPolicy()}, []guest.Guest{s}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Spec.MinNodes, s.Spec.MaxNodes = 2, 2 // as if it were wider than a node
		h, decision := r.MoveInCells(&s, topology.NodeSet{})
		if len(h.Cells) != 2 {
			t.Fatalf("%+v %v", h, decision)
		}
		n, err := guest.ParseNext(h.Next())
		if err != nil {
			t.Fatal(err)
		}
		m, err := d.NewMark()
		if m.Composed = true; err == nil {
			err = d.PlaceNext(host, n, m)
		}
		if err != nil {
			t.Fatal(err)
		}
		if now, err := d.Guest(host); err != nil || now.Manual != "" || !now.Composed.Floats() || len(now.Home.Apart) != 2 || now.Memory() != 4<<20 {
			t.Errorf("%q: %v %+v", cpu, err, now)
		}
		if next, err := d.Next(); err != nil || next != h.Next() {
			t.Errorf("%q: next start %q, %v; want %q", cpu, next, err, h.Next())
		}
		mark, _ := d.Mark()
		before := d.String()
		if err := d.PlaceNext(host, n, mark); err != nil || d.String() != before {
			t.Errorf("%q: placed there again: %v\n%s\n%s", cpu, err, d, before)
		}
		if d.Release(); d.String() != text {
			t.Errorf("released:\n%s\nwas\n%s", d, text)
		}
	}
}
