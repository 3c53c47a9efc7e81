package main

import (
	"embed"
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/topology/strict"
)

//go:embed experiments/*.yaml
var files embed.FS

// Experiment is one published experiment, as its file has it. docs/seeds.md explains the keys.
type Experiment struct {
	Name      string             `yaml:"name"`
	Title     string             `yaml:"title"`
	Published Published          `yaml:"published"`
	Repeats   string             `yaml:"repeats"` // what this file repeats, and what not
	Needs     Needs              `yaml:"needs"`
	Sizes     map[string]Formula `yaml:"sizes"`
	Smoke     map[string]Formula `yaml:"smoke"`   // sizes instead of those above, for a short run
	Prepare   []Command          `yaml:"prepare"` // once, before the first period
	Programs  []Program          `yaml:"programs"`
	Metrics   []Metric           `yaml:"metrics"`
	Arms      []string           `yaml:"arms"` // the baseline first
	Variants  []Variant          `yaml:"variants"`
	Periods   Periods            `yaml:"periods"`
}

// Published is where the experiment was published, and what came out.
type Published struct {
	Source  string `yaml:"source"`
	URL     string `yaml:"url"` // of https, or none
	Machine string `yaml:"machine"`
	Result  string `yaml:"result"`
}

// noAddress is the URL of a source that has no public address: readers cannot check its figures.
const noAddress = "none"

// where returns the source with its address.
func (p *Published) where() string {
	if p.URL == noAddress {
		return oneLine(p.Source) + ", no public address: its figures cannot be checked"
	}
	return oneLine(p.Source) + ", <" + p.URL + ">"
}

// Needs is what the machine must have.
type Needs struct {
	CPUs     int      `yaml:"cpus"`
	Nodes    int      `yaml:"nodes"`      // with fewer, the result shows nothing of what was published
	Memory   int      `yaml:"memory_mib"` // for the least sizes
	Packages []string `yaml:"packages"`   // of Debian
	Guests   []string `yaml:"guests"`     // packages for guests; without libvirt, processes take their place
	Pods     []string `yaml:"pods"`       // packages for pods; without containerd, processes take their place
	Commands []string `yaml:"commands"`   // that must be there
	ByHand   []ByHand `yaml:"by_hand"`    // what no Debian package has
}

// ByHand is a program that the user must fetch.
type ByHand struct {
	Command  string `yaml:"command"`
	From     string `yaml:"from"`
	Optional bool   `yaml:"optional"` // without it, an arm is left out
}

// Formula is a size: a constant expression of Go over facts of the machine and other sizes (size.go).
type Formula string

// Command is a line for sh, in which ${FORMULA} is replaced.
type Command string

// Program is one program of an experiment.
type Program struct {
	Name   string  `yaml:"name"`
	Role   Role    `yaml:"role"`
	As     Kind    `yaml:"as"`         // process, when absent
	Count  Formula `yaml:"count"`      // instances; 1 when absent
	CPUs   Formula `yaml:"cpus"`       // that each asks for; 1 when absent
	Memory Formula `yaml:"memory_mib"` // that each asks for; 64 when absent
	Class  string  `yaml:"class"`      // of Homenode: dedicated, shared or batch
	Run    Command `yaml:"run"`
	Ready  Command `yaml:"ready"` // succeeds as soon as the program answers
	Fill   Command `yaml:"fill"`  // once it answers, before anything is measured
}

// Role is what a program is for.
type Role string

// Roles.
const (
	Server Role = "server" // the arm places it; it runs until the period ends
	Work   Role = "work"   // the arm places it; it ends by itself and prints the result
	Load   Role = "load"   // no arm places it; it asks the servers, ends by itself and prints the result
)

// Kind is what a program runs in.
type Kind string

// Kinds.
const (
	Process Kind = "process"
	Guest   Kind = "guest" // a guest of libvirt; a process where there is no libvirt
	Pod     Kind = "pod"   // a container of containerd; a process where there is no containerd
)

// Metric is one thing that is measured.
type Metric struct {
	Name     string   `yaml:"name"`
	Unit     string   `yaml:"unit"`
	Better   Better   `yaml:"better"`
	Of       []string `yaml:"of"`       // the programs that print it
	Pattern  string   `yaml:"pattern"`  // a regular expression; its first group is the number
	Matches  Fold     `yaml:"matches"`  // of several matches in one output; the last when absent
	Combine  Fold     `yaml:"combine"`  // of several instances; the mean when absent
	Nodes    int      `yaml:"nodes"`    // least number of NUMA nodes for which it means something
	Optional bool     `yaml:"optional"` // not every machine has it: without it, it is left out
}

// Better is which direction of a metric is better.
type Better string

// Directions.
const (
	Higher  Better = "higher"
	Lower   Better = "lower"
	Neither Better = "neither" // two tools measure the same
)

// Fold is how several numbers become one.
type Fold string

// Folds.
const (
	Last   Fold = "last"
	First  Fold = "first"
	Sum    Fold = "sum"
	Mean   Fold = "mean"
	Max    Fold = "max"
	Min    Fold = "min"
	Spread Fold = "spread" // percent between the least and the most, of the mean
)

// Variant is an arm of the file's own: a rule with other sizes. A size may be text, such as a command.
type Variant struct {
	Name    string             `yaml:"name"`
	Rule    string             `yaml:"rule"`
	With    map[string]Formula `yaml:"with"`
	Command string             `yaml:"command"` // without which this arm is left out
}

// Periods is how long things take.
type Periods struct {
	Blocks  int           `yaml:"blocks"` // 0: the fewest that can show anything with so many arms
	Settle  time.Duration `yaml:"settle"` // from the start of servers to the load
	Measure time.Duration `yaml:"measure"`
}

// Parse reads an experiment. Errors are one line that says where.
func Parse(text []byte) (*Experiment, error) {
	e := &Experiment{}
	lines, err := strict.YAML(text, e, strict.Wants{
		reflect.TypeFor[Formula](): "a formula, such as max(1, cpus / 2)",
		reflect.TypeFor[Command](): "a command for sh",
	})
	if err != nil {
		return nil, err
	}
	if path, err := e.check(); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", lines.Of(path), path, err)
	}
	return e, nil
}

// Open reads an experiment by its name.
func Open(name string) (*Experiment, error) {
	text, err := files.ReadFile("experiments/" + name + ".yaml")
	if err != nil {
		near := strict.Nearest(name, Names())
		if near != "" {
			near = fmt.Sprintf("; did you mean %s?", near)
		}
		return nil, fmt.Errorf("there is no experiment %q%s (-list shows all)", name, near)
	}
	e, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("experiments/%s.yaml: %w", name, err)
	}
	return e, nil
}

// Names is all experiments, by name.
func Names() []string {
	var out []string
	found, _ := fs.Glob(files, "experiments/*.yaml")
	for _, f := range found {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(f, "experiments/"), ".yaml"))
	}
	return out
}

var word = regexp.MustCompile(`^[a-z][a-z0-9-]{0,40}$`)

// check returns what is wrong with an experiment, and the path of the key.
func (e *Experiment) check() (path string, err error) {
	for _, must := range []struct{ path, value string }{
		{"name", e.Name}, {"title", e.Title}, {"published.source", e.Published.Source},
		{"published.url", e.Published.URL},
		{"published.machine", e.Published.Machine}, {"published.result", e.Published.Result}, {"repeats", e.Repeats},
	} {
		if strings.TrimSpace(must.value) == "" {
			return must.path, fmt.Errorf("is missing")
		}
	}
	switch {
	case e.Published.URL != noAddress && !strings.HasPrefix(e.Published.URL, "https://"):
		return "published.url",
			fmt.Errorf("%q; want an address with https://, or %s where the source has no public one",
				strict.Clip(e.Published.URL), noAddress)
	case !word.MatchString(e.Name):
		return "name", fmt.Errorf("%q; want lower-case letters, digits and -", strict.Clip(e.Name))
	case e.Needs.CPUs < 1 || e.Needs.Nodes < 1 || e.Needs.Memory < 1:
		return "needs", fmt.Errorf("want cpus, nodes and memory_mib, each 1 or more")
	case len(e.Programs) == 0:
		return "programs", fmt.Errorf("is missing")
	case len(e.Metrics) == 0:
		return "metrics", fmt.Errorf("is missing")
	case len(e.Arms) < 2:
		return "arms", fmt.Errorf("want two or more, the baseline first")
	case e.Periods.Measure < time.Second || e.Periods.Measure > time.Hour:
		return "periods.measure", fmt.Errorf("want 1s to 1h")
	case e.Periods.Settle < 0 || e.Periods.Settle > time.Hour:
		return "periods.settle", fmt.Errorf("want 0s to 1h")
	case e.Periods.Blocks < 0 || e.Periods.Blocks > 1000:
		return "periods.blocks", fmt.Errorf("want 0 to 1000")
	}
	for i, p := range e.Programs {
		if key, err := p.check(e.Programs[:i]); err != nil {
			return fmt.Sprintf("programs[%d].%s", i, key), err
		}
	}
	for i, m := range e.Metrics {
		if key, err := m.check(e, i); err != nil {
			return fmt.Sprintf("metrics[%d].%s", i, key), err
		}
	}
	for i, v := range e.Variants {
		if key, err := v.check(e, i); err != nil {
			return fmt.Sprintf("variants[%d].%s", i, key), err
		}
	}
	for i, a := range e.Arms {
		switch {
		case ruleOf(a) == nil && e.variant(a) == nil:
			return fmt.Sprintf("arms[%d]", i), fmt.Errorf("%q; want one of %s, or a name of variants", a,
				strings.Join(ruleNames(), ", "))
		case slices.Contains(e.Arms[:i], a):
			return fmt.Sprintf("arms[%d]", i), fmt.Errorf("%s: given twice", a)
		}
	}
	return e.checkSizes()
}

func (p *Program) check(before []Program) (key string, err error) {
	switch {
	case !word.MatchString(p.Name):
		return "name", fmt.Errorf("%q; want lower-case letters, digits and -", strict.Clip(p.Name))
	case slices.ContainsFunc(before, func(b Program) bool { return b.Name == p.Name }):
		return "name", fmt.Errorf("%s: given twice", p.Name)
	case !slices.Contains([]Role{Server, Work, Load}, p.Role):
		return "role", fmt.Errorf("%q; want server, work or load", p.Role)
	case !slices.Contains([]Kind{"", Process, Guest, Pod}, p.As):
		return "as", fmt.Errorf("%q; want process, guest or pod", p.As)
	case p.As == Guest && p.Role != Work:
		return "as", fmt.Errorf("a guest must have the role work: what it prints is its result")
	case p.Role == Load && p.As != "" && p.As != Process:
		return "as", fmt.Errorf("a load is a process")
	case !slices.Contains([]string{"", "dedicated", "shared", "batch"}, p.Class):
		return "class", fmt.Errorf("%q; want dedicated, shared or batch", p.Class)
	case strings.TrimSpace(string(p.Run)) == "":
		return "run", fmt.Errorf("is missing")
	case p.Role != Server && (p.Ready != "" || p.Fill != ""):
		return "ready", fmt.Errorf("ready and fill are for servers")
	}
	return "", nil
}

func (m *Metric) check(e *Experiment, i int) (key string, err error) {
	pattern, bad := regexp.Compile(m.Pattern)
	one := func(f Fold, folds ...Fold) bool { return f == "" || slices.Contains(folds, f) }
	switch {
	case strings.TrimSpace(m.Name) == "":
		return "name", fmt.Errorf("is missing")
	case slices.ContainsFunc(e.Metrics[:i], func(o Metric) bool { return o.Name == m.Name }):
		return "name", fmt.Errorf("%s: given twice", m.Name)
	case !slices.Contains([]Better{Higher, Lower, Neither}, m.Better):
		return "better", fmt.Errorf("%q; want higher, lower or neither", m.Better)
	case len(m.Of) == 0:
		return "of", fmt.Errorf("is missing")
	case bad != nil:
		return "pattern", bad
	case pattern.NumSubexp() < 1:
		return "pattern", fmt.Errorf("has no group (…) with the number")
	case !one(m.Matches, Last, First, Sum, Mean, Max, Min):
		return "matches", fmt.Errorf("%q; want last, first, sum, mean, max or min", m.Matches)
	case !one(m.Combine, Sum, Mean, Max, Min, Spread):
		return "combine", fmt.Errorf("%q; want sum, mean, max, min or spread", m.Combine)
	}
	for _, name := range m.Of {
		if !slices.ContainsFunc(e.Programs, func(p Program) bool { return p.Name == name }) {
			return "of", fmt.Errorf("there is no program %q", name)
		}
	}
	return "", nil
}

func (v *Variant) check(e *Experiment, i int) (key string, err error) {
	switch {
	case !word.MatchString(v.Name):
		return "name", fmt.Errorf("%q; want lower-case letters, digits and -", strict.Clip(v.Name))
	case ruleOf(v.Name) != nil:
		return "name", fmt.Errorf("%s is the name of a rule", v.Name)
	case slices.ContainsFunc(e.Variants[:i], func(o Variant) bool { return o.Name == v.Name }):
		return "name", fmt.Errorf("%s: given twice", v.Name)
	case ruleOf(v.Rule) == nil:
		return "rule", fmt.Errorf("%q; want one of %s", v.Rule, strings.Join(ruleNames(), ", "))
	case !slices.Contains(e.Arms, v.Name):
		return "name", fmt.Errorf("%s is not among the arms", v.Name)
	}
	for name := range v.With {
		if _, ok := e.Sizes[name]; !ok {
			return "with", fmt.Errorf("there is no size %q", name)
		}
	}
	return "", nil
}

func (e *Experiment) variant(name string) *Variant {
	for i := range e.Variants {
		if e.Variants[i].Name == name {
			return &e.Variants[i]
		}
	}
	return nil
}
