package share

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/words"
)

// TestSchedulerSequences: whatever the kernel, the operator and somebody else do, a version is
// loaded only where one is wanted and possible, at most MostLoads times within any hour, sooner
// after an end of its own making each time, and a version on probation has one that it goes
// back to.
func TestSchedulerSequences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s SchedulerState
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		loaded, other, newest, known := "", "", "v1", map[string]bool{"": true, "v1": true}
		var loads []time.Time
		ends := 0
		for range rapid.IntRange(1, 200).Draw(t, "looks") {
			at = at.Add(time.Duration(rapid.IntRange(1, 900).Draw(t, "s")) * time.Second)
			in := SchedulerInput{At: at, Work: rapid.IntRange(0, 9).Draw(t, "work") > 0, Most: 0.05, Proves: time.Minute, Wait: float64(rapid.IntRange(0, 10).Draw(t, "wait")) / 100}
			in.Seen = SchedulerSeen{Newest: newest}
			switch rapid.IntRange(0, 12).Draw(t, "what") {
			case 0:
				if loaded != "" {
					loaded = ""
					in.Seen.End = &SchedulerEnd{Kind: rapid.SampledFrom([]EndKind{EndStalled, EndSysRq, EndError, EndHotplug, EndAbove, EndUnknown}).Draw(t, "end")}
					ends++
				}
			case 1:
				in.Not = words.Because(words.SchedulerOff)
			case 2:
				in.Seen.Unable = words.Because(words.SchedulerNoKernel)
			case 3:
				if loaded == "" {
					other = rapid.SampledFrom([]string{"", "lavd"}).Draw(t, "other")
				}
			case 4:
				newest = rapid.SampledFrom([]string{"v1", "v2", "v3"}).Draw(t, "newest")
				in.Seen.Newest, known[newest] = newest, true
			case 5:
				if loaded != "" && s.Trial == nil {
					in.Asked = newest
				}
			}
			in.Seen.Loaded, in.Seen.Other = loaded, other
			was := s
			do, now := DecideScheduler(in, s)
			again, _ := DecideScheduler(in, was)
			if again.Verb != do.Verb || again.Version != do.Version || !again.Why.Equal(do.Why) {
				t.Fatalf("decided anew on the same: %+v, then %+v", do, again)
			}
			s = now
			if do.Verb == Leave && loaded == "" && s.Why.None() {
				t.Fatalf("none runs, and nothing says why")
			}
			switch do.Verb {
			case Unload:
				if loaded == "" {
					t.Fatal("unloads what is not there")
				}
				loaded, s = "", s.Stopped()
				continue
			case Leave:
				continue
			}
			back := was.Trial != nil && do.Version == was.Trial.From
			switch {
			case !in.Not.None() || other != "" && !back, !known[do.Version] || do.Version == "":
				t.Fatalf("%+v with %+v", do, in)
			case do.Verb == Load && loaded != "" || do.Verb == Replace && (loaded == "" || do.Version == loaded):
				t.Fatalf("%+v while %q runs", do, loaded)
			}
			if rapid.IntRange(0, 4).Draw(t, "refused") == 0 || other != "" || !in.Seen.Unable.None() {
				s = s.Refused(at, do, "no", newest)
				if do.Verb == Load && !s.Next.After(at) {
					t.Fatal("what was refused is tried again at once")
				}
				continue
			}
			if s = s.Took(at, do, in); do.Verb == Load && !back {
				if loads = append(loads, at); len(loads) > MostLoads && at.Sub(loads[len(loads)-1-MostLoads]) < time.Hour {
					t.Fatalf("loaded more than %d times within an hour: %v", MostLoads, loads)
				}
			}
			loaded = do.Version
			if do.Verb == Replace && !back && (s.Trial == nil || s.Trial.From != was.Runs) {
				t.Fatalf("no probation: %+v", s.Trial)
			}
			if back && (s.Trial != nil || s.Upgrade == nil || s.Upgrade.Held) {
				t.Fatalf("back, and on probation: %+v", s)
			}
		}
	})
}

// TestSchedulerBacksOff: the wait doubles with each end, is longer after SysRq-S, and is
// forgotten once it has run for an hour.
func TestSchedulerBacksOff(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		kind EndKind
		want []time.Duration
	}{
		{EndStalled, []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute}},
		{EndError, []time.Duration{30 * time.Second, time.Minute}},
		{EndSysRq, []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour}},
		{EndHotplug, []time.Duration{0, 0, 0}},
		{EndAbove, []time.Duration{30 * time.Second, time.Minute}},
	} {
		var s SchedulerState
		for i, want := range tt.want {
			in := SchedulerInput{At: at, Work: true, Seen: SchedulerSeen{Newest: "v1", End: &SchedulerEnd{Kind: tt.kind}}}
			s.Runs = "v1"
			_, s = DecideScheduler(in, s)
			if got := max(0, s.Next.Sub(at)); got != want {
				t.Errorf("%s %d: waits %v, want %v", tt.kind, i, got, want)
			}
		}
		s.Runs, s.Since = "v1", at
		if _, s = DecideScheduler(SchedulerInput{At: at.Add(time.Hour), Work: true, Seen: SchedulerSeen{Newest: "v1", Loaded: "v1"}}, s); s.Failures != 0 {
			t.Errorf("%s: an hour later %d ends still count", tt.kind, s.Failures)
		}
	}
}

// TestSchedulerBelow: another scheduler that lets homenode's run below it does not keep it out, and status says so.
func TestSchedulerBelow(t *testing.T) {
	in := SchedulerInput{At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Work: true,
		Seen: SchedulerSeen{Newest: "below1", Under: "lavd"}}
	do, s := DecideScheduler(in, SchedulerState{Chosen: "v1", Beside: "v2"}) // of the time when it was the only one
	if do.Verb != Load || do.Version != "below1" {
		t.Fatalf("%+v", do)
	}
	s = s.Took(in.At, do, in)
	in.Seen.Loaded = "below1"
	if _, s = DecideScheduler(in, s); !s.Why.Equal(words.Because(words.SchedulerBelow, "lavd")) {
		t.Errorf("says %v", s.Why)
	}
	in.Seen = SchedulerSeen{Newest: "v2", End: &SchedulerEnd{Kind: EndAbove}} // the other one ends, to come back maybe
	do, s = DecideScheduler(in, s)
	if do.Verb != Leave {
		t.Errorf("at once: %+v", do)
	}
	in.At = in.At.Add(30 * time.Second)
	if do, _ = DecideScheduler(in, s); do.Verb != Load || do.Version != "v1" { // v2 may have failed its probation
		t.Errorf("after 30 s: %+v", do)
	}
	in.Seen.Newest = "v3"
	if do, _ = DecideScheduler(in, s); do.Verb != Load || do.Version != "v3" {
		t.Errorf("after 30 s, with a newer one: %+v", do)
	}
}

// TestSchedulerTrialBelow: when the scheduler above ends, a version on probation has not failed, and the one before is
// not loaded: it could not run either.
func TestSchedulerTrialBelow(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	was := SchedulerState{Runs: "below2", Since: at, Trial: &Trial{From: "below1", To: "below2", Began: at, Until: at.Add(time.Hour)}}
	in := SchedulerInput{At: at.Add(time.Minute), Work: true, Seen: SchedulerSeen{Newest: "v2", End: &SchedulerEnd{Kind: EndAbove}}}
	do, s := DecideScheduler(in, was)
	if do.Verb != Leave || s.Trial != nil || s.Why.Code != words.SchedulerWaits {
		t.Errorf("%+v, %v", do, s.Why)
	}
	if was.Trial == nil {
		t.Error("the state before was changed")
	}
	for _, kind := range []EndKind{EndStalled, EndError} { // of one cgroup's; a stall may be of the scheduler above
		in.Seen = SchedulerSeen{Newest: "v2", Loaded: "below2", Under: "lavd",
			Ended: map[string]SchedulerEnd{"/b": {Kind: kind}}}
		do, s := DecideScheduler(in, was)
		if back := do.Verb == Replace && do.Version == "below1"; back != (kind == EndError) || s.Trial == nil {
			t.Errorf("%s: %+v, %+v", kind, do, s)
		}
	}
}
