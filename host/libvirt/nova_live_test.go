package libvirt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/libvirt/domain"
)

// Guests that the real Nova defined, as they run: with manage: nova those that it left to the
// kernel are placed as processes inside its cpu_shared_set, all others are its own with every
// CPU that it pinned, and libvirt is told nothing.
func TestNovaRuns(t *testing.T) {
	dir := os.Getenv("HOMENODE_NOVA_DOMAINS")
	if dir == "" {
		t.Skip("HOMENODE_NOVA_DOMAINS names no folder: make openstack runs this with the real Nova")
	}
	text, err := os.Open(filepath.Join(dir, "host.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	h, err := topology.FromJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.xml"))
	f := startFake(t)
	kind, pinned := map[workload.ID]string{}, map[workload.ID]topology.CPUSet{}
	for _, file := range files {
		config, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, err := domain.Parse(config)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".xml") // Nova's own are numbers
		named := strings.Replace(string(config), "<name>"+d.Name()+"</name>", "<name>"+name+"</name>", 1)
		f.add(t, name, strings.Replace(named, "<domain ", "<domain id='7' ", 1), named)
		kind[workload.ID("vm:"+name)] = name
		s, err := d.Guest(h)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Holds() {
			if p.Class == workload.Dedicated {
				pinned[workload.ID("vm:"+name)] = pinned[workload.ID("vm:"+name)].Union(p.CPUs)
			}
		}
	}
	pid := 100
	w := watch(t, func(o *WatchOptions) {
		o.Manage = Nova
		o.Process = func(string) (workload.Process, error) { pid++; return workload.Process{PID: pid, Start: 7}, nil }
		o.CPUs = func(int) (topology.CPUSet, error) { return h.Online, nil }
	})
	if err := w.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	claims, problems := w.Claims(h)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	floats := 0
	for i := range claims {
		c := &claims[i]
		name, ours := kind[c.ID]
		if !ours {
			continue
		}
		if own := strings.HasPrefix(name, "float") || name == "unfenced"; own {
			floats++
			if fence := c.Within.String(); c.Driver != workload.InProcess || !c.Alone.None() || c.Next != nil || len(c.Holds) > 0 || c.Caps != (workload.Caps{}) ||
				(fence == "") != (name == "unfenced") || fence != "" && fence != "2-3,14-15,26-27,38-39" {
				t.Errorf("%s: %+v", name, c)
			}
			continue
		}
		var held topology.CPUSet
		if c.Home != nil && c.Home.Class == workload.Dedicated {
			held = c.Home.CPUs
		}
		for _, p := range c.Holds {
			held = held.Union(p.CPUs)
		}
		if c.Driver != InGuest || c.Alone.Code != words.GuestBound || !pinned[c.ID].SubsetOf(held) {
			t.Errorf("%s: by %s, alone %v, holds %s; Nova has pinned %s", name, c.Driver, c.Alone, held, pinned[c.ID])
		}
	}
	if floats < 2 || len(kind) < 15 {
		t.Errorf("%d guests float of %d", floats, len(kind))
	}
	f.edit(func() {
		for _, call := range f.calls {
			if !strings.HasPrefix(call, "Get") && !strings.HasPrefix(call, "List") && !strings.HasPrefix(call, "DomainLookup") {
				t.Errorf("libvirt was told: %s", call)
			}
		}
	})
}
