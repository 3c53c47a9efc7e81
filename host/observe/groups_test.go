package observe

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// groupRig is two workloads of two threads each, the first threads with all the time.
func groupRig(t *testing.T) *rig {
	m := newFake()
	m.more = map[string]string{}
	for i, path := range []string{"/a.service", "/b.service"} {
		_, p := m.service(path, 100+10*i, "x", 100*mib)
		p.threads = []fakeThread{{ticks: 900, cpus: "0-7"}, {ticks: 100, cpus: "0-7"}}
	}
	return newRig(t, m, Options{})
}

// group writes a resctrl group with one cache of each node; what is counted is MiB, or
// the word where that is not "".
func (r *rig) group(dir, tasks string, local, total int, word string) {
	dir = "sys/fs/resctrl/" + dir
	r.more[dir+"/tasks"] = tasks
	r.more[dir+"/cpus_list"] = "\n"
	for i, cache := range []string{"00", "01"} {
		for name, mib := range map[string]int{"local": local, "total": total} {
			text := fmt.Sprintln(mib * (1 << 20) * i) // all at the second
			if word != "" {
				text = word + "\n"
			}
			r.more[dir+"/mon_data/mon_L3_"+cache+"/mbm_"+name+"_bytes"] = text
		}
	}
}

func (r *rig) wantTraffic(s workload.Snapshot, id workload.ID, mibs int64, from workload.Source, local float64) {
	r.t.Helper()
	o := find(r.t, s, id)
	if o.Bandwidth != mibs || o.Accesses.From != from || math.Abs(o.Accesses.Local-local) > 1e-9 {
		r.t.Errorf("%s: %d MiB/s, accesses %+v; want %d, %v from %q", id, o.Bandwidth, o.Accesses, mibs, local, from)
	}
}

// TestTrafficByGroup: a group that holds one workload's threads, and with them most of its
// time, tells its traffic and how much of it is local; another group does not.
func TestTrafficByGroup(t *testing.T) {
	for _, tt := range []struct {
		name   string
		groups map[string]string // tasks by group, each with 100 MiB/s, a quarter of it local
		a, b   int64
	}{
		{"a whole workload", map[string]string{"mon_groups/m": "100\n101\n"}, 100, 0},
		{"the thread with the time", map[string]string{"mon_groups/m": "110\n"}, 0, 100},
		{"the least of its time", map[string]string{"mon_groups/m": "100\n"}, 100, 0},
		{"a thread with little time", map[string]string{"mon_groups/m": "101\n"}, 0, 0},
		{"two groups of one workload", map[string]string{"mon_groups/m": "100\n", "mon_groups/n": "101\n"}, 200, 0},
		{"of two workloads", map[string]string{"mon_groups/m": "100\n110\n"}, 0, 0},
		{"with a stranger", map[string]string{"mon_groups/m": "100\n101\n999\n"}, 0, 0},
		{"nobody", map[string]string{"mon_groups/m": ""}, 0, 0},
		{"a control group", map[string]string{"batch": "110\n111\n"}, 0, 100},
		{"in a control group of several", map[string]string{"batch": "100\n101\n110\n111\n", "batch/mon_groups/m": "100\n101\n"}, 100, 0},
		{"in a control group of its own, counted there", map[string]string{"batch": "100\n101\n", "batch/mon_groups/m": "100\n"}, 100, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := groupRig(t)
			if tt.name == "the least of its time" {
				r.procs[100].threads[0].ticks, r.procs[100].threads[1].ticks = 800, 200
			}
			count := func(n int) {
				for g, tasks := range tt.groups {
					r.group(g, tasks, 50*n, 200*n, "")
				}
			}
			count(1)
			r.look()
			count(2)
			s := r.after(2 * time.Second)
			for id, want := range map[workload.ID]int64{"/a.service": tt.a, "/b.service": tt.b} {
				from, local := workload.MBM, 0.25
				if want == 0 {
					from, local = "", 0
				}
				r.wantTraffic(s, id, want, from, local)
			}
		})
	}
}

// TestGroupsOfCPUs: a group that has CPUs counts everybody on them.
func TestGroupsOfCPUs(t *testing.T) {
	r := groupRig(t)
	for n := range 3 {
		r.group("mon_groups/m", "100\n101\n", 50*n, 200*n, "")
		r.more["sys/fs/resctrl/mon_groups/m/cpus_list"] = "2-3\n"
		r.wantTraffic(r.after(2*time.Second), "/a.service", 0, "", 0)
	}
}

// TestGroupTells goes through what a group's counters may do.
func TestGroupTells(t *testing.T) {
	r := groupRig(t)
	set := func(tasks string, local, total int, word string) workload.Snapshot {
		r.group("mon_groups/m", tasks, local, total, word)
		return r.after(2 * time.Second)
	}
	const a = "100\n101\n"
	set(a, 10, 20, "")
	r.wantTraffic(set(a, 40, 60, ""), "/a.service", 20, workload.MBM, 0.75)
	for _, word := range []string{"Unavailable", "Error", "Unassigned", "-1"} {
		r.wantTraffic(set(a, 0, 0, word), "/a.service", 20, workload.MBM, 0.75) // as of before, for a while
	}
	r.wantTraffic(set(a, 40, 160, ""), "/a.service", 10, workload.MBM, 0) // over the ten seconds since the last
	r.wantTraffic(set(a, 5, 5, ""), "/a.service", 10, workload.MBM, 0)    // began anew: told next time
	r.wantTraffic(set(a, 15, 15, ""), "/a.service", 5, workload.MBM, 1)
	r.o.Stale("/a.service") // pages were moved: what was counted until now says nothing
	r.wantTraffic(set(a, 15, 95, ""), "/a.service", 0, "", 0)
	r.wantTraffic(set(a, 25, 115, ""), "/a.service", 10, workload.MBM, 0.5)
	if st := sourceOf(t, r.look(), workload.MBM); !st.Used {
		t.Errorf("status %+v", st)
	}
	r.wantTraffic(set(a, 25, 115, ""), "/a.service", 0, "", 0) // idle
	// Its tasks go elsewhere: seen within groupsEvery.
	set("110\n111\n", 100, 200, "")
	for range 6 {
		set("110\n111\n", 100, 200, "")
	}
	s := set("110\n111\n", 110, 220, "")
	r.wantTraffic(s, "/a.service", 0, "", 0)
	r.wantTraffic(s, "/b.service", 10, workload.MBM, 0.5)
	// Counters that never tell again: the figure does not stand for long.
	for range int(countOld/(2*time.Second)) - 1 {
		set("110\n111\n", 0, 0, "Unavailable")
	}
	r.wantTraffic(set("110\n111\n", 0, 0, "Unavailable"), "/b.service", 0, "", 0)
	for name := range r.more {
		delete(r.more, name)
	}
	for range 6 {
		r.wantTraffic(r.after(2*time.Second), "/b.service", 0, "", 0)
	}
	if len(r.o.groups.all) != 0 {
		t.Errorf("%d groups are kept", len(r.o.groups.all))
	}
}

// TestGroupsBounded: however many groups there are, a look reads no more than allowed,
// and all get their turn.
func TestGroupsBounded(t *testing.T) {
	m := newFake()
	m.more = map[string]string{}
	const n = 60
	for i := range n {
		_, p := m.service(fmt.Sprintf("/s%02d.service", i), 100+10*i, "x", 100*mib)
		p.threads[0].ticks = 100
	}
	r := newRig(t, m, Options{})
	read := map[string]int{}
	r.fs.fail = func(name string) error {
		for _, what := range []string{"tasks", "mbm_local_bytes", "mbm_total_bytes"} {
			if len(name) > len(what) && name[len(name)-len(what):] == what && name[:16] == "sys/fs/resctrl/m" {
				read[what]++
			}
		}
		return nil
	}
	told := map[workload.ID]bool{}
	for look := range 20 {
		for i := range n {
			r.group(fmt.Sprintf("mon_groups/m%d", i), fmt.Sprintln(100+10*i), 10*look, 20*look, "")
		}
		clear(read)
		for _, o := range r.after(2 * time.Second).Observations {
			told[o.ID] = told[o.ID] || o.Bandwidth == 10 && o.Accesses.Local == 0.5
		}
		// The one that is begun is read to its end.
		if f := read["mbm_local_bytes"] + read["mbm_total_bytes"]; read["tasks"] > groupTasks || f > groupFiles+3 {
			t.Errorf("look %d: %d lists of tasks, %d counters", look, read["tasks"], f)
		}
	}
	for id, ok := range told {
		if !ok {
			t.Errorf("%s was never told of", id)
		}
	}
}
