package control

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/replay"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

// inMachine is the kind of workloads of a made-up runtime.
const inMachine = workload.Kind("machine")

// Kinds of setting of the made-up runtime.
const (
	machineCPUs = plan.SettingKind("machine.cpus") // Path is NAME@RUN
	machineMems = plan.SettingKind("machine.mems") // Path is NAME@RUN
	machineNext = plan.SettingKind("machine.next") // Path is NAME
)

// fake is a host with workloads, on which Next is driven: what an effect changes is
// what the next scan sees. Effects are done at once unless keep says otherwise.
// settingKey names a setting.
type settingKey struct {
	kind plan.SettingKind
	path string
}

type fake struct {
	units []string // that systemd was asked to stop
	later string   // Change.Threads of the next division
	beat  int      // of hurt

	uses     []workload.NodeUse // what scans see of the nodes
	tickless topology.CPUSet    // of a survey of isolation
	metrics  []workload.MetricReading
	t        testing.TB
	s        *State
	tick     func(balance.Input, balance.History) (balance.Outcome, balance.History) // decides instead of the engine of s; nil is that
	settings Settings
	now      time.Time
	nodes    int
	per      int // CPUs a node, two a core
	mem      topology.KiB
	free     map[topology.NodeID]topology.KiB // of nodes with less than all free
	devices  []topology.Device
	slow     topology.KiB // of a node without CPUs that the kernel demotes to; 0 is none
	promotes bool         // and promotes from
	// bandwidth is the firmware's table.
	bandwidth [][]float64

	works    map[workload.ID]*job
	machines []*machine
	lost     string                      // why the runtime does not answer
	values   map[settingKey]plan.Setting // every setting there is
	shrunk   []workload.ID
	uptime   time.Duration // 0 is not known
	perCache int           // cores of a last-level cache; 0 is a node's
	measured *topology.Measured
	problems []workload.Problem
	managers []Manager
	links    map[workload.ID][]workload.Link
	grows    uint64 // bytes a second that go through links
	cards    *cards
	heirs    []Result // of looks for who has inherited, one after the other

	disk    disk
	scanNo  uint64
	asked   uint64
	replies map[uint64]Reply
	events  []plan.Event
	log     []Logged
	todo    []Effect
	kept    []Effect
	done    []Effect           // all that were
	stopped map[uint64]bool    // told to stop
	keep    func(*Effect) bool // which are not done at once
	fail    func(*Effect) *Failure
	frozen  func(*Effect) time.Duration
	mid     func(*Effect) // in the middle of a page move
	pinned  topology.KiB  // of each workload's memory off home
	stuck   bool          // pages do not move, without an error
	paused  string        // a move rests for this in its middle, and goes on
	twin    *State        // goes on from a checkpoint
	inputs  int
	kernel  kernel
	blind   bool // no twin: what is tried changes the state by hand
	shown   []shown
	byHand  bool // the test changes by hand what readers hold
}

// job is a workload as it would be observed.
type job struct {
	obs   workload.Observation
	taken topology.CPUSet // CPUs that a partition has taken from it
}

// disk is what batches have written.
type disk struct {
	entries    map[uint64]plan.Entry
	seq        uint64
	placements []workload.Placement
	moves      map[workload.ID]plan.Move
	values     map[string]json.RawMessage
}

func (d *disk) commit(t testing.TB, b plan.Batch) {
	for _, e := range b.Entries {
		d.seq = max(d.seq, e.Seq)
		if d.entries[e.Seq] = e; e.State == plan.Restored || e.State == plan.Gone {
			delete(d.entries, e.Seq)
		}
	}
	if b.Placements != nil {
		d.placements = slices.Clone(b.Placements.All())
	}
	for _, m := range b.Moves {
		d.moves[m.Workload] = m
	}
	for key, v := range b.Values {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		d.values[key] = text
	}
}

func (d *disk) journal() []plan.Entry {
	var out []plan.Entry
	for _, seq := range slices.Sorted(maps.Keys(d.entries)) {
		out = append(out, d.entries[seq])
	}
	return out
}

func (d *disk) saved(t testing.TB) (v Saved) {
	read := func(key string, into any) {
		if text, ok := d.values[key]; ok {
			if err := json.Unmarshal(text, into); err != nil {
				t.Fatal(err)
			}
		}
	}
	v.Seq, v.Journal, v.Placements = d.seq, d.journal(), slices.Clone(d.placements)
	for _, id := range slices.Sorted(maps.Keys(d.moves)) {
		v.Moves = append(v.Moves, d.moves[id])
	}
	read(KeyHolds, &v.Holds)
	read(KeyChosen, &v.Chosen)
	read(KeyPast, &v.Past)
	read(KeyPartition, &v.Partition)
	read(KeySharing, &v.Sharing)
	read(KeyGoals, &v.Sharing.Learned)
	read(KeyScheduler, &v.Scheduler)
	read(KeyUndoing, &v.Undoing)
	read(KeyTheirs, &v.Theirs)
	read(KeyTrial, &v.Trial)
	read(KeyAdmissions, &v.Admissions)
	return v
}

func defaults() Settings {
	return Settings{Enforce: true, Policy: plan.DefaultPolicy(), Balance: balance.DefaultSettings(),
		Arrange: arrange.Options{MinMemory: 64 << 10, MinCPU: 0.2, MoveBandwidth: 256 << 20}, Interrupts: InterruptsOff}
}

func newFake(t testing.TB, nodes, per int, change ...func(*Settings)) *fake {
	f := &fake{t: t, nodes: nodes, per: per, mem: 8 << 20, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		works: map[workload.ID]*job{}, values: map[settingKey]plan.Setting{}, replies: map[uint64]Reply{}, stopped: map[uint64]bool{},
		disk: disk{entries: map[uint64]plan.Entry{}, moves: map[workload.ID]plan.Move{}, values: map[string]json.RawMessage{}}}
	f.settings = defaults()
	if t, ok := t.(*testing.T); ok {
		t.Cleanup(func() {
			if !t.Failed() && !f.byHand {
				f.sameViews()
			}
		})
	}
	f.start(change...)
	return f
}

// start begins a daemon on what is on disk, as after a restart or a kill.
func (f *fake) start(change ...func(*Settings)) {
	for _, c := range change {
		c(&f.settings)
	}
	f.todo, f.kept, f.scanNo, f.twin = nil, nil, 0, nil
	f.s = New(f.settings, f.disk.saved(f.t))
	f.tick = nil
	f.log = nil
	f.turn(Input{Started: &Started{Version: "test", Period: 2 * time.Second}})
	f.run()
}

func observing(s *Settings) { s.Enforce, s.Balance.Act = false, false }

func ruled(rules ...workload.Rule) func(*Settings) {
	return func(s *Settings) { s.Rules = append(s.Rules, rules...) }
}

func (f *fake) host() *topology.Host {
	h := plantest.Pairs(f.nodes, f.per, f.mem)
	h.Devices = f.devices
	h.Measured = f.measured
	if f.perCache > 0 {
		h.LLCs = nil
		for i, c := range h.Cores {
			if i%f.perCache == 0 {
				h.LLCs = append(h.LLCs, topology.LLC{Level: 3, Size: topology.None})
			}
			last := &h.LLCs[len(h.LLCs)-1]
			last.CPUs = last.CPUs.Union(c.CPUs)
		}
		h.NumberLLCs()
	}
	if f.slow > 0 {
		f.addSlow(h)
	}
	for i := range h.Nodes {
		if free, ok := f.free[h.Nodes[i].ID]; ok {
			h.Nodes[i].Free = free
		}
	}
	return h
}

func (f *fake) observation(name string, cpus float64, kib topology.KiB, on []topology.NodeID) workload.Observation {
	o := workload.Observation{ID: workload.ID("/" + name), Name: name, Kind: workload.InCgroup, Cgroup: "/" + name, Threads: int(cpus + 0.5),
		Processes: []workload.Process{{PID: 100 + len(f.works), Start: 7}}, Window: time.Second, CPUUse: cpus, RanOnFrom: workload.PerThread}
	for _, n := range on {
		o.Memory = append(o.Memory, workload.NodeMemory{Node: n, KiB: kib / topology.KiB(len(on))})
	}
	o.Anon = o.Memory
	return o
}

// add puts a cgroup on the host that keeps cpus busy, may run anywhere and has its memory
// on the given nodes in equal parts.
func (f *fake) add(name string, cpus float64, kib topology.KiB, on ...topology.NodeID) workload.ID {
	o := f.observation(name, cpus, kib, on)
	f.works[o.ID] = &job{obs: o}
	f.create(o.Cgroup)
	return o.ID
}

// create makes a cgroup, another one than any before.
func (f *fake) create(path string) {
	object := fmt.Sprint(1000 + len(f.values) + len(f.disk.entries) + len(f.events))
	for _, kind := range []plan.SettingKind{plan.CgroupCPUs, plan.CgroupMems} {
		f.values[settingKey{kind, path}] = plan.Setting{Kind: kind, Path: path, Object: object}
	}
}

// addProcess puts a process on the host, likewise.
func (f *fake) addProcess(pid int, name string, cpus float64, kib topology.KiB, on ...topology.NodeID) workload.ID {
	o := f.observation(name, cpus, kib, on)
	o.ID, o.Kind, o.Cgroup = ProcessID(pid), workload.InProcess, "/user.slice"
	o.Processes = []workload.Process{{PID: pid, Start: 7}}
	f.works[o.ID] = &job{obs: o}
	f.values[settingKey{plan.Affinity, plan.ProcessPath(o.Processes[0])}] = plan.Setting{Kind: plan.Affinity, Path: plan.ProcessPath(o.Processes[0]), Value: f.host().Online.String()}
	return o.ID
}

// remove ends a workload.
func (f *fake) remove(id workload.ID) {
	o := &f.works[id].obs
	delete(f.works, id)
	if o.Kind == workload.InCgroup {
		maps.DeleteFunc(f.values, func(k settingKey, _ plan.Setting) bool { return k.path == o.Cgroup })
		return
	}
	for _, p := range o.Processes {
		delete(f.values, settingKey{plan.Affinity, plan.ProcessPath(p)})
	}
}

// set writes a setting, as whoever.
func (f *fake) set(kind plan.SettingKind, path, value string) {
	x := f.values[settingKey{kind, path}]
	x.Kind, x.Path, x.Value = kind, path, value
	f.values[settingKey{kind, path}] = x
}

func (f *fake) get(kind plan.SettingKind, path string) string {
	return f.values[settingKey{kind, path}].Value
}

// cpus is what a cgroup was given.
func (f *fake) cpus(id workload.ID) string { return f.get(plan.CgroupCPUs, string(id)) }

// all is every setting, to compare before and after.
func (f *fake) all() map[string]string {
	out := map[string]string{}
	for key, x := range f.values {
		out[string(key.kind)+" "+key.path] = x.Value
	}
	return out
}

// isolated is the CPUs of partitions.
func (f *fake) isolated() (all topology.CPUSet) {
	for key, x := range f.values {
		if key.kind != plan.CgroupPartition || x.Value != "isolated" {
			continue
		}
		cpus, err := topology.ParseCPUSet(f.get(plan.CgroupExclusive, key.path))
		if err != nil {
			f.t.Fatal(err)
		}
		all = all.Union(cpus)
	}
	return all
}

// snapshot is what a scan sees.
func (f *fake) snapshot() workload.Snapshot {
	h := f.host()
	v := f.s.View()
	seen := v.Attention()
	s := workload.Snapshot{Host: h, Shrunk: f.shrunk, Problems: f.problems, Uptime: f.uptime, Nodes: f.uses, Metrics: f.metrics}
	h.Allowed = h.Allowed.Minus(f.isolated()) // others cannot use them, nor homenode itself
	for _, id := range slices.Sorted(maps.Keys(f.works)) {
		w := f.works[id]
		o := w.obs
		o.CPUs, o.Mems = h.Allowed, h.AllowedMems
		if o.Kind == workload.InCgroup {
			x := f.values[settingKey{plan.CgroupCPUs, o.Cgroup}]
			o.CgroupID, _ = strconv.ParseUint(x.Object, 10, 64)
			if cpus, err := topology.ParseCPUSet(x.Value); err == nil && x.Value != "" {
				o.CPUs = cpus.Intersect(h.Allowed)
				if f.get(plan.CgroupPartition, o.Cgroup) == "isolated" {
					o.CPUs = cpus
				}
			}
			if mems, err := topology.ParseNodeSet(f.get(plan.CgroupMems, o.Cgroup)); err == nil && !mems.Empty() {
				o.Mems = mems.Intersect(h.AllowedMems)
			}
		} else if cpus, err := topology.ParseCPUSet(f.get(plan.Affinity, plan.ProcessPath(o.Processes[0]))); err == nil {
			o.CPUs = cpus
			o.Pinned = !h.Online.SubsetOf(cpus) && !slices.ContainsFunc(seen.Expected(id), cpus.Equal)
		}
		o.CPUs = o.CPUs.Minus(w.taken)
		ran := o.CPUs
		if m := f.machineOf(&o); m != nil && !m.now.cpus.Empty() {
			ran = m.now.cpus
		}
		o.RanOn = nil
		for _, n := range h.Nodes {
			if k := n.CPUs.Overlap(ran); k > 0 {
				o.RanOn = append(o.RanOn, workload.NodeShare{Node: n.ID, Share: float64(k) / float64(ran.Len())})
			}
		}
		o.Memory, o.Processes = slices.Clone(o.Memory), slices.Clone(o.Processes)
		s.Observations = append(s.Observations, o)
	}
	return s
}

// turn gives an input to Next. What Next says to do is queued.
func (f *fake) turn(in Input) Output {
	f.t.Helper()
	in.At = f.now
	text := asJSON(f.t, in)
	if !f.blind && f.inputs%7 == 0 || f.twin == nil {
		f.twin = f.resumed()
	}
	f.inputs++
	logged := Logged{}
	if len(f.log) == 0 {
		logged.Before = f.s.Checkpoint()
	}
	var out Output
	f.s, out = Next(f.s, in)
	logged.Output = asJSON(f.t, out)
	if err := json.Unmarshal(text, &logged.Input); err != nil {
		f.t.Fatal(err)
	}
	f.log = append(f.log, logged)
	if !f.blind {
		f.sameAsTwin(text, logged.Output)
	}
	f.keepView(out)
	f.disk.commit(f.t, out.Save)
	f.events = append(f.events, out.Save.Events...)
	for _, r := range out.Replies {
		if _, twice := f.replies[r.ID]; twice {
			f.t.Errorf("request %d is answered twice", r.ID)
		}
		f.replies[r.ID] = r
	}
	for _, e := range out.Effects {
		if e.Kind == EffectCancel {
			f.stopped[e.Of] = true
			continue
		}
		f.todo = append(f.todo, e)
	}
	if !f.settings.Enforce {
		for _, e := range out.Effects {
			if t := f.s.Tasks[e.Workload]; e.Kind == EffectApply && (t == nil || t.Request == 0) {
				f.t.Errorf("observe mode: %s", asJSON(f.t, e))
			}
		}
	}
	return out
}

// sameAsTwin gives the input, as a log has it, to a State that went on from a
// checkpoint, and that keeps no subjects from scan to scan: the same must follow.
func (f *fake) sameAsTwin(text, want []byte) {
	f.t.Helper()
	var in Input
	if err := json.Unmarshal(text, &in); err != nil {
		f.t.Fatal(err)
	}
	f.twin.SetManagers(f.twin.Managers) // forgets the subjects
	var out Output
	f.twin, out = Next(f.twin, in)
	if got := asJSON(f.t, out); !bytes.Equal(got, want) {
		f.t.Fatalf("after Resume(Checkpoint) something else follows from input %d\n%.300s\n%s", f.inputs, text, replay.Difference(want, got))
	}
}

func (f *fake) resumed() *State {
	s, err := Resume(f.s.Checkpoint())
	if err != nil {
		f.t.Fatal(err)
	}
	s.engine = f.tick
	if s.engine == nil { // remembers nothing: what follows must be what follows from an Engine that does
		s.engine = balance.Tick
	}
	return s
}

// engine has another engine decide, nil that there is.
func (f *fake) engine(tick func(balance.Input, balance.History) (balance.Outcome, balance.History)) {
	f.tick = tick
	if tick == nil {
		f.s.engine, f.twin.engine = new(balance.Engine).Tick, balance.Tick
		return
	}
	f.s.engine, f.twin.engine = tick, tick
}

// restOf reports whether something is left to do for a workload.
func (s *State) restOf(id workload.ID) bool {
	return slices.ContainsFunc(s.Plan.Steps, func(x plan.Step) bool { return x.Workload == id })
}

func asJSON(t testing.TB, v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// run does effects until none is left but those that are kept.
func (f *fake) run() {
	for len(f.todo) > 0 {
		e := f.todo[0]
		f.todo = f.todo[1:]
		if f.keep != nil && f.keep(&e) {
			f.kept = append(f.kept, e)
			continue
		}
		f.perform(e)
	}
}

// release does the effects that were kept.
func (f *fake) release() {
	kept := f.kept
	f.keep, f.kept = nil, nil
	f.todo = append(kept, f.todo...)
	f.run()
}

// keeping keeps effects of some kinds.
func (f *fake) keeping(kinds ...EffectKind) {
	f.keep = func(e *Effect) bool { return slices.Contains(kinds, e.Kind) }
}

// begin starts a scan; end ends it with what is to be seen now.
func (f *fake) begin() *Scan {
	f.scanNo++
	f.turn(Input{Begun: &Begun{f.scanNo}})
	f.run()
	return &Scan{Number: f.scanNo, Began: f.now}
}

func (f *fake) end(s *Scan) Output {
	s.Snapshot = f.snapshot()
	if len(f.machines) > 0 || f.lost != "" {
		s.Claims = []Claimed{{Source: "runtime", Claims: f.claims(s.Snapshot.Host), Failed: f.lost}}
	}
	out := f.turn(Input{Scan: s})
	f.run()
	return out
}

// scan is n scans, one period apart.
func (f *fake) scan(n int) {
	for range n {
		f.end(f.begin())
		f.now = f.now.Add(2 * time.Second)
	}
}

func (f *fake) after(d time.Duration) { f.now = f.now.Add(d) }

// ask is a request and its answer, which is zero as long as there is none.
func (f *fake) ask(r Request) Reply {
	f.asked++
	r.ID = f.asked
	f.turn(Input{Request: &r})
	f.run()
	return f.replies[r.ID]
}

func (f *fake) undo(id workload.ID) Reply {
	return f.ask(Request{Undo: &Which{ID: id, All: id == ""}})
}

func (f *fake) resume(id workload.ID) Reply {
	return f.ask(Request{Resume: &Which{ID: id, All: id == ""}})
}

func (f *fake) order(id workload.ID, to ...topology.NodeID) Reply {
	return f.ask(Request{Move: &MoveRequest{ID: id, To: topology.Nodes(to...)}})
}

func (f *fake) admit(pid int, class workload.Class, cpus int) Reply {
	return f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{Name: "db", Class: class, CPUs: cpus}, Process: workload.Process{PID: pid, Start: 7}}})
}

// home is where a workload belongs.
func (f *fake) home(id workload.ID) string {
	if p := place.Of(f.s.Placements(), id); p != nil {
		return p.Home.String()
	}
	return ""
}

func (f *fake) placement(id workload.ID) *workload.Placement {
	return place.Of(f.s.Placements(), id)
}

// decision is what was decided of a workload in the newest plan.
func (f *fake) decision(id workload.ID) plan.Decision {
	for _, d := range f.s.Plan.Report.Decisions {
		if d.Workload == id {
			return d
		}
	}
	return plan.Decision{}
}

func (f *fake) leftAlone(id workload.ID, code words.Code) bool {
	d := f.decision(id)
	return d.Outcome == plan.LeftAlone && wordstest.Has(d.Reasons, words.Reason{Code: code})
}

// onHome is the share of a workload's memory at its home.
func (f *fake) onHome(id workload.ID) float64 {
	p := f.placement(id)
	w := f.works[id]
	if p == nil || w == nil || len(w.obs.Memory) == 0 {
		return 0
	}
	return float64(workload.On(w.obs.Memory, p.Home)) / float64(workload.Total(w.obs.Memory))
}

// settled reports whether a cgroup is where it belongs, with nothing left to do.
func (f *fake) settled(id workload.ID) bool {
	p := f.placement(id)
	return p != nil && f.cpus(id) == p.CPUs.String() && f.onHome(id) > 0.99 && !f.s.restOf(id) && f.s.Tasks[id] == nil
}

func (f *fake) told(code words.Code) int {
	n := 0
	for _, e := range f.events {
		if e.Code == code {
			n++
		}
	}
	return n
}

func (f *fake) toldOf(id workload.ID, code words.Code) int {
	n := 0
	for _, e := range f.events {
		if e.Code == code && e.Workload == id {
			n++
		}
	}
	return n
}

// count is how many effects of a kind were done for a workload, "" for all.
func (f *fake) count(kind EffectKind, id workload.ID) int {
	n := 0
	for i := range f.done {
		if e := &f.done[i]; e.Kind == kind && (id == "" || e.Workload == id) {
			n++
		}
	}
	return n
}

// applies is the steps of a kind that were carried out, or failed.
func (f *fake) applies(kind plan.StepKind) (out []plan.Step) {
	for i := range f.done {
		if e := &f.done[i]; e.Kind == EffectApply && e.Step.Kind == kind {
			out = append(out, *e.Step)
		}
	}
	return out
}

// result ends an effect.
func (f *fake) result(r Result) {
	f.turn(Input{Result: &r})
}

func gone(path string) *Failure {
	return &Failure{Code: Gone, Text: path + ": no such file or directory"}
}

// perform does an effect.
func (f *fake) perform(e Effect) {
	f.done = append(f.done, e)
	if e.Kind == EffectChanged || e.Kind == EffectMoved {
		return
	}
	if e.Kind == EffectSurvey {
		if in := f.survey(e.Survey); in != nil {
			f.turn(Input{Survey: in})
		}
		return
	}
	r := Result{ID: e.ID}
	if f.fail != nil {
		r.Failed = f.fail(&e)
	}
	if f.frozen != nil {
		r.Frozen = f.frozen(&e)
	}
	switch {
	case r.Failed != nil:
		if r.Failed.Code == Fixed && e.Step != nil {
			r.Standing = []plan.Setting{f.values[settingKey{stepSetting(e.Step), e.Step.Target.Device}]}
		}
	case e.Step != nil && e.Step.Kind == plan.ReclaimMemory:
		if e.Kind == EffectApply {
			f.demote(e.Step)
		}
	case e.Kind == EffectRead:
		r.Changes, r.Failed = f.changes(e.Step)
		if len(f.heirs) > 0 && len(e.Journal) > 0 {
			r.Inherited, f.heirs = f.heirs[0].Inherited, f.heirs[1:]
		}
	case e.Kind == EffectApply && e.Step.Kind == plan.MovePages:
		f.movePages(e)
		return
	case e.Kind == EffectApply:
		r.Failed = f.apply(e.Step)
	case e.Kind == EffectScheduler:
		r.Scheduler = f.kernel.look(f, e.Scheduler)
	case e.Kind == EffectInherited:
		if len(f.heirs) > 0 {
			r, f.heirs = f.heirs[0], f.heirs[1:]
			r.ID = e.ID
		}
	default:
		was := f.all()
		queues := f.cards != nil && slices.ContainsFunc(f.disk.journal(), func(x plan.Entry) bool { return x.Kind == plan.QueueCount })
		for _, entry := range e.Entries {
			now := f.values[settingKey{entry.Kind, entry.Path}]
			here := false
			if now.Value, here = was[string(entry.Kind)+" "+entry.Path]; !here && queues && entry.Kind == plan.IRQAffinity { // it comes back with the number
				now.Value, here = entry.Old, true
			}
			var failed *Failure
			switch {
			case !here:
				failed = gone(entry.Path)
			case e.Kind == EffectPresent && entry.Object != "" && now.Object != entry.Object:
				failed = gone(entry.Path)
			case e.Kind == EffectCheck:
				r.Settings = append(r.Settings, now)
			case e.Kind == EffectRestore && !entry.Ours(now):
				failed = &Failure{Code: Foreign, Text: "it reads " + strconv.Quote(now.Value)}
			case e.Kind == EffectRestore && f.values[settingKey{entry.Kind, entry.Path}].Kind == "": // it did not come back
				failed = gone(entry.Path)
			case e.Kind == EffectRestore:
				failed = f.write(entry.Kind, entry.Path, entry.Old)
			}
			r.Each = append(r.Each, failed)
			if failed != nil && e.Kind == EffectCheck {
				r.Failed = failed
			}
		}
	}
	f.result(r)
}

// stepSetting is the kind of setting that a step changes first.
func stepSetting(s *plan.Step) plan.SettingKind {
	switch {
	case s.Kind == plan.SetNext:
		return machineNext
	case s.Target.Kind == inMachine && s.Kind == plan.SetCPUs:
		return machineCPUs
	case s.Target.Kind == inMachine:
		return machineMems
	case s.Kind == plan.DivideThreads:
		return plan.ThreadCPUs
	case s.Target.Kind == workload.InProcess:
		return plan.Affinity
	case s.Kind == plan.SetCPUs:
		return plan.CgroupCPUs
	case s.Kind == plan.SetMems:
		return plan.CgroupMems
	case s.Kind == plan.SetCgroup:
		return plan.SettingKind(s.Target.File)
	case s.Kind == plan.SetScheduler:
		return plan.Scheduler
	case s.Kind == plan.SetPolicy:
		return plan.TaskPolicy
	case s.Kind == plan.SetCache:
		return plan.CacheGroup
	case s.Kind == plan.SetCacheTasks:
		return plan.CacheTasks
	case s.Kind == plan.SetIRQ && s.Target.Kind == workload.InHost:
		return plan.HostIRQ
	case s.Kind == plan.SetIRQ:
		return plan.IRQAffinity
	case s.Kind == plan.SetQueues:
		return plan.QueueCount
	}
	return plan.HostFile
}

// paths is what of its kind a step changes.
func (f *fake) paths(s *plan.Step) (out []string) {
	switch s.Target.Kind {
	case inMachine:
		m := f.machine(s.Workload)
		switch {
		case m == nil:
			return []string{"gone"}
		case s.Kind == plan.SetNext:
			return []string{m.name}
		}
		return []string{m.path()}
	case workload.InProcess:
		for _, p := range s.Target.Processes {
			out = append(out, plan.ProcessPath(p))
		}
		return out
	}
	return []string{cmp.Or(s.Target.Cgroup, s.Target.Device, s.Target.Host)}
}

// changes is Driver.Changes.
func (f *fake) changes(s *plan.Step) (out []plan.Change, _ *Failure) {
	if s.Kind == plan.StopUnit {
		return nil, nil
	}
	kind := stepSetting(s)
	for _, path := range f.paths(s) {
		x, here := f.values[settingKey{kind, path}]
		if !here {
			if s.Target.Kind == workload.InProcess {
				continue
			}
			return nil, gone(path)
		}
		c := plan.Change{Setting: x, Will: s.To}
		if kind == plan.ThreadCPUs && s.From != "" {
			c.Threads = f.later
		}
		out = append(out, c)
	}
	if kind == plan.QueueCount { // the interrupts are made anew with it
		for _, key := range slices.SortedFunc(maps.Keys(f.values), func(a, b settingKey) int { return cmp.Compare(a.path, b.path) }) {
			if key.kind == plan.IRQAffinity {
				out = append(out, plan.Change{Setting: f.values[key], Will: f.values[key].Value})
			}
		}
	}
	return out, nil
}

// apply is Driver.Apply. What it changes must be in the journal on disk, with the
// value from before.
func (f *fake) apply(s *plan.Step) *Failure {
	if s.Kind == plan.StopUnit {
		f.units = append(f.units, s.Target.Host)
		return nil
	}
	kind := stepSetting(s)
	for _, path := range f.paths(s) {
		x, here := f.values[settingKey{kind, path}]
		if !here || s.Target.Object != "" && x.Object != s.Target.Object {
			return gone(path)
		}
		journalled := false
		for _, e := range f.disk.entries {
			journalled = journalled || e.Kind == kind && e.Path == path
		}
		if !journalled {
			f.t.Errorf("%s of %s is changed without a journal entry", kind, path)
		}
		if bad := f.write(kind, path, s.To); bad != nil {
			return bad
		}
	}
	for _, t := range s.Threads {
		f.setThread(s.Workload, t.TID, t.CPUs)
	}
	return nil
}

// write sets a value and what follows from it.
func (f *fake) write(kind plan.SettingKind, path, value string) *Failure {
	f.set(kind, path, value)
	switch kind {
	case plan.ThreadCPUs:
		f.undivided(path, value)
	case plan.QueueCount:
		f.cards.count(f, value)
	case machineCPUs, machineMems, machineNext:
		f.writeMachine(kind, path, value)
	}
	return nil
}

// movePages moves the memory of a workload in two halves. One that is told to stop does so
// between them.
func (f *fake) movePages(e Effect) {
	end := Result{ID: e.ID}
	var total int64
	for half := range 2 {
		if f.stopped[e.ID] {
			end.Failed = &Failure{Code: Cancelled, Text: "context canceled"}
			break
		}
		w := f.works[f.s.Observed(e.Workload)[0]]
		if w == nil {
			end.Failed = gone(string(e.Workload))
			break
		}
		if f.stuck {
			break
		}
		total += int64(f.moveHalf(w, e.Step, half)) << 10
		m := plan.Move{Moved: total, State: work.MoveRunning}
		if half == 0 && f.paused != "" {
			f.turn(Input{Progress: &Progress{ID: e.ID, Move: plan.Move{Moved: total, State: work.MovePaused, Why: f.paused}}})
		}
		if half == 1 && f.pinned > 0 {
			m.Refused = int64(f.pinned) << 10
			m.Why, m.RefusedBy = "pinned", []plan.Refusal{{Cause: plan.Pinned, Bytes: m.Refused, Why: "pinned"}}
		}
		f.turn(Input{Progress: &Progress{ID: e.ID, Move: m}})
		if half == 0 && f.mid != nil {
			f.mid(&e)
		}
	}
	f.result(end)
}

func (f *fake) moveHalf(w *job, s *plan.Step, half int) topology.KiB {
	home, _ := topology.ParseNodeSet(s.To)
	mem, moved := plantest.MoveHalf(w.obs.Memory, home, half, f.pinned)
	w.obs.Memory, w.obs.Anon = mem, mem
	return moved
}

// survey is what surveys find.
func (f *fake) survey(kind SurveyKind) *Survey {
	in := &Survey{Kind: kind}
	switch kind {
	case Managers:
		in.Managers = slices.Clone(f.managers)
	case Links:
		in.Links, in.Read = map[workload.ID][]workload.Link{}, map[workload.ID]time.Time{}
		for id, links := range f.links {
			in.Links[id], in.Read[id] = slices.Clone(links), f.now
			for i := range links {
				if links[i].Counted {
					in.Links[id][i].Bytes = f.grows * uint64(f.now.Sub(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)).Seconds())
				}
			}
		}
	case Interrupts:
		in.Devices = f.cards.devices(f)
	}
	return in
}

// machine is a workload of a runtime that says of its own where its machines are: CPUs
// and memory nodes as it runs, and where it will be started next.
type machine struct {
	name      string
	run       int // 0: off
	vcpus     int
	memory    topology.KiB
	class     workload.Class
	tier      workload.Tier
	now, next seat
	transient bool // nothing tells where it will be started next
	root      workload.Process
	gone      bool
}

type seat struct {
	cpus  topology.CPUSet
	nodes topology.NodeSet
	ours  bool   // homenode put it there
	hand  string // whoever else did, in words
	loose bool   // some of its threads are anywhere
}

func (s *seat) String() string { return s.cpus.String() + "/" + s.nodes.String() }

func (m *machine) id() workload.ID { return workload.ID("m:" + m.name) }
func (m *machine) path() string    { return fmt.Sprintf("%s@%d", m.name, m.run) }

func (f *fake) machine(id workload.ID) *machine {
	for _, m := range f.machines {
		if m.id() == id && !m.gone {
			return m
		}
	}
	return nil
}

func (f *fake) machineOf(o *workload.Observation) *machine {
	for _, m := range f.machines {
		if m.run > 0 && len(o.Processes) > 0 && o.Processes[0] == m.root {
			return m
		}
	}
	return nil
}

// define tells the runtime of a machine that is off.
func (f *fake) define(m *machine) *machine {
	f.machines = append(f.machines, m)
	if !m.transient {
		f.set(machineNext, m.name, m.nextValue())
	}
	return m
}

func (m *machine) nextValue() string {
	if !m.next.ours {
		return ""
	}
	return m.next.String()
}

// boot starts a machine whose memory lies on nodes.
func (f *fake) boot(m *machine, on ...topology.NodeID) {
	m.run, m.now = 1+len(f.works)+len(f.events), m.next
	m.root = workload.Process{PID: 5000 + m.run, Start: 9}
	id := f.add(fmt.Sprintf("machines/%d", m.run), 1, m.memory, on...)
	o := &f.works[id].obs
	o.Processes, o.Pinned, o.PinnedWhy = []workload.Process{m.root}, true, "the runtime's own"
	f.seated(m)
}

// seated writes the settings of a machine that runs.
func (f *fake) seated(m *machine) {
	h := f.host()
	cpus, nodes := m.now.cpus, m.now.nodes
	if cpus.Empty() {
		cpus = h.Online
	}
	if nodes.Empty() {
		nodes = h.AllowedMems
	}
	f.set(machineCPUs, m.path(), cpus.String())
	f.set(machineMems, m.path(), nodes.String())
	if !m.transient {
		f.set(machineNext, m.name, m.nextValue())
	}
}

// halt ends a machine.
func (f *fake) halt(m *machine) {
	delete(f.values, settingKey{machineCPUs, m.path()})
	delete(f.values, settingKey{machineMems, m.path()})
	f.remove(f.workOf(m).obs.ID)
	m.run, m.gone = 0, m.transient
}

func (f *fake) workOf(m *machine) *job {
	for _, w := range f.works {
		if w.obs.Processes[0] == m.root {
			return w
		}
	}
	return nil
}

// writeMachine does what the runtime does when a setting of a machine is written.
func (f *fake) writeMachine(kind plan.SettingKind, path, value string) {
	name, _, _ := strings.Cut(path, "@")
	m := f.machine(workload.ID("m:" + name))
	switch kind {
	case machineNext:
		m.next = seat{}
		if cpus, nodes, set := strings.Cut(value, "/"); set {
			m.next.ours = true
			m.next.cpus, _ = topology.ParseCPUSet(cpus)
			m.next.nodes, _ = topology.ParseNodeSet(nodes)
		}
		return
	case machineCPUs:
		m.now.cpus, _ = topology.ParseCPUSet(value)
		m.now.loose = false
	case machineMems: // the runtime takes the memory along
		m.now.nodes, _ = topology.ParseNodeSet(value)
		o := &f.workOf(m).obs
		left := workload.Total(o.Memory) - workload.On(o.Memory, m.now.nodes)
		var mem []workload.NodeMemory
		for n := range m.now.nodes.All() {
			if kib := workload.On(o.Memory, topology.Nodes(n)) + left; kib > 0 {
				mem = append(mem, workload.NodeMemory{Node: n, KiB: kib})
			}
			left = 0
		}
		o.Memory, o.Anon = mem, mem
	}
	m.now.ours = true
}

// claims is what the runtime says.
func (f *fake) claims(h *topology.Host) (out []workload.Claim) {
	for _, m := range f.machines {
		if m.gone {
			continue
		}
		c := workload.Claim{ID: m.id(), Name: m.name, Process: m.root, Running: m.run > 0, Driver: inMachine,
			Caps: workload.Caps{MemoryFollows: true, AtOnce: 256 << 10, Rebinds: true, NextStart: !m.transient}}
		at := &m.next
		if c.Running {
			at = &m.now
			c.Mems = at.nodes
			if !at.loose {
				c.CPUs = at.cpus
			}
		}
		spec, home := m.placed(h, at)
		c.Spec = &spec
		dedicated := m.class == workload.Dedicated
		switch {
		case f.lost != "":
			c.Alone = words.Because(words.GuestSilent, f.lost)
		case at.hand != "":
			c.Alone = words.Because(words.GuestBound, at.hand)
		}
		switch {
		case dedicated && c.Running:
			c.Home, c.Fixed, c.MovedBy = &home, true, "runtime move"
		case dedicated:
			c.Holds = append(c.Holds, home)
		case c.Running && at.hand == "" && at.ours && !h.Online.SubsetOf(at.cpus):
			c.Home = &home
		}
		c.Fixed = c.Fixed || f.lost != "" && at.hand == ""
		if !m.transient {
			spec, home := m.placed(h, &m.next)
			c.Next = &workload.Next{Spec: spec, CPUs: m.next.cpus, Mems: m.next.nodes, Ours: m.next.ours, Alone: c.Alone}
			if m.next.ours {
				c.Next.Home = &home
			}
			if c.Next.Alone.None() && dedicated {
				c.Next.Alone = words.Because(words.GuestDedicated, m.name)
			}
			if c.Next.Alone.None() && m.next.hand != "" {
				c.Next.Alone = words.Because(words.GuestBound, m.next.hand)
			}
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b workload.Claim) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// placed is what a seat amounts to.
func (m *machine) placed(h *topology.Host, s *seat) (workload.Spec, workload.Placement) {
	spec := workload.Spec{ID: m.id(), Name: m.name, Class: m.class, Tier: m.tier, Importance: 50, CPUs: m.vcpus, Memory: m.memory, Given: true}
	p := workload.Placement{Workload: m.id(), Class: m.class, Importance: 50, VCPUs: m.vcpus, CPUs: s.cpus, Asked: m.memory}
	if p.CPUs.Empty() {
		p.CPUs = h.Online
	}
	if m.class == workload.Dedicated {
		p.Pins, p.Bound = p.CPUs.Slice(), true
	}
	nodes := s.nodes
	if nodes.Empty() {
		nodes = h.AllowedMems
	}
	for _, n := range h.Nodes {
		if n.CPUs.Intersects(p.CPUs) || s.nodes.Has(n.ID) {
			p.Home.Add(n.ID)
		}
		if nodes.Has(n.ID) {
			p.Memory = append(p.Memory, workload.NodeMemory{Node: n.ID, KiB: m.memory / topology.KiB(nodes.Len())})
		}
	}
	return spec, p
}

func floating(name string, vcpus int, memory topology.KiB) *machine {
	return &machine{name: name, vcpus: vcpus, memory: memory, class: workload.Shared}
}

// pinnedMachine has CPUs of its own.
func pinnedMachine(name string, node topology.NodeID, cpus ...topology.CPUID) *machine {
	m := &machine{name: name, vcpus: len(cpus), memory: 1 << 20, class: workload.Dedicated}
	m.next = seat{cpus: topology.CPUs(cpus...), nodes: topology.Nodes(node), ours: true}
	return m
}

// shown is what a reader holds: a View and an Output, and what they were.
type shown struct {
	view     View
	viewed   []byte
	output   Output
	returned []byte
	input    int
}

// A test keeps the Views after its first inputs and after some later ones, and compares them at its end.
const (
	firstShown = 8
	laterShown = 17 // every so many inputs
	mostShown  = 16
)

// keepView holds what a reader would hold from now on.
func (f *fake) keepView(out Output) {
	sampled := f.inputs <= firstShown || f.inputs%laterShown == 0
	if _, ok := f.t.(*testing.T); !ok || f.blind || !sampled || len(f.shown) >= mostShown {
		return
	}
	x := shown{view: f.s.View(), output: out, returned: asJSON(f.t, out), input: f.inputs}
	x.viewed = viewText(f.t, &x.view)
	f.shown = append(f.shown, x)
}

func viewText(t testing.TB, v *View) []byte {
	type plain View
	return append(asJSON(t, (*plain)(v)), asJSON(t, v.Facts)...)
}

// sameViews fails where a View or an Output that a reader holds is not what it was.
func (f *fake) sameViews() {
	for i := range f.shown {
		x := &f.shown[i]
		if now := viewText(f.t, &x.view); !bytes.Equal(now, x.viewed) {
			f.t.Errorf("the View after input %d has changed since: %s", x.input, replay.Difference(x.viewed, now))
			return
		}
		if now := asJSON(f.t, x.output); !bytes.Equal(now, x.returned) {
			f.t.Errorf("the Output of input %d has changed since: %s", x.input, replay.Difference(x.returned, now))
			return
		}
	}
}
