package domain

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// schema is libvirt's own RNG schema for domains (package libvirt0), "" where
// that or xmllint (package libxml2-utils) is not installed. HOMENODE_LIBVIRT_SCHEMA
// names another.
func schema() string {
	if _, err := exec.LookPath("xmllint"); err != nil {
		return ""
	}
	name := os.Getenv("HOMENODE_LIBVIRT_SCHEMA")
	if name == "" {
		name = "/usr/share/libvirt/schemas/domain.rng"
	}
	if _, err := os.Stat(name); err != nil {
		return ""
	}
	return name
}

// validate checks documents against the schema, all in one run: reading it takes
// most of the time.
func validate(t *testing.T, rng string, docs map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	args := []string{"--noout", "--relaxng", rng}
	for name, text := range docs {
		file := filepath.Join(dir, name+".xml")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	if out, err := exec.Command("xmllint", args...).CombinedOutput(); err != nil {
		var bad []string
		for line := range strings.Lines(string(out)) {
			if !strings.HasSuffix(strings.TrimSpace(line), " validates") {
				bad = append(bad, line)
			}
		}
		t.Errorf("%v\n%s", err, strings.Join(bad[:min(len(bad), 40)], ""))
	}
}

// shapes are hosts of every kind, with huge pages and drives of each node that
// has any.
var shapes = map[string]string{
	"two-sockets":  "package:2 node:1(memory=192GiB hugepages=2MiB:32768 hugepages=1GiB:64) core:20 pu:2",
	"interleaved":  "package:2 node:1(memory=192GiB) core:20 pu:2 numbering=interleaved",
	"four-nodes":   "package:2 node:2(memory=128GiB hugepages=2MiB:16384) llc:2 core:16 pu:2",
	"eight-nodes":  "package:4 node:2(memory=64GiB) core:8 pu:2 numbering=adjacent",
	"one-node":     "node:1(memory=256GiB hugepages=2MiB:65536) core:32 pu:1",
	"memory-nodes": "package:2 node:1(memory=96GiB) special:1(memory=128GiB) core:24 pu:2",
	"small":        "node:2(memory=8GiB) core:2 pu:2",
}

func shape(t testing.TB, text string) plan.State {
	t.Helper()
	h, err := topology.FromSynthetic(text)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range h.Nodes {
		for k := range 2 {
			h.Devices = append(h.Devices, topology.Device{Name: fmt.Sprintf("nvme%dn%d", i, k), Kind: topology.NVMe, PCI: fmt.Sprintf("0000:%02x:00.%d", 0x3b+i, k), Node: n.ID})
		}
	}
	st := plan.State{Host: h, Policy: plan.DefaultPolicy()}
	st.Policy.Reserved = topology.CPUs(0, 1)
	return st
}

func drives(h *topology.Host) (names []string) {
	for _, d := range h.Devices {
		names = append(names, d.Name)
	}
	return names
}

// TestEveryFlavorOnEveryShape writes all 18 flavors, and some odd ones, for all shapes: what fits is
// read back as it was placed and is valid by libvirt's schema, what does not fit
// says why.
func TestEveryFlavorOnEveryShape(t *testing.T) {
	catalogue, err := guest.ReadCatalogue(strings.NewReader(guest.Example), "flavors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, smt := range []workload.SMTPolicy{workload.SMTIsolate, workload.SMTRequire} {
		odd := guest.Flavor{Name: "odd-" + string(smt), Class: workload.Dedicated, VCPUs: 3, Memory: 3 << 20, SMT: smt, Emulator: guest.Isolate, Queues: 1}
		catalogue = append(catalogue, odd)
	}
	docs := map[string][]byte{}
	refused := 0
	for shapeName, text := range shapes {
		st := shape(t, text)
		for i, f := range catalogue {
			room, err := guest.NewRoom(st, nil, drives(st.Host))
			if err != nil {
				t.Fatal(err)
			}
			name := shapeName + "-" + f.Name
			o := guest.Order{Flavor: f, Name: name, UUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i)}
			for k := range 30 {
				o.Disks = append(o.Disks, guest.Disk{Source: fmt.Sprintf("/dev/vg/%s-%d", name, k), Format: "raw", Size: 100 << 20})
			}
			o.Disks = append(o.Disks, guest.Disk{Source: "/images/a & b's.qcow2", Format: "qcow2"})
			o.NICs = []guest.NIC{{Kind: guest.Bridge, Source: "br0", MAC: "52:54:00:12:34:56"}, {Kind: guest.Network, Source: "default"}, {Kind: guest.Direct, Source: "eth0"}}
			home, d := room.Place(&o)
			if d.Outcome != plan.Placed {
				refused++
				if len(d.Reasons) == 0 {
					t.Errorf("%s: refused without a reason", name)
				}
				continue
			}
			for _, m := range []Machine{{Arch: "x86_64"}, {Arch: "aarch64"}, {Arch: "x86_64", Emulated: true}} {
				doc, err := New(st.Host, &o, home, m)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				docs[fmt.Sprintf("%s-%s-%v", name, m.Arch, m.Emulated)] = doc.Bytes()
				checkWritten(t, st, doc, &o, &home)
			}
		}
	}
	if len(docs) < 3*60 || refused == 0 {
		t.Fatalf("%d documents, %d refused: the shapes show little", len(docs), refused)
	}
	rng := schema()
	if rng == "" {
		t.Skipf("%d documents not validated: no xmllint or no schema of libvirt here", len(docs))
	}
	validate(t, rng, docs)
}

// checkWritten reads a document back and compares it with what it was made from.
func checkWritten(t *testing.T, st plan.State, doc *Document, o *guest.Order, home *guest.Home) {
	t.Helper()
	s, err := doc.Guest(st.Host)
	if err != nil {
		t.Fatalf("%s: %v", o.Name, err)
	}
	p, got := home.Placement, s.Home.Placement
	if s.Name != o.Name || s.UUID != o.UUID || s.Flavor != o.Flavor.Name || s.Manual != "" || s.Spec.CPUs != o.Flavor.VCPUs {
		t.Errorf("%s: stands as %+v", o.Name, s)
	}
	if !got.CPUs.Equal(p.CPUs) || !got.Home.Equal(p.Home) || !got.Idle.Equal(p.Idle) || fmt.Sprint(got.Pins) != fmt.Sprint(p.Pins) ||
		workload.Total(got.Memory) != workload.Total(p.Memory) || got.Bound != p.Bound || got.HugePage != p.HugePage || got.Class != p.Class || got.VCPUs != p.VCPUs {
		t.Errorf("%s:\nstands %+v\nplaced %+v", o.Name, got, p)
	}
	if (s.Home.Spare == nil) != (home.Spare == nil) || home.Spare != nil && !s.Home.Spare.CPUs.Equal(home.Spare.CPUs) {
		t.Errorf("%s: emulator stands on %+v, was placed on %+v", o.Name, s.Home.Spare, home.Spare)
	}
	if len(s.Drives) != o.Flavor.NVMe {
		t.Errorf("%s: %d drives, want %d", o.Name, len(s.Drives), o.Flavor.NVMe)
	}
	if bad := plan.Check(st, []plan.Placement{got}); len(bad) > 0 {
		t.Errorf("%s: plan.Check: %v", o.Name, bad)
	}
}

func TestTestdataIsValid(t *testing.T) {
	rng := schema()
	if rng == "" {
		t.Skip("no xmllint or no schema of libvirt here")
	}
	docs := map[string][]byte{}
	h := eight()
	for name, text := range guests(t) {
		d := parse(t, text)
		docs[name] = d.Bytes()
		most, _, _ := d.vcpus()
		d.Place(h, dedicatedHome("x", most), Mark{})
		docs[name+"-dedicated"] = d.Bytes()
	}
	validate(t, rng, docs)
}

// The XML that was published with the nine instances of 8 vCPUs: pins one CPU
// each in sibling pairs, the emulator elsewhere, strict memory, one cell, and the
// guest sees the cores and threads it got.
func TestPublishedXML(t *testing.T) {
	st := shape(t, "package:2 node:1(memory=96GiB) core:20 pu:2")
	st.Policy.Reserved = topology.CPUs(0, 1, 40, 41)
	catalogue, _ := guest.ReadCatalogue(strings.NewReader(guest.Example), "")
	f, err := catalogue.Find("c1.xlarge")
	if err != nil {
		t.Fatal(err)
	}
	// Each guest is placed beside what the documents of those before it say.
	var guests []guest.Guest
	docs := map[string][]byte{}
	for i := range 10 {
		room, err := guest.NewRoom(st, guests, nil)
		if err != nil {
			t.Fatal(err)
		}
		o := guest.Order{Flavor: f, Name: fmt.Sprintf("vm%d", i)}
		home, d := room.Place(&o)
		if i == 9 {
			if d.Outcome != plan.Refused {
				t.Errorf("a tenth fits: %+v", home.Placement)
			}
			break
		}
		if d.Outcome != plan.Placed {
			t.Fatalf("guest %d: %v", i, d.Reasons)
		}
		doc, err := New(st.Host, &o, home, Machine{Arch: "x86_64"})
		if err != nil {
			t.Fatal(err)
		}
		docs[o.Name] = doc.Bytes()
		text := doc.String()
		for _, want := range []string{
			"<emulatorpin cpuset='0-1,40-41'/>", "<topology sockets='1' cores='4' threads='2'/>",
			"<memory mode='strict' nodeset='" + home.Placement.Home.String() + "'/>", "<cell id='0' cpus='0-7' memory='16777216' unit='KiB'/>",
			"<memory unit='KiB'>16777216</memory>", "<vcpu placement='static'>8</vcpu>", "<cpu mode='host-passthrough'>",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
		if strings.Count(text, "<vcpupin ") != 8 || strings.Count(text, "<cell ") != 1 || home.Placement.Home.Len() != 1 {
			t.Errorf("pins or cells in\n%s", text)
		}
		for k := 0; k < 8; k += 2 { // siblings are 40 apart
			pair := fmt.Sprintf("<vcpupin vcpu='%d' cpuset='%d'/>\n    <vcpupin vcpu='%d' cpuset='%d'/>", k, home.Placement.Pins[k], k+1, home.Placement.Pins[k]+40)
			if !strings.Contains(text, pair) {
				t.Errorf("no sibling pair %s in\n%s", pair, text)
			}
		}
		s, err := doc.Guest(st.Host)
		if err != nil {
			t.Fatal(err)
		}
		guests = append(guests, s)
	}
	if rng := schema(); rng != "" {
		validate(t, rng, docs)
	}
}

// A guest wider than a node sees the nodes, with their distances: 48 vCPUs on two
// sockets of 20 cores are 24 and 24.
func TestWideGuestSeesItsNodes(t *testing.T) {
	st := shape(t, shapes["interleaved"])
	catalogue, _ := guest.ReadCatalogue(strings.NewReader(guest.Example), "")
	f, _ := catalogue.Find("c1.6xlarge")
	room, err := guest.NewRoom(st, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := guest.Order{Flavor: f, Name: "wide"}
	home, d := room.Place(&o)
	if d.Outcome != plan.Placed {
		t.Fatal(d.Reasons)
	}
	doc, err := New(st.Host, &o, home, Machine{Arch: "x86_64"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<topology sockets='2' cores='12' threads='2'/>", "<cell id='0' cpus='0-23' memory='50331648' unit='KiB'>", "<cell id='1' cpus='24-47' memory='50331648' unit='KiB'>",
		"<sibling id='0' value='10'/>", "<sibling id='1' value='32'/>", "<memory mode='strict' nodeset='0-1'/>",
		"<memnode cellid='0' mode='strict' nodeset='0'/>", "<memnode cellid='1' mode='strict' nodeset='1'/>",
	} {
		if !strings.Contains(doc.String(), want) {
			t.Errorf("no %s in\n%s", want, doc)
		}
	}
}

func TestTopologyMirrorsThreads(t *testing.T) {
	h := eight() // siblings are 4 apart
	tests := []struct {
		name string
		pins []topology.CPUID
		want guestTopology
	}{
		{"whole cores", []topology.CPUID{0, 4, 1, 5}, guestTopology{1, 1, 2, 2}},
		{"one CPU", []topology.CPUID{2}, guestTopology{1, 1, 1, 1}},
		{"a thread of each core", []topology.CPUID{0, 1, 2}, guestTopology{1, 1, 3, 1}},
		{"a core and a half", []topology.CPUID{0, 4, 1}, guestTopology{1, 1, 3, 1}},
		{"siblings apart", []topology.CPUID{0, 1, 4, 5}, guestTopology{1, 1, 4, 1}},
		{"two nodes", []topology.CPUID{0, 4, 8, 12}, guestTopology{2, 1, 1, 2}},
		{"two nodes, uneven", []topology.CPUID{0, 4, 1, 5, 8, 12}, guestTopology{3, 1, 1, 2}},
		{"two nodes, odd", []topology.CPUID{0, 4, 8}, guestTopology{3, 1, 1, 1}},
	}
	for _, tt := range tests {
		p := plan.Placement{Class: workload.Dedicated, VCPUs: len(tt.pins), Pins: tt.pins, CPUs: topology.CPUs(tt.pins...), Home: topology.Nodes(0)}
		p.Memory = []workload.NodeMemory{{Node: 0, KiB: 1 << 20}}
		if p.CPUs.Has(8) {
			p.Home.Add(1)
			p.Memory = append(p.Memory, workload.NodeMemory{Node: 1, KiB: 1 << 20})
		}
		if got := topologyOf(threadsPerCore(h, oneEach(p.Pins)), cellsOf(h, &p)); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestCellsAreWholeMiB(t *testing.T) {
	cells := []cell{{memory: 1<<20 + 341}, {memory: 1<<20 + 341}, {memory: 1<<20 + 342}}
	wholeMiB(cells)
	if cells[0].memory != 1<<20 || cells[1].memory != 1<<20 || cells[2].memory != 1<<20+1024 {
		t.Errorf("%+v", cells)
	}
}
