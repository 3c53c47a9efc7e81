//go:build linux

package home

import (
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// homenodeMove: dedicated work moves when told to, and over a kill -9 in the middle;
// the move can be cancelled, huge pages come whole, and undo knows the first values.
// Others stay.
func homenodeMove(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot,
		lab.WalkerSpec{Name: "vm", Slot: 0, MiB: 96, Threads: 2, Place: "bind:0", Unbind: true, Huge: true},
		lab.WalkerSpec{Name: "web", Slot: 1, MiB: 32, Threads: 1, Place: "bind:2", Unbind: true})
	vm := ws[0]
	before := lab.TakeSnapshot(ws)
	whole := vm.HugePages(t)
	if whole == 0 {
		t.Fatalf("%s has no transparent huge page", vm.Name)
	}
	o := lab.DaemonOptions{Mode: "enforce", Extra: "workloads: [{match: vm, class: dedicated, cpus: 2}]\n"}
	d := t.StartDaemon(o)
	homes := t.AwaitHome(lab.SettleLimit, ws)
	var rest []string
	for n := range t.Shape.Nodes {
		if !homes["vm"].Has(n) && !homes["web"].Has(n) {
			rest = append(rest, lab.SetOf(n).String())
		}
	}
	bound := func(to string) {
		t.Until(60*time.Second, "new memory is bound to node "+to, func() (bool, string) {
			mems := t.Read(vm.Group.File("cpuset.mems"))
			return mems == to, mems
		})
	}
	bound(homes["vm"].String())
	settled := lab.TakeSnapshot(ws)
	dry := t.Must(lab.Homenode("move", "vm", "--to", rest[0], "--dry-run", "--json"), lab.ExitOK)
	if !strings.Contains(dry.Out, `"`+rest[0]+`"`) {
		t.Fatalf("%s", dry)
	}
	t.Must(lab.Homenode("move", "vm", "--to", "9"), lab.ExitNo)
	t.Must(lab.HomenodeVia(lab.ViaNobody, "move", "vm", "--to", rest[0]), lab.ExitForbidden)
	lab.Warm(2 * time.Second)
	t.Same("after a dry run and refusals", settled, lab.TakeSnapshot(ws), lab.All)
	t.Stop(d)

	o.Bandwidth = slow
	d = t.StartDaemon(o)
	t.Must(lab.Homenode("move", "vm", "--to", rest[0]), lab.ExitOK)
	awaitMove(t, vm)
	d.Kill9()
	t.Walking(ws)
	d = t.StartDaemon(o)
	t.AwaitEvent(20*time.Second, vm.ID(), "move-interrupted")
	awaitMove(t, vm)
	t.Must(lab.Homenode("move", "vm", "--cancel"), lab.ExitOK)
	t.AwaitEvent(20*time.Second, vm.ID(), "move-cancelled", "move-cancelled-by-hand")
	// The call that was under way when the move was cancelled comes to its end.
	var held string
	t.Poll(20*time.Second, 2*time.Second, "the pages stay", func() (bool, string) {
		last := held
		held = lab.ByNodeText(t.Buffer(vm).Nodes)
		return held == last, last + ", then " + held
	})
	lab.Warm(3 * time.Second)
	s := t.Status()
	if m, state, _ := s.Of(vm.ID()); state != "held" || m.State != "cancelled" ||
		lab.ByNodeText(t.Buffer(vm).Nodes) != held {
		t.Fatalf("cancelled: state %q, move %q, pages %s, then %s", state, m.State, held,
			lab.ByNodeText(t.Buffer(vm).Nodes))
	}
	t.Must(lab.Homenode("move", "vm", "--cancel"), lab.ExitNo)
	t.Stop(d)

	o.Bandwidth = ""
	d = t.StartDaemon(o)
	start := time.Now()
	t.Must(lab.Homenode("move", "vm", "--to", rest[1]), lab.ExitOK)
	after := t.AwaitHome(lab.SettleLimit, ws)
	took := time.Since(start)
	if after["vm"].String() != rest[1] || after["web"] != homes["web"] {
		t.Fatalf("told to go to node %s: homes are %v, before %v", rest[1], after, homes)
	}
	bound(rest[1])
	t.Walking(ws)
	if is := vm.HugePages(t); is < whole {
		t.Fatalf("of %d transparent huge pages %d are left", whole, is)
	}
	t.UndoneAll()
	t.Same("after undo --all", before, lab.TakeSnapshot(ws), lab.All)
	t.Alive(d)
	t.Order(ws, "pause", "paused")
	t.Must(lab.Homenode("replay", lab.StateFolder+"/flight"), lab.ExitOK)
	t.Textf("node %s to %s, killed and cancelled on the way, then to %s in %.1f s with %d huge pages whole",
		homes["vm"], rest[0], rest[1], took.Seconds(), whole)
}
