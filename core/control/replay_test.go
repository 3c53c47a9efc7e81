package control

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/replay"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func reader(log []Logged) func() (Logged, error) {
	return func() (Logged, error) {
		if len(log) == 0 {
			return Logged{}, io.EOF
		}
		l := log[0]
		log = log[1:]
		return l, nil
	}
}

func TestReplay(t *testing.T) {
	f := shifting(t)
	began := f.now
	f.scan(8)
	f.crowd()
	f.scan(12)
	ended := f.now.Add(-2 * time.Second)
	log := f.log
	decided := 0
	out, err := Replay(reader(log), func(balance.Input, balance.History) { decided++ })
	if err != nil || out.Differ != 0 || out.First != "" || out.Inputs != len(log) || out.Scans != 20 || !out.From.Equal(began) || !out.To.Equal(ended) || decided != 20 {
		t.Errorf("%+v, %v, decided %d times", out, err, decided)
	}
	if len(out.Changes) == 0 || out.Changes[0].Words == "" || out.Changes[0].At.Before(began.Add(16*time.Second)) {
		t.Errorf("changes %+v", out.Changes)
	}
	for _, k := range []int{0, 3, len(log) - 1} {
		bad := append([]Logged(nil), log...)
		bad[k].Output = append([]byte(`{"odd": 1, `), log[k].Output[1:]...)
		out, err := Replay(reader(bad), nil)
		if err != nil || out.Differ != 1 || out.Inputs != len(log) || !strings.Contains(out.First, log[k].Input.At.Format(time.RFC3339)) {
			t.Errorf("input %d was recorded otherwise: %+v, %v", k, out, err)
		}
	}
	if out, err := Replay(reader(log[1:]), nil); err == nil || out.Inputs != 0 {
		t.Errorf("a log without its beginning: %+v", out)
	}
	other := append([]Logged(nil), log...) // another version said it in other words, and more of it
	other[0].Output = bytes.Replace(log[0].Output, []byte("homenode test started"), []byte("started"), 1)
	if out, err := Replay(reader(other), nil); err != nil || out.Differ != 0 || bytes.Equal(other[0].Output, log[0].Output) {
		t.Errorf("a history in other words: %+v, %v", out, err)
	}
	broken := errors.New("broken")
	if _, err := Replay(func() (Logged, error) { return Logged{}, broken }, nil); !errors.Is(err, broken) {
		t.Errorf("an unreadable log: %v", err)
	}
	if out, err := Replay(reader(nil), nil); err != nil || out.Inputs != 0 || out.Changes == nil {
		t.Errorf("an empty log: %+v", out)
	}
	if out, err := Replay(reader(append(append([]Logged(nil), log...), log...)), nil); err != nil || out.Differ != 0 || out.Scans != 40 {
		t.Errorf("two files: %+v, %v", out, err)
	}
	bad := append([]Logged(nil), log...)
	bad[0].Before = []byte("[]")
	if _, err := Replay(reader(bad), nil); err == nil {
		t.Error("what the daemon remembered is no such thing")
	}
}

// Whatever happens, in whatever order: what follows is the same from a checkpoint on and
// twice over, no original is lost, and an undo in the end puts everything back.
func TestAnythingInAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFake(t, 2, 8, placing, surveying(Managers, Links), ruled(workload.Rule{Match: "/own*", Class: workload.Dedicated, CPUs: 2}),
			func(s *Settings) { s.Queues = irq.MatchQueues })
		f.addCard()
		n := 0
		add := func() {
			n++
			name := string(rune('a' + n%26))
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				f.addProcess(1000+n, name, 2, 1<<19, 0, 1)
			case 1:
				f.add("own"+name, 2, 1<<19, 1)
			case 2:
				f.boot(f.define(floating(name+"m", 2, 1<<19)), 0, 1)
			default:
				f.add(name, 2, 1<<19, 0, 1)
			}
		}
		for range 3 {
			add()
		}
		some := func() workload.ID {
			ids := sortedKeys(f.works)
			for _, m := range f.machines {
				ids = append(ids, m.id())
			}
			return rapid.SampledFrom(append(ids, "device:eth0", "/none")).Draw(rt, "workload")
		}
		foreign := map[settingKey]string{}
		originals := map[settingKey]string{}
		for key, x := range f.values {
			originals[key] = x.Value
		}
		codes := []Code{Failed, NoAnswer, InUse, Cancelled, Gone, Fixed}
		for range rapid.IntRange(5, 25).Draw(rt, "events") {
			switch rapid.IntRange(0, 13).Draw(rt, "event") {
			case 0:
				add()
			case 1:
				if id := some(); f.works[id] != nil && f.machineOf(&f.works[id].obs) == nil && len(f.works) > 1 {
					f.remove(id)
				}
			case 2:
				f.undo(some())
			case 3:
				f.resume(some())
			case 4:
				f.undo("")
			case 5:
				f.resume("")
			case 6:
				f.order(some(), topology.NodeID(rapid.IntRange(0, 1).Draw(rt, "node")))
			case 7:
				if id := some(); f.works[id] != nil && f.works[id].obs.Kind == workload.InCgroup {
					f.set(plan.CgroupCPUs, string(id), "1,3")
					foreign[settingKey{plan.CgroupCPUs, string(id)}] = "1,3"
				}
			case 8:
				code := rapid.SampledFrom(codes).Draw(rt, "code")
				kind := rapid.SampledFrom([]EffectKind{EffectRead, EffectApply, EffectRestore, EffectCheck}).Draw(rt, "effect")
				f.fail = func(e *Effect) *Failure {
					if e.Kind == kind && e.ID%2 == 0 && !(kind == EffectRestore && (code == Gone || code == Fixed)) {
						return &Failure{Code: code, Text: "on purpose"}
					}
					return nil
				}
			case 9:
				f.fail = nil
			case 10:
				f.keeping(rapid.SampledFrom([]EffectKind{EffectRead, EffectApply, EffectRestore, EffectSurvey, EffectInherited, EffectPresent}).Draw(rt, "kept"))
			case 11:
				f.release()
			case 12:
				f.start()
			case 13:
				f.after(time.Duration(rapid.IntRange(0, 700).Draw(rt, "seconds")) * time.Second)
			}
			for key, x := range f.values {
				if _, known := originals[key]; !known && f.s.Journal.Of(key.kind, key.path) == nil {
					originals[key] = x.Value
				}
			}
			f.scan(rapid.IntRange(0, 2).Draw(rt, "scans"))
		}
		f.release()
		f.fail = nil
		f.undo("")
		f.release()
		for range 3 {
			f.undo("")
		}
		if len(f.s.Undoing) != 0 {
			rt.Errorf("an undo does not end: %s", asJSON(t, f.s.Undoing))
		}
		for key, x := range f.values {
			want := originals[key]
			if theirs, ok := foreign[key]; ok && x.Value == theirs {
				continue
			}
			if x.Value != want && f.s.Journal.Of(key.kind, key.path) == nil {
				rt.Errorf("%s of %s is %q, was %q", key.kind, key.path, x.Value, want)
			}
		}
		for _, e := range f.s.Journal.All() {
			rt.Errorf("left in the journal: %+v", e)
		}
		out, err := Replay(reader(f.log), nil)
		if err != nil || out.Differ != 0 {
			rt.Errorf("replayed, %d of %d differ: %s %v", out.Differ, out.Inputs, out.First, err)
		}
		if t.Failed() {
			rt.Fatal("see above")
		}
	})
}

// A State that went through JSON twice is the same text.
func TestCheckpointOfACheckpoint(t *testing.T) {
	f := scattered(t, placing)
	f.addCard()
	f.keeping(EffectRestore)
	f.scan(4)
	f.undo("/a")
	f.order("/b", 1)
	text := f.s.Checkpoint()
	s, err := Resume(text)
	if err != nil {
		t.Fatal(err)
	}
	if again := s.Checkpoint(); !bytes.Equal(text, again) {
		t.Errorf("%s", replay.Difference(text, again))
	}
	if _, err := Resume([]byte("{")); err == nil {
		t.Error("half a checkpoint")
	}
}
