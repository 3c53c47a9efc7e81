package share

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/workload"
)

// hall is a host with one service and 20 batch jobs beside it, looked at every two seconds.
// What each does is random, by a seed.
type hall struct {
	r        *rand.Rand
	at       time.Time
	service  Watch
	batch    []Watch
	busy     []bool // each job has phases
	use      []float64
	culprit  int // -1 for none
	harm     float64
	bySchedW bool // no counters: the service only waits
	cpi      float64
	self     bool // the service's CPI has phases of its own
	selfBad  bool
	s        Interference
	found    []Blame
	cut      int // looks of a job that was cut
	proven   map[workload.ID]bool
}

func newHall(seed uint64, culprit int) *hall {
	h := &hall{r: rand.New(rand.NewPCG(seed, 1)), at: epoch, culprit: culprit, harm: 1.5, cpi: 0.9, proven: map[workload.ID]bool{},
		service: Watch{ID: "web", Importance: 90, Important: true}}
	for i := range 20 {
		h.batch = append(h.batch, Watch{ID: workload.ID(fmt.Sprintf("job%02d", i)), Importance: 10, Batch: true})
		h.busy, h.use = append(h.busy, h.r.IntN(2) == 0), append(h.use, 0.5+2*h.r.Float64())
	}
	return h
}

// look lets two seconds pass.
func (h *hall) look() {
	const period = 2 * time.Second
	h.at = h.at.Add(period)
	hurt := 0.0
	for i := range h.batch {
		if h.r.Float64() < 1.0/45 { // phases of a minute and a half
			h.busy[i] = !h.busy[i]
		}
		use := 0.02
		if h.busy[i] {
			use = h.use[i] * (0.9 + 0.2*h.r.Float64())
		}
		if h.s.Cut(h.batch[i].ID, h.at) != nil {
			h.cut++
			if h.s.Proven(h.batch[i].ID) {
				h.proven[h.batch[i].ID] = true
			}
			use = min(use, 0.05)
		}
		if i == h.culprit && h.at.Sub(epoch) < 10*time.Minute { // it comes later
			use = 0
		}
		h.batch[i].CPUTime += time.Duration(use * float64(period))
		if i == h.culprit && use > 0.1 {
			hurt = h.harm
		}
	}
	if h.self && h.r.Float64() < 1.0/90 {
		h.selfBad = !h.selfBad
	}
	if h.selfBad {
		hurt = h.harm
	}
	h.service.CPUTime += period
	const clock = 3e9
	if h.bySchedW {
		h.service.WaitFrom, h.service.Wait = workload.PSI, math.Abs(0.01*h.r.NormFloat64())+0.2*hurt
	} else {
		h.service.Cycles += clock * period.Seconds()
		h.service.Instructions += clock * period.Seconds() / (h.cpi * (1 + hurt) * (1 + 0.1*h.r.NormFloat64()))
	}
	before := len(h.s.Blames)
	h.s = h.s.Look(h.at, append(slices.Clone(h.batch), h.service), 0.05)
	if len(h.s.Blames) > before {
		h.found = append(h.found, h.s.Blames[before:]...)
	}
}

func (h *hall) run(d time.Duration) {
	for range int(d / (2 * time.Second)) {
		h.look()
	}
}

// TestAntagonist: one job among twenty that more than doubles the service's cycles an
// instruction, or has it wait, is the first that is blamed, and that is proven, on 95 of 100 seeds.
func TestAntagonist(t *testing.T) {
	for _, waits := range []bool{false, true} {
		const seeds = 200
		right := 0
		for seed := range uint64(seeds) {
			h := newHall(seed, int(seed)%20)
			h.bySchedW = waits
			h.run(25 * time.Minute)
			if len(h.found) > 0 && h.found[0].Offender == h.batch[h.culprit].ID && h.proven[h.batch[h.culprit].ID] {
				right++
			} else {
				for _, b := range h.found {
					t.Logf("waits %t, seed %d: culprit %d, blamed %s %v of %d at %v", waits, seed, h.culprit, b.Offender, b.Score, b.Samples, b.Since.Sub(epoch))
				}
			}
		}
		t.Logf("waits %t: found on %d of %d seeds", waits, right, seeds)
		if right < seeds*95/100 {
			t.Errorf("waits %t: found on %d of %d seeds", waits, right, seeds)
		}
	}
}

// TestNobodyToBlame: without an antagonist nobody is blamed, but on one seed of a
// hundred.
func TestNobodyToBlame(t *testing.T) {
	for _, waits := range []bool{false, true} {
		const seeds = 120
		wrong := 0
		for seed := range uint64(seeds) {
			h := newHall(seed, -1)
			h.bySchedW = waits
			h.run(45 * time.Minute)
			if len(h.found) > 0 {
				wrong++
			}
		}
		if wrong > seeds/100 {
			t.Errorf("waits %t: somebody is blamed on %d of %d seeds", waits, wrong, seeds)
		}
	}
}

// TestOwnPhases: a service that has good and bad times of its own has somebody suspected by
// coincidence, as with CPI². The first cut is short, and seldom proves anything.
func TestOwnPhases(t *testing.T) {
	for _, waits := range []bool{false, true} {
		const seeds = 100
		any, proven, cut := 0, 0, 0.0
		for seed := range uint64(seeds) {
			h := newHall(seed, -1)
			h.self, h.bySchedW = true, waits
			h.run(time.Hour)
			any, proven = any+min(1, len(h.found)), proven+min(1, len(h.proven))
			cut += float64(h.cut) / 1800 / 20 / seeds
		}
		t.Logf("waits %t: somebody is suspected on %d of %d seeds, proven on %d; a job is cut %.2f %% of the time", waits, any, seeds, proven, 100*cut)
		if any > 80 || proven > 35 || cut > 0.005 {
			t.Errorf("waits %t: somebody is suspected on %d of %d seeds, proven on %d; a job is cut %.2f %% of the time", waits, any, seeds, proven, 100*cut)
		}
	}
}

// TestCutIsReleased: who is cut is let go by itself, and one whose cut did not help is
// cleared.
func TestCutIsReleased(t *testing.T) {
	for _, helps := range []bool{true, false} {
		s := Interference{At: epoch, Victims: []Victim{{ID: "web", CPUTime: 0, Signal: workload.PSI, Usual: slices.Repeat([]float64{0.01}, learnt), Samples: slices.Repeat([]float64{0.01}, correlated)}},
			Suspects: []Suspect{{ID: "job", Batch: true, Use: slices.Repeat([]float64{0}, correlated)}}}
		at, web := epoch, Watch{ID: "web", Important: true, WaitFrom: workload.PSI, Wait: 0.5}
		job := Watch{ID: "job", Batch: true}
		for k := 0; k < 10 && len(s.Blames) == 0; k++ {
			at = at.Add(SampleEvery)
			job.CPUTime += 2 * SampleEvery
			s = s.Look(at, []Watch{job, web}, 0.05)
		}
		if len(s.Blames) != 1 || s.Cut("job", at) == nil || s.Proven("job") {
			t.Fatalf("it is not blamed: %+v", s)
		}
		if helps {
			web.Wait = 0.01
		}
		for at.Before(s.Blames[0].Until) {
			at = at.Add(SampleEvery)
			s = s.Look(at, []Watch{job, web}, 0.05)
		}
		want := map[bool]time.Duration{true: cutFor, false: trialFor}[helps]
		if s.Cut("job", at) != nil || s.Blames[0].Until.Sub(s.Blames[0].Since) != want || s.Proven("job") != helps || s.Blames[0].Cleared == helps {
			t.Errorf("helps %t: at the end of the cut %+v", helps, s.Blames)
		}
		for range 7 * 60 {
			at = at.Add(SampleEvery)
			s = s.Look(at, []Watch{web}, 0.05)
		}
		if len(s.Blames) > 0 {
			t.Errorf("helps %t: it is remembered for ever: %+v", helps, s.Blames)
		}
	}
}

// TestCutUnseen: a cut clears nobody when nothing was seen of the victim meanwhile.
func TestCutUnseen(t *testing.T) {
	s := Interference{At: epoch, Victims: []Victim{{ID: "web", Signal: workload.PSI, Usual: slices.Repeat([]float64{0.01}, learnt), Samples: slices.Repeat([]float64{0.01}, correlated)}},
		Suspects: []Suspect{{ID: "job", Batch: true, Use: slices.Repeat([]float64{0}, correlated)}}}
	at, web, job := epoch, Watch{ID: "web", Important: true, WaitFrom: workload.PSI, Wait: 0.5}, Watch{ID: "job", Batch: true}
	look := func() {
		at = at.Add(SampleEvery)
		job.CPUTime += 2 * SampleEvery
		s = s.Look(at, []Watch{job, web}, 0.05)
	}
	for k := 0; k < 10 && len(s.Blames) == 0; k++ {
		look()
	}
	if len(s.Blames) != 1 {
		t.Fatalf("it is not blamed: %+v", s)
	}
	web.Held = true // a limit of its own holds it back
	for at.Before(s.Blames[0].Until.Add(SampleEvery)) {
		look()
	}
	if b := s.Blames[0]; b.Cleared || b.Proven || s.Cut("job", at) != nil {
		t.Errorf("%+v", b)
	}
}

// TestCutClock: a clock that is set back does not make a cut longer.
func TestCutClock(t *testing.T) {
	s := Interference{At: epoch, Blames: []Blame{{Offender: "job", Victim: "web", Since: epoch, Until: epoch.Add(cutFor)}}}
	at := epoch.Add(-5 * time.Hour)
	if s = s.Look(at, []Watch{{ID: "job", Batch: true}, {ID: "web", Important: true}}, 0.05); s.Cut("job", at) != nil {
		t.Errorf("it is cut until %v, and it is %v", s.Blames[0].Until, at)
	}
}

// TestChangedVictim: what was usual of a workload is forgotten when it is another one.
func TestChangedVictim(t *testing.T) {
	at, web := epoch, Watch{ID: "web", As: "1", Important: true, WaitFrom: workload.PSI, Wait: 0.01}
	var s Interference
	look := func() Victim {
		at = at.Add(SampleEvery)
		s = s.Look(at, []Watch{web}, 0.05)
		return s.Victims[0]
	}
	for range leastLearnt + 2 {
		look()
	}
	if v := look(); v.Limit == 0 || v.Hurt {
		t.Fatalf("nothing was learned: %+v", v)
	}
	web.Held = true // what its own limit does is not learned
	if n := len(s.Victims[0].Usual); len(look().Usual) != n {
		t.Error("it learned while a limit of its own held it back")
	}
	web.Held, web.Wait = false, 0.5
	for range 3 {
		look()
	}
	if n := len(s.Victims[0].Usual); !s.Victims[0].Hurt || len(look().Usual) != n {
		t.Error("it learned while it was hurt, or is not hurt")
	}
	web.As = "2"
	if v := look(); v.Limit != 0 || v.Hurt || len(v.Usual) > 1 {
		t.Errorf("another one: %+v", v)
	}
	for range relearn + leastLearnt {
		look()
	}
	web.Wait = 0.9
	for range relearn + 10 {
		look()
	}
	if v := s.Victims[0]; v.Hurt {
		t.Errorf("what has been so for half an hour, and nobody is to blame for, is not usual yet: %+v", v)
	}
}

// TestInterferenceProperties: whatever is seen, only batch work that is there is blamed, it is
// cut for a bounded time, correlations are bounded, nothing that is handed in changes, and
// what was written and read again goes on alike.
func TestInterferenceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Interference
		at := epoch
		all := []Watch{}
		for i := range rapid.IntRange(0, 6).Draw(t, "workloads") {
			kind := rapid.IntRange(0, 2).Draw(t, "kind")
			all = append(all, Watch{ID: workload.ID(fmt.Sprint("w", i)), Importance: rapid.IntRange(0, 100).Draw(t, "importance"), Important: kind == 0, Batch: kind == 1})
		}
		for range rapid.IntRange(1, 150).Draw(t, "looks") {
			at = at.Add(rapid.SampledFrom([]time.Duration{2 * time.Second, SampleEvery, SampleEvery, SampleEvery, SampleEvery, SampleEvery, time.Minute, -time.Minute}).Draw(t, "period"))
			busy := rapid.Bool().Draw(t, "busy")
			for i := range all {
				w := &all[i]
				if rapid.IntRange(0, 200).Draw(t, "another") == 0 {
					w.As += "x"
					w.CPUTime, w.Executed = 0, workload.Executed{}
				}
				switch {
				case w.Important && rapid.Bool().Draw(t, "counted"):
					w.CPUTime += 10 * time.Second
					w.Cycles += 3e10
					w.Instructions += 3e10 / map[bool]float64{true: 3, false: 1}[busy]
				case w.Important:
					w.WaitFrom, w.Wait = workload.PSI, map[bool]float64{true: 0.6}[busy]
				case busy:
					w.CPUTime += time.Duration(rapid.Float64Range(0, 3).Draw(t, "use") * float64(SampleEvery))
				}
			}
			before, text := s, asJSON(t, s)
			s = s.Look(at, slices.Clone(all), 0.05)
			if asJSON(t, before) != text {
				t.Fatal("a look changed what it was handed")
			}
			var read Interference
			if err := json.Unmarshal([]byte(text), &read); err != nil {
				t.Fatal(err)
			}
			if got := read.Look(at, slices.Clone(all), 0.05); asJSON(t, got) != asJSON(t, s) {
				t.Fatal("what was written and read again goes on otherwise")
			}
			for _, b := range s.Blames {
				k := slices.IndexFunc(all, func(w Watch) bool { return w.ID == b.Offender })
				if k < 0 || !all[k].Batch || b.Score <= leastScore || b.Score > 1 || b.Samples < leastPairs || b.Until.Sub(b.Since) != map[bool]time.Duration{true: cutFor, false: trialFor}[b.Proven] || b.Active(b.Until) {
					t.Fatalf("%+v", b)
				}
			}
			for i := range s.Victims {
				for k := range s.Suspects {
					if score, _, _ := s.Victims[i].Score(&s.Suspects[k]); !(score >= -1 && score <= 1) {
						t.Fatalf("score %v", score)
					}
				}
			}
			for _, h := range s.Harms() {
				if len(h.Why) == 0 || h.By == h.Workload {
					t.Fatalf("%+v", h)
				}
			}
		}
	})
}

// TestProvenFirst: of what matters alike, who was found to hurt somebody is squeezed first;
// what matters less goes before it all the same.
func TestProvenFirst(t *testing.T) {
	order := []workload.ID{}
	for _, w := range Squeeze([]Work{{ID: "large", Importance: 50, Use: 9}, {ID: "guilty", Importance: 50, Use: 1, Proven: true}, {ID: "small", Importance: 50, Use: 2}, {ID: "least", Importance: 10}, {ID: "streams", Importance: 50, Use: 1, Traffic: 9 << 10}, {ID: "some", Importance: 50, Use: 1, Traffic: 3 << 10}, {ID: "hardly", Importance: 50, Use: 1.5, Traffic: 900}}) {
		order = append(order, w.ID)
	}
	if want := []workload.ID{"least", "guilty", "streams", "some", "large", "small", "hardly"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

// TestNarrow: who is cut has one core of each node, the others what there is.
func TestNarrow(t *testing.T) {
	a, b := node(0, 0, 8, 2), node(1, 16, 8, 2)
	in := Input{At: epoch, Nodes: []Node{a, b}, Work: []Work{batch("guilty", 50, a, b), batch("other", 50, a, b)}, Settings: on()}
	out, _ := Decide(in, State{})
	s := Interference{Blames: []Blame{{Offender: "guilty", Victim: "web", Score: 0.5, Samples: 30, Since: epoch, Until: epoch.Add(cutFor)}}}
	s.Narrow(&in, &out)
	if g := out.Work[0]; g.CPUs.String() != "14-15,30-31" || !g.Cut || g.For != "web" || out.Work[1].CPUs.Len() <= 4 {
		t.Errorf("%+v", out.Work)
	}
	in.At = epoch.Add(cutFor)
	out, _ = Decide(in, State{})
	if s.Narrow(&in, &out); out.Work[0].Cut {
		t.Error("it is cut for ever")
	}
}

// BenchmarkLook is a look by which a sample is taken, at 16 important workloads that are all hurt and 64
// of 284 others that may be it: each 10 s.
func BenchmarkLook(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	all := make([]Watch, 300)
	for i := range all {
		all[i] = Watch{ID: workload.ID(fmt.Sprintf("w%03d", i)), Importance: 50, Batch: i >= mostVictims, Important: i < mostVictims, WaitFrom: workload.PSI}
	}
	var s Interference
	at := epoch
	look := func(wait float64) {
		at = at.Add(SampleEvery)
		for i := range all {
			all[i].CPUTime += time.Duration(r.Float64() * 2 * float64(SampleEvery))
			all[i].Wait = wait * r.Float64()
		}
		s = s.Look(at, all, 0.05)
	}
	for range learnt {
		look(0.01)
	}
	b.ReportAllocs()
	for b.Loop() {
		if s.Victims[0].HurtFor > 100 {
			b.StopTimer()
			for range relearn {
				look(0.01)
			}
			b.StartTimer()
		}
		look(0.5)
	}
}

// TestSuspectOfBefore: what version 0.1 remembered of batch work, which it called offline.
func TestSuspectOfBefore(t *testing.T) {
	for text, want := range map[string]bool{`{"id": "a", "offline": true}`: true, `{"id": "a", "batch": true}`: true, `{"id": "a"}`: false} {
		var s Suspect
		if err := json.Unmarshal([]byte(text), &s); err != nil || s.Batch != want || s.ID != "a" {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
		again, err := json.Marshal(s)
		if err != nil || strings.Contains(string(again), "offline") {
			t.Errorf("%s becomes %s, %v", text, again, err)
		}
	}
}
