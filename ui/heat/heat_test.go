package heat

import (
	"encoding/xml"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
)

var update = flag.Bool("update", false, "write the golden pictures")

func sample(t *testing.T) *measure.Document {
	t.Helper()
	set := func(s string) topology.CPUSet {
		c, err := topology.ParseCPUSet(s)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	d := &measure.Document{Schema: measure.Schema}
	d.Host = measure.Host{ID: "Example <&> Board", CPU: "2 × Xeon 8163", Kernel: "6.12", CPUs: 96, Packages: []measure.Package{{ID: 0, CPUs: set("0-23")}, {ID: 1, CPUs: set("24-47")}}}
	d.Nodes = []measure.Node{{ID: 0, CPUs: set("0-23"), ChannelMBs: measure.Unknown, HMATLatency: measure.Unknown, HMATMBs: measure.Unknown}, {ID: 1, CPUs: set("24-47"), ChannelMBs: measure.Unknown, HMATLatency: measure.Unknown, HMATMBs: measure.Unknown}}
	d.SLIT = measure.Table{{10, 21}, {21, 10}}
	d.Latency = &measure.Latency{Unit: "ns", Pages: "thp", From: "node", Rows: []int{0, 1}, Cols: []int{0, 1}, Adjacent: measure.Unknown, Prefetchers: measure.Unknown,
		Median: measure.Table{{81.6, 145.9}, {144.9, 81.2}}, Samples: [][]int{{11, 11}, {12, 11}}, Rejected: [][]int{{0, 1}, {0, 0}},
		CI95:  [][]measure.Interval{{{81.2, 82.1}, {145, 146.5}}, {{140, 160}, {81, 81.5}}},
		Flags: [][]string{{"", ""}, {"~", ""}}}
	cpus := &measure.Latency{Unit: "ns", Pages: "thp", From: "cpu", Cols: []int{0, 1}, Adjacent: measure.Unknown, Prefetchers: measure.Unknown}
	for c := range 48 {
		near, far := measure.Value(80+float64(c%3)), measure.Value(145+float64(c%5))
		row := []measure.Value{near, far}
		if c >= 24 {
			row = []measure.Value{far, near}
		}
		cpus.Rows, cpus.Median = append(cpus.Rows, c), append(cpus.Median, row)
	}
	d.CPULatency = cpus
	d.Bandwidth = []measure.Bandwidth{{Mix: "1:1", Kernel: "avx2", Unit: "MB/s", Rows: []int{0, 1}, Cols: []int{0, 1}, Median: measure.Table{{60000, 20000}, {21000, measure.Unknown}},
		Traffic: measure.Table{{90000, 30000}, {31500, measure.Unknown}}, Total: 118000, Flags: [][]string{{"", ""}, {"", "failed: node1 is full"}}}}
	d.C2C = []measure.C2C{{Unit: "ns", LineHome: "A", CPUs: []int{0, 1, 24}, Median: measure.Table{{0, 48, 110}, {48, 0, 111}, {110, 111, 0}}}}
	l := measure.Loaded{From: 0, To: 0, Mix: "r", Load: 23}
	for i, g := range measure.Gaps(6) {
		x := float64(i) / 5
		l.Points = append(l.Points, measure.LoadedPoint{Gap: g, NS: measure.Value(82 + 400*x*x*x), MBps: measure.Value(111000 * x)})
	}
	measure.FinishLoaded(&l)
	d.Loaded = []measure.Loaded{l}
	lv := measure.Levels{CPU: 0, Node: 0}
	for _, size := range measure.LevelSizes(1<<28, 32<<20) {
		ns := 1.1
		if size > 48<<10 {
			ns = 4
		}
		if size > 1<<20 {
			ns = 80
		}
		lv.Points = append(lv.Points, measure.LevelPoint{Bytes: size, NS: measure.Value(ns), CI95: measure.Interval{measure.Value(ns * .99), measure.Value(ns * 1.01)}})
	}
	lv.Knees = measure.Knees(lv.Points)
	d.Levels = []measure.Levels{lv}
	d.Diagnosis = &measure.Diagnosis{State: "HEALTHY", Verdicts: []measure.Verdict{{State: "HEALTHY", Severity: measure.Healthy, Confidence: 0.98, Says: "NUMA is exposed </script>.", Evidence: []measure.Evidence{{Rule: "E3", Says: "×1.79", Source: "latency", Value: 1.79, Threshold: 1.2}}, Advice: []string{"nothing"}}}}
	return d
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-golden +now):\n%s", name, diff)
	}
}

func allText(d *measure.Document, s Style, expand bool) string {
	var b strings.Builder
	for _, m := range Maps(d, expand) {
		b.WriteString(m.Text(s) + "\n")
	}
	return b.String()
}

func TestText(t *testing.T) {
	d := sample(t)
	golden(t, "plain.txt", allText(d, Style{}, false))
	golden(t, "ascii.txt", allText(d, Style{ASCII: true}, false))
	golden(t, "colour.txt", allText(d, Style{Colour: true}, false))
	for _, r := range allText(d, Style{ASCII: true}, false) {
		if r > 126 {
			t.Fatalf("%q in ASCII output", r)
		}
	}
	// Colour adds nothing but escapes.
	bare := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(allText(d, Style{Colour: true, True: true}, false), "")
	if diff := cmp.Diff(allText(d, Style{}, false), bare); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(allText(d, Style{}, true), "cpu"); n < 48 {
		t.Errorf("%d CPUs in the expanded map, want 48", n)
	}
}

func wellFormed(t *testing.T, name, s string) {
	t.Helper()
	dec := xml.NewDecoder(strings.NewReader(s))
	for {
		if _, err := dec.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func TestPictures(t *testing.T) {
	d := sample(t)
	all := SVG(d)
	wellFormed(t, "all", all)
	if strings.Contains(all, "NaN") || strings.Contains(all, "Inf") {
		t.Error("a coordinate is no number")
	}
	for _, want := range []string{"145.9 (1.79)", "110", "L1 44 KiB", "knee", "~144.9", "1 to 3 and more times local"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is in no picture", want)
		}
	}
	golden(t, "latency.svg", Latency(d, d.Latency, false).SVG())
	golden(t, "loaded.svg", LoadedCurve(d.Loaded).SVG())
	golden(t, "levels.svg", LevelsCurve(d.Levels).SVG())
	wellFormed(t, "empty", SVG(&measure.Document{Schema: measure.Schema, Nodes: d.Nodes}))
	wellFormed(t, "no points", LoadedCurve([]measure.Loaded{{}}).SVG())
}

// The page loads nothing, and text from a machine cannot become markup.
func TestHTML(t *testing.T) {
	page, err := HTML(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?i)(src|href)=|@import|url\(`).FindString(page); m != "" {
		t.Errorf("the page refers to something: %s", m)
	}
	if strings.Contains(page, "Example <&>") || strings.Count(page, "</script>") != 1 {
		t.Error("text of the machine became markup")
	}
	data := page[strings.Index(page, `id="data">`)+len(`id="data">`):]
	data = data[:strings.Index(data, "</script>")]
	if _, err := measure.Read(strings.NewReader(data)); err != nil {
		t.Errorf("the numbers in it do not read back: %v", err)
	}
}

// Lightness rises all along the ramp, so that it reads in grey; ink has a
// contrast of at least 4.5 to 1 (WCAG 2).
func TestRamp(t *testing.T) {
	lum := func(c rgb) float64 {
		f := func(v uint8) float64 {
			x := float64(v) / 255
			if x <= 0.04045 {
				return x / 12.92
			}
			return math.Pow((x+0.055)/1.055, 2.4)
		}
		return 0.2126*f(c.r) + 0.7152*f(c.g) + 0.0722*f(c.b)
	}
	last := -1.0
	for i := range 101 {
		c := ramp(math.Pow(topRatio, float64(i)/100))
		l := lum(c)
		if l < last {
			t.Fatalf("step %d is darker than the one before", i)
		}
		last = l
		contrast := (l + 0.05) / 0.05
		if c.ink() == "#ffffff" {
			contrast = 1.05 / (l + 0.05)
		}
		if contrast < 4.5 {
			t.Errorf("step %d: contrast %.1f", i, contrast)
		}
		if x := c.xterm(); x < 16 || x > 231 {
			t.Errorf("step %d: terminal colour %d", i, x)
		}
	}
	if ramp(0.5) != ramp(1) || ramp(99) != ramp(topRatio) {
		t.Error("values off the ramp are not held at its ends")
	}
}
