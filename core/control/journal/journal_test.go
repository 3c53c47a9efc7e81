package journal

import (
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Of a setting the newest entry counts, until that is taken out; the shape is another one when
// a setting comes, goes or is of another thing, and only then.
func TestJournal(t *testing.T) {
	entry := func(seq uint64, w workload.ID, object string, state plan.EntryState) plan.Entry {
		return plan.Entry{Seq: seq, Workload: w, Kind: plan.Affinity, Path: "7@1", Object: object, State: state}
	}
	j := New(nil)
	for k, tt := range []struct {
		put       plan.Entry
		seq       uint64 // of the setting then, 0 for none
		all       int
		new       bool
		inherited int
	}{
		{entry(1, "/a", "", plan.Intended), 1, 1, true, 1},
		{entry(1, "/a", "", plan.Applied), 1, 1, false, 1},
		{entry(1, "/a", "5", plan.Applied), 1, 1, true, 1},
		{entry(1, "/b", "5", plan.Applied), 1, 1, true, 1},
		{entry(2, "/b", "5", plan.Applied), 2, 2, false, 2},
		{entry(1, "/b", "5", plan.Gone), 2, 1, true, 1},
		{entry(2, "/b", "5", plan.Restored), 0, 0, true, 0},
		{entry(3, "/b", "5", plan.Gone), 0, 0, true, 0},
	} {
		was := j.Shape()
		j.Put(tt.put)
		e := j.Of(plan.Affinity, "7@1")
		if (e == nil) != (tt.seq == 0) || (e != nil && e.Seq != tt.seq) || j.Len() != tt.all || len(j.All()) != tt.all || (j.Shape() != was) != tt.new || len(j.Affinities()) != tt.inherited {
			t.Errorf("%d: %+v, %d in all, %d to inherit from, shape %d after %d", k, e, j.Len(), len(j.Affinities()), j.Shape(), was)
		}
	}
	j.Put(plan.Entry{Seq: 9, Kind: plan.CgroupCPUs, Path: "/a"})
	if len(j.Affinities()) != 0 || len(j.All()) != 1 || j.Of(plan.CgroupMems, "/a") != nil {
		t.Errorf("%+v", j.All())
	}
	files := func() []plan.Entry { return j.Group("files", plan.SettingKind.IsCgroupFile) }
	for k, tt := range []struct {
		put  plan.Entry
		want int
	}{
		{plan.Entry{Seq: 10, Kind: plan.CPUController, Path: "/"}, 0},
		{plan.Entry{Seq: 11, Kind: plan.CgroupIdle, Path: "/a"}, 1},
		{plan.Entry{Seq: 12, Kind: plan.CgroupFreeze, Path: "/a"}, 2},
		{plan.Entry{Seq: 11, Kind: plan.CgroupIdle, Path: "/a", State: plan.Restored}, 1},
	} {
		j.Put(tt.put)
		if len(files()) != tt.want {
			t.Errorf("%d: %+v, want %d", k, files(), tt.want)
		}
	}
}

// TestReadersKeepTheirEntries: what a reader holds stays as it was when the journal goes on.
func TestReadersKeepTheirEntries(t *testing.T) {
	j := New([]plan.Entry{{Seq: 1, Kind: plan.Affinity, Path: "7@1", New: "0-3"}, {Seq: 2, Kind: plan.CgroupCPUs, Path: "/a", New: "0-3"}})
	all, inherits := j.All(), j.Affinities()
	j.Put(plan.Entry{Seq: 1, Kind: plan.Affinity, Path: "7@1", New: "4-7"})
	j.Put(plan.Entry{Seq: 2, Kind: plan.CgroupCPUs, Path: "/a", State: plan.Gone})
	j.Put(plan.Entry{Seq: 3, Kind: plan.Affinity, Path: "8@1", New: "4-7"})
	if len(all) != 2 || all[0].New != "0-3" || len(inherits) != 1 || inherits[0].New != "0-3" {
		t.Errorf("a reader has %+v and %+v", all, inherits)
	}
	if now := j.All(); len(now) != 2 || now[0].New != "4-7" {
		t.Errorf("the journal has %+v", now)
	}
}
