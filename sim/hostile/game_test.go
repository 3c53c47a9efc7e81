package hostile

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Tally counts what happened in a run.
type Tally struct {
	Events, Kills, Boots, Hung, Failed, Applied, Shared, Restored, Foreign, Undone, Moves, Replies int
	// Hardware and sources that come and go, steps done in part, clocks set back by a year.
	CPUsOff, MemoryOff, Sources, Flaps, Parts, Back int
	// Locks that processes took, writes that blocked all others because of that, writes that the
	// driver refused, owners with many UIDs.
	Locks, Blocked, Refused, Owners int
	// Work that a scan left in few caches of its node.
	Kept int
	// Steered is how often batch work followed latency goals after an event.
	Steered int
}

// Add adds another run.
func (t *Tally) Add(o Tally) {
	sum, add := reflect.ValueOf(t).Elem(), reflect.ValueOf(o)
	for i := range sum.NumField() {
		sum.Field(i).SetInt(sum.Field(i).Int() + add.Field(i).Int())
	}
}

// broken is what a run panics with when something does not hold.
type broken string

// Run plays so many events of a seed; the error says what did not hold, and when. trace is
// told everything that happens; nil leaves it to the error to tell of the last.
func Run(seed uint64, events int, trace io.Writer) (tally Tally, err error) {
	r := rand.New(rand.NewPCG(seed, 0x686f7374696c65))
	g := &game{random: r, host: newHost(r), store: newStore(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		enforce: seed%8 != 0, hung: map[string]*call{}, stuck: r.IntN(2) == 0, shares: r.IntN(3) > 0, limits: r.IntN(3) > 0, trace: trace}
	g.goals = newGoals(seed)
	g.reset()
	defer func() {
		if x := recover(); x != nil {
			text := fmt.Sprint(x)
			if _, is := x.(broken); !is {
				text += "\n" + string(debug.Stack())
			}
			err = fmt.Errorf("seed %d, event %d: %s\nAgain: SEED=%d SEEDS=1 EVENTS=%d go test ./sim/hostile (TRACE=1: with all that happens)\nThe last events:\n  %s",
				seed, g.host.event, text, seed, events, strings.Join(g.lines, "\n  "))
		}
		tally = g.tally
	}()
	g.start()
	for g.host.event < events {
		g.host.event++
		g.tally.Events++
		g.step()
		g.check()
	}
	g.calm()
	return g.tally, nil
}

// game is a daemon on a host, and all that happens to both.
type game struct {
	random  *rand.Rand
	host    *host
	store   *store
	now     time.Time
	enforce bool
	stuck   bool // calls may hang
	shares  bool // CPUs are shared with batch work from the start
	goals   *goals
	limits  bool // all batch work takes limits
	state   *control.State
	tally   Tally
	lines   []string  // the newest
	trace   io.Writer // nil for none

	calls     []*call // released, not back
	results   []control.Input
	hung      map[string]*call // by workload
	queue     []control.Output // that wait for the disk
	writing   []control.Output
	unsaved   []plan.Batch
	scan      *control.Scan
	scans     uint64
	requests  uint64
	asked     map[uint64]string
	undone    map[uint64]*control.Undone
	poison    workload.ID // the engine panics on it
	balancer  balance.Engine
	confined  uint64               // the newest scan whose caches were checked
	tight     map[workload.ID]bool // work that that scan left confined more tightly than it runs
	partition uint64               // the newest scan when the partition was set last
	peaceful  bool                 // calm: nothing fails
	blocker   *call                // a write of memory nodes in which the kernel waits for a process, and all other writes of cpusets for it; it is among hung
}

// call is an effect that was begun.
type call struct {
	control.Effect
	moved int64
	left  bool // given up: the daemon does not wait for it
}

func (g *game) say(format string, args ...any) {
	g.lines = append(g.lines, fmt.Sprintf("%5d %s ", g.host.event, g.now.Format("15:04:05"))+fmt.Sprintf(format, args...))
	if g.trace != nil {
		fmt.Fprintln(g.trace, g.lines[len(g.lines)-1])
	}
	if len(g.lines) > 60 {
		g.lines = slices.Clone(g.lines[20:])
	}
}

func fail(format string, args ...any) { panic(broken(fmt.Sprintf(format, args...))) }

func (g *game) reset() {
	g.calls, g.results, g.queue, g.writing, g.unsaved, g.scan, g.scans = nil, nil, nil, nil, nil, nil, 0
	g.partition = 0
	g.asked, g.undone = map[uint64]string{}, map[uint64]*control.Undone{}
}

func (g *game) start() {
	size := 2
	settings := control.Settings{Enforce: g.enforce, Policy: plan.DefaultPolicy(), Balance: balance.DefaultSettings(),
		Arrange: arrange.Options{MinMemory: 64 << 10, MinCPU: 0.2, MoveBandwidth: 256 << 20},
		Rules: []workload.Rule{{Match: slice + "/dedicated-*", Class: workload.Dedicated, CPUs: size}, {Match: slice + "/batch-*", Class: workload.Batch},
			{Match: slice + "/w*", Tier: workload.Online}},
		Share:      share.DefaultSettings(),
		Interrupts: control.InterruptsPlace, Surveys: []control.SurveyKind{control.Managers, control.Interrupts}}
	settings.Policy.Caches = plan.CachesPlace
	settings.Rules = append(g.goals.rules(), settings.Rules...)
	settings.Share.Scheduler, settings.Share.Probation = true, 20*time.Second
	settings.Base.Cache = share.CacheLimit{Cache: 30}
	settings.Balance.Enabled, settings.Share.On, settings.Share.Freeze = true, g.shares, g.shares
	g.state = control.New(settings, g.store.saved())
	g.state.SetEngine(g.engine)
	g.next(control.Input{Started: &control.Started{Version: "hostile", Period: 5 * time.Second}})
}

// engine is balance.Engine, which fails on the poisoned workload.
func (g *game) engine(in balance.Input, h balance.History) (balance.Outcome, balance.History) {
	for i := range in.Subjects {
		if in.Subjects[i].Observation.ID == g.poison {
			panic("poison")
		}
	}
	return g.balancer.Tick(in, h)
}

func (g *game) next(in control.Input) {
	in.At = g.now
	var out control.Output
	g.state, out = control.Next(g.state, in)
	for _, e := range out.Save.Events {
		g.say("  homenode: %s %.60q %.160q", e.Kind, e.Workload, e.Text)
	}
	if out.Save.Empty() {
		g.release(&out, false)
		return
	}
	g.queue = append(g.queue, out)
}

// release begins effects and takes replies.
func (g *game) release(out *control.Output, unwritten bool) {
	for i := range out.Effects {
		e := out.Effects[i]
		switch {
		case e.Kind == control.EffectApply && unwritten:
			g.results = append(g.results, control.Input{Result: &control.Result{ID: e.ID, Failed: &control.Failure{Code: control.Failed, Text: "not written"}}})
		case e.Kind == control.EffectChanged || e.Kind == control.EffectMoved:
		case e.Kind == control.EffectCancel:
			for k, c := range g.calls {
				if c.ID == e.Of && c.ID != 0 {
					g.calls = slices.Delete(g.calls, k, k+1)
					g.answer(c, &control.Result{Failed: &control.Failure{Code: control.Cancelled, Text: "cancelled"}})
					break
				}
			}
		default:
			if e.Kind == control.EffectApply && !g.enforce && e.Step.Kind != plan.SetFile {
				fail("observe mode changes something: %+v", e.Step)
			}
			g.calls = append(g.calls, &call{Effect: e})
		}
	}
	for _, r := range out.Replies {
		what, waits := g.asked[r.ID]
		if !waits {
			fail("request %d is answered and was not asked, or twice", r.ID)
		}
		delete(g.asked, r.ID)
		g.tally.Replies++
		if r.Undo != nil {
			g.undone[r.ID] = r.Undo
		}
		text := ""
		if r.Failed != nil {
			text = r.Failed.Text
		} else if r.Place != nil {
			text = r.Place.Placement.CPUs.String()
		}
		g.say("  reply to %d %s: %.100q", r.ID, what, text)
	}
}

func (g *game) answer(c *call, r *control.Result) {
	r.ID = c.ID
	g.results = append(g.results, control.Input{Result: r})
}

// target is what calls wait for one another on.
func (c *call) target() string {
	if c.Step != nil && c.Step.Target.Device != "" {
		return c.Step.Target.Device
	}
	return string(c.Workload)
}

// perform has a call do what it is for.
func (g *game) perform(c *call) {
	h := g.host
	r := &control.Result{}
	if c.Kind == control.EffectSurvey {
		g.results = append(g.results, control.Input{Survey: g.survey(c.Survey)})
		return
	}
	locks := c.Kind == control.EffectApply && c.Step.Kind != plan.MovePages || c.Kind == control.EffectRestore
	lost := &control.Failure{Code: control.NoAnswer, Text: "no answer"}
	var behind *call
	if c.Kind == control.EffectRestore {
		for i := range c.Entries {
			e := &c.Entries[i]
			if x := cmp.Or(g.hung[string(e.Workload)], g.hungStep(e.Workload, e.Path), g.hungBelow(e)); x != nil {
				behind = x
			}
		}
	} else if locks {
		behind = g.hung[c.target()]
	}
	if behind == nil && (c.Kind == control.EffectRead || c.Kind == control.EffectApply) {
		behind = g.hungStep(c.Workload, c.Step.Target.Own())
	}
	switch {
	case behind != nil:
		r.Failed = lost
		g.answer(c, r)
		return
	case g.blocks(c, r):
		g.answer(c, r)
		return
	case g.peaceful:
	case locks && c.Workload != "" && g.stuck && g.random.IntN(25) == 0:
		// It hangs in the kernel, and takes effect some time, or never.
		g.tally.Hung++
		g.say("%s of %q hangs", c.Kind, c.Workload)
		c.left = true
		g.hung[c.target()] = c
		r.Failed = lost
		g.answer(c, r)
		return
	case g.random.IntN(25) == 0:
		code := []control.Code{control.Failed, control.Failed, control.NoAnswer, control.Gone}[g.random.IntN(4)]
		if code == control.NoAnswer && g.random.IntN(2) == 0 {
			g.effective(c, &control.Result{}) // done, and not heard of
		}
		if code == control.Gone && c.Kind != control.EffectRead && c.Kind != control.EffectApply {
			code = control.Failed // an entry is called gone when it is
		}
		g.say("%s of %q fails: %s", c.Kind, c.Workload, code)
		r.Failed = &control.Failure{Code: code, Text: string(code)}
		g.tally.Failed++
		g.answer(c, r)
		return
	}
	if keys := len(g.targets(c)); keys > 1 && !g.peaceful && g.random.IntN(10) == 0 {
		g.part(c, 1+g.random.IntN(keys-1))
		return
	}
	if c.Kind == control.EffectApply && c.Step.Kind == plan.MovePages {
		moved, done := h.carry(c.Step, topology.KiB(g.random.IntN(1<<20)+1))
		c.moved += int64(moved) << 10
		g.next(control.Input{Progress: &control.Progress{ID: c.ID, Move: plan.Move{Workload: c.Workload, Moved: c.moved}}})
		if !done {
			g.calls = append(g.calls, c)
			return
		}
		g.tally.Moves++
		g.answer(c, r)
		return
	}
	g.effective(c, r)
	g.answer(c, r)
}

// hungStep is a change of a workload, or of its cgroup or process under another ID, that hangs: the
// daemon begins no other beside it, and says of what it restores meanwhile that the change may
// still take (stuckStep in package daemon).
func (g *game) hungStep(id workload.ID, target string) *call {
	for _, c := range g.hung {
		if c.Kind != control.EffectApply {
			continue
		}
		if c.Workload == id || target != "" && c.Step.Target.Own() == target {
			return c
		}
	}
	return nil
}

// hungBelow is a change of a cgroup below one whose controller an entry is of, that hangs: it may yet
// turn the controller on again (stuckBelow in package daemon).
func (g *game) hungBelow(e *plan.Entry) *call {
	for _, c := range g.hung {
		if c.Kind == control.EffectApply && e.ControllerAbove(c.Step.Target.Own()) {
			return c
		}
	}
	return nil
}

// effective does what a call is for.
func (g *game) effective(c *call, r *control.Result) {
	h := g.host
	switch c.Kind {
	case control.EffectRead:
		r.Changes, r.Failed = h.changes(c.Step)
		for _, x := range r.Changes {
			g.say("read for %s of %.60q: %s %.60q is %q", c.Step.Kind, c.Workload, x.Kind, x.Path, x.Value)
		}
		if len(c.Journal) > 0 && r.Failed == nil {
			among := []workload.Process{}
			for _, x := range r.Changes {
				if p, err := plan.ParseProcessPath(x.Path); err == nil && !slices.ContainsFunc(c.Journal, func(e plan.Entry) bool { return e.Path == x.Path }) {
					among = append(among, p)
				}
			}
			r.Inherited = h.inherited(c.Journal, among)
		}
	case control.EffectApply:
		if c.Step.Kind == plan.MovePages {
			return
		}
		var wrong []string
		g.say("apply %s %.60q to %q", c.Step.Kind, c.Workload, c.Step.To)
		r.Failed, wrong = h.apply(c.Step, math.MaxInt)
		g.tally.Applied++
		if c.Step.Kind == plan.SetCgroup && r.Failed == nil {
			g.tally.Shared++
		}
		if len(wrong) > 0 {
			fail("%s", strings.Join(wrong, "; "))
		}
	case control.EffectScheduler:
		r.Scheduler = h.look(c.Scheduler)
	case control.EffectRestore:
		r.Each = h.restore(c.Entries)
		for i, f := range r.Each {
			text := "restored"
			if f != nil {
				text = string(f.Code)
			} else {
				g.tally.Restored++
			}
			g.say("restore %s %.60q to %q: %s", c.Entries[i].Kind, c.Entries[i].Path, c.Entries[i].Old, text)
		}
	case control.EffectCheck:
		for i := range c.Entries {
			k := key{c.Entries[i].Kind, c.Entries[i].Path}
			if h.cells[k] == nil {
				r.Failed = gone(k.path)
				return
			}
			r.Settings = append(r.Settings, h.setting(k))
		}
	case control.EffectPresent:
		for i := range c.Entries {
			r.Each = append(r.Each, h.present(&c.Entries[i]))
		}
	case control.EffectInherited:
		r.Inherited = h.inherited(c.Entries, c.Among)
		for _, x := range r.Inherited {
			g.say("%s has inherited %q from entry %d", x.Path, x.Has, x.Of)
		}
	}
}

func (g *game) survey(kind control.SurveyKind) *control.Survey {
	s := &control.Survey{Kind: kind}
	if !g.peaceful && g.random.IntN(10) == 0 {
		s.Failed = "no answer"
		return s
	}
	switch kind {
	case control.Interrupts:
		for _, d := range g.host.devices {
			d.Interrupts = slices.Clone(d.Interrupts)
			for i := range d.Interrupts {
				x := &d.Interrupts[i]
				x.CPUs = cpusOf(g.host.cells[key{plan.IRQAffinity, fmt.Sprintf("%s/%d", d.PCI, x.Number)}].value, g.host.top.Online)
			}
			s.Devices = append(s.Devices, d)
		}
	case control.Managers:
		if g.random.IntN(8) == 0 && !g.peaceful {
			s.Managers = []control.Manager{{Name: "kubelet", Does: "places", Owns: "some", Cgroups: []string{"w3"}}}
		}
	}
	return s
}

// write begins to bring what has gathered to disk; wrote ends that.
func (g *game) write() {
	if g.writing == nil && len(g.queue) > 0 {
		g.writing, g.queue = g.queue, nil
	}
}

func (g *game) wrote(ok bool) {
	out := g.writing
	if out == nil {
		return
	}
	g.writing = nil
	if ok {
		g.toDisk(out)
		g.unsaved = nil
	} else {
		g.say("the disk is full")
		for i := range out {
			g.unsaved = append(g.unsaved, out[i].Save)
		}
	}
	for i := range out {
		g.release(&out[i], !ok)
	}
}

func (g *game) toDisk(out []control.Output) {
	for i := range g.unsaved {
		g.store.commit(&g.unsaved[i])
	}
	for i := range out {
		g.store.commit(&out[i].Save)
	}
}

// kill ends the daemon at once: what was under way has taken effect or not.
func (g *game) kill() {
	g.say("kill -9")
	g.tally.Kills++
	if g.writing != nil && g.random.IntN(2) == 0 {
		g.toDisk(g.writing)
	}
	for _, c := range g.calls {
		if c.Kind != control.EffectSurvey && c.Kind != control.EffectRead && g.random.IntN(2) == 0 { // nobody learns what was read
			g.effective(c, &control.Result{})
		}
	}
	if g.blocker == nil || g.random.IntN(2) > 0 { // else the threads outlive the daemon: the kernel waits in them
		g.unhangAll()
	}
	g.reset()
}

func (g *game) unhangAll() {
	for len(g.hung) > 0 {
		g.unhang(slices.Min(slices.Collect(maps.Keys(g.hung))))
	}
}

// unhang lets a hung call end, with effect or without.
func (g *game) unhang(id string) {
	if g.blocker != nil { // what waits for it cannot end before it
		id = g.unblock()
	}
	c := g.hung[id]
	delete(g.hung, id)
	if g.random.IntN(2) > 0 {
		return
	}
	g.say("what hung of %q takes effect", id)
	if c.Kind != control.EffectApply {
		g.effective(c, &control.Result{})
		return
	}
	for _, k := range g.host.targets(c.Step) { // the daemon puts back what has no entry by then
		if e := entryOf(g.store.entries, k); e == nil || e.New != will(k, c.Step) && !slices.Contains(e.Past, will(k, c.Step)) {
			return
		}
	}
	g.host.apply(c.Step, math.MaxInt)
}

// boot restarts the machine.
func (g *game) boot() {
	g.say("the machine restarts")
	g.tally.Boots++
	if g.writing != nil && g.random.IntN(2) == 0 {
		g.toDisk(g.writing)
	}
	g.hung, g.blocker = map[string]*call{}, nil
	g.host.boot()
	g.reset()
	_, b := g.store.saved().AfterBoot(g.now, func(kind plan.SettingKind) bool { return kind == madeNext })
	g.store.commit(&b)
}

func (g *game) request(what string, r control.Request) uint64 {
	g.requests++
	r.ID = g.requests
	g.asked[r.ID] = what
	g.say("request %d: %s", r.ID, what)
	g.next(control.Input{Request: &r})
	return r.ID
}

// one is any of a list.
func one[T any](r *rand.Rand, all []T) (T, bool) {
	if len(all) == 0 {
		var none T
		return none, false
	}
	return all[r.IntN(len(all))], true
}

// take takes any out of a list: what comes back does so in any order.
func take[T any](r *rand.Rand, all *[]T) (T, bool) {
	x, ok := one(r, *all)
	if ok {
		i := r.IntN(len(*all))
		x = (*all)[i]
		*all = slices.Delete(slices.Clone(*all), i, i+1)
	}
	return x, ok
}

// step is one event.
func (g *game) step() {
	r, h := g.random, g.host
	g.now = g.now.Add(time.Duration(r.IntN(700)) * time.Millisecond)
	h.ticks += uint64(r.IntN(50))
	if r.IntN(40) == 0 {
		g.upset()
	}
	switch n := r.IntN(1000); {
	case n < 300:
		if c, ok := take(r, &g.calls); ok {
			g.perform(c)
		}
	case n < 550:
		if in, ok := take(r, &g.results); ok {
			g.next(in)
		}
	case n < 700:
		g.write()
		if r.IntN(4) > 0 {
			g.wrote(r.IntN(20) > 0)
		}
	case n < 790:
		if g.scan == nil {
			g.look()
		} else {
			g.seen()
		}
	case n < 850:
		if len(h.jobs) < 14 {
			if j := h.arrive(); j != nil {
				g.say("%s %.60q arrives", j.kind, j.id)
				if r.IntN(60) == 0 {
					g.poison = j.id
				}
				if j.kind == workload.InProcess && r.IntN(2) == 0 {
					g.place(j)
				}
			}
		}
	case n < 875:
		if j, ok := one(r, h.sortedJobs()); ok {
			g.say("%.60q ends", j.id)
			h.depart(j, r.IntN(2) == 0)
			if g.blocker != nil && j.locked { // with its process the lock goes
				g.unhang("")
			}
		}
	case n < 905:
		g.fork()
	case n < 925:
		if k, ok := one(r, h.sortedCells()); ok {
			if text := h.overwrite(k, g.known(k)); text != "" {
				g.tally.Foreign++
				g.say("%s", text)
			}
		}
	case n < 932:
		if j, ok := one(r, h.sortedJobs()); ok && j.kind == workload.InCgroup {
			g.say("%.60q is made anew", j.id)
			h.dropGroup(j)
			h.makeGroup(j)
		}
	case n < 937:
		jump := time.Duration(r.IntN(8*3600)-4*3600) * time.Second
		g.now = g.now.Add(jump)
		g.clockSet()
		g.say("the clock jumps by %v", jump)
	case n < 975:
		g.ask()
	case n < 980:
		g.kill()
		if r.IntN(6) == 0 {
			g.boot()
		}
		g.start()
	case n < 990:
		if id, ok := one(r, slices.Sorted(maps.Keys(g.hung))); ok {
			g.unhang(id)
		}
	case n < 993:
		g.poison = ""
	case n < 994:
		g.say("%s", h.turn())
	case n < 996:
		g.calm()
	case n < 997: // costly
		s, err := control.Resume(g.state.Checkpoint())
		if err != nil {
			fail("a checkpoint cannot be read: %v", err)
		}
		valid := func(s *control.State) string { return strings.ReplaceAll(string(s.Checkpoint()), `\ufffd`, "\ufffd") }
		if a, b := valid(g.state), valid(s); a != b {
			k := 0
			for k < len(a) && k < len(b) && a[k] == b[k] {
				k++
			}
			fail("a checkpoint reads otherwise:\n…%s\n…%s", a[max(0, k-80):min(len(a), k+80)], b[max(0, k-80):min(len(b), k+80)])
		}
	default:
		for _, j := range h.sortedJobs() { // phases change
			if j.use, j.waits = float64(r.IntN(40))/10, []float64{0, 0, 0.3}[r.IntN(3)]; strings.Contains(string(j.id), "/batch-") {
				j.use *= 2
			}
		}
	}
}

// known reports whether a value is one that homenode wrote and may write: whoever writes
// the same cannot be told from homenode.
func (g *game) known(k key) func(string) bool {
	return func(value string) bool {
		has := func(e *plan.Entry) bool {
			return e != nil && (value == e.New || slices.Contains(e.Past, value))
		}
		return has(g.state.Journal.Of(k.kind, k.path)) || has(entryOf(g.store.entries, k)) ||
			slices.ContainsFunc(g.calls, func(c *call) bool { return c.Step != nil && c.Step.To == value }) || g.planned(value) || g.given(k, value)
	}
}

// given reports whether a value is what `homenode run` started a process with, or reads like it while
// its other CPUs are offline.
func (g *game) given(k key, value string) bool {
	p, err := plan.ParseProcessPath(k.path)
	if err != nil || k.kind != plan.Affinity {
		return false
	}
	a, ok := g.state.Admissions[control.ProcessID(p.PID)]
	if !ok || a.Process != p || a.Placement.CPUs.Empty() {
		return false
	}
	set, err := topology.ParseCPUSet(value)
	return err == nil && a.Placement.CPUs.SubsetOf(set)
}

// planned reports whether a step that has begun writes a value, also where its settings were read
// and that is not known to homenode yet.
func (g *game) planned(value string) bool {
	for _, t := range g.state.Tasks {
		if slices.ContainsFunc(t.Steps, func(s plan.Step) bool { return s.To == value }) {
			return true
		}
	}
	return false
}

// look begins a scan: what it sees is as it is now.
func (g *game) look() {
	g.scans++
	g.next(control.Input{Begun: &control.Begun{Number: g.scans}})
	s, v := &control.Scan{Number: g.scans, Began: g.now}, g.state.View()
	s.Attention = v.Attention()
	s.Snapshot, s.Claims = g.host.snapshot(s.Attention.Expected)
	s.Snapshot.Metrics = g.goals.read(g.now)
	if !g.peaceful && g.random.IntN(30) == 0 {
		s.Claims[0].Failed = "does not answer"
	}
	g.scan = s
}

func (g *game) seen() {
	s := g.scan
	g.scan = nil
	if g.blocker != nil || !g.peaceful && g.random.IntN(40) == 0 {
		s = &control.Scan{Number: s.Number, Began: s.Began, Failed: "nothing could be seen"}
	}
	g.next(control.Input{Scan: s})
	if s.Failed == "" {
		g.ceiling()
	}
}

func (g *game) place(j *job) {
	class := []workload.Class{workload.Shared, workload.Dedicated, workload.Batch}[g.random.IntN(3)]
	if class == workload.Batch && g.limits {
		class = workload.Shared
	}
	spec := workload.Spec{Name: j.name, Class: class, Importance: 50, CPUs: 1 + g.random.IntN(3), Memory: workload.Total(j.mem), Given: true}
	g.request(fmt.Sprintf("place %s %s", j.id, class), control.Request{Place: &control.PlaceRequest{Spec: spec, Process: j.root}})
}

// fork starts or ends a process of a workload.
func (g *game) fork() {
	h := g.host
	pid, ok := one(g.random, slices.Sorted(maps.Keys(h.byPID)))
	if !ok {
		return
	}
	p := h.byPID[pid]
	j := h.jobs[p.job]
	switch {
	case g.random.IntN(2) == 0 && len(h.byPID) < 150:
		g.say("%s of %q starts %s", plan.ProcessPath(p.Process), p.job, plan.ProcessPath(h.spawn(p.job, p).Process))
	case j == nil || p.Process != j.root:
		g.say("%s of %q exits", plan.ProcessPath(p.Process), p.job)
		h.exit(p)
	}
}

// giveBack: who resumes wants what others have set to be homenode's again.
func (g *game) giveBack() {
	for _, c := range g.host.cells {
		c.ever, c.resets = c.ours(), 0
	}
}

// ask makes any request.
func (g *game) ask() {
	r := g.random
	var id workload.ID = "nobody"
	if j, ok := one(r, g.host.sortedJobs()); ok && r.IntN(20) > 0 && utf8.ValidString(string(j.id)) {
		id = j.id
	}
	switch n := r.IntN(22); {
	case n == 21:
		g.request("upgrade", control.Request{Upgrade: &control.UpgradeOrder{Version: []string{"", "v1", "v2"}[r.IntN(3)]}, DryRun: r.IntN(4) == 0})
	case n == 20:
		on := r.IntN(3) > 0
		g.request(fmt.Sprint("share ", on), control.Request{Share: &control.ShareOrder{On: on}})
	case n < 4:
		spec := workload.Spec{ID: workload.ID(fmt.Sprintf("soon%d", r.IntN(3))), Class: workload.Dedicated, CPUs: 1 + r.IntN(3), Memory: 1 << 20, Given: true}
		g.request("hold for "+string(spec.ID), control.Request{Place: &control.PlaceRequest{Spec: spec, Hold: time.Duration(r.IntN(60)) * time.Second}})
	case n < 8:
		to := topology.Nodes(g.host.top.Nodes[r.IntN(len(g.host.top.Nodes))].ID)
		g.request(fmt.Sprintf("move %.40q to %s", id, to), control.Request{Move: &control.MoveRequest{ID: id, To: to, DryRun: r.IntN(4) == 0}})
	case n < 10:
		g.request(fmt.Sprintf("cancel %.40q", id), control.Request{Move: &control.MoveRequest{ID: id, Cancel: true}})
	case n < 13:
		g.request(fmt.Sprintf("undo %.40q", id), control.Request{Undo: &control.Which{ID: id}})
	case n < 14:
		g.request("undo all", control.Request{Undo: &control.Which{All: true}})
	case n < 17:
		g.giveBack()
		g.request("resume all", control.Request{Resume: &control.Which{All: true}})
	case n < 18:
		g.giveBack()
		g.request(fmt.Sprintf("resume %.40q", id), control.Request{Resume: &control.Which{ID: id}})
	case n < 19:
		p := []plan.Partition{plan.AnyClass, "0-1", "2-3", "banana"}[r.IntN(4)]
		g.partition = g.scans
		g.request("partition "+string(p), control.Request{Partition: &p})
	default:
		file := hostFiles[r.IntN(len(hostFiles))]
		g.request("change", control.Request{Change: &control.Change{Release: true, Steps: []plan.Step{{Kind: plan.SetFile, Workload: hostprep.ID,
			Target: plan.Target{Kind: workload.InHost, Host: file}, To: fmt.Sprint(1 + r.IntN(3))}}}})
	}
}
