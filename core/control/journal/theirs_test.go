package journal

import (
	"slices"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/workload"
)

func idle(id, object, old string) plan.Entry {
	return plan.Entry{Workload: workload.ID(id), Kind: plan.CgroupIdle, Path: id, Object: object, Old: old, New: "1"}
}

func changeOf(path, object, value string) plan.Change {
	return plan.Change{Setting: plan.Setting{Kind: plan.CgroupIdle, Path: path, Object: object, Value: value}}
}

// TestForeign: a setting of another program stays its own until it has its original value again, or is of a new object.
func TestForeign(t *testing.T) {
	for _, c := range []struct {
		name    string
		changes []plan.Change
		first   string // the path of the change that is theirs
		changed bool
		left    int
	}{
		{"none of them", []plan.Change{changeOf("/c", "", "1")}, "", false, 2},
		{"another value", []plan.Change{changeOf("/c", "", "1"), changeOf("/a", "7", "1")}, "/a", false, 2},
		{"the original value", []plan.Change{changeOf("/a", "7", "0")}, "", true, 1},
		{"a new object", []plan.Change{changeOf("/a", "8", "1")}, "", true, 1},
		{"an object that is not known now", []plan.Change{changeOf("/a", "", "1")}, "/a", false, 2},
		{"an object that was not known", []plan.Change{changeOf("/b", "8", "1")}, "/b", false, 2},
		{"one free again, then one of theirs", []plan.Change{changeOf("/a", "7", "0"), changeOf("/b", "", "1")}, "/b", true, 1},
		{"both free again", []plan.Change{changeOf("/a", "7", "0"), changeOf("/b", "", "0")}, "", true, 0},
		{"another kind", []plan.Change{{Setting: plan.Setting{Kind: plan.CgroupFreeze, Path: "/a", Value: "1"}}}, "", false, 2},
	} {
		f := Foreign{}
		one, two := idle("/a", "7", "0"), idle("/b", "", "0")
		f.Keep(&one)
		f.Keep(&two)
		first, changed := f.Among(c.changes)
		path := ""
		if first != nil {
			path = first.Path
		}
		if path != c.first || changed != c.changed || len(f) != c.left {
			t.Errorf("%s: %q, changed %v, %d left; want %q, %v, %d", c.name, path, changed, len(f), c.first, c.changed, c.left)
		}
	}
}

// TestForeignGivenBack: a setting that is given back, by itself or with its workload, is no longer theirs.
func TestForeignGivenBack(t *testing.T) {
	f := Foreign{}
	one, two, three := idle("/b", "7", "0"), idle("/a", "", "0"), idle("/a", "", "max")
	three.Kind = plan.CgroupWeight
	for _, e := range []*plan.Entry{&one, &two, &three} {
		f.Keep(e)
	}
	want := []Theirs{
		{Workload: "/a", Kind: plan.CgroupIdle, Path: "/a", Old: "0"},
		{Workload: "/b", Kind: plan.CgroupIdle, Path: "/b", Object: "7", Old: "0"},
		{Workload: "/a", Kind: plan.CgroupWeight, Path: "/a", Old: "max"},
	}
	if got := f.Sorted(); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	entries := f.Entries()
	if len(entries) != 3 || entries[1].Path != "/b" || entries[1].Workload != "/b" || entries[1].Kind != plan.CgroupIdle ||
		entries[1].Object != "7" || entries[1].Seq != 0 || entries[1].State != plan.Gone {
		t.Errorf("%+v", entries)
	}
	if f.GiveBackOf(func(id workload.ID) bool { return id == "/c" }) || len(f) != 3 {
		t.Error("a setting of another workload is given back")
	}
	f.GiveBack(&two)
	if got := f.Sorted(); !slices.Equal(got, want[1:]) {
		t.Errorf("%+v", got)
	}
	if !f.GiveBackOf(func(id workload.ID) bool { return id == "/a" }) {
		t.Error("nothing is given back")
	}
	if got := f.Sorted(); !slices.Equal(got, want[1:2]) {
		t.Errorf("%+v", got)
	}
}

// TestNamesOfBefore: what earlier versions wrote has its names of now, and nothing else changes its name.
func TestNamesOfBefore(t *testing.T) {
	for _, c := range []struct {
		kind      plan.SettingKind
		text, now string
	}{
		{plan.TaskPolicy, PolicyBefore, plan.PolicyExt},
		{plan.TaskPolicy, GroupBefore, GroupBefore},
		{plan.CacheGroup, GroupBefore, share.CacheGroup},
		{plan.CacheTasks, GroupBefore, share.CacheGroup},
		{plan.CacheTasks, PolicyBefore, PolicyBefore},
		{plan.CgroupCPUs, GroupBefore, GroupBefore},
		{plan.CgroupCPUs, PolicyBefore, PolicyBefore},
		{plan.CacheGroup, "", ""},
	} {
		if now := Renamed(c.kind, c.text); now != c.now {
			t.Errorf("%s %q is %q, want %q", c.kind, c.text, now, c.now)
		}
		value := plan.Setting{Kind: c.kind, Path: "/a", Value: c.text}
		RenameSetting(&value)
		e := plan.Entry{Kind: c.kind, Path: "/a", Old: c.text, New: "x"}
		RenameEntry(&e)
		other := plan.Entry{Kind: c.kind, Path: "/a", Old: "x", New: c.text}
		RenameEntry(&other)
		if value.Value != c.now || value.Path != "/a" || e.Old != c.now || e.New != "x" || other.New != c.now || other.Old != "x" || e.Path != "/a" {
			t.Errorf("%s %q: %+v, %+v, %+v", c.kind, c.text, value, e, other)
		}
	}
	for kind, want := range map[plan.SettingKind]string{plan.CacheGroup: share.CacheGroup, plan.CacheTasks: GroupBefore, plan.CgroupCPUs: GroupBefore} {
		x, e := plan.Setting{Kind: kind, Path: GroupBefore}, plan.Entry{Seq: 3, Kind: kind, Path: GroupBefore}
		RenameSetting(&x)
		RenameEntry(&e)
		theirs := ForeignOf([]Theirs{{Kind: kind, Path: GroupBefore, Old: GroupBefore}}).Sorted()
		if x.Path != want || e.Path != want || theirs[0].Path != want || theirs[0].Old != Renamed(kind, GroupBefore) {
			t.Errorf("%s: the paths are %s, %s and %+v, want %s", kind, x.Path, e.Path, theirs[0], want)
		}
		j := New([]plan.Entry{{Seq: 3, Kind: kind, Path: GroupBefore}})
		if j.Of(kind, want) == nil {
			t.Errorf("%s: the journal has %+v", kind, j.All())
		}
	}
	again := ForeignOf([]Theirs{{Workload: "/a", Kind: plan.CgroupIdle, Path: "/a", Old: "0"}})
	e := idle("/a", "", "0")
	again.GiveBack(&e)
	if len(again) != 0 {
		t.Errorf("%+v is not found again", again)
	}
}

// TestIntended: of affinities those that may be half written. A journal counts each change, and finds each entry by number.
func TestIntended(t *testing.T) {
	j := New([]plan.Entry{
		{Seq: 1, Kind: plan.Affinity, Path: "7@1", State: plan.Intended}, {Seq: 2, Kind: plan.Affinity, Path: "8@1", State: plan.Applied},
		{Seq: 3, Kind: plan.ThreadCPUs, Path: "7@1", State: plan.Intended}, {Seq: 4, Kind: plan.CgroupCPUs, Path: "/a", State: plan.Intended},
	})
	paths := func() (out []string) {
		for _, e := range j.Intended() {
			out = append(out, e.Path)
		}
		return out
	}
	if got := paths(); !slices.Equal(got, []string{"7@1"}) {
		t.Errorf("%q", got)
	}
	if got := len(j.Affinities()); got != 3 {
		t.Errorf("%d can be inherited from", got)
	}
	was := j.Changes()
	if was != 4 {
		t.Errorf("%d changes", was)
	}
	j.Put(plan.Entry{Seq: 2, Kind: plan.Affinity, Path: "8@1", State: plan.Intended})
	if got := paths(); !slices.Equal(got, []string{"7@1", "8@1"}) || j.Changes() != was+1 {
		t.Errorf("%q after %d changes", got, j.Changes())
	}
	j.Put(plan.Entry{Seq: 1, Kind: plan.Affinity, Path: "7@1", State: plan.Restored})
	if got := paths(); !slices.Equal(got, []string{"8@1"}) || j.At(1) != nil || j.At(2) == nil || j.At(2).Path != "8@1" || j.Changes() != was+2 {
		t.Errorf("%q after %d changes", got, j.Changes())
	}
	empty := New(nil)
	if empty.Intended() == nil || empty.Affinities() == nil || empty.Len() != 0 {
		t.Error("lists that are known to be empty are made again")
	}
	shape := j.Shape()
	j.Put(plan.Entry{Seq: 5, Kind: plan.CgroupCPUs, Path: "/b"})
	if j.Shape() != shape+1 {
		t.Errorf("shape %d after %d", j.Shape(), shape)
	}
	// Each of two groups has the kinds of its own name.
	controllers := j.Group("controllers", plan.SettingKind.IsController)
	if len(controllers) != 0 || len(j.Affinities()) != 2 || len(j.Group("controllers", plan.SettingKind.IsController)) != 0 {
		t.Errorf("%+v beside %+v", controllers, j.Affinities())
	}
}
