package upkeep

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// rig is a host with its searches. It records what they ask for and report.
type rig struct {
	work.Loop // what is not below is not asked
	*Searches
	host    Host
	effects []work.Effect
	told    []string
	over    []string
	saved   []string
	scans   uint64
	roots   map[workload.ID]workload.Process
	given   []string
	online  topology.CPUSet
}

func newRig(entries ...plan.Entry) *rig {
	s := New()
	r := &rig{Searches: &s, scans: 5, online: topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7), roots: map[workload.ID]workload.Process{}}
	w := work.New(uint64(len(entries)), entries, nil, nil, nil)
	r.host = Host{Scene: &scene.Scene{}, Work: &w, Loop: r}
	w.Attach(r)
	return r
}

func (r *rig) Do(e work.Effect)                               { r.effects = append(r.effects, e) }
func (r *rig) SaveEntry(e plan.Entry)                         { r.saved = append(r.saved, entryName(&e)) }
func (r *rig) Save(key string, _ any)                         { r.saved = append(r.saved, key) }
func (r *rig) LastScan() uint64                               { return r.scans }
func (r *rig) Over(key string)                                { r.over = append(r.over, key) }
func (r *rig) Observed(id workload.ID) []workload.ID          { return []workload.ID{id} }
func (r *rig) Room() (*topology.Host, topology.KiB)           { return &topology.Host{Online: r.online}, 0 }
func (r *rig) IsRoot(id workload.ID, p workload.Process) bool { return r.roots[id] == p }

func (r *rig) PruneSoon() { r.Searches.PruneSoon() }

func (r *rig) Planned() *plan.Plan { return &plan.Plan{} }

func (r *rig) Once(key string, _ plan.Event, code words.Code, args ...any) {
	r.told = append(r.told, key+": "+words.Because(code, args...).String())
}

func (r *rig) GaveValue(id workload.ID, _ plan.SettingKind, value string) {
	r.given = append(r.given, fmt.Sprintf("%s %s", id, value))
}

func entryName(e *plan.Entry) string { return fmt.Sprintf("%s %s %s", e.Workload, e.Path, e.State) }

// see makes observations the newest scan.
func (r *rig) see(at int, all ...workload.Observation) {
	r.host.Scene.Began = time.Unix(int64(at), 0)
	r.host.Scene.Show(workload.Snapshot{Observations: all})
	r.host.Scene.Readings().Right = make([]bool, len(all))
}

// asked is the effects since it was last called: kind, then the paths of the entries, and of the processes among.
func (r *rig) asked() string {
	var out []string
	for _, e := range r.effects {
		line := string(e.Kind)
		for _, x := range e.Entries {
			line += " " + x.Path
		}
		for _, p := range e.Among {
			line += " among " + plan.ProcessPath(p)
		}
		out = append(out, line)
	}
	r.effects = nil
	return strings.Join(out, "; ")
}

func (r *rig) paths() string {
	var out []string
	for _, e := range r.host.Work.Journal.All() {
		out = append(out, e.Path)
	}
	return strings.Join(out, " ")
}

func cgroup(id, cpus string) workload.Observation {
	set, err := topology.ParseCPUSet(cpus)
	if err != nil {
		panic(err)
	}
	return workload.Observation{ID: workload.ID(id), Kind: workload.InCgroup, CPUs: set, CgroupID: 7}
}

func process(pids ...int) workload.Observation {
	o := workload.Observation{ID: scene.ProcessID(pids[0]), Kind: workload.InProcess}
	for _, pid := range pids {
		o.Processes = append(o.Processes, workload.Process{PID: pid, Start: 8})
	}
	return o
}

func cpusOf(id, cpus string) plan.Entry {
	return plan.Entry{Seq: 1, Workload: workload.ID(id), Kind: plan.CgroupCPUs, Path: id, Object: "7", Old: "0-7", New: cpus, State: plan.Applied}
}

func affinity(seq uint64, pid int) plan.Entry {
	return plan.Entry{Seq: seq, Workload: scene.ProcessID(pid), Kind: plan.Affinity, Path: fmt.Sprintf("%d@8", pid), Old: "0-7", New: "0-3", State: plan.Applied}
}

// TestCheckOfOne: who set a CPU set is asked only where the journal has it, it stands, and it reads otherwise.
func TestCheckOfOne(t *testing.T) {
	entry := cpusOf("/a", "0-3")
	with := func(change func(*plan.Entry)) plan.Entry {
		e := entry
		change(&e)
		return e
	}
	for _, c := range []struct {
		name  string
		entry plan.Entry
		seen  workload.Observation
		set   func(*rig)
		asks  string
		right bool
		left  string // in the journal; "" is /a
	}{
		{name: "as set", entry: entry, seen: cgroup("/a", "0-3"), right: true},
		{name: "otherwise", entry: entry, seen: cgroup("/a", "0-2"), asks: "check /a"},
		{name: "not set yet", entry: with(func(e *plan.Entry) { e.State = plan.Intended }), seen: cgroup("/a", "0-2"), right: true},
		{name: "of another workload", entry: with(func(e *plan.Entry) { e.Workload = "/b" }), seen: cgroup("/a", "0-2"), right: true},
		{name: "of another kind", entry: with(func(e *plan.Entry) { e.Kind = plan.CgroupMems }), seen: cgroup("/a", "0-2"), right: true},
		{name: "another cgroup under its path", entry: with(func(e *plan.Entry) { e.Object = "6" }), seen: cgroup("/a", "0-2"), left: "none"},
		{name: "no cgroup", entry: entry, seen: process(70), right: true},
		{name: "of several cgroups", entry: entry, seen: cgroup("/a", "0-2"), right: true, set: func(r *rig) {
			r.host.Scene.SeenAs = map[workload.ID][]workload.ID{"/a": {"/a/1", "/a/2"}}
		}},
		{name: "of one cgroup that has another name", entry: entry, seen: cgroup("/a", "0-2"), asks: "check /a", set: func(r *rig) {
			r.host.Scene.SeenAs = map[workload.ID][]workload.ID{"/a": {"/a/1"}}
		}},
		{name: "being asked after", entry: entry, seen: cgroup("/a", "0-2"), set: func(r *rig) { r.host.Work.Checks[9] = "/a" }},
		{name: "being changed", entry: entry, seen: cgroup("/a", "0-2"), set: func(r *rig) { r.host.Work.Tasks["/a"] = &work.Task{} }},
		{name: "older than a change", entry: entry, seen: cgroup("/a", "0-2"), set: func(r *rig) {
			r.host.Work.Ended["/a"] = work.Ended{Scan: 5}
		}},
		{name: "younger than a change", entry: entry, seen: cgroup("/a", "0-2"), asks: "check /a", set: func(r *rig) {
			r.host.Work.Ended["/a"] = work.Ended{Scan: 4}
		}},
		{name: "being changed under another ID", entry: entry, seen: cgroup("/a", "0-2"), set: func(r *rig) {
			r.host.Work.Tasks["pod"] = &work.Task{Target: "/a"}
			r.host.Work.FindTargets()
		}},
		{name: "known to be right", entry: entry, seen: cgroup("/a", "0-2"), right: true, set: func(r *rig) {
			readings := r.host.Scene.Readings()
			readings.Right[0], readings.Changes = true, r.host.Work.Journal.Changes()
		}},
		{name: "right before the journal changed", entry: entry, seen: cgroup("/a", "0-2"), asks: "check /a", set: func(r *rig) {
			readings := r.host.Scene.Readings()
			readings.Right[0], readings.Changes = true, r.host.Work.Journal.Changes()-1
		}},
		{name: "narrowed, and known", entry: entry, seen: cgroup("/a", "0-2"), set: func(r *rig) {
			r.host.Work.Narrowed["/a"] = topology.CPUs(0, 1, 2)
		}},
		{name: "narrowed further", entry: entry, seen: cgroup("/a", "0-2"), asks: "check /a", set: func(r *rig) {
			r.host.Work.Narrowed["/a"] = topology.CPUs(0, 1)
		}},
	} {
		r := newRig(c.entry)
		r.see(1, c.seen)
		if c.set != nil {
			c.set(r)
		}
		r.host.Check()
		readings := r.host.Scene.Readings()
		left := "/a"
		if c.left != "" {
			left = ""
		}
		if got := r.asked(); got != c.asks || readings.Right[0] != c.right || r.paths() != left {
			t.Errorf("%s: asks %q, right %v, journal %q; want %q, %v", c.name, got, readings.Right[0], r.paths(), c.asks, c.right)
		}
		if readings.Changes != r.host.Work.Journal.Changes() {
			t.Errorf("%s: the comparison is of another journal", c.name)
		}
		told := strings.HasPrefix(c.name, "narrowed, ")
		if (len(r.told) > 0) != told {
			t.Errorf("%s: reported %q", c.name, r.told)
		}
	}
}

// TestWidenedIsForgotten: a CPU set that reads as set again is no longer narrowed.
func TestWidenedIsForgotten(t *testing.T) {
	r := newRig(cpusOf("/a", "0-3"))
	r.host.Work.Narrowed["/a"] = topology.CPUs(0)
	r.host.Work.Narrowed["/b"] = topology.CPUs(0)
	r.see(1, cgroup("/a", "0-3"))
	r.host.Check()
	if got := slices.Collect(maps.Keys(r.host.Work.Narrowed)); !slices.Equal(got, []workload.ID{"/b"}) {
		t.Errorf("%v", got)
	}
}

// TestCheckOfMany: each workload is compared by itself, however many different CPU sets there are.
func TestCheckOfMany(t *testing.T) {
	r := newRig()
	var seen []workload.Observation
	var want []string
	for i := range 40 {
		id, cpus := fmt.Sprintf("/w%02d", i), fmt.Sprint(i)
		e := cpusOf(id, cpus)
		e.Seq = uint64(i + 1)
		if i%3 == 0 {
			cpus = fmt.Sprint(i + 1)
			want = append(want, "check "+id)
		}
		r.host.Work.Journal.Put(e)
		seen = append(seen, cgroup(id, cpus))
	}
	seen = append(seen, seen[1], seen[39])
	r.see(1, seen...)
	r.host.Check()
	if got := r.asked(); got != strings.Join(append(want, "check /w39"), "; ") {
		t.Errorf("%s", got)
	}
	if right := r.host.Scene.Readings().Right; right[0] || !right[1] || !right[2] || right[3] || !right[40] {
		t.Errorf("%v", right)
	}
	var texts setTexts
	for i := range 100 {
		if got := texts.of(topology.CPUs(topology.CPUID(i % 20))); got != fmt.Sprint(i%20) || len(texts.sets) > 16 {
			t.Fatalf("the text of %d is %s, of %d", i%20, got, len(texts.sets))
		}
	}
}

// TestHeirs: a process is asked after from its second scan on, once.
func TestHeirs(t *testing.T) {
	r := newRig(affinity(1, 70))
	scan := func(want string, all ...workload.Observation) {
		t.Helper()
		r.see(1, all...)
		r.FindHeirs(&r.host)
		if got := r.asked(); got != want {
			t.Errorf("asks %q, want %q", got, want)
		}
	}
	answer := func(res work.Result) {
		t.Helper()
		res.ID = r.Inheriting
		if res.ID == 0 || !r.Result(&r.host, &res) || r.Inheriting != 0 {
			t.Errorf("the answer is not taken up")
		}
	}
	scan("", process(70, 71))
	scan("inherited 70@8 among 70@8 among 71@8", process(70, 71))
	scan("", process(70, 71, 72), cgroup("/a", "0")) // the first is not answered
	answer(work.Result{})
	scan("", process(70, 71))
	scan("", process(70, 71, 73), cgroup("/a", "0"))
	scan("inherited 70@8 among 73@8", process(70, 71, 73), cgroup("/a", "0"))
	answer(work.Result{Failed: &work.Failure{Text: "read /proc: denied"}})
	if len(r.told) != 1 || !strings.HasPrefix(r.told[0], "inherited: ") || !strings.Contains(r.told[0], "denied") || r.over[0] != "inherited" {
		t.Errorf("reported %q, over %q", r.told, r.over)
	}
	scan("inherited 70@8 among 70@8 among 71@8 among 73@8", process(70, 71, 73))
	answer(work.Result{})
	scan("", process(70))
	if len(r.Asked) != 1 {
		t.Errorf("it remembers %v", r.Asked)
	}
	scan("", process(70, 71)) // a number that was used before
	scan("inherited 70@8 among 71@8", process(70, 71))
	if r.Result(&r.host, &work.Result{ID: r.Inheriting + 1}) || r.Result(&r.host, &work.Result{}) {
		t.Error("it takes up results of others")
	}
	none := newRig(cpusOf("/a", "0"))
	none.see(1, process(70))
	none.FindHeirs(&none.host)
	none.FindHeirs(&none.host)
	if got := none.asked(); got != "" || none.Inheriting != 0 {
		t.Errorf("nothing can be inherited, and it asks %q", got)
	}
	none.Inheriting = 0
	if none.Result(&none.host, &work.Result{}) {
		t.Error("a result without a number is taken up")
	}
}

// TestAdopted: a process that inherited gets an entry of its own workload; one that inherited from an entry
// that has gone meanwhile is asked after again.
func TestAdopted(t *testing.T) {
	r := newRig(affinity(1, 70))
	r.roots["pid:72"] = workload.Process{PID: 72, Start: 8}
	r.see(1, process(70, 71), process(72), process(73))
	r.FindHeirs(&r.host)
	r.FindHeirs(&r.host)
	heir := func(pid int, of uint64) plan.Inherited {
		return plan.Inherited{Setting: plan.Setting{Kind: plan.Affinity, Path: fmt.Sprintf("%d@8", pid), Value: "0-7"}, Has: "0-3", Of: of}
	}
	r.asked()
	r.Result(&r.host, &work.Result{ID: r.Inheriting, Inherited: []plan.Inherited{heir(71, 1), heir(72, 1), heir(73, 9), heir(74, 1)}})
	if got := strings.Join(r.saved, ", "); got != "pid:70 71@8 applied, pid:72 72@8 applied, pid:70 74@8 applied" {
		t.Errorf("saved %s", got)
	}
	if strings.Join(r.given, ", ") != "pid:72 0-3" {
		t.Errorf("given %q", r.given)
	}
	r.FindHeirs(&r.host)
	if got := r.asked(); got != "inherited 70@8 71@8 72@8 74@8 among 73@8" {
		t.Errorf("asks %q", got)
	}
}

// TestPruneAsks: every 20 s of entries whose object may be gone: not shown by the scan, processes, parts that a source
// may have started anew, cgroups made anew, and settings of other programs.
func TestPruneAsks(t *testing.T) {
	seen, claimed, anew, gone, policy := cpusOf("/seen", "0"), cpusOf("/claimed", "0"), cpusOf("/anew", "0"), cpusOf("/gone", "0"), affinity(6, 71)
	seen.Seq, claimed.Seq, anew.Seq, gone.Seq = 1, 2, 3, 4
	anew.Object = "6"
	policy.Kind = plan.TaskPolicy
	r := newRig(seen, claimed, anew, gone, affinity(5, 70), policy)
	r.host.Scene.Claims = map[workload.ID]*workload.Claim{"/claimed": {}}
	prune := func(at int, want string) {
		t.Helper()
		r.see(at, cgroup("/anew", "0"), cgroup("/claimed", "0"), cgroup("/seen", "0"), process(70), process(71))
		r.Prune(&r.host)
		if got := r.asked(); got != want {
			t.Errorf("at %d s: asks %q, want %q", at, got, want)
		}
	}
	const all = "present /claimed /anew /gone 70@8 71@8"
	prune(1000, all)
	prune(2000, "") // the first is not answered
	r.Result(&r.host, &work.Result{ID: r.Pruning.Effect, Failed: &work.Failure{}})
	if r.Pruning != nil {
		t.Error("a search that failed goes on")
	}
	prune(1019, "")
	prune(1020, all)
	r.Pruning = nil
	prune(900, all) // the clock was set back
	r.Pruning = nil
	prune(901, "")
	r.PruneSoon()
	r.host.Work.Theirs.Keep(&plan.Entry{Workload: "/other", Kind: plan.CgroupCPUs, Path: "/other"})
	prune(902, all+" /other")
	calm := newRig(seen)
	calm.see(1000, cgroup("/seen", "0"))
	calm.Prune(&calm.host)
	if calm.Pruning != nil || calm.asked() != "" {
		t.Error("nothing is to be asked, and it asks")
	}
}

// TestPruned: entries of objects that are gone go; those of the living, and those set anew since, stay.
func TestPruned(t *testing.T) {
	gone := &work.Failure{Code: work.Gone}
	one, two, three := cpusOf("/one", "0"), cpusOf("/two", "0"), cpusOf("/three", "0")
	two.Seq, three.Seq = 2, 3
	for _, c := range []struct {
		name string
		each []*work.Failure
		left string
	}{
		{"all are gone", []*work.Failure{gone, gone, gone, gone}, "/two"},
		{"all live", []*work.Failure{nil, nil, nil, nil}, "/one /two /three"},
		{"one is in use", []*work.Failure{{Code: work.InUse}, gone, gone, nil}, "/one /two"},
		{"a short answer", []*work.Failure{gone}, "/two /three"},
		{"no answer", nil, "/one /two /three"},
	} {
		r := newRig(one, two, three)
		r.host.Work.Theirs.Keep(&plan.Entry{Workload: "/other", Kind: plan.CgroupCPUs, Path: "/other"})
		r.see(1000)
		r.Prune(&r.host)
		again := two
		again.New = "1" // set since
		r.host.Work.Journal.Put(again)
		taken := r.Result(&r.host, &work.Result{ID: r.Pruning.Effect, Each: c.each})
		if !taken || r.Pruning != nil || r.paths() != c.left {
			t.Errorf("%s: the journal has %s, want %s", c.name, r.paths(), c.left)
		}
		_, theirs := r.host.Work.Theirs[string(plan.CgroupCPUs)+" /other"]
		if theirs == (len(c.each) == 4 && c.each[3] == gone) {
			t.Errorf("%s: the setting of another program stays: %v", c.name, theirs)
		}
	}
	r := newRig(one)
	r.see(1000)
	r.Prune(&r.host)
	r.host.Work.Journal = journal.New(nil) // undone meanwhile
	r.Result(&r.host, &work.Result{ID: r.Pruning.Effect, Each: []*work.Failure{gone}})
	if r.Pruning != nil || r.paths() != "" {
		t.Errorf("%s", r.paths())
	}
}

// TestDeadThatOthersInherited: the entry of a process that ended goes when no living process has inherited from it
// without an entry of its own. The search gives up after five passes.
func TestDeadThatOthersInherited(t *testing.T) {
	gone := &work.Failure{Code: work.Gone}
	heir := func(pid int, of uint64) []plan.Inherited {
		return []plan.Inherited{{Setting: plan.Setting{Kind: plan.Affinity, Path: fmt.Sprintf("%d@8", pid), Value: "0-7"}, Has: "0-3", Of: of}}
	}
	for _, c := range []struct {
		name   string
		found  [][]plan.Inherited
		passes int
		left   string
	}{
		{"none", [][]plan.Inherited{nil}, 1, "71@8"},
		{"one", [][]plan.Inherited{heir(80, 1), nil}, 2, "71@8 80@8"},
		{"always another", [][]plan.Inherited{heir(80, 1), heir(81, 1), heir(82, 1), heir(83, 1), heir(84, 1)}, 5, "70@8 71@8 80@8 81@8 82@8 83@8 84@8"},
		{"at last only of the living", [][]plan.Inherited{heir(80, 1), heir(81, 1), heir(82, 1), heir(83, 1), heir(84, 2)}, 5, "71@8 80@8 81@8 82@8 83@8 84@8"},
	} {
		r := newRig(affinity(1, 70), affinity(2, 71))
		r.see(1000)
		r.Prune(&r.host)
		r.asked()
		r.Result(&r.host, &work.Result{ID: r.Pruning.Effect, Each: []*work.Failure{gone, nil}})
		passes := 0
		for _, found := range c.found {
			if r.Pruning == nil || !strings.HasPrefix(r.asked(), "inherited 70@8 71@8") {
				break
			}
			passes++
			r.Result(&r.host, &work.Result{ID: r.Pruning.Effect, Inherited: found})
		}
		if passes != c.passes || r.Pruning != nil || r.paths() != c.left {
			t.Errorf("%s: %d passes, the journal has %s; want %d, %s", c.name, passes, r.paths(), c.passes, c.left)
		}
	}
	r := newRig(affinity(1, 70))
	r.see(1000)
	r.Prune(&r.host)
	r.Result(&r.host, &work.Result{ID: r.Pruning.Effect, Each: []*work.Failure{gone}})
	r.Result(&r.host, &work.Result{ID: r.Pruning.Effect, Failed: &work.Failure{}})
	if r.Pruning != nil || r.paths() != "70@8" {
		t.Errorf("a pass that failed: the journal has %s", r.paths())
	}
}

// TestDeadOfRunningWork: the entry of a process that ended goes also when a step of its workload has written
// another value into it while the search was under way. A process does not come back.
func TestDeadOfRunningWork(t *testing.T) {
	e := affinity(1, 70)
	r := newRig(e)
	r.see(1000)
	r.Prune(&r.host)
	again := e
	again.New = "5"
	r.host.Work.Journal.Put(again)
	r.Result(&r.host, &work.Result{ID: r.Pruning.Effect, Each: []*work.Failure{{Code: work.Gone}}})
	if r.Pruning == nil {
		t.Fatal("no search for the heirs of a process that ended")
	}
	r.Result(&r.host, &work.Result{ID: r.Pruning.Effect})
	if r.paths() != "" {
		t.Errorf("the journal keeps %s", r.paths())
	}
}
