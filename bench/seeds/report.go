package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
)

// schema of results.json.
const schema = "homenode-seeds/1"

// document is one experiment on one machine.
type document struct {
	Schema     string            `json:"schema"`
	Experiment string            `json:"experiment"`
	Title      string            `json:"title"`
	Published  Published         `json:"published"`
	Repeats    string            `json:"repeats"`
	Smoke      bool              `json:"smoke,omitempty"`
	Shows      []string          `json:"shows"`   // what the result can show, and what not
	Arms       map[string]string `json:"arms"`    // what each arm is
	Skipped    map[string]string `json:"skipped"` // arms that this machine cannot have, and why
	Sizes      map[string]string `json:"sizes"`
	Commands   []string          `json:"commands"` // of the first instance of each program
	Better     map[string]Better `json:"better"`   // of each metric
	Placed     int               `json:"placed"`   // programs that Homenode started, in all periods
	Unplaced   int               `json:"unplaced"` // of those, programs without a home
	Trial      *trial.Document   `json:"trial"`    // plan, machine, values, effects (homenode-trial/1)
}

// machineOf describes this machine as a trial does.
func machineOf(h *topology.Host) trial.Machine {
	m := trial.Machine{CPU: h.CPU, Packages: len(h.Packages), CPUs: h.Allowed.Len(), LLCs: len(h.LLCs)}
	for _, n := range h.Nodes {
		m.MemoryKiB += int64(max(0, n.Memory))
		if !n.CPUs.Empty() {
			m.Nodes++
		}
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return m
}

// shows says what a result of this machine can show, the most important first.
func (l *lab) shows() []string {
	var out []string
	say := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	m := machineOf(l.host)
	if l.smoke {
		say("**This is a smoke run:** the programs are tiny and run for seconds. Its figures say nothing.")
	}
	switch {
	case m.Nodes < 2:
		say("**The machine has one NUMA node.** All of its memory is local, so the result shows nothing about memory " +
			"of another node. What can differ is which CPUs and caches programs share.")
	case m.Nodes < l.e.Needs.Nodes:
		say("**The machine has %d NUMA nodes; the experiment is about %d or more.**", m.Nodes, l.e.Needs.Nodes)
	default:
		say("The machine has %d NUMA nodes: the result can show what memory of another node costs these programs here.",
			m.Nodes)
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil && strings.Contains(string(info), " hypervisor") {
		say("It is a virtual machine: what it shows as nodes and CPUs need not be what the hardware has, and other " +
			"guests of its host are in the times.")
	}
	if n := trial.Least(len(l.plan.Arms) - 1); l.plan.Blocks < n {
		say("With %s of %s no difference can be claimed; that takes %s.", words.Count(l.plan.Blocks, "block"),
			words.Count(len(l.plan.Arms), "arm"), words.Count(n, "block"))
	}
	if load, cpus := loadNow(), float64(m.CPUs); load > cpus/4 && !l.smoke {
		say("Other work ran on the machine when the experiment began: load average %.1f on %d CPUs. Differences of a "+
			"few percent drown in that.", load, m.CPUs)
	}
	if slices.ContainsFunc(l.e.Programs, func(p Program) bool { return p.Role == Load }) {
		say("The load comes from the same machine, and no arm places it.")
	}
	if l.kernel != "" && l.prefer[Guest] == Guest {
		say("Guests run Linux %s, which the user named (-kernel).", l.kernel)
	}
	for _, why := range l.instead() {
		say("%s.", strings.ToUpper(why[:1])+why[1:])
	}
	return out
}

// instead says what programs run in that the file wants in guests or pods, and why.
func (l *lab) instead() []string {
	var out []string
	for _, p := range l.e.Programs {
		_, why := l.kindOf(p.As)
		if why != "" && !slices.Contains(out, why) {
			out = append(out, why)
		}
	}
	return out
}

func loadNow() float64 {
	var x float64
	text, _ := os.ReadFile("/proc/loadavg")
	fmt.Sscan(string(text), &x)
	return x
}

// begin is the document before anything was measured.
func (l *lab) begin(skipped map[string]string) (*document, error) {
	arm := string(l.plan.Arms[0])
	sizes, err := l.e.SizesOn(l.host, arm, l.smoke)
	if err != nil {
		return nil, err
	}
	d := &document{Schema: schema, Experiment: l.e.Name, Title: l.e.Title, Published: l.e.Published,
		Repeats: l.e.Repeats, Smoke: l.smoke,
		Shows: l.shows(), Skipped: skipped, Arms: map[string]string{}, Sizes: map[string]string{},
		Better: map[string]Better{}}
	for _, a := range l.plan.Arms {
		d.Arms[string(a)] = l.e.ruleAt(string(a)).what
		if v := l.e.variant(string(a)); v != nil {
			var with []string
			for _, name := range slices.Sorted(maps.Keys(v.With)) {
				with = append(with, name+" = "+string(v.With[name]))
			}
			d.Arms[string(a)] += "; " + strings.Join(with, ", ")
		}
	}
	for name := range l.e.Sizes {
		d.Sizes[name] = sizes[name].String()
	}
	all, err := l.instances(arm, 0)
	if err != nil {
		return nil, err
	}
	for _, in := range all {
		if in.i == 0 {
			text, err := in.sizes.at(0, l.seconds(), "DIR", "seeds", "homenode").Fill(in.program.Run)
			if err != nil {
				return nil, err
			}
			d.Commands = append(d.Commands, strings.TrimSpace(text))
		}
	}
	d.Trial = &trial.Document{Schema: trial.Schema, Name: l.e.Name, State: trial.Running, Machine: machineOf(l.host),
		Plan: l.plan, Began: time.Now().UTC().Truncate(time.Second)}
	for _, a := range l.plan.Arms {
		r := l.e.ruleAt(string(a))
		d.Trial.Balancing = d.Trial.Balancing || switches(balancingFile, r.balancing)
		d.Trial.Caches = d.Trial.Caches || switches(cachesFile, r.caches)
	}
	for i := range l.e.Metrics {
		if m := &l.e.Metrics[i]; l.has(m) {
			d.Better[m.Name] = m.Better
			d.Trial.Metrics = append(d.Trial.Metrics, trial.Metric{Name: m.Name, Unit: m.Unit, Lower: m.Better == Lower,
				Kind: trial.Command, From: strings.Join(m.Of, ", ") + ": " + m.Pattern})
		}
	}
	d.Trial.Asked = len(d.Trial.Metrics)
	return d, nil
}

// switches reports whether an arm sets a switch that this kernel has.
func switches(file string, value setting) bool {
	_, err := os.Stat(file)
	return value != asFound && err == nil
}

// add adds a period.
func (d *document) add(p period) {
	values := map[string][]trial.Reading{}
	for name, v := range p.values {
		values[name] = []trial.Reading{{At: (p.from + p.to) / 2, Value: v}}
	}
	d.Placed += p.placed
	d.Unplaced += p.unplaced
	d.Trial.Periods = append(d.Trial.Periods, trial.Record{Block: p.block, Arm: trial.Arm(p.arm), Switch: p.switched,
		From: p.from, To: p.to, Values: values})
}

// write writes results.json and report.md.
func (d *document) write(dir string) error {
	d.Trial.Evaluate()
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "results.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "report.md"), []byte(d.markdown()), 0o644)
}

// markdown is the report. It begins with what the machine is.
func (d *document) markdown() string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	m := d.Trial.Machine
	line("# %s", d.Title)
	line("")
	line("Machine: %s, %s, %s, %s, %.0f GiB of memory, Linux %s. %s.", m.CPU, words.Count(m.CPUs, "CPU"),
		words.Count(m.Nodes, "NUMA node"), words.Count(m.LLCs, "last-level cache"), float64(m.MemoryKiB)/(1<<20),
		m.Kernel, d.Trial.Began.Format("2 January 2006"))
	line("")
	for _, s := range d.Shows {
		line("- %s", s)
	}
	if d.Unplaced > 0 {
		line("- **Homenode had no home for %d of %s that it started.** They ran anywhere, and are in the figures of "+
			"its arm.", d.Unplaced, words.Count(d.Placed, "program"))
	}
	line("")
	line("Published: %s On: %s Source: %s", sentence(d.Published.Result), sentence(d.Published.Machine),
		d.Published.where())
	line("")
	line("Repeated here: %s", sentence(d.Repeats))
	line("")
	base := d.Trial.Plan.Arms[0]
	line("%s of %s in an order drawn from seed %d; each starts the programs anew. Means, and differences from `%s` "+
		"by block with their 95 %% interval; verdicts are corrected for %s:", words.Count(d.Trial.Blocks(), "block"),
		words.Count(len(d.Trial.Plan.Arms), "arm"), d.Trial.Plan.Seed, base,
		words.Count(len(d.Trial.Effects), "comparison"))
	for _, metric := range d.Trial.Metrics {
		line("")
		line("| %s, %s (%s is better) | mean | against `%s` | 95 %% interval | verdict |", metric.Name, metric.Unit,
			d.Better[metric.Name], base)
		line("|---|---|---|---|---|")
		line("| `%s` | %s | | | |", base, figure(d.mean(metric.Name, base)))
		for _, a := range d.Trial.Plan.Arms[1:] {
			i := slices.IndexFunc(d.Trial.Effects, func(e trial.Effect) bool {
				return e.Metric == metric.Name &&
					e.Arm == a && e.Base == base
			})
			if i < 0 {
				line("| `%s` | %s | | | not measured |", a, figure(d.mean(metric.Name, a)))
				continue
			}
			e := d.Trial.Effects[i]
			interval, verdict := "too few blocks", "cannot tell"
			if e.Enough {
				interval, verdict = change(&e, e.Low)+" to "+change(&e, e.High), d.verdict(&e)
			}
			line("| `%s` | %s | %s | %s | %s |", a, figure(e.Is), change(&e, e.Change), interval, verdict)
		}
	}
	d.outlook(line)
	line("")
	line("| arm | what it is |")
	line("|---|---|")
	for _, a := range d.Trial.Plan.Arms {
		line("| `%s` | %s |", a, d.Arms[string(a)])
	}
	for _, a := range slices.Sorted(maps.Keys(d.Skipped)) {
		line("| `%s` | left out: %s |", a, d.Skipped[a])
	}
	line("")
	line("Sizes here: %s. Commands of the first instance of each program:", sizesLine(d.Sizes))
	line("")
	line("```")
	for _, c := range d.Commands {
		line("%s", c)
	}
	line("```")
	return b.String()
}

// outlook says how many blocks small effects take, with the noise that this run had.
func (d *document) outlook(line func(string, ...any)) {
	if len(d.Trial.Outlook) == 0 {
		return
	}
	line("")
	line("With the noise of this run, blocks that an effect takes to be found (in 8 of 10 runs):")
	line("")
	line("| metric | 2 %% | 5 %% | 10 %% |")
	line("|---|---|---|---|")
	for _, o := range d.Trial.Outlook {
		cells := []string{o.Metric}
		for _, n := range o.Needs {
			text := "more than 10,000"
			if n.Blocks > 0 {
				text = figure(float64(n.Blocks))
			}
			cells = append(cells, text)
		}
		line("| %s |", strings.Join(cells, " | "))
	}
}

// verdict is that of an effect. Where neither direction is better, two arms differ or do not.
func (d *document) verdict(e *trial.Effect) string {
	if d.Better[e.Metric] == Neither && e.Verdict != trial.CannotTell {
		return "they differ"
	}
	return string(e.Verdict)
}

func sizesLine(sizes map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		out = append(out, name+" "+sizes[name])
	}
	return strings.Join(out, ", ")
}

// mean is that of a metric in an arm.
func (d *document) mean(metric string, arm trial.Arm) float64 {
	sum, n := 0.0, 0
	for _, p := range d.Trial.Periods {
		for _, r := range p.Values[metric] {
			if p.Arm == arm {
				sum += r.Value
				n++
			}
		}
	}
	return sum / float64(max(1, n))
}

func change(e *trial.Effect, x float64) string {
	if e.Scale == trial.Relative {
		return fmt.Sprintf("%+.1f %%", 100*x)
	}
	return fmt.Sprintf("%+.3g", x)
}

// figure is a number with as many digits as it deserves.
func figure(x float64) string {
	if x >= 1000 || x <= -1000 {
		text := fmt.Sprintf("%.0f", x)
		for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return text
	}
	return fmt.Sprintf("%.4g", x)
}

// sentence is a text with a full stop.
func sentence(s string) string {
	s = oneLine(s)
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}
