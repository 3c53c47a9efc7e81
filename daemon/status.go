package daemon

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/nearness"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Status is the newest look and what is planned.
func (d *Daemon) Status(context.Context) (api.Status, error) {
	v := d.View()
	s := v.Status(d.o.Version)
	if d.o.Self != nil {
		self := d.o.Self()
		self.Journal, self.Lost = len(v.Journal), int(v.Lost)
		s.Self = &self
	}
	return s, nil
}

// Status is what a daemon of a version with this View answers, but for what it holds itself.
func (v *View) Status(version string) api.Status {
	s := api.Status{
		Schema: "homenode-status/3", Version: version, Mode: v.Settings.Mode(), Held: v.Holds.All,
		Time: v.At, TickMs: float64(v.Took.Microseconds()) / 1000,
		Nodes: v.nodes(), Workloads: []api.Workload{}, Small: v.Snapshot.Small, Problems: []string{},
		Pressure: append([]workload.Pressure{}, v.Snapshot.Pressure...),
		Sources:  append([]workload.SourceStatus{}, v.Snapshot.Sources...),
		Devices:  v.devices(), Managers: []api.Manager{}, Trend: v.Trend,
	}
	s.Caches = v.caches()
	for _, m := range v.Managers {
		s.Managers = append(s.Managers, api.Manager{Name: m.Name, Does: m.Does, Owns: m.Owns, CPUs: m.CPUs,
			Names: m.Names})
	}
	planned := v.planned()
	for i := range v.Snapshot.Observations {
		s.Workloads = append(s.Workloads, v.workload(&v.Snapshot.Observations[i], planned))
	}
	for _, p := range v.Snapshot.Problems {
		s.Problems = append(s.Problems, p.Subject+": "+p.Text)
	}
	unseen := ""
	if v.Unseen != "" {
		unseen = words.Because(words.ScanFailed, v.Unseen).String()
	}
	unwritten := ""
	if v.Refused != "" {
		unwritten = words.Because(words.NotWritten, v.Refused).String()
	}
	for _, text := range []string{unseen, unwritten, v.Halted.String(), v.Stalled} {
		if text != "" {
			s.Problems = append(s.Problems, text)
		}
	}
	if v.Partition.Partition != plan.AnyClass {
		s.Partition = new(wirePartition(&v.Partition))
	}
	if v.Sharing.On {
		s.Sharing = new(v.sharing())
	}
	if k := &v.Scheduler; k.Seen.Loaded != "" && !v.Sharing.On {
		s.Problems = append(s.Problems, words.Because(words.SchedulerStays, k.Seen.Loaded).String())
	}
	if n := len(v.Scheduler.Untiered); n > 0 {
		s.Problems = append(s.Problems, words.Because(words.SchedulerUntiered, n, n+v.Scheduler.Seen.Tiers,
			v.Scheduler.Seen.Tiers).String())
	}
	if v.Trial.Trial != nil {
		s.Trial = new(wireSwitchback(&v.Trial))
	}
	if v.Balancing.State != "" {
		s.Balance = &v.Balancing
	}
	return s
}

// Small is what is too small to be placed, as of the newest look.
func (d *Daemon) Small(context.Context) (api.Small, error) {
	s := api.Small{Schema: "homenode-small/1", Workloads: []api.SmallWorkload{}}
	for _, x := range d.View().Snapshot.Smaller {
		s.Workloads = append(s.Workloads, api.SmallWorkload{ID: x.ID, Name: x.Name, Kind: x.Kind, CPUUse: x.CPUUse,
			MemoryKiB: int64(x.Memory)})
	}
	slices.SortFunc(s.Workloads,
		func(a, b api.SmallWorkload) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return s, nil
}

// Room is what is left on each node as of now.
func (d *Daemon) Room(_ context.Context, without string) (api.Room, error) {
	v := d.View()
	r := api.Room{Schema: "homenode-room/2", Mode: v.Settings.Mode(), Host: v.Snapshot.Host, Nodes: []api.NodeRoom{}}
	for _, left := range v.Left(without) {
		n := api.NodeRoom{Node: left.Node, CPUs: left.CPUs, SharedVCPUs: left.Shared, HugePages: []api.HugeRoom{}}
		if k := slices.IndexFunc(v.Sharing.Nodes, func(b share.Budget) bool { return b.Node == left.Node }); k >= 0 &&
			v.Sharing.On {
			n.BatchCPUs = &v.Sharing.Nodes[k].CPUs
		}
		if k := slices.IndexFunc(v.Sharing.Memory,
			func(m workload.NodeMemory) bool { return m.Node == left.Node }); k >= 0 {
			n.BatchMemoryKiB = new(int64(v.Sharing.Memory[k].KiB))
		}
		if left.Memory != topology.None {
			n.MemoryKiB = new(int64(left.Memory))
		}
		for _, p := range left.HugePages {
			n.HugePages = append(n.HugePages, api.HugeRoom{SizeKiB: int64(p.Size), FreeKiB: int64(p.Free)})
		}
		r.Nodes = append(r.Nodes, n)
	}
	return r, nil
}

// Explain is why one workload is where it is, by ID or by a name that is unique.
func (d *Daemon) Explain(ctx context.Context, id workload.ID) (api.Explanation, error) {
	v, err := d.looked(ctx)
	if err != nil {
		return api.Explanation{}, err
	}
	x := api.Explanation{Schema: "homenode-explain/3", Mode: v.Settings.Mode(), Journal: []plan.Entry{},
		Events: []plan.Event{}}
	o, f := v.Find(id, d.lineage(string(id)))
	if dev := v.device(id); f != nil && dev != nil {
		x.Device = v.deviceDetail(dev)
		return x, d.recall(&x, v, x.Device.ID)
	}
	if f != nil {
		switch {
		case v.Scans == 0 && v.Unseen != "" && f.Code == control.NotFound:
			f = &control.Failure{Code: control.Failed, Text: words.Because(words.ScanFailed, v.Unseen).String()}
		case v.Settings.Interrupts == control.InterruptsOff && strings.HasPrefix(string(id), "device:"):
			f = &control.Failure{Code: control.NotFound,
				Text: words.Because(words.InterruptsNotRead, string(id)).String()}
		}
		return x, wireError(f)
	}
	planned := v.planned()
	x.Workload = v.workload(o, planned)
	if decision := planned[o.ID].decision; decision != nil {
		x.Decision = v.because(*decision)
		x.Decision.Reasons = v.withThreads(o, x.Decision.Reasons)
	}
	x.Move = v.moveOf(o.ID)
	x.Sharing = v.sharingOf(o.ID)
	x.Balance, x.Balancing = v.Balancing.Of(o.ID), v.Balancing.Verdict().String()
	return x, d.recall(&x, v, o.ID)
}

// because is a decision with what spoke for the home when it was chosen.
func (v *View) because(d plan.Decision) plan.Decision {
	old, ok := v.Chosen.Of(d.Workload)
	if d.Outcome != plan.Kept || !ok {
		return d
	}
	d.Reasons = withChosen(d.Reasons, old.Reasons)
	d.Candidates = old.Candidates
	return d
}

// withChosen is the reasons of a decision, and after them those of the time when its home was chosen.
func withChosen(now, chosen []words.Reason) []words.Reason {
	now = slices.Clone(now)
	for _, r := range chosen {
		if !anew[r.Code] {
			now = append(now, words.Because(words.WhenChosen, r.String()))
		}
	}
	return now
}

// anew has the sentences that concerns add to a decision at each scan: only those of the newest scan hold.
var anew = map[words.Code]bool{
	words.CacheKept:     true,
	words.CacheChosen:   true,
	words.CacheWould:    true,
	words.CacheWidened:  true,
	words.CacheNodeBusy: true,
	words.CacheSoon:     true,
	words.CacheBursts:   true,
	words.CacheKernel:   true,
	words.CacheNoRoom:   true,
}

// withThreads is reasons, and how many threads of a workload are kept on each node where homenode
// has divided them.
func (v *View) withThreads(o *workload.Observation, reasons []words.Reason) []words.Reason {
	if len(o.PerThread) == 0 { // all but a few workloads
		return reasons
	}
	var sets []topology.CPUSet
	for i := range v.Journal {
		if e := &v.Journal[i]; e.Kind == plan.ThreadCPUs && e.Workload == o.ID {
			now, _ := plan.ParseSets(e.New)
			for _, cpus := range now {
				if !slices.ContainsFunc(sets, cpus.Equal) {
					sets = append(sets, cpus)
				}
			}
		}
	}
	var each []words.Reason
	for i := range v.Snapshot.Host.Nodes {
		n, count := &v.Snapshot.Host.Nodes[i], 0
		for _, t := range o.PerThread {
			if t.CPUs.SubsetOf(n.CPUs) && slices.ContainsFunc(sets, t.CPUs.Equal) {
				count++
			}
		}
		if count > 0 {
			each = append(each, words.Because(words.ThreadsOnNode, count, n.ID))
		}
	}
	if len(each) == 0 {
		return reasons
	}
	workers := v.withWorkers(o, sets)
	if len(workers) > 0 {
		return append(slices.Clip(reasons), workers...)
	}
	return append(slices.Clip(reasons), words.Because(words.ThreadsDivided, each))
}

// explainEvents is how many of its newest events an explanation shows: a screen.
const explainEvents = 20

// recall adds what is remembered of a workload.
func (d *Daemon) recall(x *api.Explanation, v *View, id workload.ID) error {
	for _, e := range v.Journal {
		if e.Workload == id {
			x.Journal = append(x.Journal, e)
		}
	}
	q := plan.EventQuery{Workload: id, Limit: explainEvents}
	written, err := d.o.Store.History(q)
	if err != nil {
		return err
	}
	for _, e := range q.Of(withNewest(written, v.Events)) {
		x.Events = append(x.Events, e)
		if e.Code == words.WorkloadGone && strings.HasPrefix(string(id), "pid:") { // the PID is another process's now
			x.Events = x.Events[:0]
		}
	}
	return nil
}

// withNewest is what the store has of the history, with the events that it may lack.
func withNewest(written, newest []plan.Event) []plan.Event {
	if len(newest) == 0 {
		return written
	}
	n, _ := eventAfter(written, newest[0].Seq-1)
	return append(written[:n:n], newest...)
}

// History is the newest events of those that are asked for.
func (d *Daemon) History(ctx context.Context, q api.HistoryQuery) (api.History, error) {
	v := d.View()
	if q.Workload != "" {
		of := d.lineage(string(q.Workload))
		known, err := d.o.Store.About()
		if err != nil {
			return api.History{}, err
		}
		for i := range v.Events {
			known = append(known, v.Events[i].Workload)
		}
		id, f := v.FindKnown(q.Workload, of, known...)
		if f != nil && f.Code == control.NotFound {
			if v, err = d.looked(ctx); err != nil {
				return api.History{}, err
			}
			id, f = v.FindKnown(q.Workload, of, known...)
		}
		if f != nil {
			return api.History{}, wireError(f)
		}
		q.Workload = id
	}
	written, err := d.o.Store.History(q)
	return api.History{Schema: "homenode-history/2", Workload: q.Workload, Events: q.Of(withNewest(written, v.Events))},
		err
}

// planned is what the newest plan says of one workload.
type planned struct {
	decision *plan.Decision // nil for none
	steps    []plan.Step
}

// planned is the newest plan by workload.
func (v *View) planned() map[workload.ID]planned {
	p := &v.Plan
	out := make(map[workload.ID]planned, len(p.Report.Decisions))
	for i := range p.Report.Decisions {
		d := &p.Report.Decisions[i]
		out[d.Workload] = planned{decision: d}
	}
	for _, s := range p.Steps {
		x := out[s.Workload]
		x.steps = append(x.steps, s)
		out[s.Workload] = x
	}
	return out
}

// kernelMemory is the wire form of the kernel's memory for a workload; nil when unknown.
func kernelMemory(k *workload.Kernel) *api.KernelMemory {
	if len(k.PageTables) == 0 && len(k.Stacks) == 0 {
		return nil
	}
	list := func(all []workload.NodeMemory) []api.NodeKiB {
		out := []api.NodeKiB{}
		for _, m := range all {
			if m.KiB > 0 {
				out = append(out, api.NodeKiB{Node: m.Node, KiB: int64(m.KiB)})
			}
		}
		return out
	}
	return &api.KernelMemory{PageTables: list(k.PageTables), NestedTables: list(k.NestedTables), Stacks: list(k.Stacks)}
}

// byType is the memory of a workload by type, most first; nil when all is DRAM.
func byType(h *topology.Host, o *workload.Observation) (out []api.TypeKiB) {
	if h == nil {
		return nil
	}
	all := true
	for _, m := range o.Memory {
		n := h.Node(m.Node)
		if n == nil || m.KiB <= 0 {
			continue
		}
		of := api.TypeKiB{Type: cmp.Or(string(n.MemoryType()), string(topology.Special)), Demoted: o.Lower.Has(m.Node)}
		all = all && of.Type == string(topology.TypeDRAM)
		k := slices.IndexFunc(out, func(x api.TypeKiB) bool { return x.Type == of.Type && x.Demoted == of.Demoted })
		if k < 0 {
			k, out = len(out), append(out, of)
		}
		out[k].KiB += int64(m.KiB)
	}
	if all {
		return nil
	}
	slices.SortStableFunc(out, func(a, b api.TypeKiB) int { return cmp.Compare(b.KiB, a.KiB) })
	return out
}

// workload is the wire form of one workload.
func (v *View) workload(o *workload.Observation, all map[workload.ID]planned) api.Workload {
	w := api.Workload{
		ID: o.ID, Name: o.Name, Kind: o.Kind, Cgroup: o.Cgroup, UID: o.UID, Owner: string(o.Responsible()),
		Class: workload.Shared, Importance: workload.DefaultImportance,
		CPUSet: o.CPUs.String(), CPUUse: o.CPUUse, MemoryKiB: int64(workload.Total(o.Memory)),
		MemoryByNode: []api.NodeKiB{}, Processes: []int{}, Steps: []plan.Step{},
	}
	for _, m := range o.Memory {
		w.MemoryByNode = append(w.MemoryByNode, api.NodeKiB{Node: m.Node, KiB: int64(m.KiB)})
	}
	w.Kernel = kernelMemory(&o.Kernel)
	w.MemoryByType = byType(v.Snapshot.Host, o)
	for _, p := range o.Processes {
		w.Processes = append(w.Processes, p.PID)
	}
	for _, r := range o.RanOn {
		w.RanOn = append(w.RanOn, api.NodeShare{Node: r.Node, Share: r.Share})
	}
	if o.Bandwidth > 0 {
		w.Bandwidth = &o.Bandwidth
	}
	if share, from, ok := o.LocalShare(); ok {
		w.Locality, w.LocalityFrom = &share, from
	}
	if n := o.Accesses.PerSecond; n > 0 {
		w.Accesses = &n
	}
	w.Move = v.moveOf(o.ID)
	spec := v.SpecOf(o.ID)
	if p := place.Of(v.Plan.Placements, o.ID); p != nil {
		w.Class = p.Class
		w.Importance = p.Importance
		w.CPUs = p.VCPUs
		w.Home = p.Home.String()
		w.CPUSetPlanned = p.CPUs.String()
		w.Idle = p.Idle.String()
		w.Caches = p.CachesOn(v.Snapshot.Host).String()
		w.Pins = p.Pins
		w.SMT = spec.SMT
		w.Near = named(&spec)
		if g := v.Sharing.Of(o.ID); g != nil {
			w.CPUSetPlanned = g.CPUs.String()
		}
		if total := workload.Total(o.Memory); total > 0 {
			w.OnHome = new(float64(workload.On(o.Memory, p.Home.Union(o.Lower))) / float64(total))
		}
		w.LocalityExpected = w.Locality
	}
	if v.Sharing.On {
		w.Tier = spec.Tier.Of(w.Class)
	}
	w.Links = v.links(o, &spec)
	if x := &o.Vhost; x.Threads > 0 {
		w.Vhost = &api.Vhost{Threads: x.Threads, CPUUse: x.CPUUse, CPUs: x.CPUs.String(), Nodes: x.Nodes.String()}
	}
	w.Load = v.load(o, &spec)
	if f, is := v.Following[o.ID]; is {
		w.Serves = &api.Serves{Workloads: f.Of, Nodes: f.Nodes.String(), Follows: f.Follows, Why: f.Why.String()}
	}
	for _, s := range all[o.ID].steps {
		w.Steps = append(w.Steps, s)
		if s.Gain != (plan.Gain{}) { // else it is not about memory
			w.LocalityExpected = new(s.Gain.LocalityAfter)
		}
	}
	w.State, w.Why = v.state(o, all[o.ID])
	// where all is local, all has that home
	if h := v.Snapshot.Host; w.State == api.StateAtHome && w.Home == "" && h != nil && len(h.Nodes) == 1 {
		w.Home = topology.Nodes(h.Nodes[0].ID).String()
	}
	return w
}

// load is what kind of load a workload is; nil when that is unknown.
func (v *View) load(o *workload.Observation, spec *workload.Spec) *api.Load {
	l, known := v.Loads[o.ID]
	why := l.Why(o)
	if !known || why.None() {
		return nil
	}
	x := &api.Load{Kind: l.Kind, Importance: l.Importance, Why: why.String()}
	switch {
	case l.Importance == 0:
	case v.Settings.Recognise == control.RecogniseApply && spec.Importance == l.Importance:
		x.Applied, x.Why = true, x.Why+" "+words.Because(words.LoadApplied, l.Importance).String()
	case spec.Importance != workload.DefaultImportance || spec.Class != workload.Shared:
		x.Why += " " + words.Because(words.LoadTold, l.Importance, spec.Importance).String()
	default:
		x.Why += " " + words.Because(words.LoadSuggests, l.Importance).String()
	}
	return x
}

// named is what a workload was told to be near. The rest is learned.
func named(spec *workload.Spec) []string {
	var out []string
	for _, n := range spec.Near {
		if !n.Learned {
			out = append(out, n.String())
		}
	}
	return out
}

// links is the wire form of what a workload was found to use, and which of it counts.
func (v *View) links(o *workload.Observation, spec *workload.Spec) []api.Link {
	var out []api.Link
	for i, l := range v.Links[o.ID] {
		x := api.Link{Kind: l.Kind, Name: l.Name, PID: l.Helper.PID, Nodes: l.Nodes.String(), Evidence: l.Evidence}
		if f, is := v.Following[v.HelperAt(l.Helper)]; is && l.Helper.PID > 0 {
			x.Follows, x.Why = f.Follows, f.Why.String()
		}
		if l.Counted && l.Last >= 0 {
			x.MiBs = new(l.Rate)
		}
		for _, n := range spec.Near {
			if n.Learned && n.Device == l.Device && n.Nodes.Equal(l.Nodes) {
				x.Weight = n.Weight
			}
		}
		if l.Kind == workload.ByGPU && spec.ForGPUs {
			x.Why = words.Because(words.GPUOfWorkers).String()
		}
		if l.Kind == workload.ByGPU {
			x.Nearest = v.nearestNICs(l.Device)
		}
		vhost := control.VhostUse(v.Links[o.ID], i)
		if as := nearness.Weighs(o, l.Rate, vhost); x.Weight > 0 && as > l.Rate {
			x.Why = words.Because(words.WeighsByVhost, as, vhost, o.CPUUse).String()
		}
		out = append(out, x)
	}
	return out
}

// state is how far a workload has come, and why.
func (v *View) state(o *workload.Observation, p planned) (state string, why string) {
	id, steps := o.ID, p.steps
	if why, silent := v.Silent[id]; silent && !v.Holds.Has(id) {
		return api.StateNoAnswer, why.String()
	}
	if d := p.decision; d != nil {
		state, why = string(d.Outcome), words.Join(v.withThreads(o, d.Reasons))
		if d.Outcome == plan.Refused {
			state = api.StateNoRoom
		}
		if silent := o.Unread(); o.Unanswered && (d.Outcome != plan.LeftAlone || why == silent.String()) {
			return api.StateNoAnswer, silent.String()
		}
		if d.Outcome == plan.LeftAlone && len(d.Reasons) > 0 && d.Reasons[0].Code == words.SingleNode {
			return api.StateAtHome, why
		}
		if d.Outcome != plan.Placed && d.Outcome != plan.Kept {
			return state, why
		}
	}
	if t, ok := v.Tasks[id]; ok && t.Move != nil {
		if t.Move.State == api.StatePaused {
			return api.StatePaused, t.Move.Why
		}
		return api.StateMoving, why
	}
	switch {
	case v.Holds.Has(id):
		return api.StateHeld, words.Because(words.HeldByHand).String()
	case len(steps) == 0:
		return api.StateAtHome, why
	case !v.Settings.Enforce:
		return api.StateWouldMove, why
	}
	for i := range steps {
		r := v.RetryOf(&steps[i])
		switch {
		case r == nil:
		case r.Text != "":
			return api.StateFailed, r.Text
		case steps[i].Kind == plan.MovePages:
			return api.StateAtHome, leftOffHome(why, v.Moves[id].Why, r.Next)
		}
	}
	if v.onlyShares(o, steps) {
		return api.StateAtHome, why
	}
	return api.StateQueued, why
}

// onlyShares reports whether nothing that is left to do is about a workload's home: sharing gives
// it more or less of that, which it does time and again.
func (v *View) onlyShares(o *workload.Observation, steps []plan.Step) bool {
	p := place.Of(v.Plan.Placements, o.ID)
	return p != nil && !slices.ContainsFunc(steps, func(s plan.Step) bool {
		switch s.Kind {
		case plan.SetCgroup, plan.ReclaimMemory, plan.SetPolicy, plan.SetCache, plan.SetCacheTasks, plan.StopUnit:
			return false
		case plan.SetCPUs:
			return v.Sharing.Of(o.ID) == nil || o.UnevenCPUs || !o.CPUs.SubsetOf(p.CPUs)
		}
		return true
	})
}

// leftOffHome is why a workload is at home though some of its memory is not.
func leftOffHome(why, stayed string, next time.Time) string {
	at := next.UTC().Format(time.TimeOnly + " UTC")
	if stayed == "" {
		return words.Because(words.LeftOffHome, why, at).String()
	}
	return words.Because(words.LeftOffHomeWhy, why, stayed, at).String()
}

// moveOf is a workload's page move in flight, or the newest that ended.
func (v *View) moveOf(id workload.ID) *plan.Move {
	if t, ok := v.Tasks[id]; ok && t.Move != nil {
		return t.Move
	}
	if m, ok := v.Moves[id]; ok {
		return &m
	}
	return nil
}
