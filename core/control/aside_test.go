package control

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func minAge(s *Settings) { s.MinAge = 10 * time.Second }

// TestYoungProcesses: a command that ends in a moment gets no home, and one that stays gets
// one as soon as it is old enough, whatever else changes.
func TestYoungProcesses(t *testing.T) {
	f := newFake(t, 2, 8, minAge, ruled(workload.Rule{Match: "named", CPUs: 1}))
	f.uptime = time.Hour
	begun := uint64(f.uptime / (10 * time.Millisecond))
	add := func(pid int, name string, start uint64) workload.ID {
		id := f.addProcess(pid, name, 1, 1<<20, 1)
		w := f.works[id]
		old := settingKey{plan.Affinity, plan.ProcessPath(w.obs.Processes[0])}
		w.obs.Processes[0].Start = start
		f.values[settingKey{plan.Affinity, plan.ProcessPath(w.obs.Processes[0])}] = plan.Setting{Kind: plan.Affinity, Path: plan.ProcessPath(w.obs.Processes[0]), Value: f.values[old].Value}
		return id
	}
	young, old, unknown, named := add(50, "clear", begun), add(51, "redis", begun-2000), add(52, "odd", begun+1<<30), add(53, "named", begun)
	service := f.add("service", 1, 1<<20, 1)
	f.scan(1)
	if !f.leftAlone(young, words.TooYoung) || f.count(EffectRead, young) != 0 {
		t.Errorf("a new process: %+v", f.decision(young))
	}
	for _, id := range []workload.ID{old, unknown, named, service} {
		if f.home(id) == "" {
			t.Errorf("%s: %+v", id, f.decision(id))
		}
	}
	f.uptime += 9 * time.Second
	f.scan(1)
	if !f.leftAlone(young, words.TooYoung) {
		t.Errorf("after 9 s: %+v", f.decision(young))
	}
	f.uptime += time.Second
	f.scan(6)
	if f.home(young) == "" || f.count(EffectApply, young) == 0 {
		t.Errorf("after 10 s: %+v", f.decision(young))
	}
	another := add(54, "date", uint64(f.uptime/(10*time.Millisecond)))
	f.scan(1)
	if r := f.order(another, 1); r.Failed != nil || f.home(another) != "1" {
		t.Errorf("ordered: %+v, home %q", r.Failed, f.home(another))
	}
	f.scan(2)
	if f.home(another) != "1" {
		t.Errorf("it has lost the home that was ordered: %+v", f.decision(another))
	}
}

// TestShellsOfTerminalsAreLeftAlone: what is typed would inherit their CPUs. Who names one
// has it placed, and it keeps a home that it has.
func TestShellsOfTerminalsAreLeftAlone(t *testing.T) {
	f := newFake(t, 2, 8, ruled(workload.Rule{Match: "pid:51", Class: workload.Shared}))
	for pid, name := range map[int]string{50: "bash", 51: "zsh", 52: "tmux: server"} {
		f.works[f.addProcess(pid, name, 1, 1<<20, 0)].obs.Terminal = true
	}
	f.addProcess(60, "train", 1, 1<<20, 0)
	f.scan(2)
	for id, placed := range map[workload.ID]bool{"pid:50": false, "pid:51": true, "pid:52": false, "pid:60": true} {
		if placed != (f.home(id) != "") || !placed && !f.leftAlone(id, words.TerminalShell) {
			t.Errorf("%s: home %q, %+v", id, f.home(id), f.decision(id))
		}
	}
	if r := f.ask(Request{Move: &MoveRequest{ID: "pid:50", To: topology.Nodes(1)}}); r.Failed != nil {
		t.Fatal(r.Failed)
	}
	f.scan(3)
	if f.home("pid:50") != "1" || f.home("pid:52") != "" {
		t.Errorf("moved to %q by order; the other is on %q", f.home("pid:50"), f.home("pid:52"))
	}
	f.start()
	f.scan(2)
	if f.home("pid:50") != "1" {
		t.Errorf("the next daemon: %+v", f.decision("pid:50"))
	}
}
