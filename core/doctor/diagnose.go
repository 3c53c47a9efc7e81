package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/words"
)

// Diagnose judges a document by the decision tree of the package comment.
func Diagnose(d *measure.Document, lim Limits) measure.Diagnosis {
	f := factsOf(d, lim)
	var out measure.Diagnosis
	add := func(v ...measure.Verdict) { out.Verdicts = append(out.Verdicts, v...) }
	switch {
	case f.missing != "":
		add(measure.Verdict{
			State: Undecided, Severity: measure.Undecided, Confidence: 1,
			Says: "The machine could not be measured; what follows is by firmware and kernel alone.",
			Evidence: []measure.Evidence{{Rule: "E0", Says: f.missing, Value: measure.Unknown,
				Threshold: measure.Unknown, Source: "the attempt to measure"}},
			Advice:      []string{"run it again on an idle machine; --no-measure judges by kernel and firmware alone"},
			WouldChange: "a measurement on an idle machine",
		})
	case f.noisy != "":
		add(measure.Verdict{
			State: Undecided, Severity: measure.Undecided, Confidence: 1,
			Says: "The machine is too busy to measure; what follows is by firmware and kernel alone.",
			Evidence: []measure.Evidence{{Rule: "E0", Says: f.noisy, Value: sigmaOf(d),
				Threshold: measure.Value(lim.Sigma), Source: "control cell"}},
			Advice: []string{"stop or pin other work for half a minute and run again, or give it more time with " +
				"--budget, or as root take samples in real time with --rt"},
			WouldChange: "a measurement on a quieter machine",
		})
	}
	if f.nodes == 1 {
		add(f.oneNode()...)
	} else {
		add(f.manyNodes()...)
	}
	add(f.excluded()...)
	out.Findings = append(findings(d), f.caches()...)
	out.NotKnown = f.notKnown()
	conclude(&out)
	return out
}

// Noise is why a measurement is not to be believed, "" when it is.
func Noise(d *measure.Document, lim Limits) string { return (&facts{d: d, lim: lim}).judgeNoise() }

func sigmaOf(d *measure.Document) measure.Value {
	if d.Run == nil {
		return measure.Unknown
	}
	return d.Run.Sigma
}

// rank orders severities by what a reader must hear first.
func rank(s measure.Severity) int {
	return slices.Index([]measure.Severity{measure.Healthy, measure.Info, measure.Warning, measure.Undecided,
		measure.Defect}, s)
}

func conclude(d *measure.Diagnosis) {
	slices.SortStableFunc(d.Verdicts, func(a, b measure.Verdict) int { return rank(b.Severity) - rank(a.Severity) })
	slices.SortStableFunc(d.Findings, func(a, b measure.Finding) int { return rank(b.Severity) - rank(a.Severity) })
	if len(d.Verdicts) > 0 {
		d.State = d.Verdicts[0].State
		d.Severity = d.Verdicts[0].Severity
		d.Confidence = d.Verdicts[0].Confidence
	}
	if d.Severity != measure.Info {
		return
	}
	// A name for what the machine is comes before notes.
	i := slices.IndexFunc(d.Verdicts, func(v measure.Verdict) bool { return v.State == Healthy || v.State == UMA })
	if i < 0 {
		return
	}
	v := d.Verdicts[i]
	d.Verdicts = slices.Insert(slices.Delete(d.Verdicts, i, i+1), 0, v)
	d.State = v.State
	d.Severity = measure.Healthy
	d.Confidence = v.Confidence
}

// ExitStatus is doctor's: 0 healthy, 1 warning or defect, 3 could not decide.
func ExitStatus(d measure.Diagnosis) int {
	worst := measure.Healthy
	for _, v := range d.Verdicts {
		if rank(v.Severity) > rank(worst) {
			worst = v.Severity
		}
	}
	for _, f := range d.Findings {
		if rank(f.Severity) > rank(worst) {
			worst = f.Severity
		}
	}
	switch worst {
	case measure.Undecided:
		return 3
	case measure.Warning, measure.Defect:
		return 1
	}
	return 0
}

func (f *facts) evidenceKernel() measure.Evidence {
	says := fmt.Sprintf("the kernel shows %s on %s", words.Count(f.nodes, "node"), words.Count(f.sockets, "package"))
	switch {
	case f.d.Host.CmdlineNUMA == nil:
		says += "; its command line is not known"
	case len(f.d.Host.CmdlineNUMA) > 0:
		says += "; booted with " + strings.Join(f.d.Host.CmdlineNUMA, " ")
	}
	return measure.Evidence{Rule: "E1", Says: says, Value: measure.Value(f.nodes), Threshold: measure.Unknown,
		Source: "/proc/cmdline, sysfs"}
}

func (f *facts) evidenceFirmware() []measure.Evidence {
	fw := f.d.Firmware
	if fw == nil {
		return nil
	}
	says := "the firmware has no SRAT"
	if fw.SRAT {
		says = fmt.Sprintf("the firmware's SRAT tells %s, %d with memory", words.Count(len(fw.Domains), "domain"),
			len(fw.Memory))
	}
	return []measure.Evidence{{Rule: "E2", Says: says, Value: measure.Value(len(fw.Domains)), Threshold: 1,
		Source: "/sys/firmware/acpi/tables"}}
}

func (f *facts) evidenceSpread() measure.Evidence {
	var parts []string
	for i, ns := range f.spread.ns {
		parts = append(parts, fmt.Sprintf("package %d %.1f ns", f.spread.packages[i], ns))
	}
	return measure.Evidence{Rule: "E4", Says: "one buffer read from " + strings.Join(parts, ", "),
		Value: measure.Value(f.spread.ratio), Threshold: measure.Value(f.lim.Far), Source: "latency by CPU"}
}

func (f *facts) evidencePages() measure.Evidence {
	says := fmt.Sprintf("%s of 2 MiB all cost the same from each package", words.Count(f.pages.pages, "page"))
	if f.pages.two {
		says = fmt.Sprintf("%d pages of 2 MiB fall into two kinds, ×%.2f apart", f.pages.pages, f.pages.ratio)
		if f.pages.anticorrelated {
			says += ", and what is near to one package is far from the other"
		}
		if f.pages.ratio < f.lim.Far {
			says += fmt.Sprintf("; pages of two nodes are ×%.2f apart or more", f.lim.Far)
		}
	}
	return measure.Evidence{Rule: "E5", Says: says, Value: measure.Value(f.pages.ratio),
		Threshold: measure.Value(f.lim.Far), Source: "page signatures"}
}

func (f *facts) evidenceC2C() measure.Evidence {
	says := "cache lines move between all CPUs at about the same cost"
	if f.apart.two {
		says = fmt.Sprintf("moving a cache line between packages costs ×%.2f of moving it within one", f.apart.ratio)
	}
	return measure.Evidence{Rule: "E9", Says: says, Value: measure.Value(f.apart.ratio),
		Threshold: measure.Value(f.lim.Far), Source: "core to core"}
}

// oneNode is branch 1 of the tree: the kernel shows a single node.
func (f *facts) oneNode() []measure.Verdict {
	base := append([]measure.Evidence{f.evidenceKernel()}, f.evidenceFirmware()...)
	if f.pages.known {
		base = append(base, f.evidencePages())
	}
	if f.spread.known {
		base = append(base, f.evidenceSpread())
	}
	if f.apart.known && f.sockets > 1 {
		base = append(base, f.evidenceC2C())
	}
	// far: memory of two kinds, or one buffer that is near to one package and
	// far from another.
	far := (f.pages.known && f.pages.two && f.pages.ratio >= f.lim.Far) ||
		(f.spread.known && f.spread.ratio >= f.lim.Far)
	ratio := max(f.pages.ratio, f.spread.ratio)
	switch domains := f.firmwareNodes(); {
	case domains > 1 || (f.numaOff && (far || (domains == 0 && f.sockets > 1))):
		return []measure.Verdict{f.hiddenByKernel(base, far, ratio, domains)}
	case f.vm && f.unfit():
		return nil
	case f.vm:
		return []measure.Verdict{f.guestOneNode(base, far, ratio)}
	case f.sockets > 1:
		return []measure.Verdict{f.noNUMAManyPackages(base, far, ratio)}
	case f.pages.known && f.pages.two && f.pages.ratio >= f.lim.Far:
		return []measure.Verdict{{
			State: HiddenByFirmware, Severity: measure.Defect, Confidence: 0.8, Evidence: base,
			Says: fmt.Sprintf("One package and one node, but two kinds of pages (×%.2f apart): the firmware "+
				"hides nodes inside the package.", ratio),
			Advice:      []string{"look in the BIOS setup for nodes per socket (NPS, SNC, cluster on die)"},
			WouldChange: "pages of one kind in a second run",
		}}
	case f.unfit():
		return nil
	}
	v := measure.Verdict{
		State: UMA, Severity: measure.Healthy, Confidence: 0.95, Evidence: base,
		Says:        "One package, one node: all memory is equally near to every CPU.",
		WouldChange: "an SRAT with more than one domain, or pages of two kinds",
	}
	if f.pages.known && f.pages.two {
		v.Confidence = 0.5
		v.Says = fmt.Sprintf("One package, one node, and its pages differ by ×%.2f: more than memory of one node "+
			"does, less than that of two nodes.", f.pages.ratio)
	}
	if !f.measured() {
		v.Confidence = 0.7
		v.Says = "One package, one node, according to kernel and firmware; nothing was measured."
		if f.d.Firmware != nil {
			v.Confidence = 0.9
		}
	}
	return []measure.Verdict{v}
}

func (f *facts) hiddenByKernel(base []measure.Evidence, far bool, ratio float64, domains int) measure.Verdict {
	v := measure.Verdict{
		State: HiddenByKernel, Severity: measure.Defect, Confidence: 0.9, Evidence: base,
		WouldChange: "a boot without numa=off that still shows one node",
	}
	nodes := "more than one node"
	if domains > 1 {
		nodes = words.Count(domains, "node")
	}
	cause, cure := "the kernel shows one",
		"find out why the kernel ignores the SRAT (built without NUMA, acpi=off, or a table it refuses; see dmesg)"
	if f.numaOff {
		cause, cure = "the kernel was booted with numa=off and shows one",
			"take numa=off out of the kernel command line and boot again"
	}
	v.Says = fmt.Sprintf("The machine has %s; %s.", nodes, cause)
	v.Advice = []string{cure}
	switch {
	case far:
		v.Confidence = 0.99
		v.Says += fmt.Sprintf(" Measured: the far memory costs ×%.2f.", ratio)
		v.Advice = append(v.Advice,
			"to be gained: local memory for work that is placed, and the bandwidth of all nodes (a machine of this "+
				"kind had 33 to 49 % of it, least when writing)")
	case f.measured():
		v.Confidence = 0.85
		v.Says += " No difference was measured, so little may be lost"
		if f.vm {
			v.Says += ": in this guest all memory seems to cost the same"
		}
		v.Says += "."
	default:
		v.Says += " This is according to firmware and kernel; it was not measured."
	}
	return v
}

func (f *facts) guestOneNode(base []measure.Evidence, far bool, ratio float64) measure.Verdict {
	switch {
	case far:
		return measure.Verdict{
			State: HostNUMAHidden, Severity: measure.Warning, Confidence: 0.9, Evidence: base,
			Says: fmt.Sprintf("This guest shows one node, but its memory is of two kinds (×%.2f apart): it "+
				"spans several nodes of the host.", ratio),
			Advice: []string{"ask the host's operator for a virtual NUMA topology that follows the host's, or " +
				"for a guest on one node"},
			WouldChange: "pages of one kind in a second run",
		}
	case f.pages.known && f.pages.two:
		return measure.Verdict{
			State: UMAOrInterleaved, Severity: measure.Info, Confidence: 0.5, Evidence: base,
			Says: fmt.Sprintf("This guest shows one node, and its pages differ by ×%.2f: more than memory of "+
				"one node does, less than that of two nodes.", f.pages.ratio),
			Advice:      []string{"measure it again on a quiet machine (homenode doctor)"},
			WouldChange: fmt.Sprintf("pages ×%.2f apart or more, or a look at the host", f.lim.Far),
		}
	case f.pages.known || f.spread.known:
		return measure.Verdict{
			State: UMAOrInterleaved, Severity: measure.Info, Confidence: 0.9, Evidence: base,
			Says: "This guest shows one node, and all its memory costs the same. Whether the host has one " +
				"node or spreads the guest finely over several cannot be told from inside.",
			WouldChange: "pages of two kinds, or a look at the host",
		}
	}
	return measure.Verdict{
		State: UMAOrInterleaved, Severity: measure.Info, Confidence: 0.5, Evidence: base,
		Says: "This guest shows one node; what the host does beneath it was not measured.",
		Advice: []string{"measure it (homenode doctor, on a quiet machine) to see whether its memory is of " +
			"one kind"},
		WouldChange: "a measurement that finds some pages slower than others",
	}
}

// noNUMAManyPackages: several packages, one node, and no word of the firmware
// about more.
func (f *facts) noNUMAManyPackages(base []measure.Evidence, far bool, ratio float64) measure.Verdict {
	flat := f.spread.known && f.spread.ratio <= 1+f.lim.Flat && !(f.pages.known && f.pages.two)
	switch {
	case far:
		return measure.Verdict{
			State: HiddenByFirmware, Severity: measure.Defect, Confidence: 0.95, Evidence: base,
			Says: fmt.Sprintf("%d packages but one node; memory near one package costs ×%.2f from another: "+
				"the firmware does not describe its nodes.", f.sockets, ratio),
			Advice:      []string{"enable NUMA (or SRAT) in the BIOS setup; with NUMA already enabled, update the BIOS"},
			WouldChange: "a SRAT with more than one domain (then the kernel hides it)",
		}
	case flat && (!f.apart.known || f.apart.two):
		v := measure.Verdict{
			State: BIOSInterleaved, Severity: measure.Defect, Confidence: 0.8, Evidence: base,
			Says: fmt.Sprintf("%d packages, one node, the same latency from each (within %.1f %%): the BIOS "+
				"interleaves memory over the packages, so nothing is local.", f.sockets, 100*(f.spread.ratio-1)),
			Advice: []string{"enable NUMA in the BIOS setup (often called node interleaving: disable it)",
				"to be gained: such a machine had 28 to 30 % more latency than local; aggregate bandwidth stays"},
			WouldChange: "core to core latency that is the same within and between packages (then the packages are " +
				"not apart)",
		}
		if f.apart.two {
			v.Confidence = 0.95
		}
		if f.pages.known {
			v.Confidence += 0.03
		}
		return v
	case f.unfit() || f.spread.known:
		says := "%d packages and one node, but the measurement was too noisy to say what lies beneath."
		if f.missing != "" {
			says = "%d packages and one node; without a measurement nobody can say what lies beneath."
		}
		value := measure.Unknown
		if f.spread.known {
			says = "%d packages and one node; latency differs between packages by more than interleaving would and " +
				"less than distance would."
			value = measure.Value(f.spread.ratio)
		}
		return measure.Verdict{
			State: Undecided, Severity: measure.Undecided, Confidence: 1,
			Evidence: append(base,
				measure.Evidence{Rule: "E4", Says: fmt.Sprintf("between ×%.2f and ×%.2f is not decided", 1+f.lim.Flat,
					f.lim.Far), Value: value, Threshold: measure.Value(f.lim.Far), Source: "latency by CPU"}),
			Says:        fmt.Sprintf(says, f.sockets),
			Advice:      []string{"measure again when the machine is quiet, with --full"},
			WouldChange: "a ratio outside the grey zone",
		}
	}
	return measure.Verdict{
		State: Undecided, Severity: measure.Undecided, Confidence: 1, Evidence: base,
		Says: fmt.Sprintf("%d packages and one node, and the firmware's tables do not explain it: memory may "+
			"be interleaved or nodes hidden. Only a measurement can tell.", f.sockets),
		Advice: []string{"run `homenode doctor` without --no-measure, and as root so that firmware tables can " +
			"be read"},
		WouldChange: "a measurement",
	}
}

// manyNodes is branch 2 of the tree.
func (f *facts) manyNodes() []measure.Verdict {
	var out []measure.Verdict
	base := append([]measure.Evidence{f.evidenceKernel()}, f.evidenceFirmware()...)
	remotes := f.remotes()
	shape, exposed := f.shape(base, remotes)
	out = append(out, shape...)
	out = append(out, f.judgeSLIT(exposed)...)
	out = append(out, f.bareNodes()...)
	out = append(out, f.uneven()...)
	if slices.ContainsFunc(out, func(v measure.Verdict) bool {
		return rank(v.Severity) >= rank(measure.Warning) && v.State != CellsExcluded
	}) {
		return out
	}
	return append(out, f.healthy(base, remotes))
}

// shape is 2a: are the nodes real? exposed is false when they are not, so that
// their SLIT need not be compared with anything.
func (f *facts) shape(base []measure.Evidence, remotes []pair) (out []measure.Verdict, exposed bool) {
	if f.fake != "" {
		v := measure.Verdict{
			State: FakeNUMA, Severity: measure.Warning, Confidence: 0.95, Evidence: base,
			Says: fmt.Sprintf("The nodes are emulated: the kernel was booted with %s and divides memory into "+
				"%d parts.", f.fake, f.nodes),
			Advice:      []string{"take " + f.fake + " out of the kernel command line unless it is a test"},
			WouldChange: "latencies that differ between the nodes",
		}
		if len(remotes) > 0 && f.farthest(remotes).ratio > 1+f.lim.Flat {
			v.Says += " Some of them differ in latency: there are real nodes underneath."
			return []measure.Verdict{v}, true
		}
		return []measure.Verdict{v}, false
	}
	if len(remotes) == 0 {
		return nil, true
	}
	top := f.farthest(remotes)
	e := append(slices.Clone(base), measure.Evidence{
		Rule: "E3", Says: fmt.Sprintf("the farthest pair, node%d to node%d, costs ×%.2f of local", f.d.Nodes[top.i].ID,
			f.d.Nodes[top.j].ID, top.ratio),
		Value: measure.Value(top.ratio), Threshold: measure.Value(1 + f.lim.Flat), Source: "latency node to node",
	})
	if f.apart.known && f.sockets > 1 {
		e = append(e, f.evidenceC2C())
	}
	// A ratio whose interval reaches down to flat, and not up to far, is flat as
	// far as anyone can tell.
	if !slices.ContainsFunc(remotes, func(p pair) bool { return !f.flat(p) }) {
		top.ratio = min(top.ratio, 1+f.lim.Flat)
	}
	if top.ratio > 1+f.lim.Flat {
		if !top.sameDie && top.ratio < f.lim.Far {
			return []measure.Verdict{{
				State: Undecided, Severity: measure.Undecided, Confidence: 1, Evidence: e,
				Says: fmt.Sprintf("The kernel shows %d nodes, and the farthest costs only ×%.2f of local: "+
					"more than equal memory would, less than other packages do.", f.nodes, top.ratio),
				Advice:      []string{"measure again when the machine is quiet, with --full"},
				WouldChange: fmt.Sprintf("a ratio under ×%.2f or over ×%.2f", 1+f.lim.Flat, f.lim.Far),
			}}, true
		}
		return nil, true
	}
	if f.vm {
		return []measure.Verdict{{
			State: FlatVNUMA, Severity: measure.Warning, Confidence: 0.9, Evidence: e,
			Says: fmt.Sprintf("This guest has %d virtual nodes, but memory costs the same from all of them: "+
				"the host does not back them by nodes of its own.", f.nodes),
			Advice: []string{"ask the host's operator to bind each virtual node to a host node (libvirt: " +
				"<numatune><memnode>), or to give the guest one node",
				"until then, placing inside this guest gains nothing"},
			WouldChange: fmt.Sprintf("a pair of nodes with a ratio over ×%.2f", 1+f.lim.Flat),
		}}, false
	}
	// Nodes of one package lie close: small but sure differences are real.
	if slices.ContainsFunc(remotes, func(p pair) bool { return p.sameDie && p.above && p.interval.Known() }) {
		return nil, true
	}
	return []measure.Verdict{{
		State: InterleavedBelowNodes, Severity: measure.Defect, Confidence: 0.85, Evidence: e,
		Says: fmt.Sprintf("The kernel shows %d nodes, but memory costs the same from all of them: it is "+
			"interleaved below the nodes.", f.nodes),
		Advice:      []string{"look in the BIOS setup for memory interleaving over sockets or dies, and disable it"},
		WouldChange: fmt.Sprintf("a pair of nodes with a ratio over ×%.2f", 1+f.lim.Flat),
	}}, false
}

// flat tells whether a pair costs the same as local, within its interval.
func (f *facts) flat(p pair) bool {
	if !p.interval.Known() {
		return p.ratio <= 1+f.lim.Flat
	}
	return float64(p.interval[0]) <= 1+f.lim.Flat && float64(p.interval[1]) < f.lim.Far && p.ratio < 1+2*f.lim.Flat
}

func (f *facts) farthest(remotes []pair) pair {
	return slices.MaxFunc(remotes, func(a, b pair) int {
		switch {
		case a.ratio < b.ratio:
			return -1
		case a.ratio > b.ratio:
			return 1
		}
		return 0
	})
}

func (f *facts) healthy(base []measure.Evidence, remotes []pair) measure.Verdict {
	v := measure.Verdict{
		State: Healthy, Severity: measure.Healthy, Confidence: 0.98, Evidence: base,
		WouldChange: "latencies that are equal over all nodes, or a SLIT that orders nodes differently",
	}
	if len(remotes) == 0 {
		v.Confidence = 0.6
		v.Says = fmt.Sprintf("The kernel shows %s, and nothing contradicts it; latencies were not measured.",
			words.Count(f.nodes, "node"))
		return v
	}
	top := f.farthest(remotes)
	v.Says = fmt.Sprintf("NUMA is exposed: %d nodes, and remote memory costs up to %.0f %% more than local.", f.nodes,
		100*(top.ratio-1))
	v.Evidence = append(v.Evidence, measure.Evidence{
		Rule: "E3", Says: fmt.Sprintf("node%d to node%d costs ×%.2f of local", f.d.Nodes[top.i].ID, f.d.Nodes[top.j].ID,
			top.ratio),
		Value: measure.Value(top.ratio), Threshold: measure.Value(f.lim.Far), Source: "latency node to node",
	})
	if f.noisy != "" {
		v.Confidence = 0.6
	}
	return v
}

func (f *facts) excluded() []measure.Verdict {
	var cells []string
	for _, l := range []*measure.Latency{f.d.Latency, f.d.CPULatency} {
		if l == nil || l.Flags == nil {
			continue
		}
		for i := range l.Flags {
			for j, flag := range l.Flags[i] {
				if strings.HasPrefix(flag, "failed") || flag == "unbound" {
					cells = append(cells, fmt.Sprintf("%s%d to node%d: %s", l.From, l.Rows[i], l.Cols[j], flag))
				}
			}
		}
	}
	var says []string
	if len(cells) > 0 {
		says = append(says, fmt.Sprintf("%s could not be measured and took no part: %s.",
			words.Count(len(cells), "cell"), few(cells)))
	}
	if f.d.Run != nil {
		for _, l := range f.d.Run.LeftOut {
			says = append(says, fmt.Sprintf("node%d was not measured: %s.", l.Node, l.Why))
		}
	}
	if len(says) == 0 {
		return nil
	}
	return []measure.Verdict{{
		State: CellsExcluded, Severity: measure.Warning, Confidence: 1,
		Says: strings.Join(says, " "),
		Advice: []string{"free memory on the node, or allow the process to bind there (cpuset, CAP_SYS_NICE in " +
			"a container)"},
		WouldChange: "a run in which all memory lands where it was asked for",
	}}
}

func (f *facts) notKnown() []string {
	var out []string
	d := f.d
	if d.Firmware == nil {
		out = append(out,
			"firmware tables (readable to root under /sys/firmware/acpi/tables): hidden nodes cannot be ruled out "+
				"without a measurement")
	}
	if d.Host.CmdlineNUMA == nil {
		out = append(out, "the kernel command line")
	}
	if !f.virtKnown {
		out = append(out, "whether this is a virtual machine")
	}
	if !f.measured() && f.noisy == "" {
		out = append(out, "latencies (nothing was measured)")
	}
	return out
}

func few(all []string) string {
	const most = 3
	if len(all) <= most {
		return strings.Join(all, "; ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], "; "), len(all)-most)
}
