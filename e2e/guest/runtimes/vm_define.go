//go:build linux

package runtimes

import (
	"fmt"
	"strings"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// libvirtDefine: six guests that homenode defined and virsh started are where
// they belong: threads and memory, by /proc alone.
func libvirtDefine(t *lab.T) {
	sixGuests(t)
	var taken lab.Set // by vCPUs of dedicated guests, and by emulators on CPUs of their own
	for _, v := range six {
		if v.dedicated() {
			taken |= dedicatedAtHome(t, v, taken)
		}
	}
	for _, v := range six {
		if !v.dedicated() {
			floatsAtHome(t, v, taken)
		}
	}
	r := t.Must(vmCommand("list"), lab.ExitOK)
	for _, v := range six {
		if !strings.Contains(r.Out, "\n"+v.name+" ") {
			t.Fatalf("no %s in %s", v.name, r.Out)
		}
	}
	t.Textf("%d guests, vCPUs of dedicated ones on CPUs %s", len(six), taken)
}

// dedicatedAtHome checks a dedicated guest and returns the CPUs that are its own.
func dedicatedAtHome(t *lab.T, v *vm, taken lab.Set) lab.Set {
	vcpus := vcpus(t, v)
	cpus := union(vcpus)
	if cpus.Size() != v.vcpus || cpus&taken != 0 || cpus&t.Set(reserved) != 0 {
		t.Fatalf("%s: its %d vCPUs may use %v; others have %s, the host has %s", v.name, v.vcpus, vcpus, taken,
			reserved)
	}
	nodes := t.NodesOf(cpus)
	if nodes.Size() != v.nodes {
		t.Fatalf("%s: on nodes %s, wanted %d", v.name, nodes, v.nodes)
	}
	own := cpus
	emulator, io := union(v.threads()[""]), union(v.threads()["IO iothread1"])
	switch {
	case v.emulator == "share" && emulator != cpus,
		v.emulator == "housekeeping" && emulator != t.Set(reserved),
		v.emulator == "isolate" && (emulator.Size() != 1 || !emulator.Within(lab.CPUsOf(nodes)) ||
			emulator&(cpus|taken) != 0):
		t.Fatalf("%s: emulator threads on CPUs %s by %q, vCPUs on %s", v.name, emulator, v.emulator, cpus)
	}
	if v.emulator == "isolate" {
		own |= emulator
	}
	if io != emulator {
		t.Fatalf("%s: its IOThread may use %s, its emulator %s", v.name, io, emulator)
	}
	// Each cell's memory on one node of its own.
	ram := v.ram()
	var seen lab.Set
	for _, m := range ram {
		for _, n := range nodes.IDs() {
			if lab.Share(m.Nodes, lab.SetOf(n)) >= 0.99 && m.Policy == fmt.Sprintf("bind:%d", n) {
				seen |= lab.SetOf(n)
			}
		}
	}
	if len(ram) != v.nodes || seen != nodes {
		t.Fatalf("%s: vCPUs on nodes %s, its memory %+v", v.name, nodes, ram)
	}
	memoryAtHome(t, v, nodes)
	return own
}

// floatsAtHome checks a shared guest.
func floatsAtHome(t *lab.T, v *vm, taken lab.Set) {
	floats := union(vcpus(t, v))
	nodes := t.NodesOf(floats)
	if nodes.Size() != v.nodes || floats&(taken|t.Set(reserved)) != 0 {
		t.Fatalf("%s: floats over CPUs %s of nodes %s; %s are others', %s the host's", v.name, floats, nodes, taken,
			reserved)
	}
	for name, sets := range v.threads() {
		if union(sets) != floats {
			t.Fatalf("%s: thread %q may use %s, its vCPUs %s", v.name, name, union(sets), floats)
		}
	}
	memoryAtHome(t, v, nodes)
}

// memoryAtHome: 99 % of all that QEMU has allocated is there.
func memoryAtHome(t *lab.T, v *vm, nodes lab.Set) {
	anon, err := lab.AnonByNode(v.pid())
	t.Do(err)
	at := lab.Share(anon, nodes)
	t.Row("Guests of libvirt: where QEMU's memory lies", v.name, v.flavor, "node "+nodes.String(), lab.ByNodeText(anon),
		fmt.Sprintf("%.1f %%", at*100))
	if at < 0.99 {
		maps, _ := lab.NumaMaps(v.pid())
		for _, m := range maps {
			if m.Anon && lab.Share(m.Nodes, nodes) < 1 {
				t.Logf("%s: %x %s %s", v.name, m.Start, m.Policy, lab.ByNodeText(m.Nodes))
			}
		}
		t.Fatalf("%s: %.1f %% of its memory on its home %s: %s", v.name, at*100, nodes, lab.ByNodeText(anon))
	}
}
