package domain

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// novaDomains is a folder with documents that the real Nova wrote; make openstack makes it.
func novaDomains(t *testing.T, sub string) (*topology.Host, map[string]*Document) {
	t.Helper()
	dir := os.Getenv("HOMENODE_NOVA_DOMAINS")
	if dir == "" {
		t.Skip("HOMENODE_NOVA_DOMAINS names no folder: make openstack runs this with the real Nova")
	}
	dir = filepath.Join(dir, sub)
	f, err := os.Open(filepath.Join(dir, "host.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := topology.FromJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.xml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%d documents in %s, %v", len(files), dir, err)
	}
	docs := map[string]*Document{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d.String() != string(text) {
			t.Errorf("%s: not the same bytes", name)
		}
		docs[strings.TrimSuffix(filepath.Base(name), ".xml")] = d
	}
	return h, docs
}

// Documents of the real Nova: known as its, byte for byte the same after adopt and release,
// and of what it pinned no CPU is given away again, to as many guests as fit.
func TestNovaDocuments(t *testing.T) {
	h, docs := novaDomains(t, "")
	floats := map[string]string{"float": "2-3,14-15,26-27,38-39", "float-weighed": "2-3,14-15,26-27,38-39", "unfenced": ""}
	var taken topology.CPUSet
	var guests []guest.Guest
	for name, d := range docs {
		s, err := d.Guest(h)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		fence, float := floats[name]
		if !s.Nova || s.Floats != float || s.Fence.String() != fence || (s.Manual != "") != (!float || fence != "") {
			t.Errorf("%s: nova %v, floats %v in %q, %q", name, s.Nova, s.Floats, s.Fence, s.Manual)
		}
		text := d.String()
		again, _ := Parse([]byte(text))
		again.Place(h, guest.Home{Placement: plan.Placement{Workload: s.Spec.ID, Class: workload.Shared, Importance: 50, VCPUs: s.Spec.CPUs,
			Home: topology.Nodes(1), CPUs: topology.CPUs(14, 15), Memory: []workload.NodeMemory{{Node: 1, KiB: s.Spec.Memory}}}}, Mark{})
		if marked, err := again.Guest(h); err != nil || marked.Floats || !marked.Placed {
			t.Errorf("%s, adopted: %+v, %v", name, marked, err)
		}
		if again.Release(); s.Manual == "" && again.String() != text {
			t.Errorf("%s: adopted and released:\n%s", name, again)
		}
		s.Name = name // they may have one name, made one after the other
		s.Spec.ID = guest.ID(name)
		s.Home.Placement.Workload = s.Spec.ID
		s.Running = true
		for i := range s.Apart {
			s.Apart[i].Workload = workload.ID(fmt.Sprintf("%s/%d", s.Spec.ID, i))
		}
		guests = append(guests, s)
		for _, p := range s.Holds() {
			if p.Class != workload.Dedicated {
				continue
			}
			if p.CPUs.Intersects(taken) {
				t.Errorf("%s: CPUs %s of %s are another's", name, p.CPUs.Intersect(taken), p.Workload)
			}
			taken = taken.Union(p.CPUs)
		}
		pins, err := d.vcpuPins()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, cpus := range pins {
			if cpus.Len() == 1 && !cpus.SubsetOf(taken) {
				t.Errorf("%s: CPU %s is Nova's and not held", name, cpus)
			}
		}
	}
	if taken.Len() < 22 {
		t.Errorf("Nova has pinned %d CPUs, %s", taken.Len(), taken)
	}
	room, err := guest.NewRoom(plan.State{Host: h, Policy: plan.DefaultPolicy()}, guests, nil)
	if err != nil {
		t.Fatal(err)
	}
	defined := 0
	for i := range 2 * h.Online.Len() {
		home, why := room.Place(&guest.Order{Name: fmt.Sprint("new", i), Flavor: guest.Flavor{Name: "one", Class: workload.Dedicated, VCPUs: 1, Memory: 1024,
			SMT: workload.SMTPrefer, Importance: 50, Emulator: guest.Share, Queues: 1}})
		if why.Outcome != plan.Placed {
			break
		}
		room.Commit(home)
		defined++
		if home.Placement.CPUs.Intersects(taken) {
			t.Fatalf("CPU %s is given away twice", home.Placement.CPUs)
		}
	}
	if defined == 0 || defined+taken.Len() > h.Online.Len() {
		t.Errorf("%d guests defined beside %d CPUs of Nova's", defined, taken.Len())
	}
}

// What Nova makes of a guest that floats for another host binds it to nothing but that host's
// shared set: homenode has written nothing that it could carry along.
func TestNovaMigrates(t *testing.T) {
	h, docs := novaDomains(t, "migrated")
	for name, d := range docs {
		s, err := d.Guest(h)
		want := ""
		if strings.HasSuffix(name, "-fenced") {
			want = "6-7"
		}
		if err != nil || !s.Nova || !s.Floats || s.Fence.String() != want || d.markElement() != nil || d.at("numatune") != nil {
			t.Errorf("%s: floats %v in %q, %q, %v", name, s.Floats, s.Fence, s.Manual, err)
		}
	}
	if rng := schema(); rng != "" {
		texts := map[string][]byte{}
		for name, d := range docs {
			texts[name] = d.Bytes()
		}
		validate(t, rng, texts)
	}
}
