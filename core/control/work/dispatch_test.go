package work

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// begun returns the workloads with tasks and the steps of each.
func (f *fake) begun() string {
	var out []string
	for _, id := range sortedKeys(f.Tasks) {
		out = append(out, fmt.Sprintf("%s %d", id, len(f.Tasks[id].Steps)))
	}
	return strings.Join(out, ", ")
}

// TestDispatch: the settings of each workload begin at once, and its page move once they are seen; nothing begins for a
// workload that is held, silent, waiting, or in the midst of another change.
func TestDispatch(t *testing.T) {
	settings := []plan.Step{cpusOf("/a", "0"), memsOf("/a", "0"), pagesOf("/a", "0", 1)}
	entry := applied(1, plan.CgroupCPUs, "/a", "0-7", "0")
	for _, tt := range []struct {
		name   string
		steps  []plan.Step
		change func(*fake)
		want   string
	}{
		{"settings first", settings, func(*fake) {}, "/a 2"},
		{"two workloads", append([]plan.Step{cpusOf("/b", "0")}, settings...), func(*fake) {}, "/a 2, /b 1"},
		{"the move then", settings[2:], func(*fake) {}, "/a 1"},
		{"none", nil, func(*fake) {}, ""},
		{"observe mode", settings, func(f *fake) { f.observes = true }, ""},
		{"held", settings, func(f *fake) { f.held["/a"] = true }, ""},
		{"tried", settings, func(f *fake) { f.Tried["/a"] = true }, ""},
		{"silent", settings, func(f *fake) { f.Silent["/a"] = Silent{Until: start.Add(1)} }, ""},
		{"silent before", settings, func(f *fake) { f.Silent["/a"] = Silent{Until: start} }, "/a 2"},
		{"failed lately", settings, func(f *fake) { f.Retries[KeyOf(&settings[0])] = Retry{Next: start.Add(1)} }, ""},
		{"another failed", settings, func(f *fake) { f.Retries[Key{Workload: "/a"}] = Retry{Next: start.Add(1)} }, "/a 2"},
		{"checked", settings, func(f *fake) { f.Check("/a", []plan.Entry{entry}) }, ""},
		{"undone", settings, func(f *fake) { f.Undoing = []*Undoing{{Which: Which{ID: "/a"}}} }, ""},
		{"restored", settings, func(f *fake) {
			f.Undoing = []*Undoing{{Of: "/x", Entries: map[uint64]bool{}, Running: map[uint64][]plan.Entry{1: {entry}}}}
		}, ""},
		{"settings not seen yet", settings, func(f *fake) { f.Ended["/a"] = Ended{Scan: 4, Settings: true} }, ""},
		{"settings seen", settings, func(f *fake) { f.Ended["/a"] = Ended{Scan: 3, Settings: true} }, "/a 2"},
		{"settings after a move", settings, func(f *fake) { f.Ended["/a"] = Ended{Scan: 4} }, "/a 2"},
		{"a move after settings", settings[2:], func(f *fake) { f.Ended["/a"] = Ended{Scan: 4, Settings: true} }, "/a 1"},
		{"a move after a move", settings[2:], func(f *fake) { f.Ended["/a"] = Ended{Scan: 4} }, ""},
		{"memory moves already", settings[2:], func(f *fake) { f.seen["/a"] = &workload.Observation{MemoryMoved: true} }, ""},
		{"in use under another ID", settings, func(f *fake) { f.Ended["/b"] = Ended{Scan: 4, Target: "/a"} }, ""},
		{"was in use", settings, func(f *fake) { f.Ended["/b"] = Ended{Scan: 3, Target: "/a"} }, "/a 2"},
	} {
		f := newFake(t)
		f.plan.Steps = tt.steps
		tt.change(f)
		if f.Dispatch(); f.begun() != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, f.begun(), tt.want)
		}
		for _, task := range f.Tasks {
			if task.Scan != 4 || (task.Transfer != nil) != task.Steps[0].Slow() {
				t.Errorf("%s: %+v", tt.name, task)
			}
		}
	}
}

// TestDispatchCancels: a page move to a home that the workload no longer has is cancelled.
func TestDispatchCancels(t *testing.T) {
	for _, tt := range []struct {
		name   string
		steps  []plan.Step
		cancel bool
	}{
		{"the same home", []plan.Step{pagesOf("/a", "0", 1)}, false},
		{"another home", []plan.Step{cpusOf("/a", "8"), pagesOf("/a", "1", 1)}, true},
		{"no move", []plan.Step{cpusOf("/a", "8")}, false},
	} {
		f := newFake(t)
		task := f.moves("/a", 0)
		f.plan.Steps = tt.steps
		f.NewPlan()
		if f.Dispatch(); task.Cancelled != tt.cancel || f.Tasks["/a"] != task {
			t.Errorf("%s: %v", tt.name, task.Cancelled)
		}
	}
	f := newFake(t)
	task := f.begins(cpusOf("/a", "0"))
	f.plan.Steps = []plan.Step{pagesOf("/a", "1", 1)}
	if f.Dispatch(); task.Cancelled {
		t.Error("settings were cancelled")
	}
}

// TestWaits: a transfer that does not begin keeps the time of its first try, and counts as aged after 5 minutes.
func TestWaits(t *testing.T) {
	f := newFake(t)
	f.room = &topology.Host{Nodes: []topology.Node{{ID: 0, Free: 1 << 30}, {ID: 1, Free: 1 << 30}}}
	for _, id := range []workload.ID{"/a", "/b", "/c"} {
		f.seen[id] = at(id, 40)
	}
	f.seen["/b"].Memory[1].KiB = 10 // smaller: it goes first
	f.plan.Steps = []plan.Step{pagesOf("/a", "0", 1), pagesOf("/b", "0", 1)}
	f.Dispatch()
	if f.begun() != "/b 1" || len(f.Waits) != 1 || !f.Waits["/a"].Equal(start) {
		t.Fatalf("%s, waits %v", f.begun(), f.Waits)
	}
	f.At = f.At.Add(5*time.Minute - 1)
	f.Dispatch()
	if !f.Waits["/a"].Equal(start) {
		t.Errorf("waits %v", f.Waits)
	}
	f.seen["/c"].Memory[1].KiB = 1
	f.Tried["/b"] = true
	f.plan.Steps = []plan.Step{pagesOf("/a", "0", 1), pagesOf("/b", "0", 1), pagesOf("/c", "0", 1)}
	f.ends(Failed)
	if f.begun() != "/c 1" {
		t.Errorf("%s before it is aged", f.begun())
	}
	f.At = f.At.Add(1)
	f.seen["/d"] = at("/d", 99)
	f.plan.Steps = append(f.plan.Steps, pagesOf("/d", "0", 1)) // smaller, too
	f.ends(Failed)
	if f.begun() != "/a 1" || len(f.Waits) != 1 || !f.Waits["/d"].Equal(f.At) {
		t.Errorf("%s, waits %v", f.begun(), f.Waits)
	}
	f = newFake(t) // a step that is done does not wait
	f.Waits["/a"] = start
	f.Dispatch()
	if len(f.Waits) != 0 {
		t.Errorf("waits %v", f.Waits)
	}
}

// TestMoveFollowsSettings: the page move of a workload begins when its settings are set, if plans are carried out.
func TestMoveFollowsSettings(t *testing.T) {
	for _, observes := range []bool{false, true} {
		f := newFake(t)
		f.plan.Steps = []plan.Step{cpusOf("/a", "0"), pagesOf("/a", "0", 1), pagesOf("/b", "0", 1)}
		f.begins(cpusOf("/a", "0"))
		f.reads("cpuset.cpus /a 0-7")
		f.observes = observes
		f.At = f.At.Add(time.Second)
		f.ends("")
		if want := map[bool]string{false: "/a 1"}[observes]; f.begun() != want {
			t.Errorf("observes %v: %q", observes, f.begun())
		}
	}
	f := newFake(t) // one that cannot begin waits
	f.seen["/a"], f.seen["/b"] = at("/a", 40), at("/b", 40)
	f.moves("/b", 0)
	f.plan.Steps = []plan.Step{cpusOf("/a", "0"), pagesOf("/a", "0", 1)}
	f.NewPlan()
	f.begins(cpusOf("/a", "0"))
	f.todo = f.todo[1:]
	f.reads("cpuset.cpus /a 0-7")
	f.ends("")
	if f.begun() != "/b 2" || !f.Waits["/a"].Equal(start) {
		t.Errorf("%s, waits %v", f.begun(), f.Waits)
	}
}
