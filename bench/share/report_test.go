package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/homenode/homenode/bench/openloop"
)

var page = flag.String("page", "", "`FILE` to write the page of made-up figures to")

// madeUp is an experiment that never was: protection costs progress, and the last case passes.
func madeUp(t *testing.T) *document {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 7))
	d := &document{Began: time.Date(2026, 11, 23, 6, 0, 0, 0, time.UTC), Command: "share -o <here>", Seed: 1, Experiment: "0-31", Generator: "32-63", Rate: 12000, RunSeconds: 60, WarmSeconds: 15,
		Machine: machine{CPU: "Some CPU <made up>", CPUs: 64, Cores: 32, Nodes: 2, SMT: true, Kernel: "6.18.0", Load: "0.1 0.1 0.1", Program: "homenode dev"},
		Online:  online{Name: "nginx", Command: "nginx -c x"}, Batch: batch{Name: "ffmpeg", Unit: "frames", Command: "ffmpeg"}}
	for id, c := range map[string]struct{ tail, busy, batch float64 }{"B": {1, 0.29, 0}, "C": {1.7, 0.86, 900}, "W": {1.5, 0.86, 890}, "T": {1.2, 0.7, 610}, "P": {1.02, 0.66, 560}} {
		for range 7 {
			h := openloop.Histogram()
			for range 5000 {
				openloop.Record(h, time.Duration((400+60*r.ExpFloat64()*(1+c.tail))*float64(time.Microsecond)))
			}
			raw, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
			if err != nil {
				t.Fatal(err)
			}
			s := sample{Case: id, Sent: 5000, Latency: raw, Late: 40, Seconds: 60, Busy: c.busy, Batch: c.batch * (1 + 0.01*r.NormFloat64()), IPIs: 900, took: h}
			if id == "P" {
				n := 812.0
				s.Expelled = &n
			}
			d.Samples = append(d.Samples, s)
		}
	}
	d.Cases = results(d.Samples, 1)
	return d
}

func TestReport(t *testing.T) {
	d := madeUp(t)
	text := d.html()
	if *page != "" {
		if err := os.WriteFile(*page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"With homenode share, sched_ext the server does not feel", "Some CPU &lt;made up&gt;", "frames a second", "ffmpeg"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, not := range []string{"http://", "https://", "<script", "<made up>", "NaN"} {
		if strings.Contains(text, not) {
			t.Errorf("the page has %q", not)
		}
	}
	verdicts := map[string]bool{}
	for _, c := range d.Cases {
		if c.Passes != nil {
			verdicts[c.ID] = *c.Passes
		}
		if c.ID == "T" && (c.Part < 0.6 || c.Part > 0.75) {
			t.Errorf("batch work does %.2f of what it does with nothing done, want about two thirds", c.Part)
		}
	}
	if len(verdicts) != 4 || verdicts["C"] || verdicts["W"] || verdicts["T"] || !verdicts["P"] {
		t.Errorf("passes: %v; want P alone", verdicts)
	}
}

// TestStepReport: the page of steps speaks of threads that wake, not of a server.
func TestStepReport(t *testing.T) {
	d := madeUp(t)
	d.Online = online{Name: stepName, Threads: 8, Command: "share step 8"}
	text := d.html()
	for _, want := range []string{"How soon online work runs", "8 threads that wake", "online work does not feel"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, not := range []string{"server", "requests are answered"} {
		if strings.Contains(text, not) {
			t.Errorf("the page of steps has %q", not)
		}
	}
}

// TestReadBack: what is written can be read and says the same.
func TestReadBack(t *testing.T) {
	d := madeUp(t)
	raw, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readDocument(raw)
	if err != nil {
		t.Fatal(err)
	}
	if again := results(got.Samples, got.Seed); len(again) != len(d.Cases) || again[1].P99 != d.Cases[1].P99 {
		t.Errorf("read back: %+v, was %+v", again, d.Cases)
	}
}

// readDocument reads a document as it was written.
func readDocument(raw []byte) (d document, err error) {
	if err := json.Unmarshal(raw, &d); err != nil {
		return d, err
	}
	for i := range d.Samples {
		if d.Samples[i].took, err = hdrhistogram.Decode(d.Samples[i].Latency); err != nil {
			return d, fmt.Errorf("run %d: %w", i+1, err)
		}
	}
	return d, nil
}
