package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

const local = 10 // SLIT distance of a node to itself

// judgeSLIT is 2b to 2d. Distances of nodes that are not real are only checked
// for form.
func (f *facts) judgeSLIT(exposed bool) []measure.Verdict {
	t := f.d.SLIT
	// numa=fake fills its own distances in.
	if t == nil || f.fake != "" {
		return nil
	}
	maker := "the kernel itself goes by the wrong ones, so look for a newer BIOS"
	if f.vm {
		maker = "the kernel itself goes by the wrong ones, so ask the host's operator to set distances"
	}
	if why := invalid(t); why != "" {
		return []measure.Verdict{{
			State: SLITInvalid, Severity: measure.Defect, Confidence: 1,
			Says: "The firmware's distances cannot be used: " + why + ".",
			Evidence: []measure.Evidence{{Rule: "E8", Says: why, Value: measure.Unknown, Threshold: measure.Unknown,
				Source: "node*/distance"}},
			Advice:      []string{"homenode uses the measured matrix instead (`homenode probe latency`); " + maker},
			WouldChange: "a SLIT with 10 on its diagonal and more elsewhere",
		}}
	}
	if f.l == nil || !exposed {
		return nil
	}
	if wrong := f.wrongOrder(t); len(wrong) > 0 {
		return []measure.Verdict{{
			State: SLITWrongOrder, Severity: measure.Defect, Confidence: 0.95, Evidence: wrong,
			Says:        "The firmware's distances put nodes in the wrong order: " + wrong[0].Says + ".",
			Advice:      []string{"homenode uses the measured matrix; " + maker},
			WouldChange: "a second measurement that agrees with the SLIT",
		}}
	}
	return f.misscaled(t)
}

// invalid says what is wrong with a SLIT in itself; "" when nothing is. That it
// differs from its transpose is no fault.
func invalid(t measure.Table) string {
	flat, others := true, 0
	for i := range t {
		for j, v := range t[i] {
			switch {
			case !v.Known():
				return fmt.Sprintf("row %d is not told", i)
			case i == j && v != local:
				return fmt.Sprintf("the distance of a node to itself is %.0f, not 10", float64(v))
			case i != j:
				others++
				flat = flat && v == local
			}
		}
	}
	if others > 0 && flat {
		return "all are 10, as if every node were local to every other"
	}
	for i := range t {
		for j, v := range t[i] {
			if i != j && v <= local {
				return fmt.Sprintf("the distance from row %d to column %d is %.0f, as near as local", i, j, float64(v))
			}
		}
	}
	return ""
}

// kind groups nodes whose latencies may be compared: memory without CPUs is
// often another technology (KNL's HBM has the longer distance on purpose).
func (f *facts) kind(i int) bool { return f.d.Nodes[i].CPUs.Empty() }

func (f *facts) wrongOrder(t measure.Table) []measure.Evidence {
	var out []measure.Evidence
	for i := range t {
		for j := range t {
			for k := range t {
				if i == j || i == k || f.kind(j) != f.kind(k) || t[i][j] >= t[i][k] || !f.l[i][j].Known() ||
					!f.l[i][k].Known() {
					continue
				}
				near, far := f.l[i][j], f.l[i][k]
				if float64(near) <= (1+f.lim.Order)*float64(far) {
					continue
				}
				if a, b := f.ci(i, j), f.ci(i, k); a.Known() && b.Known() && !a.Apart(b) {
					continue
				}
				id := func(n int) int { return f.d.Nodes[n].ID }
				out = append(out, measure.Evidence{
					Rule: "E8", Source: "node*/distance against latency", Value: near / far,
					Threshold: measure.Value(1 + f.lim.Order),
					Says: fmt.Sprintf("from node%d, node%d is said to be nearer (%.0f) than node%d (%.0f), but costs "+
						"%.0f ns against %.0f ns",
						id(i), id(j), float64(t[i][j]), id(k), float64(t[i][k]), float64(near), float64(far)),
				})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b measure.Evidence) int {
		if a.Value > b.Value {
			return -1
		}
		return 1
	})
	return out
}

func (f *facts) misscaled(t measure.Table) []measure.Verdict {
	worst, at := 0.0, [2]int{}
	for i := range t {
		for j := range t {
			if i == j || f.kind(i) != f.kind(j) || !f.l[i][j].Known() || !f.l[i][i].Known() {
				continue
			}
			off := float64(t[i][j])/local/float64(f.l[i][j]/f.l[i][i]) - 1
			if abs(off) > f.lim.Scale && abs(off) > abs(worst) {
				worst, at = off, [2]int{i, j}
			}
		}
	}
	if worst == 0 {
		return nil
	}
	word := "over"
	if worst < 0 {
		word = "under"
	}
	says := fmt.Sprintf("the SLIT %sstates the cost of node%d from node%d by %.0f %%", word, f.d.Nodes[at[1]].ID,
		f.d.Nodes[at[0]].ID, 100*abs(worst))
	return []measure.Verdict{{
		State: SLITMisscaled, Severity: measure.Info, Confidence: 0.9,
		Says: "The firmware's distances are in the right order but not to scale: " + says +
			". The measured matrix is used.",
		Evidence: []measure.Evidence{{Rule: "E8", Says: says, Value: measure.Value(worst),
			Threshold: measure.Value(f.lim.Scale), Source: "node*/distance against latency"}},
		WouldChange: "nothing needs to: distances are relative by definition",
	}}
}

func abs(x float64) float64 { return max(x, -x) }

// bareNodes is 2e.
func (f *facts) bareNodes() []measure.Verdict {
	var out []measure.Verdict
	for i, n := range f.d.Nodes {
		switch {
		case n.Mem != nil && *n.Mem == 0 && !n.CPUs.Empty():
			out = append(out, f.memoryless(i))
		case f.unpriced(i): // below, all of one type together
		case n.CPUs.Empty() && (n.Mem == nil || *n.Mem > 0):
			out = append(out, f.tier(i))
		}
	}
	return append(out, f.unpricedTiers()...)
}

// unpricedTiers has one verdict for each type of memory without CPUs whose cost nothing says: a machine with six
// GPUs has one.
func (f *facts) unpricedTiers() []measure.Verdict {
	var out []measure.Verdict
	for _, of := range append(slices.Clone(topology.MemoryTypes), "") {
		nodes := topology.NodeSet{}
		var evidence []measure.Evidence
		for i, n := range f.d.Nodes {
			if !f.unpriced(i) || n.Type != string(of) {
				continue
			}
			nodes.Add(topology.NodeID(n.ID))
			says, source := fmt.Sprintf("node%d: %s", n.ID, strings.Join(n.TypeBy, "; ")), "sysfs, /proc"
			if of == "" {
				says, source = fmt.Sprintf("node%d has no CPUs", n.ID), "node*/cpulist"
			}
			evidence = append(evidence, seen(says, source))
		}
		if nodes.Empty() {
			continue
		}
		if of == "" {
			out = append(out, untyped(nodes, evidence))
			continue
		}
		says := fmt.Sprintf("nodes %s have no CPUs: they are %s", nodes, memoryOf(of))
		if nodes.Len() == 1 {
			says = fmt.Sprintf("node%s has no CPUs: it is %s", nodes, memoryOf(of))
		}
		if of == topology.TypeGPU {
			says += ". Only work that names the node gets it"
		}
		out = append(out, measure.Verdict{
			State: CPUlessNode, Severity: measure.Info, Confidence: 0.9, Says: says + ".", Evidence: evidence,
			WouldChange: "a driver or a firmware that describes it otherwise",
		})
	}
	return out
}

// untyped is the verdict on memory without CPUs that nothing names and nothing measured.
func untyped(nodes topology.NodeSet, evidence []measure.Evidence) measure.Verdict {
	have := fmt.Sprintf("nodes %s have", nodes)
	if nodes.Len() == 1 {
		have = fmt.Sprintf("node%s has", nodes)
	}
	return measure.Verdict{
		State: CPUlessNode, Severity: measure.Info, Confidence: 0.5, Evidence: evidence,
		Says:        have + " no CPUs, and memory of unknown type: no driver and no firmware table names it.",
		WouldChange: "a measurement of its latency",
	}
}

// seen is evidence that the kernel shows, without a number.
func seen(says, source string) measure.Evidence {
	return measure.Evidence{Rule: "E7", Says: says, Value: measure.Unknown, Threshold: measure.Unknown, Source: source}
}

// memoryOf names memory of a type: "CXL memory".
func memoryOf(t topology.MemoryType) string {
	return strings.TrimSuffix(t.Words(), " memory") + " memory"
}

// unpriced reports whether a node has memory and no CPUs, and nothing says what the memory costs.
func (f *facts) unpriced(i int) bool {
	n := &f.d.Nodes[i]
	return n.CPUs.Empty() && (n.Mem == nil || *n.Mem > 0) && f.cost(i).source == ""
}

func (f *facts) memoryless(i int) measure.Verdict {
	id := f.d.Nodes[i].ID
	v := measure.Verdict{
		State: MemorylessNode, Severity: measure.Warning, Confidence: 1,
		Says: fmt.Sprintf("node%d has CPUs and no memory.", id),
		Evidence: []measure.Evidence{{Rule: "E7",
			Says: fmt.Sprintf("node%d: CPUs %s, 0 bytes", id, f.d.Nodes[i].CPUs), Value: 0, Threshold: measure.Unknown,
			Source: "node*/meminfo"}},
		Advice:      []string{"put DIMMs into that package's slots, or keep memory-hungry work off its CPUs"},
		WouldChange: "memory on that node",
	}
	best := -1
	source := ""
	cost := measure.Value(0)
	for j := range f.d.Nodes {
		if m := f.d.Nodes[j].Mem; j == i || (m != nil && *m == 0) {
			continue
		}
		switch {
		case f.l != nil && f.l[i][j].Known():
			if source != "measured" || f.l[i][j] < cost {
				best = j
				source = "measured"
				cost = f.l[i][j]
			}
		case source != "measured" && f.d.SLIT != nil && f.d.SLIT.At(i, j).Known():
			if best < 0 || f.d.SLIT[i][j] < cost {
				best = j
				source = "SLIT"
				cost = f.d.SLIT[i][j]
			}
		}
	}
	if best >= 0 {
		v.Says += fmt.Sprintf(" The nearest memory is node%d (%s).", f.d.Nodes[best].ID, source)
	}
	return v
}

// cost is what memory without CPUs costs from the nearest CPUs, and what ordinary memory costs.
type cost struct {
	ns, localNS   measure.Value
	mbs, localMBs measure.Value
	source        string // measured or HMAT; "" where neither says
}

func (f *facts) cost(i int) cost {
	n := f.d.Nodes[i]
	c := cost{ns: measure.Unknown, localNS: measure.Unknown, mbs: measure.Unknown, localMBs: measure.Unknown}
	for a := range f.l {
		if f.d.Nodes[a].CPUs.Empty() || !f.l[a][i].Known() {
			continue
		}
		if !c.ns.Known() || f.l[a][i] < c.ns {
			c.ns = f.l[a][i]
			c.localNS = f.l[a][a]
			c.source = "measured"
		}
	}
	// All memory of a virtual machine costs the same; its HMAT describes the machine that it imitates.
	if hm := n.HMATLatency; hm.Known() && (!c.ns.Known() || (f.vm && c.ns < c.localNS*measure.Value(1+f.lim.Flat))) {
		for _, o := range f.d.Nodes {
			if !o.CPUs.Empty() && o.HMATLatency.Known() &&
				!(c.localNS.Known() && c.source == "HMAT" && o.HMATLatency >= c.localNS) {
				c.ns = hm
				c.localNS = o.HMATLatency
				c.source = "HMAT"
			}
		}
	}
	for _, o := range f.d.Nodes {
		if !o.CPUs.Empty() && o.HMATMBs.Known() && n.HMATMBs.Known() &&
			!(c.localMBs.Known() && c.localMBs >= o.HMATMBs) {
			c.localMBs, c.mbs = o.HMATMBs, n.HMATMBs
		}
	}
	return c
}

// tier names memory without CPUs by the driver or the firmware, and by what it costs from the nearest CPUs,
// measured or after the HMAT.
func (f *facts) tier(i int) measure.Verdict {
	n := f.d.Nodes[i]
	c := f.cost(i)
	name, why, confidence := tierName(c)
	v := measure.Verdict{
		State: CPUlessNode, Severity: measure.Info, Confidence: confidence,
		Says:        fmt.Sprintf("node%d is memory without CPUs: %s.", n.ID, name),
		WouldChange: "a measurement of its latency",
		Evidence:    []measure.Evidence{seen(fmt.Sprintf("node%d has no CPUs", n.ID), "node*/cpulist")},
	}
	if n.Type != "" {
		name = memoryOf(topology.MemoryType(n.Type))
		v.Confidence = 0.9
		v.Evidence = append(v.Evidence, seen(strings.Join(n.TypeBy, "; "), "sysfs, /proc"))
	}
	if c.source != "" {
		v.Says = fmt.Sprintf("node%d is memory without CPUs: %s (%s, %s).", n.ID, name, why, c.source)
		ratio := measure.Evidence{Rule: "E3", Says: why, Value: c.ns / c.localNS, Threshold: measure.Unknown,
			Source: c.source}
		v.Evidence = append(v.Evidence, ratio)
	}
	return v
}

// tierName goes by latency and bandwidth relative to the nearest ordinary
// memory. Published: CXL 1.5 to 3 times, PMEM 2 to 4 times with a fraction of
// the bandwidth, HBM about the same latency with a multiple of the bandwidth.
func tierName(c cost) (name, why string, confidence float64) {
	lat, bw := float64(c.ns/c.localNS), float64(c.mbs/c.localMBs)
	why = fmt.Sprintf("×%.2f the latency of ordinary memory", lat)
	if bw == bw {
		why += fmt.Sprintf(", ×%.2f its bandwidth", bw)
	}
	switch {
	case lat != lat:
		return "nothing says what type it is", "", 0.5
	case bw == bw && bw >= 1.5 && lat < 1.5:
		return "fast memory such as HBM", why, 0.8
	case lat < 1.3:
		return "as fast as ordinary memory", why, 0.8
	case lat < 3.5:
		return "a slower tier such as CXL memory", why, 0.8
	}
	return "a slow tier such as persistent or far CXL memory", why, 0.8
}

// uneven is 2f: node sizes, local bandwidth, channels.
func (f *facts) uneven() []measure.Verdict {
	var out []measure.Verdict
	var ordinary []int
	for i, n := range f.d.Nodes {
		if !n.CPUs.Empty() && n.Mem != nil && *n.Mem > 0 {
			ordinary = append(ordinary, i)
		}
	}
	if len(ordinary) < 2 || f.fake != "" {
		return nil
	}
	small := slices.MinFunc(ordinary, func(a, b int) int { return int((*f.d.Nodes[a].Mem - *f.d.Nodes[b].Mem) >> 20) })
	large := slices.MaxFunc(ordinary, func(a, b int) int { return int((*f.d.Nodes[a].Mem - *f.d.Nodes[b].Mem) >> 20) })
	var evidence []measure.Evidence
	var what []string
	if a, b := float64(*f.d.Nodes[small].Mem), float64(*f.d.Nodes[large].Mem); 1-a/b > f.lim.Memory {
		what = append(what, fmt.Sprintf("node%d has %s, node%d %s", f.d.Nodes[small].ID,
			words.Size(*f.d.Nodes[small].Mem>>10), f.d.Nodes[large].ID, words.Size(*f.d.Nodes[large].Mem>>10)))
		evidence = append(evidence, measure.Evidence{Rule: "E7", Says: what[0], Value: measure.Value(1 - a/b),
			Threshold: measure.Value(f.lim.Memory), Source: "node*/meminfo"})
	}
	slow, fast := -1, -1
	for _, i := range ordinary {
		if bw := f.localBandwidth(i); bw.Known() {
			if slow < 0 || bw < f.localBandwidth(slow) {
				slow = i
			}
			if fast < 0 || bw > f.localBandwidth(fast) {
				fast = i
			}
		}
	}
	if slow >= 0 && f.noisy == "" {
		if a, b := f.localBandwidth(slow), f.localBandwidth(fast); float64(a/b) < f.lim.Asymmetric {
			says := fmt.Sprintf("node%d reads %.1f GB/s of its own memory, node%d %.1f GB/s", f.d.Nodes[slow].ID,
				float64(a)/1000, f.d.Nodes[fast].ID, float64(b)/1000)
			what = append(what, says)
			evidence = append(evidence, measure.Evidence{Rule: "E6", Says: says, Value: a / b,
				Threshold: measure.Value(f.lim.Asymmetric), Source: "bandwidth"})
		}
	}
	if len(what) > 0 {
		for _, i := range ordinary {
			switch c, m := f.d.Nodes[i].Channels, f.d.Nodes[i].MaxChannel; {
			case c != nil && m != nil:
				what = append(what, fmt.Sprintf("node%d has memory in %d of %d channels", f.d.Nodes[i].ID, *c, *m))
			case c != nil:
				what = append(what, fmt.Sprintf("node%d has memory in %s", f.d.Nodes[i].ID, words.Count(*c, "channel")))
			}
		}
		v := measure.Verdict{
			State: AsymmetricDIMMs, Severity: measure.Warning, Confidence: 0.9, Evidence: evidence,
			Says: "Memory is unevenly filled: " + strings.Join(what, "; ") + ".",
			Advice: []string{"give each package the same DIMMs in the same slots; until then the smaller node " +
				"fills first and the slower one saturates first"},
			WouldChange: "equal sizes and equal local bandwidth",
		}
		if f.vm {
			v.State, v.Severity = UnevenNodes, measure.Info
			v.Says = "The guest's nodes differ: " + strings.Join(what, "; ") + "."
			v.Advice = nil
		}
		out = append(out, v)
	}
	return append(out, f.underpopulated(ordinary)...)
}

func (f *facts) localBandwidth(i int) measure.Value {
	for _, b := range f.d.Bandwidth {
		if b.Mix != "r" {
			continue
		}
		id := f.d.Nodes[i].ID
		return b.Median.At(slices.Index(b.Rows, id), slices.Index(b.Cols, id))
	}
	return measure.Unknown
}

// underpopulated compares local bandwidth with what all channels that the
// board has could carry. Every node must be short, or it is asymmetry.
func (f *facts) underpopulated(ordinary []int) []measure.Verdict {
	if f.noisy != "" || f.vm {
		return nil
	}
	var evidence []measure.Evidence
	for _, i := range ordinary {
		n, bw := f.d.Nodes[i], f.localBandwidth(i)
		if n.MaxChannel == nil || !n.ChannelMBs.Known() || !bw.Known() {
			return nil
		}
		could := float64(*n.MaxChannel) * float64(n.ChannelMBs)
		if float64(bw) > f.lim.Half*could || (n.Channels != nil && *n.Channels == *n.MaxChannel) {
			return nil
		}
		evidence = append(evidence, measure.Evidence{
			Rule: "E6", Value: bw / measure.Value(could), Threshold: measure.Value(f.lim.Half),
			Source: "bandwidth, SMBIOS",
			Says: fmt.Sprintf("node%d reads %.0f GB/s; its %d channels could carry %.0f GB/s", n.ID, float64(bw)/1000,
				*n.MaxChannel, could/1000),
		})
	}
	if len(evidence) == 0 {
		return nil
	}
	return []measure.Verdict{{
		State: Underpopulated, Severity: measure.Warning, Confidence: 0.85, Evidence: evidence,
		Says:        "Memory channels are empty: " + evidence[0].Says + ".",
		Advice:      []string{"fill every channel of each package, with one DIMM each first"},
		WouldChange: "local bandwidth over 60 % of what the channels carry",
	}}
}
