package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestUndoWithoutDaemonThatIsKilled: status says so, and whatever command is next, and the
// next daemon, go on with it.
func TestUndoWithoutDaemonThatIsKilled(t *testing.T) {
	for name, next := range map[string]func(context.Context, *Local, *rig) error{
		"undo": func(ctx context.Context, l *Local, _ *rig) error {
			r, err := l.Undo(ctx, api.Which{All: true})
			if len(r.Restored) != 2 {
				t.Errorf("undo tells of %d settings", len(r.Restored))
			}
			return err
		},
		"undo of one": func(ctx context.Context, l *Local, _ *rig) error {
			_, err := l.Undo(ctx, api.Which{ID: "/a"})
			if e, refused := err.(*api.Error); refused && e.Code == api.NotFound { // it is put back by then
				return nil
			}
			return err
		},
		"change": func(ctx context.Context, l *Local, _ *rig) error {
			errs, err := l.Change(ctx, api.Change{Steps: []plan.Step{{Kind: plan.SetCPUs, Workload: "/a", To: "0", Target: plan.Target{Kind: workload.InCgroup, Cgroup: "/a"}}}})
			if err == nil && errs[0] == nil {
				_, err = l.Undo(ctx, api.Which{ID: "/a"})
			}
			return err
		},
		"resume": func(ctx context.Context, l *Local, _ *rig) error {
			_, err := l.Resume(ctx, api.Which{All: true})
			return err
		},
		"daemon": func(_ context.Context, _ *Local, r *rig) error {
			r.start(t, true)
			r.settle()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := scattered(t)
			before := m.settings()
			r := newRig(t, m, true)
			r.ticks(6)
			if diff := cmp.Diff(before, m.settings()); diff == "" {
				t.Fatal("nothing was changed")
			}
			if err := r.store.Commit(plan.Batch{Values: map[string]any{ // as it is when it begins
				control.KeyUndoing: []control.Which{{All: true}}, control.KeyHolds: control.Holds{All: true}}}); err != nil {
				t.Fatal(err)
			}
			open := func() (Store, error) { return r.store, nil }
			local := func() *Local { return &Local{Open: open, OpenUndo: open, OpenRead: open, Options: r.options(true)} }
			says := func() bool {
				s, err := local().Status(t.Context())
				return err == nil && slices.ContainsFunc(s.Problems, func(p string) bool { return strings.Contains(p, "interrupted, and 2 settings") })
			}
			if !says() {
				t.Error("status does not say that an undo was interrupted")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := next(ctx, local(), r); err != nil {
				t.Fatal(err)
			}
			left, err := r.store.Journal()
			if diff := cmp.Diff(before, m.settings()); diff != "" || err != nil || len(left) > 0 {
				t.Errorf("%d entries left, %v\n%s", len(left), err, diff)
			}
			if says() {
				t.Error("status still says that an undo was interrupted")
			}
			told, err := r.store.History(plan.EventQuery{})
			if err != nil || !slices.ContainsFunc(told, func(e plan.Event) bool {
				return strings.Contains(e.Text, "an interrupted undo of everything continues")
			}) {
				t.Error("the history does not tell")
			}
		})
	}
}

// longStore has a step that is older than the newest events.
type longStore struct{ Store }

func (s longStore) History(q plan.EventQuery) ([]plan.Event, error) {
	all, err := s.Store.History(q)
	if q.Limit == 0 {
		all = append([]plan.Event{{Kind: plan.EventStep, Workload: "/a", Text: "long ago"}}, all...)
	}
	return all, err
}

func (longStore) About() ([]workload.ID, error) { return []workload.ID{"/a"}, nil }

func (longStore) Close() error { return nil }

// TestHistoryByNameWithoutDaemon: a name finds the old steps that the ID finds.
func TestHistoryByNameWithoutDaemon(t *testing.T) {
	r := newRig(t, scattered(t), true)
	open := func() (Store, error) { return longStore{r.store}, nil }
	l := &Local{Open: open, OpenUndo: open, OpenRead: open, Options: r.options(true)}
	for _, name := range []workload.ID{"/a", "a"} {
		h, err := l.History(t.Context(), api.HistoryQuery{Workload: name})
		if err != nil || h.Workload != "/a" || len(h.Events) != 1 || h.Events[0].Text != "long ago" {
			t.Errorf("%s: %+v %v", name, h, err)
		}
	}
}

// TestLookKnowsRuns: without a daemon status tells of what `homenode run` has started as a
// daemon does, also of what found its home crowded.
func TestLookKnowsRuns(t *testing.T) {
	m := newMachine(t, 1, 1)
	r := newRig(t, m, false)
	l := &Local{OpenRead: func() (Store, error) { return nil, nil }, Options: r.options(false)}
	l.Processes = dead{}
	var all []control.Admission
	for pid := 101; pid < 106; pid++ {
		p, id := workload.Process{PID: pid, Start: 9}, control.ProcessID(pid)
		m.live[id] = &thing{obs: workload.Observation{ID: id, Name: "x", Kind: workload.InProcess, Processes: []workload.Process{p}, CPUs: m.host().Online, Mems: m.host().AllowedMems}}
		all = append(all, control.Admission{Spec: workload.Spec{ID: id, Class: workload.Shared, CPUs: 1, Given: true}, Process: p, Placement: workload.Placement{
			Workload: id, Class: workload.Shared, VCPUs: 1, Home: topology.Nodes(0), CPUs: topology.CPUs(0), Start: p.Start}})
	}
	l.Admitted = func() []control.Admission { return all }
	s, err := l.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	atHome := 0
	for _, w := range s.Workloads {
		if w.State == api.StateAtHome {
			atHome++
		}
	}
	if atHome != len(all) {
		t.Errorf("%d of %d are at home: %+v", atHome, len(all), s.Workloads)
	}
}

// TestUndoByNameWithoutDaemon: a name means what it means to every command: of what is in the
// journal and what runs. Several that fit are listed, and nothing is undone.
func TestUndoByNameWithoutDaemon(t *testing.T) {
	m := newMachine(t, 2, 8)
	m.add("x/db.service", 3, 1<<20, 0, 1)
	r := newRig(t, m, true)
	r.ticks(6)
	if all, err := r.store.Journal(); err != nil || len(all) == 0 {
		t.Fatal("nothing was changed", err)
	}
	m.add("y/db.service", 3, 1<<20, 0)
	open := func() (Store, error) { return longStore{r.store}, nil }
	undo := func(name workload.ID) (api.UndoResult, error) {
		l := &Local{Open: open, OpenUndo: open, OpenRead: open, Options: r.options(true)}
		return l.Undo(t.Context(), api.Which{ID: name, DryRun: true})
	}
	var refused *api.Error
	if _, err := undo("db"); !errors.As(err, &refused) || refused.Code != api.BadRequest || !strings.Contains(refused.Text, "/x/db.service, /y/db.service") {
		t.Errorf("db is two: %v", err)
	}
	if r, err := undo("/x/db.service"); err != nil || len(r.Restored) == 0 {
		t.Errorf("by ID: %+v %v", r, err)
	}
	if r, err := undo("/y/db.service"); !errors.As(err, &refused) || refused.Code != api.NotFound || r.Workload != "/y/db.service" {
		t.Errorf("of which nothing was changed: %+v %v", r, err)
	}
}

// TestUndoAllWithoutJournal: where nothing was ever changed there is nothing to undo, and no
// hold is left behind.
func TestUndoAllWithoutJournal(t *testing.T) {
	none := func() (Store, error) { return nil, &api.Error{Code: api.NotFound, Text: "no journal"} }
	l := &Local{Open: none, OpenUndo: none, OpenRead: func() (Store, error) { return nil, nil }, Options: newRig(t, scattered(t), true).options(true)}
	if r, err := l.Undo(t.Context(), api.Which{All: true}); err != nil || !r.Unheld || len(r.Restored) != 0 {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := l.Undo(t.Context(), api.Which{ID: "/a"}); err == nil {
		t.Error("undo of one says nothing")
	}
}

// TestNearWithoutDaemon: what an ordinary user runs counts by name for that user's own work alone,
// as with a daemon.
func TestNearWithoutDaemon(t *testing.T) {
	for uid, want := range map[int]bool{0: false, 1000: true, 1001: false} {
		m := newMachine(t, 2, 1)
		r := newRig(t, m, false)
		p := workload.Process{PID: 101, Start: 9}
		id := control.ProcessID(p.PID)
		m.live[id] = &thing{obs: workload.Observation{ID: id, Name: "ovs", UID: 1000, Kind: workload.InProcess, Processes: []workload.Process{p}, CPUs: m.host().Online, Mems: m.host().AllowedMems,
			RanOn: []workload.NodeShare{{Node: 1, Share: 1}}}}
		l := &Local{OpenRead: func() (Store, error) { return nil, nil }, Options: r.options(false), Who: func() *plan.Asker { return &plan.Asker{UID: uid} }}
		home, err := l.Place(t.Context(), api.Want{Name: "x", CPUs: 1, Class: workload.Shared, Near: []string{"process=ovs,policy=required"}})
		if (err == nil) != want || want && home.Nodes.String() != "1" {
			t.Errorf("user %d: %+v, %v", uid, home, err)
		}
	}
}

// dividedProcess is a driver of one process with two threads, as host/process is: what it puts back
// is what homenode gave and nobody has changed since.
type dividedProcess struct {
	threads map[int]string // CPUs; the main thread is the process
	failing error          // of Restore
}

func (d *dividedProcess) path() string { return plan.ProcessPath(workload.Process{PID: 70, Start: 7}) }

func (d *dividedProcess) Owns() []plan.SettingKind {
	return []plan.SettingKind{plan.Affinity, plan.ThreadCPUs}
}

func (d *dividedProcess) SurvivesBoot(plan.SettingKind) bool { return false }

func (d *dividedProcess) affinity() string {
	text := d.threads[70]
	if d.threads[71] != text {
		text += ";71=" + d.threads[71]
	}
	return text
}

func (d *dividedProcess) Changes(_ context.Context, s plan.Step) ([]plan.Change, error) {
	if s.Kind == plan.MovePages {
		return nil, nil
	}
	return []plan.Change{{Will: s.To, Setting: plan.Setting{Kind: plan.Affinity, Path: d.path(), Value: d.affinity()}}}, nil
}

func (d *dividedProcess) Apply(_ context.Context, s plan.Step, progress func(plan.Move)) error {
	if s.Kind == plan.SetCPUs {
		d.threads = map[int]string{70: s.To, 71: s.To}
	}
	return nil
}

func (d *dividedProcess) Read(_ context.Context, e plan.Entry) (plan.Setting, error) {
	s := plan.Setting{Kind: e.Kind, Path: e.Path, Value: d.threads[70]}
	if e.Kind == plan.ThreadCPUs {
		s.Value = e.New
	} else if main, _, _ := strings.Cut(e.Old, ";"); d.threads[70] == main {
		s.Value = e.Old
	}
	return s, nil
}

func (d *dividedProcess) Restore(_ context.Context, entries []plan.Entry) []error {
	for _, e := range entries {
		main, other, _ := strings.Cut(e.Old, ";71=")
		for tid, has := range d.threads {
			if slices.Contains(strings.Split(e.New, ";"), has) && d.failing == nil {
				if d.threads[tid] = main; tid == 71 && other != "" {
					d.threads[tid] = other
				}
			}
		}
	}
	return slices.Repeat([]error{d.failing}, len(entries))
}

func (d *dividedProcess) Present(plan.Entry) error { return nil }

// A process whose threads a daemon divided among nodes is moved whole without one, and undo gives
// it what it had before all: the division first, which is over once somebody moves the process.
func TestMoveOfDividedThreadsWithoutDaemon(t *testing.T) {
	for name, to := range map[string]topology.NodeID{"to a node of the division": 0, "to another": 2} {
		for _, child := range []bool{false, true} {
			m := newMachine(t, 3, 4)
			d := &dividedProcess{threads: map[int]string{70: "0-3", 71: "4-7"}}
			r := newRig(t, m, true)
			entry := plan.Entry{Seq: 1, Workload: "/wide", Kind: plan.ThreadCPUs, Path: d.path(), Old: "0-11", New: "0-3;4-7", State: plan.Applied}
			if err := r.store.Commit(plan.Batch{Entries: []plan.Entry{entry}}); err != nil {
				t.Fatal(err)
			}
			o := r.options(true)
			o.Drivers = map[workload.Kind]Driver{workload.InCgroup: m, workload.InProcess: d}
			o.Lineage = func(pid int) workload.Lineage { return workload.Lineage{PIDs: []int{pid, 60, 1}} }
			open := func() (Store, error) { return r.store, nil }
			local := &Local{Open: open, OpenOwn: open, OpenUndo: open, OpenRead: open, Options: o, Process: func(_ context.Context, pid int) (*topology.Host, workload.Observation, error) {
				return m.host(), workload.Observation{ID: control.ProcessID(pid), Kind: workload.InProcess, CPUs: topology.CPUs(0, 1, 2, 3), Processes: []workload.Process{{PID: pid, Start: 7}}}, nil
			}}
			order := api.MoveOrder{ID: "70", To: topology.Nodes(to)}
			if child { // it is what this one has started
				order.ID = "60"
			}
			d.failing = errors.New("no such luck")
			if _, err := local.Move(t.Context(), order); err == nil || !strings.Contains(err.Error(), "no such luck") || strings.Contains(err.Error(), "\n") || d.affinity() != "0-3;71=4-7" {
				t.Errorf("%s: %v, threads %s", name, err, d.affinity())
			}
			d.failing = nil
			if a, err := local.Move(t.Context(), order); err != nil || d.affinity() != a.CPUs.String() || a.CPUs.Min() != topology.CPUID(4*to) {
				t.Errorf("%s: %v, threads %s", name, err, d.affinity())
			}
			if _, err := local.Undo(t.Context(), api.Which{All: true}); err != nil || d.affinity() != "0-11" {
				t.Errorf("%s: undone: %v, threads %s", name, err, d.affinity())
			}
			if left, err := r.store.Journal(); err != nil || len(left) > 0 {
				t.Errorf("%s: %+v is left, %v", name, left, err)
			}
		}
	}
}
