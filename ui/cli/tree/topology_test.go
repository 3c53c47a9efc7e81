package tree

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

var update = flag.Bool("update", false, "write testdata/hosts, testdata/screens and docs/topology.svg anew")

const hostsDir = "../../../testdata/hosts"

// shapes are hosts of our own making, one per kind of machine.
var shapes = []struct {
	name, synthetic string
	change          func(*topology.Host)
}{
	{"one-node", "core:4 pu:2", func(h *topology.Host) {
		h.Packages, h.Distances, h.Nodes[0].Package = nil, nil, topology.None
		for i := range h.Cores {
			h.Cores[i].Package = topology.None
		}
		h.Notes = []topology.Note{{Subject: "node0", Text: "the kernel shows no NUMA nodes (no sys/devices/system/node); all CPUs and memory are taken as one node"}}
	}},
	{"two-sockets", "package:2 node:1(memory=192GiB,hugepages=2MiB:4096,hugepages=1GiB:16) llc:1 core:16 pu:2", busy},
	{"sub-numa-cxl", "package:2 special:1(memory=256GiB) node:2(memory=128GiB) llc:2 core:8 pu:2", func(h *topology.Host) {
		h.Devices = []topology.Device{
			{Name: "sda", Kind: topology.Storage, PCI: "0000:00:17.0", Node: topology.None, Root: "pci0000:00"},
			{Name: "ens1f0np0", Kind: topology.NIC, PCI: "0000:3b:00.0", Node: 0, Root: "pci0000:3a"},
			{Name: "mlx5_0", Kind: topology.Accel, PCI: "0000:3b:00.0", Node: 0, Root: "pci0000:3a"},
			{Name: "nvme0n1", Kind: topology.NVMe, PCI: "0000:5e:00.0", Node: 1, Root: "pci0000:5d"},
			{Name: "card0", Kind: topology.GPU, PCI: "0000:af:00.0", Node: 2, Root: "pci0000:ae"},
		}
		for i := range h.Nodes {
			n := &h.Nodes[i]
			n.Free, n.Reclaimable = n.Memory/topology.KiB(i+2), n.Memory/8
		}
		for i := range h.LLCs {
			h.LLCs[i].Size = 36 << 10
		}
		n := len(h.Nodes)
		h.Measured = &topology.Measured{LatencyNs: make([][]float64, n), BandwidthMiBs: make([][]float64, n)}
		for i := range n {
			for j := range n {
				d := float64(h.Distances[i][j])
				ns, mib := 60+3*d, 300000/d
				if h.Nodes[i].CPUs.Empty() { // nothing there to measure from
					ns, mib = 0, 0
				}
				h.Measured.LatencyNs[i] = append(h.Measured.LatencyNs[i], ns)
				h.Measured.BandwidthMiBs[i] = append(h.Measured.BandwidthMiBs[i], mib)
			}
		}
	}},
	{"gpus", "package:2 node:1(memory=512GiB) core:8", func(h *topology.Host) {
		for i := range 8 {
			at := []string{"pci0000:10", "pci0000:80"}[i/4]
			bus := 0x10 + 0x70*(i/4) + 0x10*(i%4/2)
			h.Devices = append(h.Devices, topology.Device{
				Name: fmt.Sprintf("card%d", i+1), Kind: topology.GPU, PCI: fmt.Sprintf("0000:%02x:00.0", bus+3+i%2), Node: topology.NodeID(i / 4), Root: at,
				Bridges: fmt.Sprintf("0000:%02x:01.0/0000:%02x:00.0/0000:%02x:%02x.0", bus, bus+1, bus+2, 4*(i%2)),
				GPU:     fmt.Sprintf("gpu%d", i), Model: "NVIDIA H100 80GB HBM3", UUID: fmt.Sprintf("GPU-0a1b2c3d-0000-0000-0000-%012d", i), Chars: fmt.Sprintf("195:%d", i),
			})
			if i%2 == 1 {
				h.Devices = append(h.Devices, topology.Device{
					Name: fmt.Sprintf("ens%df0", i/2), Kind: topology.NIC, PCI: fmt.Sprintf("0000:%02x:00.0", bus+5), Node: topology.NodeID(i / 4), Root: at,
					Bridges: fmt.Sprintf("0000:%02x:01.0/0000:%02x:00.0/0000:%02x:08.0", bus, bus+1, bus+2),
				})
			}
		}
	}},
	{"interleaved", "package:4 node:1(memory=32GiB) llc:1 core:4 pu:2 numbering=interleaved", nil},
	{"adjacent-eights", "package:2 node:1(memory=256GiB) core:6 pu:8 numbering=adjacent", nil},
	{"hybrid", "package:1 node:1(memory=32GiB) llc:1 core:10 pu:1", func(h *topology.Host) {
		for i := range h.Cores {
			h.Cores[i].Capacity = 1024
			if i >= 6 {
				h.Cores[i].Capacity = 640
			}
		}
	}},
	{"sparse-confined", "package:2 node:2(memory=16GiB) llc:1 core:2", func(h *topology.Host) {
		for i, id := range []topology.NodeID{0, 8, 250, 251} {
			h.Nodes[i].ID = id
			h.Cores[2*i].Node, h.Cores[2*i+1].Node = id, id
		}
		h.Nodes[3].Memory, h.Nodes[3].Free, h.Nodes[3].Kind = 0, 0, topology.NoMem
		h.Offline = topology.CPUs(8, 9, 12)
		h.Allowed, h.AllowedMems = topology.CPUs(0, 1, 4), topology.Nodes(0, 250)
		h.Distances[0][1], h.Distances[3][2] = topology.None, 40
		h.Notes = []topology.Note{{Subject: "slit", Text: "not the same both ways: node250 to node251 is 12, back is 40"}}
	}},
	{"node-offline", "package:2 node:1(memory=64GiB) llc:1 core:4", func(h *topology.Host) {
		h.Nodes = h.Nodes[1:]
		for i := range 4 {
			h.Cores[i].Node = topology.None
		}
		h.AllowedMems, h.Distances = topology.Nodes(1), topology.Matrix{{10}}
		h.Notes = []topology.Note{{Subject: "cpus", Text: "CPUs 0-3 run but are on no online node"}}
	}},
	{"node-over-packages", "node:2(memory=64GiB) package:2 llc:1 core:2 pu:2", nil},
	{"cache-over-nodes", "package:2 llc:1 node:2(memory=64GiB) core:4 pu:2", nil},
	{"eight-sockets", "package:8 node:1(memory=512GiB) llc:1 core:16 pu:2", nil},
	{"sixty-four-nodes", "package:8 node:8(memory=64GiB) llc:1 core:4", nil},
}

// busy makes memory used and gives the host what servers have.
func busy(h *topology.Host) {
	for i := range h.Nodes {
		n := &h.Nodes[i]
		n.Free, n.Reclaimable = n.Memory/3, n.Memory/5
		n.HugePages[0].Free = 1000
		h.LLCs[i].Size = 48 << 10
	}
	h.Distances[0][1], h.Distances[1][0] = 21, 21
	for i, node := range []topology.NodeID{0, 0, 1, 1, 1} {
		dev := []topology.Device{
			{Name: "eno1", Kind: topology.NIC, PCI: "0000:18:00.0", Root: "pci0000:17"},
			{Name: "nvme0n1", Kind: topology.NVMe, PCI: "0000:19:00.0", Root: "pci0000:17"},
			{Name: "ens5f0", Kind: topology.NIC, PCI: "0000:86:00.0", Root: "pci0000:85"},
			{Name: "nvme1n1", Kind: topology.NVMe, PCI: "0000:87:00.0", Root: "pci0000:85"},
			{Name: "card1", Kind: topology.GPU, PCI: "0000:af:00.0", Root: "pci0000:ae"},
		}[i]
		dev.Node = node
		h.Devices = append(h.Devices, dev)
	}
}

func shape(t *testing.T, i int) *topology.Host {
	t.Helper()
	h, err := topology.FromSynthetic(shapes[i].synthetic)
	if err != nil {
		t.Fatal(err)
	}
	if shapes[i].change != nil {
		shapes[i].change(h)
		h.NumberLLCs()
	}
	return h
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got); if it is right, run go test ./ui/cli -run 'Topology|Screens' -update\n%s", file, d)
	}
}

func TestTopologyShapes(t *testing.T) {
	for i, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			h := shape(t, i)
			file := filepath.Join(hostsDir, s.name+".json")
			var text bytes.Buffer
			if err := h.WriteJSON(&text); err != nil {
				t.Fatal(err)
			}
			golden(t, file, text.Bytes())

			out, errs, code := runTopology(t, nil, "", "--host", file)
			if code != 0 {
				t.Fatalf("exit status %d: %s", code, errs)
			}
			golden(t, filepath.Join(hostsDir, s.name+".txt"), []byte(out))
			for line := range strings.Lines(out) {
				if w := ansi.StringWidth(strings.TrimRight(line, "\n")); w > 80 {
					t.Errorf("%d columns: %s", w, line)
				}
			}
			back, errs, code := runTopology(t, nil, text.String(), "--host", "-", "--json")
			if code != 0 || back != text.String() {
				t.Errorf("exit status %d: %s; JSON in and out (-in +out):\n%s", code, errs, cmp.Diff(text.String(), back))
			}
			checkSVG(t, h)
		})
	}
}

// checkSVG draws twice, and looks for text or boxes outside of the page, and for text on text.
func checkSVG(t *testing.T, h *topology.Host) {
	t.Helper()
	var a, b bytes.Buffer
	if err := errors.Join(view.TopologySVG(&a, h), view.TopologySVG(&b, h)); err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() {
		t.Error("two drawings of a host differ")
	}
	var page struct{ width, height int }
	type written struct {
		text                     string
		left, right, top, bottom float64
	}
	var all []written
	dec := xml.NewDecoder(&a)
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		at, class, size := map[string]int{}, "", 12.0
		for _, a := range e.Attr {
			switch a.Name.Local {
			case "class":
				class = " " + a.Value + " "
			case "style":
				var px int
				if _, err := fmt.Sscanf(a.Value, "font-size:%dpx", &px); err != nil {
					t.Fatal(err)
				}
				size = float64(px)
			}
			n := 0
			for _, r := range a.Value {
				if r < '0' || r > '9' {
					break
				}
				n = n*10 + int(r-'0')
			}
			at[a.Name.Local] = n
		}
		if e.Name.Local == "svg" {
			page.width, page.height = at["width"], at["height"]
		}
		if e.Name.Local == "text" {
			tok, _ := dec.Token()
			words, _ := tok.(xml.CharData)
			for mark, px := range map[string]float64{" h ": 15, " s ": 10, " id ": 8.5} {
				if strings.Contains(class, mark) {
					size = px
				}
			}
			w := size * 0.62 * float64(len([]rune(string(words))))
			left := float64(at["x"])
			switch {
			case strings.Contains(class, " m "), strings.Contains(class, " id "):
				left -= w / 2
			case strings.Contains(class, " e "):
				left -= w
			}
			all = append(all, written{string(words), left, left + w, float64(at["y"]) - 0.75*size, float64(at["y"]) + 0.2*size})
		}
		if at["x"]+at["width"] > page.width || at["y"]+at["height"] > page.height {
			t.Errorf("%s at %v is outside of the page of %v", e.Name.Local, at, page)
		}
	}
	slices.SortFunc(all, func(a, b written) int { return int(100*a.top) - int(100*b.top) })
	for i, a := range all {
		if a.left < 0 || a.right > float64(page.width) || a.bottom > float64(page.height) {
			t.Errorf("%q goes from %.0f to %.0f, down to %.0f, of %v", a.text, a.left, a.right, a.bottom, page)
		}
		for _, b := range all[i+1:] {
			if b.top > a.bottom {
				break
			}
			if a.left < b.right-0.1 && b.left < a.right-0.1 && a.top < b.bottom-0.1 && b.top < a.bottom-0.1 {
				t.Errorf("%q lies on %q", a.text, b.text)
			}
		}
	}
	if page.width == 0 || page.width > 1060 {
		t.Errorf("page is %v", page)
	}
}

// TestTopologyDrawn: a picture tells the CPU, which nodes have none and why they are dashed,
// and what was measured beside what the firmware says; hosts of 1 to 64 nodes look right.
func TestTopologyDrawn(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 8, 16, 64} {
		h, err := topology.FromSynthetic(fmt.Sprintf("package:%d node:1 core:4 pu:2", n))
		if err != nil {
			t.Fatal(err)
		}
		h.CPU = "AMD EPYC 9654 96-Core Processor"
		h.Nodes[n-1].CPUs = topology.CPUSet{}
		h.Measured = &topology.Measured{LatencyNs: make([][]float64, n)}
		for i := range n {
			for j := range n {
				h.Measured.LatencyNs[i] = append(h.Measured.LatencyNs[i], 83+float64(64*min(14, max(i-j, j-i))))
			}
		}
		checkSVG(t, h)
		var b bytes.Buffer
		if err := view.TopologySVG(&b, h); err != nil {
			t.Fatal(err)
		}
		want := []string{"AMD EPYC 9654", fmt.Sprintf("node%d, no CPUs", n-1), "node without CPUs: CXL", "memory in use"}
		if n > 1 {
			want = append(want, "Measured latency", ">147<", "SLIT distances")
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%d nodes: %q is not in the picture", n, w)
			}
		}
		var text bytes.Buffer
		view.TopologyText(&text, view.Paint{}, h)
		if n > 1 && !strings.Contains(text.String(), "Measured latency") || n == 16 && !strings.Contains(text.String(), " 83 147 211") {
			t.Errorf("%d nodes: no measured latency in\n%s", n, text.String())
		}
		for line := range strings.Lines(text.String()) {
			if w := ansi.StringWidth(strings.TrimRight(line, "\n")); w > 80 {
				t.Errorf("%d nodes: %d columns: %s", n, w, line)
			}
		}
	}
}

func TestTopologyPictureInDocs(t *testing.T) {
	var b bytes.Buffer
	if err := view.TopologySVG(&b, shape(t, 2)); err != nil {
		t.Fatal(err)
	}
	golden(t, "../../../docs/topology.svg", b.Bytes())
}

func runTopology(t *testing.T, root fs.FS, stdin string, args ...string) (out, errs string, code int) {
	t.Helper()
	return runMain(t, root, stdin, append([]string{"topology"}, args...)...)
}

func runMain(t *testing.T, root fs.FS, stdin string, args ...string) (out, errs string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	e := &cli.Env{Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }, Root: root}
	code = Main(context.Background(), e, args)
	return stdout.String(), stderr.String(), code
}

func TestTopologyRefuses(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("{\n \"schema\": 1}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--host", bad}, 2, bad + ": read host JSON: line 2 column 12: schema is 1; give a string"},
		{[]string{"--hwloc", bad}, 2, bad + ": read hwloc XML: line 2 column 14: no <topology> here"},
		{[]string{"--root", bad}, 2, bad + ": read tar entry 1:"},
		{[]string{"--root", filepath.Dir(bad)}, 2, ": read sys/devices/system/cpu: no CPU found; want sys/ and proc/"},
		{[]string{"--root", bad + "2"}, 2, "no such file"},
		{[]string{"--host", bad + "2"}, 2, "no such file"},
		{[]string{"--synthetic", "package:2 boat:1"}, 2, `read synthetic host: character 11: unknown kind "boat"; known are package,`},
		{[]string{"--synthetic", "core:1", "--json", "--svg", "x"}, 2, "--json and --svg do not go together"},
		{[]string{"--synthetic", "core:1", "--root", "/"}, 2, "do not go together"},
		{[]string{"--synthetic", ""}, 2, "--synthetic is empty"},
		{[]string{"--boat"}, 2, "unknown option --boat"},
		{[]string{"boat"}, 2, `unexpected argument "boat"; see`},
		{nil, 3, "read sys/devices/system/cpu: no CPU found"},
		{[]string{"--synthetic", "core:1", "--svg", filepath.Join(bad, "x.svg")}, 2, "not a directory"},
	} {
		out, errs, code := runTopology(t, fstest.MapFS{}, "", tc.args...)
		if code != tc.code || !strings.Contains(errs, tc.want) || out != "" {
			t.Errorf("%q: status %d, want %d; stdout %q; stderr %q, want %q in it", tc.args, code, tc.code, out, errs, tc.want)
		}
		if strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: not one line: %q", tc.args, errs)
		}
	}
}

// smallTree is a machine of one CPU.
func smallTree() fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range map[string]string{
		"sys/devices/system/cpu/online":                               "0",
		"sys/devices/system/cpu/present":                              "0",
		"sys/devices/system/cpu/cpu0/topology/core_cpus_list":         "0",
		"sys/devices/system/cpu/cpu0/topology/physical_package_id":    "0",
		"sys/devices/system/node/online":                              "0",
		"sys/devices/system/node/node0/cpulist":                       "0",
		"sys/devices/system/node/node0/distance":                      "10",
		"sys/devices/system/node/node0/meminfo":                       "Node 0 MemTotal: 2048 kB\nNode 0 MemFree: 1024 kB\n",
		"sys/devices/system/cpu/cpu0/cache/index0/level":              "2",
		"sys/devices/system/cpu/cpu0/cache/index0/type":               "Unified",
		"sys/devices/system/cpu/cpu0/cache/index0/size":               "512K",
		"sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list":    "0",
		"proc/sys/kernel/hostname":                                    "secrethost",
		"sys/class/dmi/id/product_serial":                             "secretserial",
		"sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr": "1",
	} {
		m[name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	return m
}

func TestGather(t *testing.T) {
	dir := t.TempDir()
	live, errs, code := runTopology(t, smallTree(), "")
	if code != 0 {
		t.Fatal(errs)
	}
	for _, to := range []string{"m.tar.gz", "folder/"} {
		file := dir + "/" + to
		out, errs, code := runMain(t, smallTree(), "", "gather", file)
		if code != 0 || out != "" || !strings.Contains(errs, "files; see `homenode topology --root") {
			t.Fatalf("gather %s: status %d, %q, %q", to, code, out, errs)
		}
		got, errs, code := runTopology(t, fstest.MapFS{}, "", "--root", file)
		if code != 0 || got != live {
			t.Errorf("%s: status %d %s; (-live +gathered)\n%s", to, code, errs, cmp.Diff(live, got))
		}
	}
	if _, _, code := runMain(t, smallTree(), "", "gather", dir+"/folder/"); code != 2 {
		t.Errorf("gather into a folder that is there: status %d, want 2", code)
	}
	zip, _, _ := runMain(t, smallTree(), "", "gather", "-")
	again, _, _ := runMain(t, smallTree(), "", "gather", "-")
	if zip == "" || zip != again {
		t.Error("two captures of a machine differ")
	}
	err := filepath.WalkDir(dir+"/folder", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "secret") {
			t.Errorf("%s holds %q", path, data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, errs, code := runMain(t, fstest.MapFS{}, "", "gather", dir+"/x"); code != 3 {
		t.Errorf("gather on what is no machine: status %d %s, want 3", code, errs)
	}
}
