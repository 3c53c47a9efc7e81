package domain

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
)

// libvirtDocuments is the domain documents in libvirt's source; make libvirt fetches it.
func libvirtDocuments(t *testing.T) (source string, docs map[string]string) {
	t.Helper()
	source = os.Getenv("HOMENODE_LIBVIRT_SOURCE")
	if source == "" {
		t.Skip("HOMENODE_LIBVIRT_SOURCE names no folder: make libvirt runs this with libvirt's own documents")
	}
	files, _ := filepath.Glob(filepath.Join(source, "tests/qemuxmlconfdata/*.xml"))
	if len(files) < 2000 {
		t.Fatalf("%d documents in %s", len(files), source)
	}
	docs = map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		docs[strings.TrimSuffix(filepath.Base(f), ".xml")] = string(text)
	}
	return source, docs
}

// judge is what says of documents in files whether they are right, by name.
type judge func(t *testing.T, files []string) map[string]bool

// bySchema is libvirt's schema of that source.
func bySchema(source string) judge {
	return func(t *testing.T, files []string) map[string]bool {
		right := map[string]bool{}
		for some := range slices.Chunk(files, 500) {
			args := append([]string{"--noout", "--relaxng", filepath.Join(source, "src/conf/schemas/domain.rng")}, some...)
			out, _ := exec.Command("xmllint", args...).CombinedOutput() // its status is that of the worst
			for line := range strings.Lines(string(out)) {
				if file, valid := strings.CutSuffix(strings.TrimSpace(line), " validates"); valid {
					right[filepath.Base(file)] = true
				}
			}
		}
		return right
	}
}

// byParser is libvirt's parser of this machine, by its driver for tests, which keeps guests in
// memory and runs none. A document that ends virsh (9.0 does on some) is not taken.
func byParser(t *testing.T, files []string) map[string]bool {
	right := map[string]bool{}
	for some := range slices.Chunk(files, 100) {
		taken(t, some, right)
	}
	return right
}

func taken(t *testing.T, files []string, right map[string]bool) {
	var commands bytes.Buffer
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&commands, "define %s\n", f)
		if d, err := Parse(text); err == nil { // the next of its name has another UUID
			fmt.Fprintf(&commands, "undefine '%s'\n", d.Name())
		}
	}
	c := exec.Command("virsh", "-c", "test:///default")
	c.Stdin, c.Env = &commands, append(os.Environ(), "LC_ALL=C")
	out, err := c.Output()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	if !c.ProcessState.Exited() { // by a signal
		if half := len(files) / 2; half > 0 {
			taken(t, files[:half], right)
			taken(t, files[half:], right)
		}
		return
	}
	for line := range strings.Lines(string(out)) {
		if _, file, ok := strings.Cut(line, "' defined from "); ok {
			right[filepath.Base(strings.TrimSpace(file))] = true
		}
	}
}

// kindsOf is the ways in which a guest is placed, by name: each changes a document.
func kindsOf(d *Document) map[string]func(*Document) {
	h := eight()
	most, _, err := d.vcpus()
	if err != nil {
		return nil
	}
	kinds := map[string]func(*Document){
		"shared":    func(d *Document) { d.Place(h, sharedHome("x", most), Mark{}) },
		"only":      func(d *Document) { d.Place(h, sharedHome("x", most), Mark{Only: "1"}) },
		"exact":     func(d *Document) { d.Place(h, sharedHome("x", most), Mark{Exact: 1}) },
		"dedicated": func(d *Document) { d.Place(h, dedicatedHome("x", most), Mark{Emulator: guest.Isolate}) },
	}
	cells, err := d.guestCells()
	if err != nil || len(cells) == 0 || most > 512 {
		return kinds
	}
	home := sharedHome("x", most)
	for i := range cells {
		home.Cells = append(home.Cells, topology.NodeID(i%2))
	}
	home.Emulator = topology.CPUs(3, 7)
	floating, mixed := home, home
	for v := range most {
		all := topology.CPUs(2, 3, 6, 7)
		floating.VCPUs = append(floating.VCPUs, all)
		if v == 0 {
			all = topology.CPUs(1)
		}
		mixed.VCPUs = append(mixed.VCPUs, all)
	}
	kinds["cells"] = func(d *Document) { d.Place(h, floating, Mark{Composed: true}) }
	kinds["mixed"] = func(d *Document) { d.Place(h, mixed, Mark{Composed: true, Own: "0"}) }
	return kinds
}

// libvirt's own documents, placed in each way and released: the same bytes of each that nobody
// has bound. Placed, each is as valid as it was, by libvirt's schema and by its parser.
func TestLibvirtDocuments(t *testing.T) {
	source, docs := libvirtDocuments(t)
	dir := t.TempDir()
	var files []string
	made := map[string]string{} // by the name of the file: the document that it was
	write := func(was, kind string, text []byte) {
		name := was + "." + kind + ".xml"
		files = append(files, filepath.Join(dir, name))
		if made[name] = was; kind == "original" {
			made[name] = ""
		}
		if err := os.WriteFile(files[len(files)-1], text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	count := map[string]int{}
	var unread, odd []string
	for name, text := range docs {
		d, err := Parse([]byte(text))
		if err != nil {
			unread = append(unread, name)
			continue
		}
		if count["read"]++; d.String() != text {
			t.Errorf("%s: not the same bytes", name)
		}
		write(name, "original", []byte(text))
		kinds := kindsOf(d)
		if kinds == nil {
			odd = append(odd, name)
		}
		for kind, place := range kinds {
			bound := d.Manual() != ""
			if bound && kind != "dedicated" {
				continue
			}
			again, _ := Parse([]byte(text))
			place(again)
			write(name, kind, again.Bytes())
			if count[kind]++; bound { // vm place takes what somebody bound, and gives it back unbound
				continue
			}
			if again, err = Parse(again.Bytes()); err != nil {
				t.Errorf("%s, %s: %v", name, kind, err)
				continue
			}
			if again.Release(); again.String() != text {
				t.Errorf("%s, %s and released:\n%s", name, kind, again)
				continue
			}
			count["back"]++
		}
	}
	if len(unread) > 1 || len(odd) > 12 || count["shared"] < 2000 || count["mixed"] < 30 {
		t.Errorf("too few were placed")
	}
	composedGuests(t, func(o *guest.Order, home guest.Home, _ *Document, _ *guest.Room) {
		for _, console := range []string{"", "vnc", "spice"} {
			for _, cpu := range []string{"", "host-model", "Skylake-Server"} {
				with := *o
				with.Graphics, with.CPU = console, cpu
				with.Disks, with.NICs = []guest.Disk{{Source: "/d.img", Format: "raw"}}, []guest.NIC{{Kind: guest.Network, Source: "n"}}
				x, err := New(eight(), &with, home, Machine{Arch: "x86_64"})
				if err != nil {
					t.Fatal(err)
				}
				kind := "new" + console + cpu
				write(o.Name, kind, x.Bytes())
				made[o.Name+"."+kind+".xml"] = ""
				x.Release()
				text := x.String()
				write(o.Name, kind+"-released", x.Bytes())
				made[o.Name+"."+kind+"-released.xml"] = o.Name + "." + kind + ".xml"
				x.Place(eight(), sharedHome("x", o.Flavor.VCPUs), Mark{})
				if x.Release(); x.String() != text {
					t.Errorf("%s, %s: adopted and released:\n%s", o.Name, kind, x)
				}
				count["new"]++
			}
		}
	})
	t.Logf("read %d, unread %v, vCPUs wrong in %v; %v", count["read"], unread, odd, count)
	slices.Sort(files)
	for by, judge := range map[string]struct {
		needs string
		judge judge
	}{"schema": {"xmllint", bySchema(source)}, "parser": {"virsh", byParser}} {
		if _, err := exec.LookPath(judge.needs); err != nil {
			t.Logf("no %s here: not asked", judge.needs)
			continue
		}
		right := judge.judge(t, files)
		asked, originals := 0, 0
		var bad []string
		for _, f := range files {
			name := filepath.Base(f)
			was := made[name]
			if was == "" {
				if right[name] {
					originals++
				} else if strings.Contains(name, ".new") {
					bad = append(bad, name)
				}
				continue
			}
			if !strings.HasSuffix(was, ".xml") {
				was += ".original.xml"
			}
			if right[was] {
				if asked++; !right[name] {
					bad = append(bad, name)
				}
			}
		}
		t.Logf("%s: right before %d, right placed %d of %d", by, originals, asked-len(bad), asked)
		if len(bad) > 0 || asked < 1000 {
			t.Errorf("%s: %d are wrong that were right: %v", by, len(bad), bad[:min(len(bad), 20)])
		}
	}
}
