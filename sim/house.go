package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Clock is the time that a House lives by.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

// House is a simulated host full of work that goes on as a clock does, for a real daemon to look
// after: it is observer, driver and source at once. Its methods may be called from several
// goroutines.
type House struct {
	clock Clock
	began time.Time
	story Story

	mu     sync.Mutex // guards what follows
	run    *run
	script *script
	next   Event
	tick   time.Duration // of the machine, the next one
	moves  int           // page moves under way
	pace   int64         // bytes/s of all of them
	bad    error         // what of the script could not be done
}

const (
	// housePeriod is how often the kernel of a House looks around, and its window of figures.
	housePeriod = 2 * time.Second
	// housePacePerNode is the bandwidth of all page moves together for each node, bytes/s: a host
	// of any size comes home in about a minute, and a move of some GiB is watched to its end.
	housePacePerNode = 192 << 20
	// mostRemote is the latency of the other package in that of a node's own memory: a SLIT of 32 says
	// 3.2, and real machines have 1.5 to 2 (docs/design/simulator.md).
	mostRemote = 2
	// houseStep is how long a page move goes on before it tells how far it is.
	houseStep = 500 * time.Millisecond
)

// NewHouse is a host of 1 to 64 nodes, 24 CPUs and 64 GiB each, with work that follows from the
// story and the seed.
func NewHouse(story Story, nodes int, seed uint64, clock Clock) (*House, error) {
	trace, err := houseTrace(nodes)
	if err != nil {
		return nil, err
	}
	h := &House{clock: clock, began: clock.Now(), story: story, script: newScript(story, nodes, seed),
		pace: housePace(nodes),
		run:  newRun(&Options{Trace: trace, Seed: seed, Period: housePeriod}, &Score{})}
	h.run.manager = nobody{}
	if story == KernelAlone {
		h.run.manager = newAutoNUMA(newReference(h.run.m, trace.Policy, seed, nil, false), housePeriod, h.run.score)
	}
	h.next = h.script.next()
	return h, nil
}

// houseTrace is the host of a house, with nothing on it.
func houseTrace(nodes int) (*Trace, error) {
	if nodes < 1 || nodes > 64 {
		return nil, fmt.Errorf("%d nodes; want 1 to 64", nodes)
	}
	packages, per := nodes, 1
	if nodes > 2 && nodes%2 == 0 {
		packages, per = 2, nodes/2
	}
	h, err := topology.FromSynthetic(fmt.Sprintf("package:%d node:%d(memory=64GiB) llc:1 core:12 pu:2", packages, per))
	if err != nil {
		return nil, err
	}
	// As if it had been measured; half of the bandwidth that is taken elsewhere, for bars to be seen.
	m := newModel(h)
	h.Measured = &topology.Measured{}
	for i := range nodes {
		row := slices.Clone(m.idle[i*nodes : (i+1)*nodes])
		for k := range row {
			row[k] = min(row[k], mostRemote*m.idle[i*nodes+i])
		}
		h.Measured.LatencyNs = append(h.Measured.LatencyNs, row)
		h.Measured.BandwidthMiBs = append(h.Measured.BandwidthMiBs, nil)
		for k := range nodes {
			h.Measured.BandwidthMiBs[i] = append(h.Measured.BandwidthMiBs[i], math.Round(m.link[i*nodes+k]/2))
		}
	}
	return &Trace{Name: "house", Host: h, Policy: plan.DefaultPolicy(), Counters: true, Rules: houseRules(),
		house: true}, nil
}

// HouseTrace is what happens in a House of 1 to 64 nodes for so long.
func HouseTrace(story Story, nodes int, seed uint64, until time.Duration) (*Trace, error) {
	t, err := houseTrace(nodes)
	if err != nil {
		return nil, err
	}
	t.Until = until
	s := newScript(story, nodes, seed)
	for e := s.next(); e.At < until; e = s.next() {
		t.Events = append(t.Events, e)
	}
	return t, nil
}

func housePace(nodes int) int64 { return int64(nodes) * housePacePerNode }

// nobody is a manager that leaves all to somebody else.
type nobody struct{}

func (nobody) preplace(*job) error                        { return nil }
func (nobody) begin(context.Context) error                { return nil }
func (nobody) arrive(context.Context, *job) (bool, error) { return true, nil }
func (nobody) depart(*job)                                {}
func (nobody) tick(context.Context) error                 { return nil }
func (nobody) due() (time.Duration, bool)                 { return 0, false }
func (nobody) wake(context.Context)                       {}
func (nobody) ledger() ([]plan.Placement, bool)           { return nil, false }
func (nobody) trouble() []string                          { return nil }
func (nobody) leaks(context.Context) []string             { return nil }
func (nobody) end()                                       {}

// Settings is what suits a House, of a daemon that acts and shares.
func (h *House) Settings() control.Settings {
	s := settingsFor(h.run.o.Trace.Policy, h.run.o.Trace.Rules, h.pace)
	s.Share.On = true
	if h.story == KernelAlone {
		s.Enforce, s.Share.On = false, false
	}
	return s
}

// catchUp lets happen what has happened by now.
func (h *House) catchUp() {
	now := h.clock.Now().Sub(h.began)
	for {
		switch {
		case h.next.At <= now && h.next.At <= h.tick:
			h.run.m.now = max(h.run.m.now, h.next.At)
			if err := h.run.happen(context.Background(), &h.next); err != nil && h.bad == nil {
				h.bad = err
			}
			h.next = h.script.next()
		case h.tick <= now:
			h.run.m.now = max(h.run.m.now, h.tick)
			h.run.measure(housePeriod, 0)
			if err := h.run.manager.tick(context.Background()); err != nil && h.bad == nil {
				h.bad = err
			}
			h.tick += housePeriod
		default:
			h.run.m.now = max(h.run.m.now, now)
			return
		}
	}
}

// Look implements daemon.Observer.
func (h *House) Look(context.Context, control.Attention) (workload.Snapshot, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.catchUp()
	return h.run.m.seen(housePeriod), h.bad
}

// seen is a snapshot with all that counters and PSI tell.
func (m *machine) seen(period time.Duration) workload.Snapshot {
	s := m.snapshot(period, true)
	s.Sources = []workload.SourceStatus{{Source: workload.Counters, Used: true, Text: "simulated"},
		{Source: workload.IMC, Used: true, Text: "simulated"}}
	wanted, waited := 0.0, 0.0
	use := make([]workload.NodeUse, len(m.host.Nodes))
	for i := range use {
		use[i] = workload.NodeUse{Node: m.host.Nodes[i].ID, BandwidthFrom: workload.IMC, Bandwidth: int64(m.moving[i])}
		for k := range use {
			use[i].Bandwidth += int64(m.model.traffic[k*m.model.n+i])
		}
	}
	for k, j := range m.jobs {
		o, total := &s.Observations[k], float64(j.resident())
		wants := j.demand.Busy * float64(j.demand.VCPUs)
		wanted, waited = wanted+wants, waited+wants*(1-j.served)
		local := 0.0
		for i := range j.threads {
			share := j.ranOn(i)
			use[i].CPUUse += share * wants * j.served
			if total > 0 {
				local += share * float64(j.mem[i]) / total
			}
		}
		if rate := float64(o.Bandwidth) * (1 << 20) / 64; rate > 0 && total > 0 { // of 64 bytes each
			o.Accesses = workload.Accesses{From: workload.Counters, Local: local, PerSecond: rate}
		}
	}
	s.Nodes = use
	s.Pressure = []workload.Pressure{{Resource: "cpu", Some: 100 * waited / max(1, wanted)}, {Resource: "memory"},
		{Resource: "io"}}
	return s
}

// Stale implements daemon.Observer.
func (h *House) Stale(workload.ID) {}

// Changed implements daemon.Observer.
func (h *House) Changed(workload.ID) {}

// Name implements daemon.Source.
func (h *House) Name() string { return "house" }

// Refresh implements daemon.Source.
func (h *House) Refresh(context.Context) error { return nil }

// Claims implements daemon.Source.
func (h *House) Claims(*topology.Host) ([]workload.Claim, []workload.Problem) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.run.m.claims(), nil
}

// claims is what the managers of guests and pods would tell.
func (m *machine) claims() []workload.Claim {
	var out []workload.Claim
	for _, j := range m.jobs {
		if d := &j.demand; d.Claim != "" {
			out = append(out, workload.Claim{ID: d.Claim, Name: string(d.Claim), Cgroups: []string{string(j.id)},
				Running: true, Crowd: true,
				Spec: &workload.Spec{ID: d.Claim, Name: string(d.Claim), Class: d.Class, Importance: d.Importance,
					CPUs: d.VCPUs, Memory: d.asked(), Given: true}})
		}
	}
	slices.SortFunc(out, func(a, b workload.Claim) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Processes implements daemon.Source.
func (h *House) Processes() []workload.Process { return nil }

// Wake implements daemon.Source.
func (h *House) Wake() <-chan struct{} { return nil }

// Owns implements daemon.Driver.
func (h *House) Owns() []plan.SettingKind {
	return append([]plan.SettingKind{plan.CgroupCPUs, plan.CgroupMems, plan.Affinity},
		slices.Sorted(maps.Keys(plan.CgroupFiles))...)
}

// SurvivesBoot implements daemon.Driver.
func (h *House) SurvivesBoot(plan.SettingKind) bool { return false }

// Changes implements daemon.Driver.
func (h *House) Changes(_ context.Context, s plan.Step) ([]plan.Change, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.catchUp()
	j, err := h.run.m.target(&s)
	if err != nil {
		return nil, lost(err)
	}
	if setting, ok := settingOf(j, &s); ok {
		return []plan.Change{{Setting: setting, Will: s.To}}, nil
	}
	return nil, nil
}

// lost is an error as the daemon knows it of what is gone.
func lost(err error) error {
	if errors.Is(err, errGone) {
		return goneError{err}
	}
	return err
}

type goneError struct{ error }

func (goneError) Is(target error) bool { return target == fs.ErrNotExist }

// Apply implements daemon.Driver.
func (h *House) Apply(ctx context.Context, s plan.Step, progress func(plan.Move)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.catchUp()
	m := h.run.m
	j, err := m.target(&s)
	if err != nil {
		return lost(err)
	}
	if s.Kind != plan.MovePages {
		_, err := m.set(j, &s, housePeriod)
		return err
	}
	home, err := topology.ParseNodeSet(s.To)
	if err != nil {
		return err
	}
	h.moves++
	defer func() { h.moves-- }()
	var done plan.Move
	for m.offHome(j, home) > 0 {
		h.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-h.clock.After(houseStep):
		}
		h.mu.Lock()
		h.catchUp()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case m.byID[j.id] != j:
			return lost(errLost(string(j.id)))
		}
		moved := m.moveSome(j, home, s.Shares,
			topology.KiB(h.pace>>10)*topology.KiB(houseStep)/topology.KiB(time.Second)/topology.KiB(h.moves),
			housePeriod)
		if moved == 0 && m.offHome(j, home) > 0 {
			return fmt.Errorf("node %s is full", home)
		}
		done.Moved += int64(moved) << 10
		progress(done)
	}
	return nil
}

// Read implements daemon.Driver.
func (h *House) Read(_ context.Context, e plan.Entry) (plan.Setting, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.catchUp()
	now, err := h.run.m.read(&e)
	return now, lost(err)
}

// Restore implements daemon.Driver.
func (h *House) Restore(_ context.Context, entries []plan.Entry) []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.catchUp()
	errs := make([]error, len(entries))
	for i := range entries {
		errs[i] = lost(h.run.m.restore(&entries[i]))
	}
	return errs
}

// Present implements daemon.Driver.
func (h *House) Present(e plan.Entry) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.catchUp()
	_, err := h.run.m.ofEntry(&e)
	return lost(err)
}
