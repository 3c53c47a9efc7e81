package heat

import (
	"encoding/xml"
	"flag"
	"html"
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
	d.Host = measure.Host{ID: "Example <&> Board", CPU: "2 × Xeon 8163", Kernel: "6.12", Virt: "vm", CPUs: 96, Packages: []measure.Package{{ID: 0, CPUs: set("0-23")}, {ID: 1, CPUs: set("24-47")}}}
	d.Nodes = []measure.Node{{ID: 0, CPUs: set("0-23"), ChannelMBs: measure.Unknown, HMATLatency: measure.Unknown, HMATMBs: measure.Unknown}, {ID: 1, CPUs: set("24-47"), ChannelMBs: measure.Unknown, HMATLatency: measure.Unknown, HMATMBs: measure.Unknown}}
	d.Run = &measure.Run{Started: "2026-11-20T10:00:00+01:00", Seconds: 12.3, Profile: "quick", Tool: "v1.2", Load1: 0.2, Rejected: 1, Sigma: 0.01}
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
		Traffic: measure.Table{{90000, 30000}, {31500, measure.Unknown}}, Total: 118000, Flags: [][]string{{"", ""}, {"llc-diluted", "failed: node1 is full"}}}}
	d.C2C = []measure.C2C{{Unit: "ns", LineHome: "A", CPUs: []int{0, 1, 24}, Median: measure.Table{{0, 48, 110}, {48, 0, 111}, {110, 111, 0}}}}
	l := measure.Loaded{From: 0, To: 0, Mix: "r", Load: 23}
	for i, g := range measure.Gaps(6) {
		x := float64(i) / 5
		l.Points = append(l.Points, measure.LoadedPoint{Gap: g, NS: measure.Value(82 + 400*x*x*x), MBps: measure.Value(111000 * x)})
	}
	measure.FinishLoaded(&l)
	d.Loaded = []measure.Loaded{l}
	lv := measure.Levels{CPU: 0, Node: 0, Caches: []measure.Cache{{Name: "L1d", Bytes: 48 << 10}, {Name: "L2", Bytes: 1 << 20}, {Name: "L3", Bytes: 32 << 20}}}
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
	lv.NameKnees()
	d.Levels = []measure.Levels{lv}
	d.Diagnosis = &measure.Diagnosis{State: "HEALTHY", Verdicts: []measure.Verdict{{State: "HEALTHY", Severity: measure.Healthy, Confidence: 0.98, Says: "NUMA is exposed </script>.", Evidence: []measure.Evidence{{Rule: "E3", Says: "×1.79", Source: "latency", Value: 1.79, Threshold: 1.2}}, Advice: []string{"nothing"}, WouldChange: "a longer run"}},
		Findings: []measure.Finding{{Subject: "numad", Severity: measure.Warning, Says: "it runs", Advice: "stop it"}}, NotKnown: []string{"the firmware"}}
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
	if n := len(Latency(d, d.CPULatency, true).Rows); n != 48 {
		t.Errorf("%d rows in the expanded map, want 48", n)
	}
}

// host is a measured machine of n nodes, two and four of which are nearer to each other.
func host(n int) *measure.Document {
	d := &measure.Document{Schema: measure.Schema, Host: measure.Host{ID: "Example Board", CPU: "Example 9000", CPUs: 8 * n}, SLIT: measure.NewTable(n, n)}
	l := &measure.Latency{Unit: "ns", From: "node", Pages: "thp", Median: measure.NewTable(n, n), Adjacent: measure.Unknown, Prefetchers: measure.Unknown}
	b := measure.Bandwidth{Mix: "r", Kernel: "avx2", Median: measure.NewTable(n, n), Total: measure.Unknown}
	for i := range n {
		d.Nodes = append(d.Nodes, measure.Node{ID: i, ChannelMBs: measure.Unknown, HMATLatency: measure.Unknown, HMATMBs: measure.Unknown})
		flags := make([]string, n)
		for j := range n {
			far := measure.Value(2.75)
			switch {
			case i == j:
				far = 1
			case i/2 == j/2:
				far = 1.4
			case i/4 == j/4:
				far = 1.9
			}
			if (i*7+j)%11 == 3 {
				flags[j] = "~"
			}
			l.Median[i][j], b.Median[i][j], d.SLIT[i][j] = 82.3*far, 119_000/far, 10*far
		}
		l.Flags = append(l.Flags, flags)
		l.Rows, l.Cols = append(l.Rows, i), append(l.Cols, i)
	}
	b.Rows, b.Cols = l.Rows, l.Cols
	d.Latency, d.Bandwidth = l, []measure.Bandwidth{b}
	return d
}

// TestText80: the maps of 1 to 16 nodes fit a terminal of 80 columns; of 64 nodes they come
// in blocks.
func TestText80(t *testing.T) {
	var b strings.Builder
	for _, n := range []int{1, 2, 4, 8, 16, 64} {
		text := allText(host(n), Style{Width: 80}, false)
		for line := range strings.Lines(text) {
			if w := len([]rune(line)) - 1; w > 80 {
				t.Errorf("%d nodes: %d columns: %s", n, w, line)
			}
		}
		if n <= 16 {
			b.WriteString(text)
		}
	}
	golden(t, "80.txt", b.String())
}

// TestNodes: drawings of 1 to 64 nodes, all text whole and legible.
func TestNodes(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 8, 16, 64} {
		d := host(n)
		checkTexts(t, SVG(d))
		for _, m := range Maps(d, false) {
			checkTexts(t, m.SVG(Caption(d)))
		}
	}
	golden(t, "one.svg", SVG(host(1)))
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
	for _, want := range []string{">145.9<", ">1.79<", "110", "L1d (48 KiB) ends at 44 KiB", "knee", "~144.9", "3 and more", "memory on node", "CPUs on node",
		"no step was found at the end of L3", "share of local", "Example &lt;&amp;&gt; Board", "measured 2026-11-20 09:00 UTC", "homenode v1.2"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is in no picture", want)
		}
	}
	golden(t, "all.svg", all)
	golden(t, "latency.svg", Latency(d, d.Latency, false).SVG(Caption(d)))
	wellFormed(t, "empty", SVG(&measure.Document{Schema: measure.Schema, Nodes: d.Nodes}))
	wellFormed(t, "no points", LoadedCurve([]measure.Loaded{{}}).SVG(""))
}

// Documents that are allowed and hold next to nothing are drawn all the same.
func TestLittle(t *testing.T) {
	d := &measure.Document{Schema: measure.Schema, Nodes: []measure.Node{{}},
		Latency: &measure.Latency{From: "node"}, CPULatency: &measure.Latency{From: "cpu"},
		Bandwidth: []measure.Bandwidth{{}}, C2C: []measure.C2C{{}}, Loaded: []measure.Loaded{{}, {Knee: 5}},
		Levels: []measure.Levels{{}, {Points: []measure.LevelPoint{{}, {Bytes: 0, NS: 5}, {Bytes: 4096, NS: 0}}, Knees: []measure.Knee{{Level: "step 1"}}}}}
	allText(d, Style{Width: 80}, false)
	svg := SVG(d)
	checkTexts(t, svg)
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Error("a coordinate is no number")
	}
	d.Levels[1].Points = append(d.Levels[1].Points, measure.LevelPoint{Bytes: 8192, NS: 1})
	d.Levels[1].Knees = append(d.Levels[1].Knees, measure.Knee{Level: "step 2", Bytes: 1 << 40})
	checkTexts(t, SVG(d))
}

// The page loads nothing, and text from a machine cannot become markup.
func TestHTML(t *testing.T) {
	page, err := HTML("homenode doctor", sample(t))
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?i)(src|href)=|@import|url\(`).FindString(page); m != "" {
		t.Errorf("the page refers to something: %s", m)
	}
	if strings.Contains(page, "Example <&>") || strings.Contains(page, "<script") || strings.Contains(page, "</script>") {
		t.Error("text of the machine became markup, or there is a script")
	}
	for _, want := range []string{"<title>homenode doctor: Example", "Settings and other programs", "numad", "stop it", "Not known", "the firmware", "Would change this: a longer run.",
		"prefers-color-scheme: dark", "prefers-color-scheme:dark", "2026-11-20 09:00 UTC, quick profile, 12.3&nbsp;s", "<th>virtual machine</th><td>yes</td>"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if n := strings.Count(page, "homenode-measure/1"); n != 2 { // in the heading and in the data
		t.Errorf("the data are in it %d times", n-1)
	}
	data := page[strings.Index(page, `id="data">`)+len(`id="data">`):]
	data = html.UnescapeString(data[:strings.Index(data, "</pre>")])
	if _, err := measure.Read(strings.NewReader(data)); err != nil {
		t.Errorf("the numbers in it do not read back: %v", err)
	}
}

// A date that is not known leaves no comma behind.
func TestTook(t *testing.T) {
	if got := Took(&measure.Document{Run: &measure.Run{Profile: "quick", Load1: measure.Unknown, Rejected: measure.Unknown, Sigma: measure.Unknown}}); got != "quick profile" {
		t.Errorf("%q", got)
	}
}

// Lightness falls all along each ramp, so that it reads in grey; ink has a
// contrast of at least 4.5 to 1 (WCAG 2), also in 256 colours.
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
	contrast := func(c rgb) float64 {
		if c.light() {
			return (lum(c) + 0.05) / 0.05
		}
		return 1.05 / (lum(c) + 0.05)
	}
	for _, r := range []ramp{latencyRamp, bandwidthRamp, pairRamp} {
		last := 2.0
		for i := range 101 {
			c := r.at(math.Pow(topRatio, float64(i)/100))
			if lum(c) > last {
				t.Fatalf("%s: step %d is lighter than the one before", r.name, i)
			}
			last = lum(c)
			x, seen := c.xterm()
			if x < 16 || x > 231 {
				t.Errorf("%s: step %d: terminal colour %d", r.name, i, x)
			}
			if contrast(c) < 4.5 || contrast(seen) < 4.5 {
				t.Errorf("%s: step %d: contrast %.1f, in 256 colours %.1f", r.name, i, contrast(c), contrast(seen))
			}
		}
		if r.at(0.5) != r.at(1) || r.at(99) != r.at(topRatio) {
			t.Errorf("%s: values off the ramp are not held at its ends", r.name)
		}
	}
	if latencyRamp.at(2) == bandwidthRamp.at(2) {
		t.Error("bandwidth has the colours of latency")
	}
}
