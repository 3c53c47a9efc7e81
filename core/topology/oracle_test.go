package topology

import (
	"archive/tar"
	"bytes"
	"compress/bzip2"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// differs lists where this package and hwloc 2.9 see a captured machine
// differently, and why; docs/design/topology.md has the same list.
var differs = map[string]map[string]string{
	"8em64t-2s2ca2c-buggynuma": {
		"nodes":     "all eight nodes (numa=fake) list all CPUs; hwloc keeps node0 alone, we keep all and trust each CPU's own link to its node",
		"distances": "hwloc keeps one node, so it has none",
		"allowed":   "hwloc keeps node0 alone",
	},
	"nvidiagpunumanodes": {
		"nodes":     "hwloc hides the memory of NVIDIA GPUs, nodes 250 to 255; the kernel can allocate there",
		"distances": "as for nodes",
		"allowed":   "as for nodes",
	},
	"40intel64-2g2n4c+pci": {
		"devices": "numa_node of the InfiniBand card is 2 and local_cpus all CPUs; hwloc goes by the CPUs, we by the node",
	},
	"256ppc-8n8s4t": {
		"packages": "the kernel says package -1; hwloc makes one of each core from core_siblings, we say unknown",
	},
}

// oracleFacts is what can be compared, each as text.
type oracleFacts map[string]string

func TestAgainstLstopo(t *testing.T) {
	if testing.Short() {
		t.Skip("unpacks and asks lstopo about twenty machines")
	}
	lstopo := findLstopo(t)
	for _, archive := range sharedHosts(t) {
		dir := unpackTree(t, archive)
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			out := runLstopo(t, lstopo, dir)
			h, err := FromSysfs(os.DirFS(dir))
			if err != nil {
				t.Fatal(err)
			}
			theirs, ours := lstopoFacts(t, out, h), ourFacts(h)
			for aspect, want := range theirs {
				reason, listed := differs[name][aspect]
				switch same := ours[aspect] == want; {
				case !same && !listed:
					t.Errorf("%s\nlstopo: %s\n  ours: %s", aspect, want, ours[aspect])
				case same && listed:
					t.Errorf("%s is the same, but listed as different: %s", aspect, reason)
				}
			}

			// What we read from lstopo's own words must be the same host.
			x, err := FromHwlocXML(bytes.NewReader(out))
			if err != nil {
				t.Fatal(err)
			}
			for aspect, got := range ourFacts(x) {
				if _, listed := differs[name][aspect]; got != ours[aspect] && !listed {
					t.Errorf("%s from XML: %s\nfrom sysfs: %s", aspect, got, ours[aspect])
				}
			}
			if _, listed := differs[name]["devices"]; !listed {
				compareDevices(t, x, h)
			}
			captureLooksTheSame(t, lstopo, dir, h, theirs, name == "nvidiagpunumanodes")
		})
	}
}

// captureLooksTheSame: a capture of a machine must look to us and to lstopo as
// the machine does. (The model of the CPU is among what the doctor adds to a capture.)
func captureLooksTheSame(t *testing.T, lstopo, dir string, h *Host, before oracleFacts, onlyUs bool) {
	t.Helper()
	leaves, err := Capture(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	fsys, err := OpenCapture(tar.NewReader(bytes.NewReader(packed(t, leaves))))
	if err != nil {
		t.Fatal(err)
	}
	again, err := FromSysfs(fsys)
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(h, again, "CPU"); d != "" {
		t.Errorf("(-machine +capture)\n%s", d)
	}
	// hwloc goes by /proc/driver/nvidia to hide nodes; a capture has no such
	// thing. Large trees take long to write out.
	if onlyUs || len(leaves) > 3000 {
		return
	}
	fresh := t.TempDir()
	writeLeaves(t, fresh, leaves)
	after := lstopoFacts(t, runLstopo(t, lstopo, fresh), h)
	for aspect, want := range before {
		if after[aspect] != want && aspect != "allowed" { // hwloc does not read /proc/self/status
			t.Errorf("%s of the machine: %s\nof the capture: %s", aspect, want, after[aspect])
		}
	}
}

func writeLeaves(t *testing.T, dir string, leaves []Leaf) {
	t.Helper()
	made := map[string]bool{}
	for _, l := range leaves {
		file := filepath.Join(dir, l.Name)
		if parent := filepath.Dir(file); !made[parent] {
			made[parent] = true
			if err := os.MkdirAll(parent, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if l.Link != "" {
			err = os.Symlink(l.Link, file)
		} else {
			err = os.WriteFile(file, l.Data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func compareDevices(t *testing.T, x, h *Host) {
	t.Helper()
	for _, d := range x.Devices {
		at := slices.IndexFunc(h.Devices, func(o Device) bool { return o.PCI == d.PCI && o.Name == d.Name })
		if at < 0 {
			// lstopo also lists what hwloc's own plugins name.
			t.Errorf("lstopo has %+v, we do not", d)
			continue
		}
		if o := h.Devices[at]; o.Kind != d.Kind || o.Node != d.Node || o.Root != d.Root && o.Root != "" {
			t.Errorf("lstopo has %+v, we have %+v", d, o)
		}
	}
}

func ourFacts(h *Host) oracleFacts {
	f := oracleFacts{"cpus": h.Online.String()}
	var nodes, cores, packages, llcs []string
	for _, n := range h.Nodes {
		text := fmt.Sprintf("%d", n.ID)
		if !n.CPUs.Empty() {
			text += ":" + n.CPUs.String()
		}
		nodes = append(nodes, text)
	}
	for _, c := range h.Cores {
		cores = append(cores, c.CPUs.String())
	}
	for _, p := range h.Packages {
		packages = append(packages, fmt.Sprintf("%d:%s", p.ID, p.CPUs))
	}
	for _, l := range h.LLCs {
		llcs = append(llcs, fmt.Sprintf("L%d:%d:%s", l.Level, l.Size, l.CPUs))
	}
	f.put("nodes", nodes)
	f.put("cores", cores)
	f.put("packages", packages)
	f.put("llcs", llcs)
	f["distances"] = fmt.Sprint(h.Distances)
	if len(h.Nodes) == 1 {
		f["distances"] = "[]" // hwloc leaves out the matrix of one node
	}
	f["allowed"] = h.Allowed.String() + " " + h.AllowedMems.String()
	return f
}

func (f oracleFacts) put(aspect string, lines []string) {
	slices.Sort(lines)
	f[aspect] = strings.Join(lines, " ")
}

// lstopoObject is lstopo's XML read without this package's reader.
type lstopoObject struct {
	Type      string         `xml:"type,attr"`
	Index     string         `xml:"os_index,attr"`
	CPUs      string         `xml:"cpuset,attr"`
	Allowed   string         `xml:"allowed_cpuset,attr"`
	AllowedNS string         `xml:"allowed_nodeset,attr"`
	Level     string         `xml:"depth,attr"`
	CacheType string         `xml:"cache_type,attr"`
	Bytes     int64          `xml:"cache_size,attr"`
	Memory    int64          `xml:"local_memory,attr"`
	Inner     []lstopoObject `xml:"object"`
}

type lstopoFile struct {
	Machine  lstopoObject `xml:"object"`
	Matrices []struct {
		Name    string   `xml:"name,attr"`
		Indexes []string `xml:"indexes"`
		Values  []string `xml:"u64values"`
	} `xml:"distances2"`
}

// mask turns "0x3,,0x1" into list format by hand.
func (o lstopoObject) mask(t *testing.T, text string) CPUSet {
	t.Helper()
	var s CPUSet
	words := strings.Split(text, ",")
	for i, word := range words {
		var v uint64
		if word != "" {
			if _, err := fmt.Sscanf(word, "0x%x", &v); err != nil {
				t.Fatalf("mask %q: %v", text, err)
			}
		}
		for bit := range 32 {
			if v>>bit&1 == 1 {
				s.Add(CPUID((len(words)-1-i)*32 + bit))
			}
		}
	}
	return s
}

func lstopoFacts(t *testing.T, out []byte, h *Host) oracleFacts {
	t.Helper()
	var file lstopoFile
	if err := xml.Unmarshal(out, &file); err != nil {
		t.Fatal(err)
	}
	var cpus CPUSet
	var nodes, cores, packages []string
	highest := map[CPUID]string{}
	rank := map[CPUID]int{}
	withCPUs := NodeSet{}
	for _, n := range h.Nodes {
		if !n.CPUs.Empty() {
			withCPUs.Add(n.ID)
		}
	}
	var walk func(o lstopoObject)
	walk = func(o lstopoObject) {
		switch {
		case o.Type == "PU":
			cpus = cpus.Union(o.mask(t, o.CPUs))
		case o.Type == "Core":
			cores = append(cores, o.mask(t, o.CPUs).String())
		case o.Type == "Package":
			packages = append(packages, o.Index+":"+o.mask(t, o.CPUs).String())
		case o.Type == "NUMANode":
			// hwloc gives a node without CPUs the CPUs near it.
			text := o.Index
			var id NodeID
			fmt.Sscan(o.Index, &id)
			if withCPUs.Has(id) {
				text += ":" + o.mask(t, o.CPUs).String()
			}
			nodes = append(nodes, text)
		case strings.HasSuffix(o.Type, "Cache") && o.Type != "MemCache" && o.CacheType != "2":
			var level int
			fmt.Sscan(o.Level, &level)
			r := level
			if o.CacheType == "0" {
				r += 100
			}
			size := o.Bytes >> 10
			if size == 0 {
				size = None
			}
			for cpu := range o.mask(t, o.CPUs).All() {
				if r > rank[cpu] {
					rank[cpu], highest[cpu] = r, fmt.Sprintf("L%d:%d:%s", level, size, o.mask(t, o.CPUs))
				}
			}
		}
		for _, in := range o.Inner {
			walk(in)
		}
	}
	walk(file.Machine)
	var llcs []string
	for _, text := range highest {
		if !slices.Contains(llcs, text) {
			llcs = append(llcs, text)
		}
	}
	f := oracleFacts{"cpus": cpus.String(), "distances": "[]"}
	f.put("nodes", nodes)
	f.put("cores", cores)
	f.put("packages", packages)
	f.put("llcs", llcs)
	for _, m := range file.Matrices {
		if m.Name == "NUMALatency" {
			n := len(strings.Fields(strings.Join(m.Indexes, " ")))
			values := strings.Fields(strings.Join(m.Values, " "))
			var rows []string
			for i := range n {
				rows = append(rows, "["+strings.Join(values[i*n:(i+1)*n], " ")+"]")
			}
			f["distances"] = "[" + strings.Join(rows, " ") + "]"
		}
	}
	// hwloc's mask of allowed nodes also holds those without memory.
	mems := NodeSet{}
	for id := range file.Machine.mask(t, file.Machine.AllowedNS).All() {
		if at := h.Index(NodeID(id)); at >= 0 && h.Nodes[at].Memory > 0 {
			mems.Add(NodeID(id))
		}
	}
	f["allowed"] = file.Machine.mask(t, file.Machine.Allowed).Intersect(cpus).String() + " " + mems.String()
	return f
}

func findLstopo(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"lstopo-no-graphics", "lstopo"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no lstopo; install hwloc-nox")
	return ""
}

func runLstopo(t *testing.T, lstopo, dir string) []byte {
	t.Helper()
	c := exec.Command(lstopo, "--input", dir, "--if", "fsroot", "--disallowed", "--of", "xml", "-")
	c.Env = append(os.Environ(), "HWLOC_THISSYSTEM=0", "HWLOC_HIDE_ERRORS=2", "HWLOC_COMPONENTS=linux,stop")
	var errors bytes.Buffer
	c.Stderr = &errors
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", c, err, errors.String())
	}
	return out
}

// sharedHosts are the captured machines outside the repository.
func sharedHosts(t *testing.T) []string {
	t.Helper()
	dir := os.Getenv("HOMENODE_SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	archives, err := filepath.Glob(filepath.Join(dir, "hosts", "*.tar.bz2"))
	if err != nil || len(archives) == 0 {
		t.Skip("no captured machines; set HOMENODE_SHARED")
	}
	return archives
}

// idle are leaves that neither we nor lstopo need; there are tens of thousands.
var idle = regexp.MustCompile(`/(power|cpuidle|thermal_throttle|microcode|stats|msi_irqs|memory\d+)(/|$)|` +
	`/(number_of_sets|ways_of_associativity|coherency_line_size|physical_line_partition|write_policy|allocation_policy|uevent|crash_notes.*)$`)

// unpackTree returns the folder that the archive holds.
func unpackTree(t *testing.T, archive string) string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var leaves []Leaf
	r := tar.NewReader(bzip2.NewReader(f))
	for {
		head, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Clean(head.Name)
		if !filepath.IsLocal(name) {
			t.Fatalf("%s holds %s", archive, head.Name)
		}
		if idle.MatchString(name) || head.Typeflag != tar.TypeReg && head.Typeflag != tar.TypeSymlink {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, Leaf{Name: name, Data: data, Link: head.Linkname})
	}
	into := t.TempDir()
	writeLeaves(t, into, leaves)
	top, _, _ := strings.Cut(leaves[0].Name, "/")
	return filepath.Join(into, top)
}
