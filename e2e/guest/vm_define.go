//go:build linux

package main

import (
	"fmt"
	"strings"
)

func init() {
	tests["libvirt.define"] = libvirtDefine
}

// libvirtDefine: six guests that homenode defined and virsh started are where
// they belong: threads and memory, by /proc alone.
func libvirtDefine(t *T) {
	t.sixGuests()
	var taken set // by vCPUs of dedicated guests, and by emulators on CPUs of their own
	for _, v := range six {
		if v.dedicated() {
			taken |= t.dedicatedAtHome(v, taken)
		}
	}
	for _, v := range six {
		if !v.dedicated() {
			t.floatsAtHome(v, taken)
		}
	}
	r := t.must(vmCommand("list"), exitOK)
	for _, v := range six {
		if !strings.Contains(r.out, "\n"+v.name+" ") {
			t.Fatalf("no %s in %s", v.name, r.out)
		}
	}
	t.Textf("%d guests, vCPUs of dedicated ones on CPUs %s", len(six), taken)
}

// dedicatedAtHome checks a dedicated guest and returns the CPUs that are its own.
func (t *T) dedicatedAtHome(v *vm, taken set) set {
	vcpus := t.vcpus(v)
	cpus := union(vcpus)
	if cpus.size() != v.vcpus || cpus&taken != 0 || cpus&t.set(reserved) != 0 {
		t.Fatalf("%s: its %d vCPUs may use %v; others have %s, the host has %s", v.name, v.vcpus, vcpus, taken, reserved)
	}
	nodes := t.nodesOf(cpus)
	if nodes.size() != v.nodes {
		t.Fatalf("%s: on nodes %s, wanted %d", v.name, nodes, v.nodes)
	}
	own := cpus
	emulator, io := union(v.threads()[""]), union(v.threads()["IO iothread1"])
	switch {
	case v.emulator == "share" && emulator != cpus,
		v.emulator == "housekeeping" && emulator != t.set(reserved),
		v.emulator == "isolate" && (emulator.size() != 1 || !emulator.within(cpusOf(nodes)) || emulator&(cpus|taken) != 0):
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
	var seen set
	for _, m := range ram {
		for _, n := range nodes.ids() {
			if share(m.nodes, setOf(n)) >= 0.99 && m.policy == fmt.Sprintf("bind:%d", n) {
				seen |= setOf(n)
			}
		}
	}
	if len(ram) != v.nodes || seen != nodes {
		t.Fatalf("%s: vCPUs on nodes %s, its memory %+v", v.name, nodes, ram)
	}
	t.memoryAtHome(v, nodes)
	return own
}

// floatsAtHome checks a shared guest.
func (t *T) floatsAtHome(v *vm, taken set) {
	floats := union(t.vcpus(v))
	nodes := t.nodesOf(floats)
	if nodes.size() != v.nodes || floats&(taken|t.set(reserved)) != 0 {
		t.Fatalf("%s: floats over CPUs %s of nodes %s; %s are others', %s the host's", v.name, floats, nodes, taken, reserved)
	}
	for name, sets := range v.threads() {
		if union(sets) != floats {
			t.Fatalf("%s: thread %q may use %s, its vCPUs %s", v.name, name, union(sets), floats)
		}
	}
	t.memoryAtHome(v, nodes)
}

// memoryAtHome: 99 % of all that QEMU has allocated is there.
func (t *T) memoryAtHome(v *vm, nodes set) {
	anon, err := anonByNode(v.pid())
	t.Do(err)
	at := share(anon, nodes)
	t.Row("Guests of libvirt: where QEMU's memory lies", v.name, v.flavor, "node "+nodes.String(), byNodeText(anon), fmt.Sprintf("%.1f %%", at*100))
	if at < 0.99 {
		maps, _ := numaMaps(v.pid())
		for _, m := range maps {
			if m.anon && share(m.nodes, nodes) < 1 {
				t.Logf("%s: %x %s %s", v.name, m.start, m.policy, byNodeText(m.nodes))
			}
		}
		t.Fatalf("%s: %.1f %% of its memory on its home %s: %s", v.name, at*100, nodes, byNodeText(anon))
	}
}
