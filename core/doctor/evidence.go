package doctor

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
)

// facts are the evidence drawn out of a document, ready to be judged.
type facts struct {
	d   *measure.Document
	lim Limits

	sockets, nodes int
	vm, virtKnown  bool
	numaOff        bool
	fake           string // numa=fake=… as booted
	noisy          string // why measurements are not believed; "" when they are
	missing        string // why there is no measurement though one was asked for
	l              measure.Table
	spread         spread   // E4
	pages          clusters // E5
	apart          apart    // E9
}

// spread is E4: one buffer from the CPUs of different packages.
type spread struct {
	known    bool
	ratio    float64 // slowest package over fastest, of their medians
	ns       []float64
	packages []int
}

// clusters is E5.
type clusters struct {
	known          bool
	two            bool
	ratio          float64 // of the cluster medians, the largest over packages
	anticorrelated bool
	pages          int
	share          float64 // of pages in the smaller cluster
}

// apart is E9: do packages lie apart for cache lines?
type apart struct {
	known bool
	two   bool
	ratio float64
}

func factsOf(d *measure.Document, lim Limits) *facts {
	f := &facts{d: d, lim: lim, sockets: len(d.Host.Packages), nodes: len(d.Nodes)}
	f.vm, f.virtKnown = d.Host.Virt != "" && d.Host.Virt != "none", d.Host.Virt != ""
	for _, word := range d.Host.CmdlineNUMA {
		switch {
		case word == "numa=off":
			f.numaOff = true
		case strings.HasPrefix(word, "numa=fake"):
			f.fake = word
		}
	}
	f.noisy = f.judgeNoise()
	if f.noisy == "" {
		f.l = d.ByNode()
		f.spread = f.judgeSpread()
		f.pages = f.judgePages()
		f.apart = f.judgeC2C()
	}
	f.missing = d.NotMeasured
	// One node is judged by its pages, or by one buffer from several packages.
	if r := d.Run; r != nil && r.Partial && f.noisy == "" &&
		(!f.measured() || (f.nodes == 1 && !f.pages.known && !f.spread.known)) {
		f.missing = "it was ended before there was enough to judge by"
	}
	return f
}

// unfit tells whether what was asked to be measured cannot carry a verdict.
func (f *facts) unfit() bool { return f.noisy != "" || f.missing != "" }

func (f *facts) measured() bool {
	return f.l != nil || f.spread.known || f.pages.known
}

func (f *facts) judgeNoise() string {
	r := f.d.Run
	if r == nil {
		return ""
	}
	// Between nodes it is pairs of samples that are judged, and many spread pairs
	// give a narrow ratio (TestSpreadIsNoHarm: never a wrong verdict). Where there
	// is one node the rule holds as it stands.
	if r.Sigma.Known() && float64(r.Sigma) > f.lim.Sigma && !f.narrow() {
		return fmt.Sprintf("the control cell, the same memory from the same CPU, spreads by %.1f %%; more than %.0f "+
			"%% cannot be used", 100*float64(r.Sigma), 100*f.lim.Sigma)
	}
	if r.Rejected.Known() && float64(r.Rejected) > f.lim.Rejected {
		return fmt.Sprintf("%.0f %% of the samples were disturbed by other work and thrown out", float64(r.Rejected))
	}
	return ""
}

// narrow tells whether all ratios between nodes have narrow intervals.
func (f *facts) narrow() bool {
	l := f.d.Latency
	if l == nil || l.RatioCI == nil {
		return false
	}
	seen := false
	for i := range l.Rows {
		for j := range l.Cols {
			if l.Rows[i] == l.Cols[j] {
				continue
			}
			if ci := l.RatioCI[i][j]; !ci.Known() || ci.HalfWidth() > f.lim.Flat {
				return false
			}
			seen = true
		}
	}
	return seen
}

// usable tells whether a cell may carry a verdict.
func usable(l *measure.Latency, i, j int) bool {
	flag := l.Flag(i, j)
	return l.Median.At(i, j).Known() && !strings.HasPrefix(flag, "failed") && flag != "unbound"
}

func (f *facts) judgeSpread() spread {
	l := f.d.CPULatency
	if l == nil {
		return spread{}
	}
	var s spread
	for _, p := range f.d.Host.Packages {
		var of []float64
		for i, cpu := range l.Rows {
			if p.CPUs.Has(topology.CPUID(cpu)) && usable(l, i, 0) {
				of = append(of, float64(l.Median[i][0]))
			}
		}
		if len(of) > 0 {
			s.ns, s.packages = append(s.ns, measure.Median(of)), append(s.packages, p.ID)
		}
	}
	if len(s.ns) >= 2 {
		s.known, s.ratio = true, slices.Max(s.ns)/slices.Min(s.ns)
	}
	return s
}

// minPages is too few to speak of clusters.
const minPages = 16

func (f *facts) judgePages() clusters {
	c := clusters{pages: len(f.d.Pages)}
	if c.pages < minPages {
		return clusters{}
	}
	c.known, c.ratio = true, 1
	near := make([]int, c.pages) // packages that see the page in their near cluster
	split := 0
	for p := range f.d.Host.Packages {
		var ns []float64
		for _, page := range f.d.Pages {
			ns = append(ns, float64(page.NS[p]))
		}
		two, cut, share, ratio := f.split(ns)
		if !two {
			continue
		}
		split++
		c.ratio, c.share = max(c.ratio, ratio), max(c.share, share)
		for i, x := range ns {
			if x < cut {
				near[i]++
			}
		}
	}
	c.two = split > 0
	if split >= 2 {
		good := 0
		for _, n := range near {
			if n >= 1 && n < split {
				good++
			}
		}
		c.anticorrelated = good*10 >= c.pages*9
	}
	return c
}

// split parts latencies at their largest gap.
func (f *facts) split(ns []float64) (two bool, cut, share, ratio float64) {
	s := slices.DeleteFunc(slices.Clone(ns), math.IsNaN)
	slices.Sort(s)
	least := max(1, int(math.Ceil(f.lim.Cluster*float64(len(s)))))
	at := 0
	for i := least; i <= len(s)-least; i++ {
		if at == 0 || s[i]-s[i-1] > s[at]-s[at-1] {
			at = i
		}
	}
	if at == 0 {
		return
	}
	low, high := s[:at], s[at:]
	sigma := max(measure.Sigma(low), measure.Sigma(high))
	cut = (s[at] + s[at-1]) / 2
	ratio = measure.Median(high) / measure.Median(low)
	share = float64(min(len(low), len(high))) / float64(len(s))
	// The gap is between the clusters' middles: between their nearest members
	// it shrinks as pages are added.
	two = measure.Median(high)-measure.Median(low) >= f.lim.Gap*sigma && ratio > 1+f.lim.Flat
	return
}

func (f *facts) judgeC2C() apart {
	var within, across []float64
	for _, m := range f.d.C2C {
		for i, a := range m.CPUs {
			for j, b := range m.CPUs {
				v := m.Median.At(i, j)
				if i == j || !v.Known() {
					continue
				}
				if f.packageOf(a) == f.packageOf(b) {
					within = append(within, float64(v))
				} else {
					across = append(across, float64(v))
				}
			}
		}
		break // one line home is enough
	}
	if len(within) == 0 || len(across) == 0 {
		return apart{known: len(within) > 0 && f.sockets == 1}
	}
	r := measure.Median(across) / measure.Median(within)
	return apart{known: true, two: r >= f.lim.Far, ratio: r}
}

func (f *facts) packageOf(cpu int) int {
	for _, p := range f.d.Host.Packages {
		if p.CPUs.Has(topology.CPUID(cpu)) {
			return p.ID
		}
	}
	return -1
}

// nodePackage is the package of a node's CPUs, -1 when it has none or several.
func (f *facts) nodePackage(i int) int {
	for _, p := range f.d.Host.Packages {
		if cpus := f.d.Nodes[i].CPUs; !cpus.Empty() && cpus.SubsetOf(p.CPUs) {
			return p.ID
		}
	}
	return -1
}

// pair is a remote cell with its ratio to the row's own node.
type pair struct {
	i, j     int
	ratio    float64
	above    bool // its interval lies above 1
	sameDie  bool // both nodes are in one package
	interval measure.Interval
}

// remotes are the measured pairs of nodes that both have CPUs and memory.
func (f *facts) remotes() []pair {
	var out []pair
	for i := range f.l {
		for j := range f.l[i] {
			if i == j || f.d.Nodes[i].CPUs.Empty() || f.d.Nodes[j].CPUs.Empty() || !f.l[i][j].Known() ||
				!f.l[i][i].Known() {
				continue
			}
			p := pair{i: i, j: j, ratio: float64(f.l[i][j] / f.l[i][i]),
				interval: measure.Interval{measure.Unknown, measure.Unknown}}
			if l, row, local, col := f.cell(i, j); l != nil {
				if v := l.RatioAt(row, col, local); v.Known() {
					p.ratio = float64(v)
				}
				if l.RatioCI != nil {
					p.interval = l.RatioCI[row][col]
				}
			}
			p.above = p.ratio > 1 && (!p.interval.Known() || p.interval[0] > 1)
			a, b := f.nodePackage(i), f.nodePackage(j)
			p.sameDie = a >= 0 && a == b
			out = append(out, p)
		}
	}
	return out
}

// cell finds positions i, j of Nodes in the node to node measurement.
func (f *facts) cell(i, j int) (l *measure.Latency, row, local, col int) {
	l = f.d.Latency
	if l == nil {
		return nil, 0, 0, 0
	}
	row = slices.Index(l.Rows, f.d.Nodes[i].ID)
	local = slices.Index(l.Cols, f.d.Nodes[i].ID)
	col = slices.Index(l.Cols, f.d.Nodes[j].ID)
	if row < 0 || local < 0 || col < 0 {
		return nil, 0, 0, 0
	}
	return l, row, local, col
}

// ci is the interval of a cell by positions in Nodes.
func (f *facts) ci(i, j int) measure.Interval {
	l, row, _, col := f.cell(i, j)
	if l == nil {
		return measure.Interval{measure.Unknown, measure.Unknown}
	}
	return l.CI(row, col)
}

// hidden is how many nodes the firmware tells; 0 unknown.
func (f *facts) firmwareNodes() int {
	if f.d.Firmware == nil || !f.d.Firmware.SRAT {
		return 0
	}
	return len(f.d.Firmware.Domains)
}
