package libvirt

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// InGuest is the kind of a workload that is reached through libvirt alone.
const InGuest = guest.Kind

// Managed says which guests homenode places. What the others hold counts all the same.
type Managed string

// Which guests.
const (
	None   Managed = "none"   // libvirt is not asked at all
	Marked Managed = "marked" // those with homenode's mark: vm define and vm adopt write it
	// Nova: those of OpenStack Nova that it has not pinned, too: as they run, by their threads
	// and pages, so that nothing is written of them that Nova would carry elsewhere.
	Nova  Managed = "nova"
	Every Managed = "all" // all that nobody has bound, too, as shared guests; Nova's as with Nova
)

// atOnce is how much memory of a guest follows its nodes without being paced: the kernel
// moves that within a quarter of a second. A guest that has only started has touched
// less.
const atOnce = topology.KiB(256 << 10)

// caps is what can be done with any guest: libvirt's binding of its memory takes the
// pages along, and it widens again what it has narrowed.
func caps(g *guest.Observed) workload.Caps {
	return workload.Caps{MemoryFollows: true, MemoryStays: g.Composed != nil, AtOnce: atOnce, Rebinds: true,
		NextStart: g.Defined != nil}
}

// Claims is what is known of the guests as of the last Refresh that did not fail. The last
// claim is of all other cgroups that are libvirt's: nobody else may write them.
func (w *Watch) Claims(h *topology.Host) ([]workload.Claim, []workload.Problem) {
	guests, unread := w.Guests(h)
	w.mu.Lock()
	silent := w.last
	w.mu.Unlock()
	var out []workload.Claim
	var problems []workload.Problem
	for i := range guests {
		g := &guests[i]
		out = append(out, w.claim(g, h, silent))
		out = append(out, w.cells(g, h, silent)...)
	}
	for _, u := range unread {
		problems = append(problems, workload.Problem{Subject: "guest " + u.Name, Text: u.Text})
		if u.Running {
			out = append(out, workload.Claim{ID: guest.ID(u.Name), Name: u.Name, Process: u.Process,
				Cgroups: cgroups(u.Process, u.Run), Running: true,
				Driver: InGuest, Alone: words.Because(words.GuestUnread, u.Text)})
		}
	}
	slices.SortFunc(out, func(a, b workload.Claim) int { return cmp.Compare(a.ID, b.ID) })
	once(out)
	return append(out, workload.Claim{Cgroups: allCgroups, Alone: words.Because(words.GuestForeignCgroup)}), problems
}

// floats reports whether a guest is OpenStack Nova's and left to us by it: it is placed as a
// process, without libvirt.
func (w *Watch) floats(g *guest.Observed) bool {
	return g.Floats && !g.Adopted() && (w.o.Manage == Nova || w.o.Manage == Every)
}

// novas is the claim of such a guest. Its definition is Nova's.
func (w *Watch) novas(g *guest.Observed, silent error) workload.Claim {
	spec := g.Spec
	c := workload.Claim{
		ID: spec.ID, Name: g.Name, Process: g.Process, Cgroups: cgroups(g.Process, g.Run), Running: g.Running,
		Driver: workload.InProcess, Spec: &spec, Within: g.Fence,
	}
	if g.UUID != "" {
		c.Also = []string{g.UUID}
	}
	if g.Running && w.o.CPUs != nil && g.Process.PID > 0 {
		c.CPUs, _ = w.o.CPUs(g.Process.PID)
	}
	switch {
	case silent != nil:
		c.Alone = words.Because(words.GuestSilent, silent.Error())
	case g.Running && c.CPUs.Empty():
		c.Alone = words.Because(words.GuestNoProcess)
	case len(g.Drives) > 0:
		c.Alone = words.Because(words.GuestDevices, strings.Join(g.Drives, ", "))
	}
	c.Fixed = silent != nil
	return c
}

// cells is the claims of the cells of a guest of which all vCPUs float: each is placed and moved
// by itself.
func (w *Watch) cells(g *guest.Observed, h *topology.Host, silent error) []workload.Claim {
	if !g.Composed.Floats() || g.Manual != "" {
		return nil
	}
	all := h.AllNodes()
	spec := g.Spec
	spec.Nodes = g.OnlyNodes
	specs := g.Composed.CellSpecs(&spec, g.Name, g.Home.Cells, all)
	d := g.Defined
	var next []workload.Spec
	if d != nil && d.Manual == "" && d.Composed.Floats() && len(d.Home.Cells) == len(g.Home.Cells) {
		next = d.Composed.CellSpecs(&spec, g.Name, d.Home.Cells, all)
	}
	alone := w.alone(g, silent)
	out := make([]workload.Claim, len(specs))
	for k := range specs {
		home, cell := g.Home.Apart[k], &g.Composed.Cells[k]
		c := workload.Claim{
			ID: specs[k].ID, Name: fmt.Sprintf("%s/cell%d", g.Name, k), Process: g.Process,
			Cgroups: cgroups(g.Process, g.Run), Running: g.Running,
			Part: &workload.Part{Of: guest.ID(g.Name), VCPUs: cell.VCPUs, Memory: g.Asked[k]}, Driver: InGuest,
			Caps: workload.Caps{Rebinds: true, NextStart: next != nil}, Spec: &specs[k], CPUs: home.CPUs,
			Mems: home.Home, Alone: alone,
			MovedBy: "homenode vm move " + g.Name,
		}
		if g.Running {
			c.Home = &home
		}
		if c.Fixed = silent != nil; g.Running && c.Alone.None() {
			c.Alone = stays(g, k)
			c.Fixed = !c.Alone.None()
		}
		if next != nil {
			p := d.Home.Apart[k]
			c.Next = &workload.Next{Spec: next[k], CPUs: p.CPUs, Mems: p.Home, Home: &p, Ours: d.Placed, Alone: alone}
		}
		out[k] = c
	}
	return out
}

// stays is why a cell stays where it is until the guest is started next.
func stays(g *guest.Observed, k int) words.Reason {
	switch {
	case g.Mode != "":
		return words.Because(words.CellBound, g.Mode)
	case g.Composed.Cells[k].HugePage > 0:
		return words.Because(words.CellHugePages, g.Composed.Cells[k].HugePage)
	}
	for i, node := range g.Asked {
		if i != k && node == g.Asked[k] {
			return words.Because(words.CellUnknown, i, node)
		}
	}
	return words.Reason{}
}

func (w *Watch) claim(g *guest.Observed, h *topology.Host, silent error) workload.Claim {
	if w.floats(g) {
		return w.novas(g, silent)
	}
	spec, home := g.Spec, g.Home.Placement
	c := workload.Claim{
		ID: spec.ID, Name: g.Name, Process: g.Process, Cgroups: cgroups(g.Process, g.Run), Running: g.Running,
		Driver: InGuest, Caps: caps(g), Spec: &spec, Mems: g.BoundNodes, Alone: w.alone(g, silent),
		MovedBy: "homenode vm move " + g.Name,
	}
	if g.UUID != "" {
		c.Also = []string{g.UUID}
	}
	if !g.Loose { // else some thread may be anywhere
		c.CPUs = g.BoundCPUs
	}
	dedicated := home.Class == workload.Dedicated
	switch {
	case dedicated && g.Running:
		c.Home, c.Fixed = &home, true
	case dedicated:
		c.Holds = append(c.Holds, home)
	case g.Running && g.Manual == "" && g.Placed &&
		!h.Online.SubsetOf(g.BoundCPUs): // else it is bound to nothing, or by others
		c.Home = &home
	}
	// What cannot be asked about now stays where it is.
	c.Fixed = c.Fixed || (silent != nil && g.Manual == "")
	if g.Composed.Floats() && g.Manual == "" { // what it has its cells have; the rest is its emulator
		c.Caps = workload.Caps{}
		c.Home = nil
		c.Fixed = false
		if c.Holds = append(slices.Clone(g.Apart), nextHolds(g)...); c.Alone.None() {
			c.Alone = words.Because(words.GuestInCells, len(g.Home.Cells), string(guest.CellID(g.Name, 0)))
		}
		return c
	}
	c.Holds = append(append(c.Holds, g.Beside()...), nextHolds(g)...)
	c.Next = next(g, c.Alone)
	c.Note = wide(g)
	return c
}

// wide says of a shared guest that is on several nodes and sees none what that means as it
// runs and at its next start.
func wide(g *guest.Observed) words.Reason {
	home, d := g.Home.Placement, g.Defined
	switch {
	case !g.Running || g.Manual != "" || !g.Placed || g.SeesNodes || home.Class != workload.Shared ||
		home.Home.Len() < 2:
		return words.Reason{}
	case d != nil && d.Composed.Floats():
		return words.Because(words.GuestWideNext, home.Home, len(d.Home.Cells))
	}
	return words.Because(words.GuestWide, home.Home, g.Name)
}

// alone says why a guest is not homenode's to place.
func (w *Watch) alone(g *guest.Observed, silent error) words.Reason {
	d, own := g.Defined, g.Home.Placement.Class == workload.Dedicated
	switch {
	case silent != nil:
		return words.Because(words.GuestSilent, silent.Error())
	case g.Manual != "":
		return words.Because(words.GuestBound, g.Manual)
	case !g.Placed && !g.Adopted() && w.o.Manage != Every:
		return words.Because(words.GuestUnmarked, g.Name)
	case g.Placed && d != nil && !d.Placed && w.o.Manage != Every:
		return words.Because(words.GuestReleased)
	case g.Spec.Class == workload.Dedicated && !own:
		return words.Because(words.GuestNoCPUs, g.Name)
	case g.Spec.Class == workload.Dedicated: // fixed
	case g.Composed != nil && !g.Composed.Floats(): // what floats of it stays on its nodes
	case g.Mode != "" && g.Mode != "restrictive" && g.Composed == nil:
		return words.Because(words.GuestMemoryMode, g.Mode)
	case len(g.Drives) > 0:
		return words.Because(words.GuestDevices, strings.Join(g.Drives, ", "))
	}
	return words.Reason{}
}

// next is where a guest is when it is started next, by its definition.
func next(g *guest.Observed, alone words.Reason) *workload.Next {
	d := g.Defined
	if d == nil {
		return nil
	}
	n := &workload.Next{Spec: d.Spec, CPUs: d.BoundCPUs, Mems: d.BoundNodes, Ours: d.Placed, Alone: alone}
	if d.Placed {
		n.Home = new(d.Home.Placement)
	}
	switch {
	case !alone.None():
	case d.Manual != "":
		n.Alone = words.Because(words.GuestBound, d.Manual)
	case d.Composed.Floats(): // it runs as something else
		n.Alone = words.Because(words.GuestInCells, len(d.Home.Cells), string(guest.CellID(g.Name, 0)))
	case g.Spec.Class == workload.Dedicated || d.Spec.Class == workload.Dedicated:
		n.Alone = words.Because(words.GuestDedicated, g.Name)
	}
	return n
}

// nextHolds is what is kept for a guest that runs and comes to other CPUs of its own at
// its next start; what floats finds its room then.
func nextHolds(g *guest.Observed) []plan.Placement {
	if !g.Running || g.Defined == nil || (g.Defined.BoundCPUs.Equal(g.BoundCPUs) && g.Defined.Home.SameApart(&g.Home)) {
		return nil
	}
	s := g.Guest
	s.Next = &g.Defined.Home
	return s.HoldsNext()
}

// once has every CPU held for one guest alone: where others pinned two to the same CPU,
// it is nobody else's already.
func once(claims []workload.Claim) {
	var taken topology.CPUSet
	for i := range claims {
		if home := claims[i].Home; home != nil && home.Class == workload.Dedicated {
			taken = taken.Union(home.CPUs)
		}
	}
	for i := range claims {
		kept := claims[i].Holds[:0]
		for _, p := range claims[i].Holds {
			if p.CPUs.Intersects(taken) {
				if p = only(p, p.CPUs.Minus(taken)); p.CPUs.Empty() {
					continue
				}
			}
			taken = taken.Union(p.CPUs)
			kept = append(kept, p)
		}
		claims[i].Holds = kept
	}
}

// only is a placement of dedicated work without the CPUs that are not among these.
func only(p plan.Placement, cpus topology.CPUSet) plan.Placement {
	p.CPUs = cpus
	p.Pins = cpus.Slice()
	p.VCPUs = cpus.Len()
	return p
}

// libvirt makes a cgroup for each guest that runs: machine-qemu\x2dID\x2dNAME.scope under
// systemd, else qemu-ID-NAME.libvirt-qemu (vir_cgroup.c, virSystemdMakeMachineName). Names
// are cut and lose characters in it, the ID of the run is whole.
var allCgroups = []string{`machine-qemu\x2d*`, "*.libvirt-qemu"}

// cgroups is those of one run; nil when its process is known, which finds it surer.
func cgroups(p workload.Process, run int) []string {
	if p.PID > 0 || run <= 0 {
		return nil
	}
	return []string{fmt.Sprintf(`machine-qemu\x2d%d\x2d*`, run), fmt.Sprintf("qemu-%d-*.libvirt-qemu", run)}
}

// Name is the source's.
func (w *Watch) Name() string { return "libvirt" }

// Refresh brings what is known of the guests up to date. On an error the last claims stand.
// A host without libvirt is in order: that it cannot be reached matters where guests are
// known or seen to run, or where all guests are to be placed.
func (w *Watch) Refresh(ctx context.Context) error {
	if w.o.Manage == None {
		return nil
	}
	err := w.Look(ctx)
	if err == nil || w.o.Manage == Every || (w.o.Running != nil && w.o.Running()) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.known) > 0 {
		return err
	}
	return nil
}
