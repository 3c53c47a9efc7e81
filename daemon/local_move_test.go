package daemon

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// oneProcess is a process that a user moves by hand. Its pages may refuse to move, and it may end.
type oneProcess struct {
	cpus    string
	refused error
	gone    bool
}

func (p *oneProcess) path() string { return plan.ProcessPath(workload.Process{PID: 70, Start: 7}) }

func (p *oneProcess) Owns() []plan.SettingKind           { return []plan.SettingKind{plan.Affinity} }
func (p *oneProcess) SurvivesBoot(plan.SettingKind) bool { return false }

func (p *oneProcess) Changes(_ context.Context, s plan.Step) ([]plan.Change, error) {
	if s.Kind == plan.MovePages {
		return nil, nil
	}
	return []plan.Change{{Will: s.To, Setting: plan.Setting{Kind: plan.Affinity, Path: p.path(), Value: p.cpus}}}, nil
}

func (p *oneProcess) Apply(_ context.Context, s plan.Step, progress func(plan.Move)) error {
	if s.Kind == plan.SetCPUs {
		p.cpus = s.To
		return nil
	}
	if p.refused == nil {
		progress(plan.Move{Moved: s.Bytes})
	}
	return p.refused
}

func (p *oneProcess) Read(_ context.Context, e plan.Entry) (plan.Setting, error) {
	if err := p.Present(e); err != nil {
		return plan.Setting{}, err
	}
	return plan.Setting{Kind: e.Kind, Path: e.Path, Value: p.cpus}, nil
}

func (p *oneProcess) Restore(_ context.Context, entries []plan.Entry) []error {
	errs := make([]error, len(entries))
	for i := range entries {
		if errs[i] = p.Present(entries[i]); errs[i] == nil {
			p.cpus = entries[i].Old
		}
	}
	return errs
}

func (p *oneProcess) Present(plan.Entry) error {
	if p.gone {
		return fmt.Errorf("process 70: %w", fs.ErrNotExist)
	}
	return nil
}

// local is what commands ask where no daemon runs, on a machine with p on the CPUs of node 0.
func (p *oneProcess) local(t *testing.T) (*Local, *rig) {
	p.cpus = "0-3"
	m := newMachine(t, 2, 4)
	r := newRig(t, m, true)
	o := r.options(true)
	o.Drivers = map[workload.Kind]Driver{workload.InCgroup: m, workload.InProcess: p}
	o.Lineage = func(pid int) workload.Lineage { return workload.Lineage{PIDs: []int{pid, 1}} }
	open := func() (Store, error) { return r.store, nil }
	return &Local{Open: open, OpenOwn: open, OpenUndo: open, OpenRead: open, Options: o,
		Who: func() *plan.Asker { return &plan.Asker{UID: 1000, User: "ada"} },
		Process: func(_ context.Context, pid int) (*topology.Host, workload.Observation, error) {
			return m.host(), workload.Observation{ID: control.ProcessID(pid), Kind: workload.InProcess, CPUs: topology.CPUs(0, 1, 2, 3),
				Memory: []workload.NodeMemory{{Node: 0, KiB: 1 << 20}}, Processes: []workload.Process{{PID: pid, Start: 7}}}, nil
		}}, r
}

// historyOf is what the history has, an event a line: its kind, ! for an error, and its words.
func historyOf(t *testing.T, r *rig) string {
	t.Helper()
	events, err := r.store.History(plan.EventQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range events {
		failed := ""
		if events[i].Error {
			failed = "!"
		}
		all = append(all, fmt.Sprintf("%s%s: %s", events[i].Kind, failed, events[i].Text))
	}
	return strings.Join(all, "\n")
}

// Issue 26, item 7: the history records an order as an order, and a move that the kernel refused as failed: not
// as a change of CPUs that stay as they are, nor as 0 KiB that moved. Nothing of it is left to undo.
func TestRefusedMoveIsRecordedAsFailed(t *testing.T) {
	p := &oneProcess{refused: fmt.Errorf("process 70: read maps: %w", fs.ErrPermission)}
	local, r := p.local(t)
	before := historyOf(t, r)
	if _, err := local.Move(t.Context(), api.MoveOrder{ID: "70", To: topology.Nodes(0)}); err == nil {
		t.Fatal("the move is done")
	}
	history := strings.TrimPrefix(historyOf(t, r), before)
	for _, want := range []string{"order: ada ordered a move to node 0", "move!: the move to node 0 failed: ", "permission denied"} {
		if !strings.Contains(history, want) {
			t.Errorf("%q is not in the history", want)
		}
	}
	for _, not := range []string{"moved ", "moving ", "set-cpus", "step: "} {
		if strings.Contains(history, not) {
			t.Errorf("%q is in the history", not)
		}
	}
	if t.Failed() {
		t.Log(history)
	}
	if left, err := r.store.Journal(); err != nil || len(left) > 0 {
		t.Errorf("%+v is left to undo, %v", left, err)
	}
}

// A move that is done is recorded as an order, a change and a move.
func TestMoveByHandIsRecorded(t *testing.T) {
	p := &oneProcess{}
	local, r := p.local(t)
	if _, err := local.Move(t.Context(), api.MoveOrder{ID: "70", To: topology.Nodes(1)}); err != nil {
		t.Fatal(err)
	}
	history := historyOf(t, r)
	at := 0
	for _, want := range []string{"order: ada ordered a move to node 1", "step: set-cpus", "moved 1 GiB to node 1"} {
		i := strings.Index(history[at:], want)
		if i < 0 {
			t.Fatalf("%q is not in the history, or not in this order:\n%s", want, history)
		}
		at += i
	}
}

// A dry run of undo promises what undo does: a setting of a process that has ended is gone.
func TestDryRunOfUndoSaysGone(t *testing.T) {
	p := &oneProcess{}
	local, _ := p.local(t)
	if _, err := local.Move(t.Context(), api.MoveOrder{ID: "70", To: topology.Nodes(1)}); err != nil {
		t.Fatal(err)
	}
	alive, err := local.Undo(t.Context(), api.Which{All: true, DryRun: true})
	if err != nil || len(alive.Restored) != 1 || len(alive.Gone) != 0 {
		t.Errorf("alive: %+v %v", alive, err)
	}
	p.gone = true
	dry, err := local.Undo(t.Context(), api.Which{All: true, DryRun: true})
	if err != nil || len(dry.Restored) != 0 || len(dry.Gone) != 1 {
		t.Errorf("ended, dry run: %+v %v", dry, err)
	}
	wet, err := local.Undo(t.Context(), api.Which{All: true})
	same := func(a, b plan.Entry) bool { return a.Seq == b.Seq }
	if err != nil || !slices.EqualFunc(dry.Gone, wet.Gone, same) || len(wet.Restored) != 0 {
		t.Errorf("ended: %+v %v", wet, err)
	}
}
