//go:build linux

package main

import (
	"os"
	"strings"
)

func init() { tests["libvirt.required"] = libvirtRequired }

const nearFlavors = `flavors:
  - {name: six, class: dedicated, vcpus: 6, memory: 64MiB, max_nodes: 1, emulator: share}
  - {name: four, class: dedicated, vcpus: 4, memory: 64MiB, max_nodes: 1, emulator: share}
`

// libvirtRequired: a guest that has to be near the card of node 1 is refused while that node is
// full, with the reason, and not placed elsewhere; with room there it starts there and stays.
func libvirtRequired(t *T) {
	card := t.card()
	t.Do(os.WriteFile(flavorsPath, []byte(nearFlavors), 0o644))
	near, home := "device="+card.name, setOf(t.shape.NIC)
	names := []string{"filler", "close"}
	for _, n := range names {
		remove(n)
		t.Defer(func() { remove(n) })
	}
	freshState()
	define := func(flavor, name string, more ...string) result {
		return vmCommand(append([]string{"define", "--emulated", "--flavor", flavor, "--name", name, "--disk", t.image(name) + ",format=raw"}, more...)...)
	}
	t.must(define("six", "filler", "--nodes", home.String()), exitOK)
	refused := define("four", "close", "--near", near+",policy=required")
	t.saysWhy(refused, exitNo)
	if !strings.Contains(refused.err, "It has to be on node "+home.String()+", where "+card.name+" is") || virsh("domstate", "close").exit == exitOK {
		t.Fatalf("%s", refused)
	}
	t.saysWhy(define("four", "close", "--near", "device=none0,policy=required"), exitNo)
	// A wish alone is no ground to refuse.
	v := &vm{name: "close", flavor: "four", vcpus: 4, mib: 64, nodes: 1, emulator: "share"}
	t.must(define("four", "close", "--near", near), exitOK)
	t.start([]*vm{v})
	if at := t.nodesOf(union(t.vcpus(v))); at == home {
		t.Fatalf("with a wish it is on node %s, which had no room", at)
	}
	for _, n := range names {
		remove(n)
	}
	t.must(define("four", "close", "--near", near+",policy=required"), exitOK)
	t.start([]*vm{v})
	t.dedicatedAtHome(v, 0)
	if at := t.nodesOf(union(t.vcpus(v))); at != home {
		t.Fatalf("it has to be on node %s, is on %s", home, at)
	}
	moved := vmCommand("move", "close", "--nodes", "0")
	t.saysWhy(moved, exitNo)
	d := t.overGuests("marked", true)
	t.seen(d, []*vm{v})
	ordered := homenode("move", "vm:close", "--to", "0")
	t.saysWhy(ordered, exitNo)
	if at := t.nodesOf(union(t.vcpus(v))); at != home {
		t.Fatalf("it has to be on node %s, went to %s", home, at)
	}
	t.alive(d)
	t.stop(d)
	t.Textf("%s", strings.TrimSpace(refused.err))
}
