package specfile

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/topology/strict"
	"github.com/homenode/homenode/core/workload"
)

// Runner is a running workload: what it wants, where it is, and whether it may move.
type Runner struct {
	Where string // position in the file, such as "line 3"
	Spec  workload.Spec
	At    *Location // nil: where the engine would put it
	Stay  string    // why it must not move
}

// Location is where a workload is.
type Location struct {
	CPUs   topology.CPUSet          `yaml:"cpus"`
	Memory map[topology.NodeID]Size `yaml:"memory"` // nil: its whole memory on the node of its CPUs
}

// Parse reads workloads, YAML or JSON, one or a list. An error is one line with the position
// and what to give instead.
func Parse(text []byte) ([]workload.Spec, error) {
	r := specReader{at: map[string]int{}}
	if err := r.read(text); err != nil {
		return nil, err
	}
	if len(r.runners) == 0 {
		return nil, errors.New("no workload in it")
	}
	specs := make([]workload.Spec, len(r.runners))
	for i := range specs {
		specs[i] = r.runners[i].Spec
	}
	return specs, nil
}

// ParseRunning reads running workloads: specs that may say where they are, and why
// they must stay.
func ParseRunning(text []byte) ([]Runner, error) {
	r := specReader{at: map[string]int{}, running: true}
	err := r.read(text)
	return r.runners, err
}

// specText is a workload as a file has it.
type specText struct {
	Name       string             `yaml:"name"`
	Class      workload.Class     `yaml:"class"`
	Importance *int               `yaml:"importance"`
	CPUs       int                `yaml:"cpus"`
	Memory     Size               `yaml:"memory"`
	HugePage   Size               `yaml:"huge_page"`
	SMT        workload.SMTPolicy `yaml:"smt"`
	Near       peers              `yaml:"near"`
	Nodes      topology.NodeSet   `yaml:"nodes"`
	MaxNodes   int                `yaml:"max_nodes"`
	Even       bool               `yaml:"even"`
	Bandwidth  int64              `yaml:"bandwidth"`

	// Of running ones only.
	At   *Location `yaml:"at"`
	Stay string    `yaml:"stay"`
}

var specWants = strict.Wants{
	reflect.TypeFor[Size]():                     "a number with a unit, such as 16GiB",
	reflect.TypeFor[map[topology.NodeID]Size](): "sizes by node, such as {0: 8GiB}",
	reflect.TypeFor[topology.NodeSet]():         "a list such as 0-1,4",
	reflect.TypeFor[topology.CPUSet]():          "a list such as 0-3,8",
	reflect.TypeFor[peers](): "a device or a workload, or a list of them, each a name or {name: " +
		"eth0, weight: 2, policy: required} with a weight above 0, at most 100",
}

// Size is memory as people write it, in KiB.
type Size topology.KiB

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := workload.ParseSize(string(text))
	if len(text) == 0 {
		err = errors.New("empty")
	}
	*s = Size(n)
	return err
}

// peers is what a workload is to be near to: one, or a list.
type peers []peer

type peer struct {
	Name   string  `yaml:"name"`
	Weight float64 `yaml:"weight"`
	Policy string  `yaml:"policy"` // required, socket or preferred
	where  string  // position in the file
}

// near is the wish to be near to something, with the weight and the policy of p.
func (p *peer) near(n workload.Near) workload.Near {
	n.Weight = p.Weight
	if p.Policy != "" {
		_ = n.SetPolicy(p.Policy) // it was checked when it was read
	}
	return n
}

// UnmarshalYAML reads names, or names with a weight.
func (p *peers) UnmarshalYAML(n ast.Node) error {
	entries := []ast.Node{n}
	if list, ok := n.(*ast.SequenceNode); ok {
		entries = list.Values
	}
	*p = nil
	for _, n := range entries {
		x := peer{Weight: 1, where: strict.Position(n.GetToken())}
		var into any = &x.Name
		if _, ok := n.(ast.MapNode); ok {
			into = &x
		}
		if err := yaml.NodeToValue(n, into, yaml.Strict()); err != nil {
			return err
		}
		if x.Name == "" || !(x.Weight > 0 && x.Weight <= 100) ||
			(x.Policy != "" && new(workload.Near).SetPolicy(x.Policy) != nil) {
			return errors.New("no name, no weight or another policy")
		}
		*p = append(*p, x)
	}
	return nil
}

// specReader turns text into workloads; the first error wins.
type specReader struct {
	running bool // they may say where they are
	runners []Runner
	near    []peers        // of each
	at      map[string]int // name → index in runners
	err     error
}

// read reads one workload or a list of them; nothing is an empty list.
func (r *specReader) read(text []byte) error {
	body, err := strict.ParseYAML(text)
	if err != nil || body == nil {
		return err
	}
	// A list that is written once and meant a thousand times would be read a thousand times.
	if alias := ast.Filter(ast.AliasType, body); len(alias) > 0 {
		return fmt.Errorf("%s: an alias; write the value out", strict.Position(alias[0].GetToken()))
	}
	entries := []ast.Node{body}
	if list, ok := body.(*ast.SequenceNode); ok {
		entries = list.Values
	}
	for i, n := range entries {
		var t specText
		lines, err := strict.Decode(n, &t, specWants)
		if err != nil {
			return err
		}
		r.workload(i, &t, lines)
		if r.err != nil {
			return r.err
		}
	}
	for i := range r.runners {
		r.peers(i)
	}
	return r.err
}

func (r *specReader) fail(where, name, format string, a ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: workload %s: %s", where, name, fmt.Sprintf(format, a...))
	}
}

func (r *specReader) workload(i int, t *specText, lines strict.Lines) {
	who := strconv.Itoa(i + 1)
	fail := func(key, format string, a ...any) { r.fail(lines.Of(key), who, format, a...) }
	within := func(key string, v, low, high int64) {
		if v < low || v > high {
			fail(key, "%s is %d; give a whole number from %d to %d", key, v, low, high)
		}
	}
	switch {
	case t.Name == "":
		fail("", "it has no name; give one")
	case !workload.OneLine(t.Name):
		fail("name", "name is %q; give at most %d bytes on one line", strict.Clip(t.Name), workload.MaxName)
	default:
		who = strconv.Quote(strict.Clip(t.Name))
	}
	if first, twice := r.at[t.Name]; twice {
		fail("name", "the name is taken by workload %d; give each its own", first+1)
	}
	r.at[t.Name] = i
	if t.CPUs == 0 {
		fail("cpus", "it has no cpus; give 1 to %d", topology.MaxID)
	}
	importance := workload.DefaultImportance
	if t.Importance != nil {
		importance = *t.Importance
	}
	within("cpus", int64(t.CPUs), 1, topology.MaxID)
	within("importance", int64(importance), 0, 100)
	within("max_nodes", int64(t.MaxNodes), 0, topology.MaxID)
	within("bandwidth", t.Bandwidth, 0, 1<<40)
	class, err := workload.ParseClass(cmp.Or(string(t.Class), string(workload.Shared)))
	if err != nil {
		fail("class", "class is %q; give dedicated, shared or batch", strict.Clip(string(t.Class)))
	}
	switch t.SMT {
	case "", workload.SMTPrefer, workload.SMTIsolate, workload.SMTRequire:
	default:
		fail("smt", "smt is %q; give prefer, isolate or require", strict.Clip(string(t.SMT)))
	}
	if k := uint64(t.HugePage); k > 0 && (k < 4 || bits.OnesCount64(k) != 1) {
		fail("huge_page", "huge_page is %d KiB; give a page size of the kernel, such as 2MiB or 1GiB", k)
	}
	if !r.running && (t.At != nil || t.Stay != "") {
		fail("", "at and stay are for workloads that run; leave them out")
	}
	r.near = append(r.near, t.Near)
	r.runners = append(r.runners, Runner{Where: lines.Of(""), At: t.At, Stay: t.Stay, Spec: workload.Spec{
		ID: workload.ID(t.Name), Name: t.Name, Class: class, Importance: importance, CPUs: t.CPUs,
		Memory:   topology.KiB(t.Memory),
		HugePage: topology.KiB(t.HugePage), SMT: t.SMT, Nodes: t.Nodes, MaxNodes: t.MaxNodes, Even: t.Even,
		Bandwidth: t.Bandwidth, Given: true,
	}})
}

// peers settles what the entries of near name: a workload of the file, or else a
// device. Workloads are placed in the order of the file, so a peer stands above.
func (r *specReader) peers(of int) {
	s := &r.runners[of].Spec
	who := strconv.Quote(strict.Clip(s.Name))
	for _, x := range r.near[of] {
		peer, is := r.at[x.Name]
		switch {
		case r.err != nil:
			return
		case !is:
			s.Near = append(s.Near, x.near(workload.Near{Device: x.Name}))
			continue
		case peer == of:
			r.fail(x.where, who, "it is near to itself; take that out")
			return
		case peer > of:
			if way := r.wayBack(peer, of); way != nil {
				r.fail(x.where, who, "near goes in a circle, %s; take one of them out",
					r.circle(append([]int{of}, way...)))
			}
			r.fail(x.where, who, "near %q stands further down; move it above", strict.Clip(x.Name))
			return
		}
		s.Near = append(s.Near, x.near(workload.Near{Workload: workload.ID(x.Name)}))
	}
}

// wayBack is the shortest way that near leads from one workload to another, both
// ends in it; nil when there is none.
func (r *specReader) wayBack(from, to int) []int {
	next := make([][]int, len(r.near))
	for of, near := range r.near {
		for _, x := range near {
			if peer, is := r.at[x.Name]; is {
				next[of] = append(next[of], peer)
			}
		}
	}
	before := map[int]int{from: from}
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at == to {
			way := []int{at}
			for at != from {
				at = before[at]
				way = append(way, at)
			}
			slices.Reverse(way)
			return way
		}
		for _, peer := range next[at] {
			if _, seen := before[peer]; !seen {
				before[peer] = at
				queue = append(queue, peer)
			}
		}
	}
	return nil
}

// mostNamed is how many members of a circle an error names: it is one line.
const mostNamed = 6

// circle is a way that ends where it began: "a → b → c → a".
func (r *specReader) circle(way []int) string {
	members := len(way) - 1
	var names []string
	for _, i := range way[:min(members, mostNamed)] {
		names = append(names, strict.Clip(r.runners[i].Spec.Name))
	}
	if members > mostNamed {
		names = append(names, fmt.Sprintf("… %d more …", members-mostNamed))
	}
	names = append(names, strict.Clip(r.runners[way[members]].Spec.Name))
	return strings.Join(names, " → ")
}
