package libvirt

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/libvirt/domain"
)

// Owns is the settings of guests.
func (w *Watch) Owns() []plan.SettingKind {
	return []plan.SettingKind{plan.GuestCPUs, plan.GuestMems, plan.GuestDefinition, plan.GuestMark, plan.GuestLimits,
		plan.GuestLimitsNext}
}

// SurvivesBoot is true of what libvirt keeps on its disk.
func (w *Watch) SurvivesBoot(kind plan.SettingKind) bool {
	return kind == plan.GuestDefinition || kind == plan.GuestMark || kind == plan.GuestLimitsNext
}

// runPath names a running guest in a setting.
func runPath(name string, run int) string { return fmt.Sprintf("%s@%d", name, run) }

// about is what the path of a setting names: a guest, its run or 0 for its definition, and
// a device of it or "".
type about struct {
	name   string
	run    int
	device string
	cell   int // -1: all of it
}

// parsePath reads NAME, NAME@ID, NAME@ID/cellN, NAME/DEVICE or NAME@ID/DEVICE. A name has no
// slash; it may have an @.
func parsePath(kind plan.SettingKind, path string) (a about, err error) {
	a.cell = -1
	a.name, a.device, _ = strings.Cut(path, "/")
	if _, n := workload.PartOf(workload.ID(path)); kind == plan.GuestCPUs && n >= 0 {
		a.cell, a.device = n, ""
	}
	if kind == plan.GuestCPUs || kind == plan.GuestMems || kind == plan.GuestLimits {
		i := strings.LastIndexByte(a.name, '@')
		if i > 0 {
			a.run, err = strconv.Atoi(a.name[i+1:])
		}
		if i <= 0 || err != nil || a.run <= 0 {
			return a, fmt.Errorf("%q is not NAME@ID", path)
		}
		a.name = a.name[:i]
	}
	if limits := kind == plan.GuestLimits || kind == plan.GuestLimitsNext; a.name == "" || limits != (a.device != "") {
		return a, fmt.Errorf("%q names no %s", path, kind)
	}
	return a, nil
}

// Changes reads what a step would change.
func (w *Watch) Changes(ctx context.Context, step plan.Step) ([]plan.Change, error) {
	name, cell := meant(step.Workload)
	if name == "" {
		return nil, fmt.Errorf("%s is no guest", step.Workload)
	}
	switch step.Kind {
	case plan.SetNext:
		return w.changesNext(ctx, name, cell, step.To)
	case plan.SetLimits:
		return w.changesLimits(ctx, name, step.To)
	case plan.SetCPUs, plan.SetMems:
	default:
		return nil, fmt.Errorf("guests take no %s step", step.Kind)
	}
	t, err := w.open(ctx, name, 0)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.runs[name] = t.live.Run()
	w.mu.Unlock()
	kind := plan.GuestCPUs
	if step.Kind == plan.SetMems {
		kind = plan.GuestMems
	}
	s, err := t.setting(ctx, kind, cell)
	will := step.To
	if err == nil && step.Kind == plan.SetCPUs && cell < 0 {
		will, err = t.threadsOn(ctx, step.To)
	}
	return []plan.Change{{Setting: s, Will: will}}, err
}

// meant is the guest that a workload is, and the cell of it, -1 for all of it.
func meant(id workload.ID) (name string, cell int) {
	if name, cell, ok := guest.CellOf(id); ok {
		return name, cell
	}
	return guest.NameOf(id), -1
}

// setting is the CPUs of a running guest or of a cell of it, or its nodes.
func (t *target) setting(ctx context.Context, kind plan.SettingKind, cell int) (s plan.Setting, err error) {
	s = plan.Setting{Kind: kind, Path: runPath(t.name, t.live.Run()), Object: t.live.UUID()}
	if kind == plan.GuestCPUs && cell >= 0 {
		s.Path = string(workload.PartID(workload.ID(s.Path), cell))
		cpus, err := t.live.CellCPUs(cell)
		s.Value = cpus.String()
		return s, err
	}
	if kind == plan.GuestCPUs {
		s.Value, err = t.pins(ctx)
	} else {
		s.Value, err = t.nodes()
	}
	return s, err
}

// Read is the setting of an entry as it is now.
func (w *Watch) Read(ctx context.Context, e plan.Entry) (plan.Setting, error) {
	a, err := parsePath(e.Kind, e.Path)
	if err != nil {
		return plan.Setting{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	switch e.Kind {
	case plan.GuestCPUs, plan.GuestMems:
		t, err := w.open(ctx, a.name, a.run)
		if err != nil {
			return plan.Setting{}, err
		}
		return t.setting(ctx, e.Kind, a.cell)
	case plan.GuestDefinition, plan.GuestMark:
		d, _, err := w.definition(ctx, a.name, false)
		if err != nil {
			return plan.Setting{}, err
		}
		s := plan.Setting{Kind: e.Kind, Path: e.Path, Object: d.UUID(), Value: d.About()}
		if e.Kind == plan.GuestDefinition {
			s.Value, err = d.Next()
		}
		return s, err
	case plan.GuestLimits, plan.GuestLimitsNext:
		return w.readLimit(ctx, e.Kind, a)
	}
	return plan.Setting{}, fmt.Errorf("no setting of guests: %s", e.Kind)
}

// errOthers is wrapped when somebody else has bound a guest since: that stands.
var errOthers = fmt.Errorf("homenode leaves it alone: %w", plan.ErrForeign)

// mayChange is an error for what somebody else has bound.
func mayChange(d *domain.Document) error {
	if why := d.Manual(); why != "" {
		return fmt.Errorf("%w: %s", errOthers, why)
	}
	return nil
}

// Apply makes a step true and reads back that it is: all threads of a running guest onto
// CPUs, its memory onto nodes, its definition onto both, or limits of its devices. The
// mark tells first of where it goes, so that what a failure leaves behind is known for
// homenode's. It changes the run of the guest that Changes was asked about, if it was,
// and nothing that somebody else has bound.
func (w *Watch) Apply(ctx context.Context, step plan.Step, _ func(plan.Move)) error {
	name, cell := meant(step.Workload)
	return w.change(ctx, name, lockWithin, timeOf(step.Kind == plan.SetMems), func(ctx context.Context) error {
		switch step.Kind {
		case plan.SetNext:
			return w.applyNext(ctx, name, cell, step.To, nil, false)
		case plan.SetLimits:
			return w.applyLimits(ctx, name, step.To)
		case plan.SetCPUs, plan.SetMems:
			w.mu.Lock()
			run := w.runs[name]
			w.mu.Unlock()
			return w.applyRunning(ctx, name, run, cell, step.Kind == plan.SetMems, step.To)
		}
		return fmt.Errorf("guests take no %s step", step.Kind)
	})
}

func timeOf(memory bool) time.Duration {
	if memory {
		return moveWithin
	}
	return changeWithin
}

// applyRunning changes one run of a guest, 0 for any, or a cell of it, -1 for all of it.
func (w *Watch) applyRunning(ctx context.Context, name string, run, cell int, mems bool, to string) error {
	t, err := w.open(ctx, name, run)
	if err == nil {
		err = mayChange(t.live)
	}
	switch {
	case err != nil:
		return err
	case mems:
		if err := w.answers(name); err != nil {
			return err
		}
		return t.setNodes(ctx, to)
	case cell >= 0:
		return t.setCell(ctx, cell, to)
	}
	return t.setCPUs(ctx, to)
}

// answers returns an error when the hypervisor of a guest holds the lock of its memory. The
// kernel takes that lock while libvirt writes cpuset.mems, and stops all cgroups of the host
// until it has it (host/cgroup/mems.go). The guest cannot be frozen for the write, which moves
// its memory and takes as long as there is memory. The hypervisor is asked right before
// instead: one that a guest has not taken over holds its lock for moments.
func (w *Watch) answers(name string) error {
	if w.o.Answers == nil || w.o.Process == nil {
		return nil
	}
	p, err := w.o.Process(name)
	if err != nil {
		return nil // it is not known: libvirt's word stands
	}
	if err := w.o.Answers(p); errors.Is(err, plan.ErrNoAnswer) {
		return fmt.Errorf("guest %q: its memory nodes are not changed: %w", name, err)
	}
	return nil
}

// Restore puts Old of the entries back, in their order, and reads back that it stands:
// an error, or nil, for each. Entries of one definition are restored at once. What
// somebody else has bound since stands.
func (w *Watch) Restore(ctx context.Context, entries []plan.Entry) []error {
	errs := make([]error, len(entries))
	done := map[string]bool{}
	for i, e := range entries {
		a, err := parsePath(e.Kind, e.Path)
		if err != nil {
			errs[i] = err
			continue
		}
		if e.Kind != plan.GuestDefinition && e.Kind != plan.GuestMark {
			errs[i] = w.restore(ctx, e, a)
			continue
		}
		if done[a.name] {
			continue
		}
		done[a.name] = true
		err = w.restoreDefinition(ctx, a.name, entries)
		for k := range entries {
			if x := &entries[k]; x.Path == e.Path && (x.Kind == plan.GuestDefinition || x.Kind == plan.GuestMark) {
				errs[k] = err
			}
		}
	}
	return errs
}

func (w *Watch) restore(ctx context.Context, e plan.Entry, a about) error {
	mems := e.Kind == plan.GuestMems
	return w.change(ctx, a.name, changeWithin, timeOf(mems), func(ctx context.Context) error {
		if e.Kind == plan.GuestLimits || e.Kind == plan.GuestLimitsNext {
			return w.restoreLimit(ctx, e.Kind, a, e.Old)
		}
		return w.applyRunning(ctx, a.name, a.run, a.cell, mems, e.Old)
	})
}

// restoreDefinition puts a definition back to what entries of it say.
func (w *Watch) restoreDefinition(ctx context.Context, name string, entries []plan.Entry) error {
	var old *string
	var mark *domain.Mark
	for i := range entries {
		switch e := &entries[i]; {
		case e.Path != name:
		case e.Kind == plan.GuestDefinition:
			old = &e.Old
		case e.Kind == plan.GuestMark && e.Old != "":
			m, err := domain.ParseAbout(e.Old)
			if err != nil {
				return err
			}
			mark = &m
		}
	}
	if old == nil { // where it is belongs to somebody else by now, and so does what it is
		return nil
	}
	return w.change(ctx, name, changeWithin, changeWithin, func(ctx context.Context) error {
		return w.applyNext(ctx, name, -1, *old, mark, true)
	})
}

// Present returns nil while the guest, in that run of it, exists, as of the last Look. Without
// one, as in an undo without a daemon, it looks.
func (w *Watch) Present(e plan.Entry) error {
	a, err := parsePath(e.Kind, e.Path)
	if err != nil {
		return err
	}
	w.mu.Lock()
	looked := w.looked
	w.mu.Unlock()
	if !looked {
		_ = w.Look(context.Background()) // bounded; on an error nobody knows
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.known[a.name]
	if w.last != nil || !w.looked || (k != nil && k.unread != "") { // nobody knows
		return nil
	}
	if k != nil {
		d := k.config
		if a.run > 0 {
			d = k.live
		}
		if d != nil && d.Run() == a.run && (e.Object == "" || d.UUID() == e.Object) {
			return nil
		}
	}
	return fmt.Errorf("guest %q: %w", e.Path, gone("as "+string(e.Kind)+" knows it"))
}
