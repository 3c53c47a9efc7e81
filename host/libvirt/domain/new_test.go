package domain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// What is written for a new guest, to the byte: UPDATE=1 writes it anew.
func TestNewGolden(t *testing.T) {
	kib := topology.KiB(1)
	wide := dedicatedHome("wide", 4)
	wide.Placement.HugePage = 2048
	wide.NVMe = []topology.Device{{Kind: topology.NVMe, PCI: "0000:3b:01.2"}, {Kind: topology.NVMe, PCI: "0001:af:1f.7"}}
	single := guest.Home{Placement: plan.Placement{Workload: guest.ID("one"), Class: workload.Dedicated, Importance: 90, VCPUs: 2, Home: topology.Nodes(1), CPUs: topology.CPUs(8, 12),
		Pins: []topology.CPUID{8, 12}, Memory: []workload.NodeMemory{{Node: 1, KiB: 1<<20 + 512}}, Asked: 1<<20 + 512, Bound: true}, Emulator: topology.CPUs(8, 12)}
	tests := []struct {
		name  string
		order guest.Order
		home  guest.Home
		m     Machine
	}{
		{"wide", guest.Order{Name: "wide", UUID: "5c2f8a5e-0000-4a7e-9d55-000000000001",
			Flavor: guest.Flavor{Name: "d4", Class: workload.Dedicated, VCPUs: 4, SMT: workload.SMTIsolate, Emulator: guest.Isolate, IOThreads: 2, Queues: 4, Network: 2048 * kib,
				Disk: guest.DiskLimit{IOPS: 100, IOPSPerGiB: 10, MostIOPS: 250, Rate: 1024, RatePerGiB: 100, MostRate: 1500}},
			Disks: []guest.Disk{{Source: "/dev/vg/wide", Format: "raw", Size: 3 << 20}, {Source: "/var/lib/w.qcow2", Format: "qcow2", Size: 30 << 20}, {Source: "/c.img", Format: "raw"}},
			NICs:  []guest.NIC{{Kind: guest.Bridge, Source: "br0", MAC: "52:54:00:00:00:01"}, {Kind: guest.Network, Source: "default"}, {Kind: guest.Direct, Source: "eth0"}},
		}, wide, Machine{Arch: "x86_64"}},
		{"one", guest.Order{Name: "one", Flavor: guest.Flavor{Name: "d2", Class: workload.Dedicated, VCPUs: 2, SMT: workload.SMTPrefer, Emulator: guest.Share, Queues: 1, IOThreads: 1}},
			single, Machine{Arch: "aarch64"}},
		{"shared", guest.Order{Name: "shared", Flavor: guest.Flavor{Name: "s3", Class: workload.Shared, VCPUs: 3, SMT: workload.SMTPrefer, Emulator: guest.Share, Queues: 2, Disk: guest.DiskLimit{IOPS: 5}},
			Disks: []guest.Disk{{Source: "/s.img", Format: "raw"}}, NICs: []guest.NIC{{Kind: guest.Network, Source: "n"}}},
			sharedHome("shared", 3), Machine{Arch: "x86_64", Emulated: true}},
	}
	for _, tt := range tests {
		d, err := New(eight(), &tt.order, tt.home, tt.m)
		if err != nil {
			t.Fatal(err)
		}
		isGolden(t, "testdata/new/"+tt.name+".xml", d)
	}
	if _, err := New(eight(), &tests[0].order, wide, Machine{Arch: "vax"}); err == nil || !strings.Contains(err.Error(), `"vax"`) {
		t.Error(err)
	}
}

func TestLetters(t *testing.T) {
	for i, want := range map[int]string{0: "a", 25: "z", 26: "aa", 27: "ab", 51: "az", 52: "ba", 701: "zz", 702: "aaa"} {
		if got := letters(i); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
}

func TestWeightBounds(t *testing.T) {
	for _, tt := range []struct{ vcpus, importance, want int }{{1, 50, 100}, {4, 100, 800}, {3, 0, 2}, {1, 1, 2}, {200, 50, 10_000}, {100, 50, 10_000}, {99, 50, 9900}} {
		if got := weight(tt.vcpus, tt.importance); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

func TestAmounts(t *testing.T) {
	for _, tt := range []struct {
		number, unit string
		want         topology.KiB // -1: an error
	}{
		{"1", "", 1}, {" 7 ", "", 7}, {"1", "b", 1}, {"1024", "bytes", 1}, {"1025", "byte", 2}, {"1", "KB", 1}, {"2", "kB", 2}, {"1", "k", 1}, {"3", "KiB", 3},
		{"1", "MB", 977}, {"1", "m", 1024}, {"1", "MiB", 1024}, {"1", "GB", 976563}, {"1", "g", 1 << 20}, {"1", "GiB", 1 << 20},
		{"1", "TB", 976562500}, {"1", "t", 1 << 30}, {"1", "TiB", 1 << 30}, {"1", "PB", 976562500000}, {"1", "p", 1 << 40}, {"1", "PiB", 1 << 40},
		{"1024", "PiB", 1 << 50}, {"1025", "PiB", -1}, {"1", "EiB", -1}, {"x", "KiB", -1}, {"-1", "KiB", -1}, {"", "KiB", -1},
	} {
		got, err := amount(tt.number, tt.unit)
		if (err != nil) != (tt.want < 0) || err == nil && got != tt.want {
			t.Errorf("%q %q: %d, %v; want %d", tt.number, tt.unit, got, err, tt.want)
		}
	}
}

// libvirt takes 10 on the diagonal and 11 to 254 elsewhere; a table that has anything else
// is left out.
func TestDistancesThatLibvirtTakes(t *testing.T) {
	cells := []cell{{node: 0}, {node: 1}}
	for _, tt := range []struct {
		rows [][]int
		want string
	}{
		{[][]int{{10, 21}, {22, 10}}, "[[10 21] [22 10]]"},
		{[][]int{{10, 11}, {254, 10}}, "[[10 11] [254 10]]"},
		{[][]int{{10, 10}, {21, 10}}, "[]"},
		{[][]int{{10, 255}, {21, 10}}, "[]"},
		{[][]int{{10, 21}, {21, 11}}, "[]"},
		{[][]int{{9, 21}, {21, 10}}, "[]"},
		{[][]int{{10, 21}}, "[]"},
		{[][]int{{10}, {21, 10}}, "[]"},
		{nil, "[]"},
	} {
		h := eight()
		h.Distances = tt.rows
		if got := fmt.Sprint(knownDistances(h, cells)); got != tt.want {
			t.Errorf("%v: %s", tt.rows, got)
		}
	}
	if knownDistances(eight(), cells[:1]) != nil {
		t.Error("one cell has distances")
	}
}

// The mark of a guest that runs, as libvirt takes it, and written again.
func TestMarkIsWrittenAnew(t *testing.T) {
	d := parse(t, "<domain><name>a</name></domain>")
	if d.MarkText() != "" {
		t.Error("a mark out of nothing")
	}
	m := Mark{Class: workload.Shared, Importance: 7, SMT: workload.SMTPrefer, Emulator: guest.Share, CPUs: "0-3", Nodes: "0"}
	d.SetMark(m)
	if got := d.MarkText(); got != "<guest class='shared' importance='7' smt='prefer' emulator='share' cpus='0-3' nodes='0'/>" {
		t.Error(got)
	}
	m.CPUs, m.Flavor = "4", "f"
	d.SetMark(m)
	if got, ok := d.Mark(); !ok || got != m || strings.Count(d.String(), "homenode:guest ") != 1 {
		t.Errorf("%+v in %s", got, d)
	}
	// Where a move left it stays in it, whatever comes next.
	for _, to := range [][2]string{{"8-9", "1"}, {"2", ""}, {"", "2"}} {
		if err := m.Intend(to[0], to[1]); err != nil {
			t.Fatal(err)
		}
	}
	if m.CPUs != "2,4,8-9" || m.ToCPUs != "2,4,8-9" || m.Nodes != "0-1" || m.ToNodes != "2" {
		t.Errorf("%+v", m)
	}
	for _, bad := range []Mark{{CPUs: "x"}, {Nodes: "x"}, {ToCPUs: "x"}, {ToNodes: "x"}} {
		if bad.Intend("1", "1") == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	// Its latency goal is the guest's; a mark with one that cannot be read is none.
	m.SLO = "most=5%,window=30s"
	d.SetMark(m)
	if got := d.MarkText(); !strings.Contains(got, "slo='most=5%,window=30s'") {
		t.Error(got)
	}
	if got := m.goals(); len(got) != 1 || got[0].Most != 5 || got[0].From != workload.FromKernel || got[0].Window != 30*time.Second {
		t.Errorf("goals %+v", got)
	}
	if _, ok := parse(t, strings.Replace(d.String(), "most=5%,", "of=command,", 1)).Mark(); ok {
		t.Error("a definition names a command of the host")
	}
	// One with blanks is read as Next writes it: About is words between blanks, and its flavor comes last.
	blanks := parse(t, strings.Replace(d.String(), "most=5%,", "most=5%, metric=wait flavor=x, ", 1))
	got, ok := blanks.Mark()
	if again, err := ParseAbout(blanks.About()); !ok || err != nil || again.SLO != got.SLO || again.Flavor != m.Flavor {
		t.Errorf("%q is read as %+v, %v", blanks.About(), again, err)
	}
	// A mark that cannot be read is none; an importance out of range is the usual one.
	if _, ok := parse(t, strings.Replace(d.String(), "'shared'", "'best'", 1)).Mark(); ok {
		t.Error("class best")
	}
	for text, want := range map[string]int{"'0'": 0, "'100'": 100, "'101'": 50, "'-1'": 50, "'x'": 50} {
		if m, _ := parse(t, strings.Replace(d.String(), "'7'", text, 1)).Mark(); m.Importance != want {
			t.Errorf("importance %s: %d", text, m.Importance)
		}
	}
}
