package daemon

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// slowStore says what it is about to write, and writes when it is let.
type slowStore struct {
	Store
	batches chan plan.Batch
	let     chan struct{}
}

func (s *slowStore) Commit(b plan.Batch) error {
	s.batches <- b
	<-s.let
	return s.Store.Commit(b)
}

func outputOf(text string, effects ...control.Effect) control.Output {
	return control.Output{Effects: effects, Save: plan.Batch{Events: []plan.Event{{Kind: plan.EventDaemon, Text: text}}}}
}

// newSlow is a daemon that does not loop on a slow disk, which is being written.
func newSlow(t *testing.T) (*Daemon, *slowStore) {
	r := newRig(t, scattered(t), true)
	s := &slowStore{r.store, make(chan plan.Batch, 8), make(chan struct{}, 8)}
	o := r.options(true)
	o.Store, o.Inline = s, false
	s.let <- struct{}{} // for New
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.stop)
	if len(s.batches) > 0 {
		<-s.batches
	} else {
		<-s.let
	}
	first := outputOf("first")
	first.Replies = []control.Reply{{ID: 77}}
	d.send(first)
	<-s.batches
	return d, s
}

// What gathers while the disk is written goes to disk after it, however long that takes.
func TestWhatGathersDuringAWriteIsWritten(t *testing.T) {
	d, s := newSlow(t)
	d.send(outputOf("second", control.Effect{ID: 5, Kind: control.EffectPresent}))
	d.pump(5*gather, func() bool { return false }) // its turn comes, and the disk is not ready
	s.let <- struct{}{}
	s.let <- struct{}{}
	d.pump(5*time.Second, func() bool { return d.running > 0 })
	if d.running == 0 {
		t.Error("the effect has not begun")
	}
}

// What is to stop waits for no disk: what has begun is told at once, and what waits for
// the disk itself is not begun.
func TestStopWaitsForNoDisk(t *testing.T) {
	d, s := newSlow(t)
	move := func(id uint64) control.Effect {
		step := plan.Step{Kind: plan.MovePages, Workload: "/a", Target: plan.Target{Kind: workload.InCgroup, Cgroup: "/a"}, To: "0"}
		return control.Effect{ID: id, Kind: control.EffectApply, Workload: "/a", Step: &step}
	}
	stopped := func(of ...uint64) control.Output {
		out := outputOf("stop")
		for _, id := range of {
			out.Effects = append(out.Effects, control.Effect{Kind: control.EffectCancel, Workload: "/a", Of: id})
		}
		return out
	}
	told := false
	d.cancels[4] = func() { told = true }
	d.send(outputOf("second", move(5), move(6)))
	d.send(stopped(4, 5, 99)) // 99 has ended
	if !told {
		t.Error("what has begun goes on while the disk hangs")
	}
	var began []func()
	d.o.Go = func(do func()) { began = append(began, do) }
	s.let <- struct{}{}
	s.let <- struct{}{}
	d.pump(5*time.Second, func() bool { return len(began) == 2 })
	for _, do := range began {
		go do()
	}
	for n := 0; n < 2; {
		r := (<-d.inputs).Result
		if r == nil { // progress
			continue
		}
		if n++; (r.ID == 5) != (r.Failed != nil && r.Failed.Code == control.Cancelled) {
			t.Errorf("%+v: %v", r, r.Failed)
		}
	}
	if len(d.cancelled) != 0 {
		t.Errorf("left: %v", d.cancelled)
	}
}

func TestMerged(t *testing.T) {
	places := []workload.Placement{{Workload: "/a"}}
	a := plan.Batch{Entries: []plan.Entry{{Seq: 1, New: "0"}, {Seq: 2}, {Seq: 1, New: "1"}}, Moves: []plan.Move{{Workload: "/a", Moved: 1}},
		Events: []plan.Event{{Text: "x"}}, Values: map[string]any{"k": 1, "l": 1}, Placements: plan.HomesOf(places)}
	b := plan.Batch{Entries: []plan.Entry{{Seq: 3}, {Seq: 1, New: "2"}}, Moves: []plan.Move{{Workload: "/b"}, {Workload: "/a", Moved: 2}},
		Events: []plan.Event{{Text: "y"}}, Values: map[string]any{"k": 2}}
	want := plan.Batch{Entries: []plan.Entry{{Seq: 1, New: "2"}, {Seq: 2}, {Seq: 3}}, Moves: []plan.Move{{Workload: "/a", Moved: 2}, {Workload: "/b"}},
		Events: []plan.Event{{Text: "x"}, {Text: "y"}}, Values: map[string]any{"k": 2, "l": 1}, Placements: plan.HomesOf(places)}
	got := merged([]*plan.Batch{{}, &a, &b})
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(plan.Homes{})); diff != "" {
		t.Error(diff)
	}
	if len(a.Values) != 2 || a.Values["k"] != 1 || a.Entries[0].New != "0" {
		t.Error("merging changed what was merged")
	}
	if none := merged([]*plan.Batch{{}, {}}); !none.Empty() || none.Values != nil {
		t.Errorf("%+v", none)
	}
}

// What was changed is told to the observer before it is on disk: a scan that begins meanwhile
// would show what was so before, and the change would be made again.
func TestObserverDoesNotWaitForTheDisk(t *testing.T) {
	m := newMachine(t, 2, 8)
	r := newRig(t, m, true, func(o *Options) { o.Inline = false })
	for _, kind := range []control.EffectKind{control.EffectChanged, control.EffectMoved} {
		id := workload.ID("/" + kind)
		r.send(control.Output{Save: plan.Batch{Events: []plan.Event{{Seq: 1}}}, Effects: []control.Effect{{Kind: kind, Workload: id}}})
		if !slices.Contains(m.anew, id) || len(r.outbox.queue)+len(r.outbox.writing) == 0 {
			t.Errorf("%s: told %v, %d to be written", kind, m.anew, len(r.outbox.queue))
		}
	}
}
