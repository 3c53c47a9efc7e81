package daemon

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// family is a driver of processes whose searches for heirs answer one after the
// other, the last for ever.
type family struct {
	searches []search
	restored []string
}

type search struct {
	heirs []plan.Heir
	err   error
}

func (f *family) Settings(context.Context, plan.Step) ([]plan.Setting, error) { return nil, nil }
func (f *family) Apply(context.Context, plan.Step, func(plan.Move)) error     { return nil }
func (f *family) Present(plan.Entry) error                                    { return nil }

func (f *family) Restore(_ context.Context, e plan.Entry) error {
	f.restored = append(f.restored, e.Path)
	return nil
}

func (f *family) Heirs(context.Context, []plan.Entry, []workload.Process) ([]plan.Heir, error) {
	if len(f.searches) == 0 {
		return nil, nil
	}
	s := f.searches[0]
	if len(f.searches) > 1 {
		f.searches = f.searches[1:]
	}
	return s.heirs, s.err
}

func (f *family) drivers() map[workload.Kind]Driver {
	return map[workload.Kind]Driver{workload.InProcess: f}
}

// bequeathed is a store in which process 100 was given CPUs 0-3.
func bequeathed(t *testing.T) *Memory {
	t.Helper()
	s := NewMemory()
	e, err := s.Intend("pid:100", []plan.Setting{{Kind: plan.Affinity, Path: "100@7", Value: "0-7"}}, []string{"0-3"}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Mark(plan.Applied, e[0].Seq); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestUndoWhileHeirsAreNotFound: an entry by which alone an orphan is found must
// not be forgotten, nor success reported, when the search for orphans fails.
func TestUndoWhileHeirsAreNotFound(t *testing.T) {
	broken := search{err: errors.New("read /proc: too many open files")}
	for _, c := range []struct {
		name     string
		searches []search
	}{
		{"before", []search{broken}},
		{"after", []search{{}, broken}},
	} {
		s, f := bequeathed(t), &family{searches: c.searches}
		r, err := Undo(t.Context(), s, f.drivers(), api.Which{All: true}, time.Unix(2, 0))
		if err != nil || len(r.Failed) != 1 || r.Failed[0].Entry.State != plan.Applied || len(r.Restored) != 1 {
			t.Errorf("%s: %+v %v", c.name, r, err)
		}
		if left, err := s.Journal(); err != nil || len(left) != 1 {
			t.Errorf("%s: journal %+v %v", c.name, left, err)
		}
		events, err := s.History(0)
		if err != nil || !slices.ContainsFunc(events, func(e plan.Event) bool { return e.Error }) {
			t.Errorf("%s: history %+v %v", c.name, events, err)
		}
		f.searches = nil // the next try ends it
		r, err = Undo(t.Context(), s, f.drivers(), api.Which{All: true}, time.Unix(3, 0))
		left, _ := s.Journal()
		if err != nil || len(r.Failed) != 0 || len(left) != 0 {
			t.Errorf("%s, again: %+v %v, journal %+v", c.name, r, err, left)
		}
	}
}

// TestHeirsWithoutEnd: when each search finds more there may be still more.
func TestHeirsWithoutEnd(t *testing.T) {
	s, f := bequeathed(t), &family{searches: []search{{heirs: []plan.Heir{
		{Of: 1, Has: "0-3", Setting: plan.Setting{Kind: plan.Affinity, Path: "101@8", Value: "0-7"}}}}}}
	journal, err := s.Journal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := adopt(t.Context(), s, f.drivers(), journal, nil, nil); err == nil {
		t.Error("adopt: no error though the last search found heirs")
	}
	if _, err := bury(t.Context(), s, f.drivers(), journal, []uint64{1}); err == nil {
		t.Error("bury: no error though the last search found heirs")
	}
	if now, err := s.Journal(); err != nil || len(now) != 2 {
		t.Errorf("journal %+v %v", now, err)
	}
	if _, err := adopt(t.Context(), s, f.drivers(), journal, []workload.Process{{PID: 101, Start: 8}}, nil); err != nil {
		t.Errorf("among some, which is one search: %v", err)
	}
}

// TestAdoptedAreApplied: heirs have what they were journalled with.
func TestAdoptedAreApplied(t *testing.T) {
	s, f := bequeathed(t), &family{searches: []search{{heirs: []plan.Heir{
		{Of: 1, Has: "0-3", Setting: plan.Setting{Kind: plan.Affinity, Path: "101@8", Value: "0-7"}}}}, {}}}
	journal, err := s.Journal()
	if err != nil {
		t.Fatal(err)
	}
	if adopted, err := adopt(t.Context(), s, f.drivers(), journal, nil, nil); err != nil || len(adopted) != 1 {
		t.Fatalf("%+v %v", adopted, err)
	}
	journal, err = s.Journal()
	if err != nil || len(journal) != 2 {
		t.Fatalf("%+v %v", journal, err)
	}
	for _, e := range journal {
		if e.State != plan.Applied {
			t.Errorf("%s is %s", e.Path, e.State)
		}
	}
}

// TestForkingWithoutEnd: a build starts compilers faster than they are gone through
// until its CPUs are put back, which goes on being possible, as does forgetting others.
func TestForkingWithoutEnd(t *testing.T) {
	s := bequeathed(t)
	var f family
	for n := range heirPasses {
		f.searches = append(f.searches, search{heirs: []plan.Heir{{Of: 1, Has: "0-3",
			Setting: plan.Setting{Kind: plan.Affinity, Path: plan.ProcessPath(workload.Process{PID: 101 + n, Start: 8}), Value: "0-7"}}}})
	}
	again := slices.Clone(f.searches)
	f.searches = append(f.searches, search{})
	dead, err := s.Intend("pid:50", []plan.Setting{{Kind: plan.Affinity, Path: "50@7", Value: "0-7"}}, []string{"0-3"}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	journal, err := s.Journal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bury(t.Context(), s, f.drivers(), journal, seqs(dead)); err != nil {
		t.Errorf("bury: %v", err)
	}
	if now, err := s.Journal(); err != nil || slices.ContainsFunc(now, func(e plan.Entry) bool { return e.Path == "50@7" }) {
		t.Errorf("journal %+v %v", now, err)
	}
	f.searches = append(again, search{})
	r, err := Undo(t.Context(), s, f.drivers(), api.Which{All: true}, time.Unix(2, 0))
	if left, e := s.Journal(); err != nil || e != nil || len(r.Failed) != 0 || len(r.Restored) != 1+heirPasses || len(left) != 0 {
		t.Errorf("%+v %v, journal %+v %v", r, err, left, e)
	}
}
