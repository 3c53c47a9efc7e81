//go:build linux

package main

import (
	"strings"
	"time"
)

// homenodeMove: dedicated work moves when told to, and over a kill -9 in the middle;
// the move can be cancelled, huge pages come whole, and undo knows the first values.
// Others stay.
func homenodeMove(t *T) {
	ws := t.startWalkers(cgroupRoot,
		walkerSpec{name: "vm", slot: 0, mib: 96, threads: 2, place: "bind:0", unbind: true, huge: true},
		walkerSpec{name: "web", slot: 1, mib: 32, threads: 1, place: "bind:2", unbind: true})
	vm := ws[0]
	before := takeSnapshot(ws)
	whole := vm.hugePages(t)
	if whole == 0 {
		t.Fatalf("%s has no transparent huge page", vm.name)
	}
	o := daemonOptions{mode: "enforce", extra: "workloads: [{match: vm, class: dedicated, cpus: 2}]\n"}
	d := t.startDaemon(o)
	homes := t.awaitHome(settleLimit, ws)
	var rest []string
	for n := range t.shape.Nodes {
		if !homes["vm"].has(n) && !homes["web"].has(n) {
			rest = append(rest, setOf(n).String())
		}
	}
	bound := func(to string) {
		t.Until(60*time.Second, "new memory is bound to node "+to, func() (bool, string) {
			mems := t.read(vm.group.file("cpuset.mems"))
			return mems == to, mems
		})
	}
	bound(homes["vm"].String())
	settled := takeSnapshot(ws)
	dry := t.must(homenode("move", "vm", "--to", rest[0], "--dry-run", "--json"), exitOK)
	if !strings.Contains(dry.out, `"`+rest[0]+`"`) {
		t.Fatalf("%s", dry)
	}
	t.must(homenode("move", "vm", "--to", "9"), exitNo)
	t.must(homenodeVia(viaNobody, "move", "vm", "--to", rest[0]), exitForbidden)
	warm(2 * time.Second)
	t.same("after a dry run and refusals", settled, takeSnapshot(ws), all)
	t.stop(d)

	o.bandwidth = slow
	d = t.startDaemon(o)
	t.must(homenode("move", "vm", "--to", rest[0]), exitOK)
	t.awaitMove(vm)
	d.kill9()
	t.walking(ws)
	d = t.startDaemon(o)
	t.awaitEvent(20*time.Second, vm.id(), "move-interrupted")
	t.awaitMove(vm)
	t.must(homenode("move", "vm", "--cancel"), exitOK)
	t.awaitEvent(20*time.Second, vm.id(), "move-cancelled", "move-cancelled-by-hand")
	// The call that was under way when the move was cancelled comes to its end.
	var held string
	t.until(20*time.Second, 2*time.Second, "the pages stay", func() (bool, string) {
		last := held
		held = byNodeText(t.buffer(vm).nodes)
		return held == last, last + ", then " + held
	})
	warm(3 * time.Second)
	s := t.status()
	if m, state, _ := s.of(vm.id()); state != "held" || m.State != "cancelled" || byNodeText(t.buffer(vm).nodes) != held {
		t.Fatalf("cancelled: state %q, move %q, pages %s, then %s", state, m.State, held, byNodeText(t.buffer(vm).nodes))
	}
	t.must(homenode("move", "vm", "--cancel"), exitNo)
	t.stop(d)

	o.bandwidth = ""
	d = t.startDaemon(o)
	start := time.Now()
	t.must(homenode("move", "vm", "--to", rest[1]), exitOK)
	after := t.awaitHome(settleLimit, ws)
	took := time.Since(start)
	if after["vm"].String() != rest[1] || after["web"] != homes["web"] {
		t.Fatalf("told to go to node %s: homes are %v, before %v", rest[1], after, homes)
	}
	bound(rest[1])
	t.walking(ws)
	if is := vm.hugePages(t); is < whole {
		t.Fatalf("of %d transparent huge pages %d are left", whole, is)
	}
	t.undoneAll()
	t.same("after undo --all", before, takeSnapshot(ws), all)
	t.alive(d)
	t.order(ws, "pause", "paused")
	t.must(homenode("replay", stateFolder+"/flight"), exitOK)
	t.Textf("node %s to %s, killed and cancelled on the way, then to %s in %.1f s with %d huge pages whole", homes["vm"], rest[0], rest[1], took.Seconds(), whole)
}
