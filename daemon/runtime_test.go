package daemon

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// pods is a runtime that nobody has heard of, whose pods are kept together by CPU set
// alone: Source and Driver in one, of a kind and a kind of setting of its own.
type pods struct {
	m    *machine
	mems map[string]string // by pod: where the runtime puts its memory
}

const podMems plan.SettingKind = "pod.mems"

func (p *pods) Name() string                  { return "pods" }
func (p *pods) Refresh(context.Context) error { return nil }
func (p *pods) Processes() []workload.Process { return nil }
func (p *pods) Wake() <-chan struct{}         { return nil }
func (p *pods) Claims(h *topology.Host) ([]workload.Claim, []workload.Problem) {
	return []workload.Claim{{ID: "pod:web", Name: "web", Cgroups: []string{"/pods/7"}, Running: true, Driver: "pod",
		Caps: workload.Caps{MemoryFollows: true, AtOnce: 1 << 30}}}, nil
}

func (p *pods) Owns() []plan.SettingKind           { return []plan.SettingKind{podMems} }
func (p *pods) SurvivesBoot(plan.SettingKind) bool { return true }
func (p *pods) setting() plan.Setting {
	return plan.Setting{Kind: podMems, Path: "web", Value: p.mems["web"]}
}
func (p *pods) Present(plan.Entry) error { return nil }
func (p *pods) Read(context.Context, plan.Entry) (plan.Setting, error) {
	return p.setting(), nil
}
func (p *pods) Changes(_ context.Context, s plan.Step) ([]plan.Change, error) {
	return []plan.Change{{Setting: p.setting(), Will: string(s.Kind) + " " + s.To}}, nil
}
func (p *pods) Apply(_ context.Context, s plan.Step, _ func(plan.Move)) (err error) {
	w := p.m.live["/pods/7"]
	switch p.mems["web"] = string(s.Kind) + " " + s.To; s.Kind {
	case plan.SetCPUs:
		w.obs.CPUs, err = topology.ParseCPUSet(s.To)
	case plan.SetMems, plan.MovePages:
		home, _ := topology.ParseNodeSet(s.To)
		w.obs.Mems = home
		w.obs.Memory = []workload.NodeMemory{{Node: home.Min(), KiB: workload.Total(w.obs.Memory)}}
		w.obs.Anon, w.obs.RanOn = w.obs.Memory, []workload.NodeShare{{Node: home.Min(), Share: 1}}
	}
	return err
}
func (p *pods) Restore(_ context.Context, all []plan.Entry) []error {
	p.mems["web"] = all[0].Old
	w := p.m.live["/pods/7"]
	w.obs.CPUs, w.obs.Mems = p.m.host().Online, p.m.host().AllowedMems
	return make([]error, len(all))
}

// tape is a flight recorder that keeps everything, as it is at that moment.
type tape struct{ lines [][]byte }

func (r *tape) Due() bool { return len(r.lines) == 0 }
func (r *tape) Record(x control.Recorded) {
	text, err := json.Marshal(x)
	if err != nil {
		panic(err)
	}
	r.lines = append(r.lines, text)
}

// TestMadeUpRuntime: a runtime that neither the loop nor what decides has heard of appears
// in status, is placed, moved, explained, undone and replayed.
func TestMadeUpRuntime(t *testing.T) {
	m := newMachine(t, 2, 8)
	m.add("pods/7", 3, 1<<20, 0, 1)
	p, record := &pods{m: m, mems: map[string]string{"web": "anywhere"}}, &tape{}
	r := newRig(t, m, true, func(o *Options) {
		o.Drivers["pod"], o.Sources, o.Recorder = p, []Source{p}, record
	})
	r.ticks(5)
	w, here := r.status(t)["pod:web"]
	if !here || w.Name != "web" || w.Kind != "pod" || w.State != api.StateAtHome || w.Home == "" || p.mems["web"] == "anywhere" {
		t.Fatalf("status: %+v; it has %q", w, p.mems["web"])
	}
	to := topology.Nodes(1)
	if w.Home == "1" {
		to = topology.Nodes(0)
	}
	moved, err := within(r, func() (api.MoveAnswer, error) {
		return r.Move(context.Background(), api.MoveOrder{ID: "web", To: to})
	})
	if err != nil || moved.Workload != "pod:web" {
		t.Fatalf("move: %+v, %v", moved, err)
	}
	r.ticks(4)
	if w := r.status(t)["pod:web"]; w.Home != to.String() || w.State != api.StateAtHome {
		t.Errorf("moved: %+v", w)
	}
	x, err := r.Explain(t.Context(), "web")
	if err != nil || len(x.Decision.Reasons) == 0 || len(x.Journal) != 1 || x.Journal[0].Old != "anywhere" {
		t.Errorf("explained: %+v, %v", x, err)
	}
	undone, err := r.undo(api.Which{ID: "pod:web"})
	if err != nil || len(undone.Restored) != 1 || p.mems["web"] != "anywhere" {
		t.Errorf("undone: %+v, %v; it has %q", undone, err, p.mems["web"])
	}
	replayed, err := control.Replay(func() (l control.Logged, err error) {
		if len(record.lines) == 0 {
			return l, io.EOF
		}
		err = json.Unmarshal(record.lines[0], &l)
		record.lines = record.lines[1:]
		return l, err
	}, nil)
	if err != nil || replayed.Differ > 0 || replayed.Scans < 9 {
		t.Errorf("replayed: %+v, %v", replayed, err)
	}
}
