package daemon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// shifting is four calm workloads on two nodes of eight CPUs.
func shifting(t *testing.T) *machine {
	m := newMachine(t, 2, 8)
	for i, name := range []string{"a", "b", "c", "d"} {
		id := m.add(name, 1, 1<<18, topology.NodeID(i%2))
		m.live[id].obs.Threads = 8
	}
	return m
}

// crowd makes everybody at home on the node of a busy, and returns them.
func (r *rig) crowd(t *testing.T) []workload.ID {
	t.Helper()
	status := r.status(t)
	var out []workload.ID
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	for id, w := range r.m.live {
		w.obs.CPUUse = 0.3
		if status[id].Home == status["/a"].Home {
			w.obs.CPUUse = 4
			out = append(out, id)
		}
	}
	if len(out) < 2 {
		t.Fatalf("only %v on the node of /a", out)
	}
	return out
}

func (r *rig) report(t *testing.T) *balance.Report {
	t.Helper()
	s, err := r.Status(t.Context())
	if err != nil || s.Balance == nil {
		t.Fatalf("no report: %v", err)
	}
	return s.Balance
}

func TestLoadShiftMovesOneWorkload(t *testing.T) {
	r := newRig(t, shifting(t), Enforce)
	r.ticks(t, 8)
	if rep := r.report(t); rep.State != balance.InOrder || rep.Quiet == "" {
		t.Fatalf("calm, and yet %+v", rep)
	}
	busy := r.crowd(t)
	from := r.status(t)["/a"].Home
	r.ticks(t, 15) // 30 s
	var moved []workload.ID
	for _, id := range busy {
		w := r.status(t)[id]
		if w.Home == from {
			continue
		}
		moved = append(moved, id)
		if *w.OnHome < 0.99 || w.CPUSet != w.CPUSetPlanned {
			t.Errorf("%s: %.0f %% at its new home, CPUs %s of %s", id, 100**w.OnHome, w.CPUSet, w.CPUSetPlanned)
		}
		x, err := r.Explain(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(x.Decision.Reasons, " "); !strings.Contains(text, "Balancing: move "+string(id)) || !strings.Contains(text, "saves") {
			t.Errorf("%s is explained by %q", id, text)
		}
	}
	if len(moved) != len(busy)/2 {
		t.Errorf("moved %v of %v", moved, busy)
	}
	if !r.told(t, "balancing: move") {
		t.Error("the history does not tell of it")
	}
	for id, w := range r.status(t) {
		if w.State != "at home" {
			t.Errorf("%s: %s", id, w.State)
		}
	}
}

func TestObserveModeOnlySaysWhatItWouldDo(t *testing.T) {
	m := shifting(t)
	r := newRig(t, m, Enforce)
	r.ticks(t, 4)
	r.start(t, Observe)
	r.ticks(t, 8)
	busy := r.crowd(t)
	before, homes := m.settings(), r.status(t)["/a"].Home
	r.ticks(t, 20)
	if diff := cmp.Diff(before, m.settings()); diff != "" {
		t.Errorf("observe mode changed the host:\n%s", diff)
	}
	rep := r.report(t)
	if rep.State != balance.Would || rep.Chosen == nil || !strings.HasPrefix(rep.Words(), "would move") {
		t.Errorf("%+v", rep)
	}
	for _, id := range busy {
		if r.status(t)[id].Home != homes {
			t.Errorf("%s was given another home", id)
		}
	}
	n := 0
	for _, e := range r.history(t) {
		if strings.HasPrefix(e.Text, "balancing: would") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("told %d times what it would do, want once", n)
	}
}

// TestBanOutlivesTheDaemon: what moved is not moved back by the next daemon.
func TestBanOutlivesTheDaemon(t *testing.T) {
	r := newRig(t, shifting(t), Enforce)
	r.ticks(t, 8)
	r.crowd(t)
	r.ticks(t, 15)
	before := r.Daemon.memory.Past
	if len(before) == 0 {
		t.Fatal("nothing moved: this is no test")
	}
	r.start(t, Enforce)
	if len(r.Daemon.memory.Past) != len(before) || !r.Daemon.memory.Past[0].To.Equal(before[0].To) || !r.Daemon.memory.Past[0].At.Equal(before[0].At) {
		t.Errorf("%+v, before %+v", r.Daemon.memory.Past, before)
	}
}

func TestUndoneAndSwitchedOffStay(t *testing.T) {
	r := newRig(t, shifting(t), Enforce)
	r.ticks(t, 8)
	busy := r.crowd(t)
	from := r.status(t)["/a"].Home
	for _, id := range busy {
		if _, err := r.Undo(t.Context(), api.Which{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	r.ticks(t, 10)
	for _, id := range busy {
		if home := r.status(t)[id].Home; home != from {
			t.Errorf("%s was undone, and got home %s", id, home)
		}
	}

	r = newRig(t, shifting(t), Enforce, func(c *Config) { c.Balance.Enabled = false })
	r.ticks(t, 8)
	r.crowd(t)
	r.ticks(t, 15)
	if rep := r.report(t); rep.State != balance.Off || len(r.Daemon.memory.Past) > 0 {
		t.Errorf("%+v", rep)
	}
}

// brokenRecorder fails.
type brokenRecorder struct{ calls int }

func (b *brokenRecorder) Record(balance.Record) error {
	b.calls++
	return errors.New("disk full")
}

func TestRecorderThatFailsIsToldOfOnce(t *testing.T) {
	r := newRig(t, shifting(t), Enforce)
	b := &brokenRecorder{}
	r.o.Recorder = b
	r.ticks(t, 5)
	n := 0
	for _, e := range r.history(t) {
		if strings.Contains(e.Text, "flight recorder: disk full") {
			n++
		}
	}
	if n != 1 || b.calls != 5 {
		t.Errorf("told %d times, %d records", n, b.calls)
	}
}

func TestBalanceConfig(t *testing.T) {
	for text, want := range map[string]string{
		"balance: {window: 0s}":       "balance.window: 0s; want 1s to 1h0m0s",
		"balance: {horizon: 48h}":     "balance.horizon: 48h0m0s; want 10s to 24h0m0s",
		"balance: {cooldown: 2h}":     "balance.cooldown: 2h0m0s; want 1s to 1h0m0s",
		"record: {max_size: 10KiB}":   "record.max_size: 10 KiB; want 0 (none) or at least 1MiB",
		"balance: {ban: 1m}":          `unknown key "ban"`,
		"record: {max_size: nothing}": "size",
	} {
		_, err := ParseConfig(strings.NewReader(text), "f", NewConfig())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	c, err := ParseConfig(strings.NewReader("balance: {enabled: false, horizon: 1m}\nrecord: {max_size: 0}"), "f", NewConfig())
	if err != nil || c.Balance.Enabled || c.Balance.Horizon != time.Minute || c.Balance.Window != 10*time.Second || c.Record.MaxSize != 0 {
		t.Errorf("%+v %+v, %v", c.Balance, c.Record, err)
	}
}

// What is counted of the nodes reaches balancing, in the order of the host's nodes, and
// the status.
func TestTrafficOfNodes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		nodes []workload.NodeUse
		want  []int64
	}{
		{"first look", nil, nil},
		{"no counter", []workload.NodeUse{{Node: 0, Bandwidth: -1}, {Node: 1, Bandwidth: -1}}, nil},
		{"one counts", []workload.NodeUse{{Node: 0, Bandwidth: -1}, {Node: 1, Bandwidth: 7}}, []int64{-1, 7}},
		{"both", []workload.NodeUse{{Node: 0, Bandwidth: 0}, {Node: 1, Bandwidth: 7}}, []int64{0, 7}},
	} {
		r := newRig(t, newMachine(t, 2, 8), Observe)
		s, err := r.m.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.Nodes = tt.nodes
		r.mu.Lock()
		in := r.input(time.Unix(1, 0), plan.State{Host: s.Host}, s)
		r.mu.Unlock()
		if diff := cmp.Diff(tt.want, in.Traffic); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		nodes := nodesOf(view{snapshot: s})
		for i := range tt.nodes {
			switch got := nodes[i].Bandwidth; {
			case tt.nodes[i].Bandwidth < 0 && got != nil, tt.nodes[i].Bandwidth >= 0 && (got == nil || *got != tt.nodes[i].Bandwidth):
				t.Errorf("%s: node %d has %v in the status", tt.name, i, got)
			}
		}
	}
}
