package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// request asks the loop and waits for its answer, or for ctx.
func (d *Daemon) request(ctx context.Context, r control.Request) (control.Reply, error) {
	r.By = api.Asker(ctx)
	answer := make(chan control.Reply, 1)
	select {
	case d.requests <- asked{ctx: ctx, request: r, answer: answer}:
	case <-ctx.Done():
		return control.Reply{}, ctx.Err()
	case <-d.ended:
		return control.Reply{}, errEnded
	}
	select {
	case reply := <-answer:
		return reply, answered(&reply)
	case <-ctx.Done():
		return control.Reply{}, ctx.Err()
	case <-d.ended:
	}
	select {
	case reply := <-answer: // given before it ended
		return reply, answered(&reply)
	default:
		return control.Reply{}, errEnded
	}
}

var errEnded = &api.Error{Code: api.Failed, Text: "the daemon has ended"}

// answered is what was refused or could not be written down.
func answered(r *control.Reply) error {
	if r.Failed != nil {
		return wireError(r.Failed)
	}
	if r.Unwritten != "" && r.Place != nil {
		return fmt.Errorf("its home cannot be written down: %s", r.Unwritten)
	}
	if r.Unwritten != "" {
		return fmt.Errorf("it is done, and cannot be written down: %s", r.Unwritten)
	}
	return nil
}

// lineage is what the kernel says of a process that a name means.
func (d *Daemon) lineage(name string) workload.Lineage {
	if pid, ok := workload.PIDOf(name); ok && d.o.Lineage != nil {
		return d.o.Lineage(pid)
	}
	return workload.Lineage{}
}

func wireError(f *control.Failure) error {
	if f == nil {
		return nil
	}
	switch f.Code {
	case control.BadRequest, control.NotFound, control.Forbidden, control.NoRoom, control.Fixed, control.Gone:
		return &api.Error{Code: api.Code(f.Code), Text: f.Text}
	}
	return &api.Error{Code: api.Failed, Text: f.Text}
}

// Undo holds a workload, or all, and puts settings back. Once that has begun who asks may
// go away: half an undo helps nobody.
func (d *Daemon) Undo(ctx context.Context, which api.Which) (api.UndoResult, error) {
	r, err := d.request(ctx, control.Request{Undo: &control.Which{ID: which.ID, All: which.All, DryRun: which.DryRun},
		Lineage: d.lineage(string(which.ID))})
	undone := r.Undo
	if err == nil && which.DryRun {
		undone = d.checkUndone(ctx, undone)
	}
	return wireUndone(undone), err
}

// checkWithin is how long a dry run of undo waits for what it reads. What has not answered by then is said
// to be restored, as undo would try.
const checkWithin = 5 * time.Second

// checkUndone sorts what undo would restore by how it stands now: what is gone, stands as it was, or was set
// by another program since is not promised. The flight recorder has u, too, so that it never changes.
func (d *Daemon) checkUndone(ctx context.Context, u *control.Undone) *control.Undone {
	if u == nil || len(u.Restored) == 0 {
		return u
	}
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	done := make(chan control.Undone, 1)
	entries := u.Restored
	d.o.Go(func() {
		checked := *u
		checked.Restored = nil
		for i := range entries {
			e := &entries[i]
			now, err := d.readEntry(ctx, *e)
			driver := d.owner(e.Kind)
			switch {
			case err != nil && isGone(err) && driver != nil && isGone(d.present(driver, *e)):
				checked.Gone = append(checked.Gone, *e)
			case err == nil && !e.Ours(now):
				checked.Foreign = append(checked.Foreign, *e)
			case err == nil && now.Value == e.Old:
				checked.Unchanged = append(checked.Unchanged, *e)
			default:
				checked.Restored = append(checked.Restored, *e)
			}
		}
		done <- checked
	})
	select {
	case checked := <-done:
		return &checked
	case <-ctx.Done():
		return u
	}
}

func wireUndone(u *control.Undone) api.UndoResult {
	out := api.UndoResult{Schema: "homenode-undo/2", Restored: []plan.Entry{}, Unchanged: []plan.Entry{},
		Gone: []plan.Entry{}, Theirs: []plan.Entry{},
		Deferred: []api.UndoFailure{}, Failed: []api.UndoFailure{}}
	if u == nil {
		return out
	}
	out.Workload = u.Workload
	out.Restored = append(out.Restored, u.Restored...)
	out.Unchanged = append(out.Unchanged, u.Unchanged...)
	out.Gone = append(out.Gone, u.Gone...)
	out.Theirs = append(out.Theirs, u.Foreign...)
	out.Policies = u.Policies
	for _, n := range u.Deferred {
		out.Deferred = append(out.Deferred, api.UndoFailure(n))
	}
	for _, n := range u.Failed {
		out.Failed = append(out.Failed, api.UndoFailure(n))
	}
	return out
}

// Resume takes a hold back.
func (d *Daemon) Resume(ctx context.Context, which api.Which) (api.Resumed, error) {
	r, err := d.request(ctx, control.Request{Resume: &control.Which{ID: which.ID, All: which.All, DryRun: which.DryRun},
		Lineage: d.lineage(string(which.ID))})
	return wireResumed(r.Resumed), err
}

func wireResumed(h *control.Holds) api.Resumed {
	out := api.Resumed{Schema: "homenode-resume/2", Held: []workload.ID{}}
	if h == nil {
		return out
	}
	out.All, out.Held = h.All, append(out.Held, slices.Sorted(maps.Keys(h.IDs))...)
	if len(out.Held) == 1 && !out.All {
		out.Workload = out.Held[0]
	}
	return out
}

// Place finds a home for what is about to start.
func (d *Daemon) Place(ctx context.Context, want api.Want) (api.Home, error) {
	asked, err := placeRequest(&want)
	if err != nil {
		return api.Home{}, err
	}
	r, err := d.request(ctx, control.Request{Place: asked})
	return wireHome(r.Place), err
}

// Admit implements control.Standing. Work that a scan would leave alone gets no home.
func (d *Daemon) Admit(ctx context.Context, asked control.PlaceRequest) (workload.Placement, error) {
	asked.Starts = true
	r, err := d.request(ctx, control.Request{Place: &asked})
	if err != nil {
		return workload.Placement{}, err
	}
	return r.Place.Placement, nil
}

func placeRequest(w *api.Want) (*control.PlaceRequest, error) {
	spec := workload.Spec{ID: w.ID, Name: w.Name, Class: w.Class, Tier: w.Tier, Importance: workload.DefaultImportance,
		CPUs:   w.CPUs,
		Memory: topology.KiB(w.MemoryKiB), HugePage: topology.KiB(w.HugePageKiB), SMT: w.SMT, Nodes: w.Nodes,
		Given: true}
	for _, text := range w.Near {
		near, err := workload.ParseNear(text)
		if err != nil {
			return nil, &api.Error{Code: api.BadRequest, Text: "near: " + err.Error()}
		}
		spec.Near = append(spec.Near, near...)
	}
	if w.SLO != "" {
		goal, err := workload.ParseGoal(w.SLO)
		if err != nil {
			return nil, &api.Error{Code: api.BadRequest, Text: "slo: " + err.Error()}
		}
		spec.Goals = []workload.Goal{goal}
	}
	hold := time.Duration(max(-1, min(w.HoldSeconds, math.MaxInt32))) * time.Second // which it can count
	r := &control.PlaceRequest{Spec: spec, Process: w.Process, Hold: hold, Release: w.Release}
	if w.Owner != "" {
		r.From = workload.Origin{Owner: workload.Owner(w.Owner), Asked: workload.AllOwn}
	}
	if w.Exact != nil {
		r.Exact = &control.Exact{CPUs: w.Exact.CPUs, Nodes: w.Exact.Nodes}
	}
	return r, nil
}

// Booked returns what a daemon has booked for a process by its answer.
func Booked(want api.Want, home api.Home) control.Admission {
	p := workload.Placement{Workload: control.ProcessID(want.Process.PID), Class: want.Class,
		Importance: workload.DefaultImportance, VCPUs: want.CPUs,
		Home: home.Nodes, Caches: home.Caches, CPUs: home.CPUs, Pins: home.Pins, Asked: topology.KiB(want.MemoryKiB),
		Bound: home.Bound, Start: want.Process.Start}
	for _, m := range home.Memory {
		p.Memory = append(p.Memory, workload.NodeMemory{Node: m.Node, KiB: topology.KiB(m.KiB)})
	}
	spec := workload.Spec{Name: want.Name, Tier: want.Tier}
	return control.Admission{Spec: spec, Process: want.Process, Placement: p, Exact: want.Exact != nil}
}

func wireHome(p *control.Placed) api.Home {
	if p == nil || p.Decision.Outcome == plan.Refused {
		return api.Home{}
	}
	at := &p.Placement
	home := api.Home{Schema: "homenode-home/3", Nodes: at.Home, Caches: at.Caches, CPUs: at.CPUs, Bound: at.Bound,
		Ledger: p.Ledger, Decision: p.Decision, Pins: at.Pins}
	for _, m := range at.Memory {
		home.Memory = append(home.Memory, api.NodeKiB{Node: m.Node, KiB: int64(m.KiB)})
	}
	if len(p.Decision.Reasons) > 0 {
		home.Why = p.Decision.Reasons[0].String()
	}
	return home
}

// Partition moves the line between dedicated and shared work.
func (d *Daemon) Partition(ctx context.Context, want api.Partition) (api.Partition, error) {
	r, err := d.request(ctx, control.Request{Partition: &want.Partition, DryRun: want.DryRun})
	if r.Partition == nil {
		return api.Partition{}, err
	}
	return wirePartition(r.Partition), err
}

func wirePartition(p *control.PartitionNow) api.Partition {
	return api.Partition{Partition: p.Partition, Split: p.Split, Dedicated: p.Dedicated.String()}
}

// Move gives a workload the home that a person names, or cancels its page move.
func (d *Daemon) Move(ctx context.Context, order api.MoveOrder) (api.MoveAnswer, error) {
	move := &control.MoveRequest{ID: order.ID, To: order.To, DryRun: order.DryRun, Cancel: order.Cancel,
		Admitted: d.admitted()}
	r, err := d.request(ctx, control.Request{Move: move, Lineage: d.lineage(string(order.ID))})
	return wireMoved(r.Move), err
}

func wireMoved(m *control.Moved) api.MoveAnswer {
	if m == nil {
		return api.MoveAnswer{}
	}
	return api.MoveAnswer{Schema: "homenode-move/3", Workload: m.Workload, Outcome: m.Outcome, From: m.From,
		FromCPUs: m.FromCPUs,
		To:       m.To, CPUs: m.CPUs, Decision: m.Decision, Steps: append([]plan.Step{}, m.Steps...), Move: m.Move}
}

// Change carries out steps about one workload. Who asks may go away: what was begun is
// not left half done.
func (d *Daemon) Change(ctx context.Context, c api.Change) ([]error, error) {
	if err := mayChange(c.Steps); err != nil {
		return nil, err
	}
	r, err := d.request(ctx, changeRequest(&c))
	return changeErrors(r.Changed), err
}

func changeRequest(c *api.Change) control.Request {
	return control.Request{Change: &control.Change{Steps: c.Steps, Together: c.Together, Release: true}}
}

// mayChange refuses steps that only the daemon itself may plan: those paced by what else
// goes on, and those on processes, but for the agents that are kept on the CPUs of the host.
func mayChange(steps []plan.Step) error {
	for i := range steps {
		s := &steps[i]
		if s.Kind == plan.MovePages || s.Kind == plan.StopUnit || s.Kind == plan.ReclaimMemory ||
			(s.Target.Kind == workload.InProcess && s.Workload != hostprep.ID) ||
			(s.Target.Cgroup != "" && s.Target.Cgroup != path.Clean("/"+s.Target.Cgroup)) {
			return &api.Error{Code: api.BadRequest,
				Text: fmt.Sprintf("%s of %q: no step that is carried out on request", s.Kind, s.Target.Name())}
		}
	}
	return nil
}

func changeErrors(all []*control.Failure) []error {
	out := make([]error, len(all))
	for i, f := range all {
		if f != nil {
			out[i] = wireError(f)
		}
	}
	return out
}

// once answers one request, or looks, without a loop that runs: inputs are taken until
// the answer is there.
func (d *Daemon) once(ctx context.Context, r control.Request) (control.Reply, error) {
	r.By = api.Asker(ctx)
	answer := make(chan control.Reply, 1)
	d.ask(asked{ctx: ctx, request: r, answer: answer})
	for {
		select {
		case reply := <-answer:
			d.flush()
			return reply, answered(&reply)
		case in := <-d.inputs:
			d.take(in)
		case err := <-d.outbox.written:
			d.wrote(err)
		case <-d.outbox.due:
			d.writeDue()
		case <-ctx.Done():
			return control.Reply{}, ctx.Err()
		}
	}
}

// flush waits until all that was decided is on disk.
func (d *Daemon) flush() {
	for {
		d.write()
		if d.outbox.writing == nil {
			return
		}
		d.wrote(<-d.outbox.written)
	}
}

// lookOnce is one scan with its surveys, without a loop that runs.
func (d *Daemon) lookOnce(ctx context.Context) error {
	d.scan()
	for d.failed == nil {
		d.write()
		if d.running == 0 && d.outbox.writing == nil {
			break
		}
		select {
		case in := <-d.inputs:
			d.take(in)
		case <-d.overdue:
			return errScanLate
		case err := <-d.outbox.written:
			d.wrote(err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if d.failed != nil {
		return d.failed
	}
	for _, text := range []string{d.unseen, d.stalled} {
		if text != "" {
			return errors.New(text)
		}
	}
	return nil
}
