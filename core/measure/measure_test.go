package measure

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestQuantile(t *testing.T) {
	xs := []float64{5, 1, 3, 2, 4}
	if Median(xs) != 3 || Quantile(xs, 0) != 1 || Quantile(xs, 1) != 5 || Quantile(xs, 0.25) != 2 || !math.IsNaN(Median(nil)) {
		t.Error(Median(xs), Quantile(xs, 0.25))
	}
	if s := Sigma([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}); math.Abs(s-2*1.4826) > 1e-9 {
		t.Error(s)
	}
}

// model is a machine of one cell whose truth is known.
func model(r *Random, sigma, disturbed, seen float64) Take {
	return func(int, int) (Sample, error) {
		s := Sample{X: 100 * (1 + sigma*r.Normal())}
		if r.Float64() < disturbed {
			s.X *= 1 + 3*r.Float64()
			if r.Float64() < seen {
				s.Reject = "preempted"
			}
		}
		return s, nil
	}
}

// The printed interval holds the truth in 95 of 100 runs, on a quiet machine
// and on one where other work lengthens up to half of the samples, whether the
// kernel told of it (then they are thrown out) or not.
func TestIntervalsHoldTheTruth(t *testing.T) {
	for _, c := range []struct {
		name                   string
		sigma, disturbed, seen float64
		widest                 float64 // median half width
	}{
		{"quiet", 0.01, 0, 0, 0.012},
		{"a fifth preempted", 0.01, 0.2, 1, 0.012},
		{"half preempted", 0.01, 0.5, 1, 0.03},
		{"a fifth disturbed, none seen", 0.01, 0.2, 0, 0.08},
		{"half disturbed, half of them seen", 0.01, 0.5, 0.5, 0.30},
		{"half disturbed, none seen", 0.02, 0.5, 0, 0.8},
	} {
		t.Run(c.name, func(t *testing.T) {
			const runs = 400
			hold := 0
			var widths []float64
			for seed := range uint64(runs) {
				r := NewRandom(seed)
				res := Collect(t.Context(), []Cell{{0, 0}}, model(r, c.sigma, c.disturbed, c.seen), DefaultRule, seed, nil)[Cell{0, 0}]
				s := Summarize(res.Accepted, res.Rejected)
				if s.CI.Has(100) {
					hold++
				}
				widths = append(widths, s.CI.HalfWidth())
			}
			w := Median(widths)
			t.Logf("%.1f %% hold the truth, median half width %.1f %%", 100*float64(hold)/runs, 100*w)
			if hold < runs*94/100 {
				t.Errorf("only %d of %d intervals hold the truth", hold, runs)
			}
			if w > c.widest {
				t.Errorf("half width %.3f, want at most %.3f: true but useless", w, c.widest)
			}
		})
	}
}

// Ratios are taken within a round, so a machine that slows down by half while
// it is measured still gives the right ratio.
func TestRatiosSurviveDrift(t *testing.T) {
	r := NewRandom(1)
	speed := 1.0
	take := func(_, col int) (Sample, error) {
		speed *= 1.01
		return Sample{X: []float64{80, 144}[col] * speed * (1 + 0.002*r.Normal())}, nil
	}
	rule := DefaultRule
	rule.Target = 1
	res := Collect(t.Context(), []Cell{{0, 0}, {0, 1}}, take, rule, 3, nil)
	l := NewLatency("node", []int{0}, []int{0, 1}, res, func(int) int { return 0 }, nil)
	if v := float64(l.Ratio[0][1]); math.Abs(v/1.8-1) > 0.02 {
		t.Errorf("ratio %.3f, want 1.8", v)
	}
}

func TestCollectStopsAndFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	var last float64
	res := Collect(ctx, []Cell{{0, 0}, {0, 1}}, func(_, col int) (Sample, error) {
		if n++; n == 11 {
			cancel()
		}
		if col == 1 {
			return Sample{Reject: "preempted"}, nil
		}
		return Sample{X: 1}, nil
	}, DefaultRule, 1, func(p float64) {
		if p < last || p > 1 {
			t.Errorf("progress %v after %v", p, last)
		}
		last = p
	})
	if got := len(res[Cell{0, 0}].Accepted) + res[Cell{0, 1}].Rejected; got != 11 {
		t.Errorf("%d samples kept of 11", got)
	}
	tries := 0
	full := Collect(t.Context(), []Cell{{0, 0}}, func(int, int) (Sample, error) { tries++; return Sample{Reject: "preempted"}, nil }, DefaultRule, 1, nil)
	if l := NewLatency("node", []int{0}, []int{0}, full, func(int) int { return 0 }, nil); tries != 44 || !strings.HasPrefix(l.Flags[0][0], "failed") || l.Median[0][0].Known() {
		t.Errorf("%d tries, %+v", tries, l)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty":         ``,
		"schema":        `{"schema":"numa-measure/1","nodes":[{"id":0,"cpus":"0"}]}`,
		"no node":       `{"schema":"homenode-measure/1"}`,
		"unknown key":   `{"schema":"homenode-measure/1","nodes":[{"id":0}],"nonsense":1}`,
		"node twice":    `{"schema":"homenode-measure/1","nodes":[{"id":0},{"id":0}]}`,
		"ragged":        `{"schema":"homenode-measure/1","nodes":[{"id":0}],"latency":{"from":"node","rows":[0],"cols":[0],"median":[[1,2]]}}`,
		"strange node":  `{"schema":"homenode-measure/1","nodes":[{"id":0}],"latency":{"from":"node","rows":[0],"cols":[7],"median":[[1]]}}`,
		"ragged flags":  `{"schema":"homenode-measure/1","nodes":[{"id":0}],"latency":{"from":"node","rows":[0],"cols":[0],"median":[[1]],"flags":[[]]}}`,
		"page packages": `{"schema":"homenode-measure/1","host":{"packages":[{"id":0}]},"nodes":[{"id":0}],"pages":[{"ns":[1,2]}]}`,
	} {
		if d, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s: taken as %+v", name, d)
		}
	}
}

// TestReadSays: what is wrong is named by its key or its place, and in no words of Go's.
func TestReadSays(t *testing.T) {
	with := func(s string) string {
		return `{"schema":"homenode-measure/1","nodes":[{"id":0,"cpus":"0"}],` + s + "}"
	}
	matrix := func(s string) string {
		return with(`"latency":{"from":"node","rows":[0],"cols":[0],"median":[[` + s + `]]}`)
	}
	for _, c := range []struct{ name, text, want string }{
		{"negative", matrix("-5"), "latency.median[0][0]: is -5; want 0 or more"},
		{"huge", matrix("1e308"), "latency.median[0][0]: is 1e+308; want at most 1e+15"},
		{"over float64", matrix("1e999"), "is the number 1e999; want a number that fits"},
		{"no number", matrix(`"far"`), "latency.median: is a string; want a number"},
		{"negative bytes", `{"schema":"homenode-measure/1","nodes":[{"id":0,"cpus":"0","mem_bytes":-1}]}`, "nodes[0].mem_bytes: is -1"},
		{"negative interval", with(`"levels":[{"points":[{"ci95":[-1,2]}]}]`), "levels[0].points[0].ci95[0]: is -1"},
		{"two documents", matrix("5") + "\n" + matrix("5"), "line 2 column 1: there is more"},
		{"rubbish behind", matrix("5") + " x", "column"},
		{"empty", "", "it is empty"},
		{"cut short", matrix("5")[:30], "line 1 column 31: it ends here"},
		{"syntax", "{\n\"schema\" 5}", "line 2 column 10"},
		{"whole", "[]", "the whole: is an array; want an object"},
		{"key", with(`"latencies":{}`), `unknown key "latencies"`},
	} {
		_, err := Read(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		} else if s := err.Error(); strings.Contains(s, "Go ") || strings.Contains(s, "json:") || strings.Contains(s, "measure.") || strings.HasSuffix(s, "EOF") {
			t.Errorf("%s: words of Go's: %s", c.name, s)
		}
	}
	if _, err := Read(strings.NewReader(with(`"latency":{"from":"node","rows":[0],"cols":[0],"median":[[5]],"prefetcher_effect":-0.1}`) + "\n")); err != nil {
		t.Errorf("an effect may be below 0: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"schema":"homenode-measure/1","nodes":[{"id":0,"cpus":"0-3"}],"latency":{"from":"node","rows":[0],"cols":[0],"median":[[80.5]],"ci95":[[[80,81]]]},"slit":[[10]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		d.ByNode()
		var b bytes.Buffer
		if err := d.Write(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(&b); err != nil {
			t.Fatalf("not read back: %v", err)
		}
	})
}

func TestValueRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := Value(rapid.Float64Range(-1e12, 1e12).Draw(t, "v"))
		b, err := v.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var w Value
		if err := w.UnmarshalJSON(b); err != nil || math.Abs(float64(v-w)) > 1e-5*math.Abs(float64(v)) {
			t.Fatal(v, w, err)
		}
	})
}
