package cli

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/goccy/go-yaml/ast"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/topology/strict"
	"github.com/homenode/homenode/core/workload"
)

const (
	// maxSpec bounds a file of workloads: some ten thousand of them.
	maxSpec = 1 << 20

	// maxName bounds a workload's name; a cgroup's is at most 255 bytes (NAME_MAX).
	maxName = 255
)

// readSpecs reads workloads as people write them, YAML or JSON, one or a list.
// An error is one line with the file, the position and what to give instead.
func readSpecs(e *Env, name string) ([]workload.Spec, error) {
	text, err := readInput(e, name, maxSpec)
	if err != nil {
		return nil, err
	}
	specs, err := parseSpecs(text)
	if err != nil {
		return nil, usageErrorf("%s: %w", inputName(name), err)
	}
	return specs, nil
}

// inputName is a file as errors call it.
func inputName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// readInput reads a file of at most so many bytes.
func readInput(e *Env, name string, most int64) ([]byte, error) {
	return fromFile(e, name, func(in io.Reader) ([]byte, error) {
		text, err := io.ReadAll(io.LimitReader(in, most+1))
		if err == nil && int64(len(text)) > most {
			err = fmt.Errorf("larger than %s", humanize.IBytes(uint64(most)))
		}
		return text, err
	})
}

func parseSpecs(text []byte) ([]workload.Spec, error) {
	r := specReader{at: map[string]int{}, keys: specKeys}
	if err := r.read(text); err != nil {
		return nil, err
	}
	if len(r.specs) == 0 {
		return nil, errors.New("no workload in it")
	}
	return r.specs, nil
}

// parseRunning reads running workloads: specs that may say where they are, and why
// they must stay.
func parseRunning(text []byte) ([]runner, error) {
	r := specReader{at: map[string]int{}, keys: append(slices.Clone(specKeys), "at", "stay")}
	if err := r.read(text); err != nil {
		return nil, err
	}
	for i := range r.runners {
		r.runners[i].Spec = r.specs[i]
	}
	return r.runners, nil
}

// read reads one workload or a list of them; nothing is an empty list.
func (r *specReader) read(text []byte) error {
	file, err := strict.ParseYAML(text)
	if err != nil {
		return err
	}
	var body ast.Node
	for _, d := range file.Docs {
		switch {
		case d.Body == nil || d.Body.Type() == ast.NullType:
		case body == nil:
			body = d.Body
		default:
			return fmt.Errorf("%s: a second document; put all workloads into one list", strict.Position(d.Body.GetToken()))
		}
	}
	if body == nil {
		return nil
	}
	entries := []ast.Node{body}
	if list, ok := body.(*ast.SequenceNode); ok {
		entries = list.Values
	}
	for i, n := range entries {
		r.workload(i, n)
	}
	r.peers()
	return r.err
}

// specReader turns nodes into specs; the first error wins.
type specReader struct {
	keys    []string // that a workload may have
	specs   []workload.Spec
	runners []runner // what specs do not hold: where each is
	near    []nearWish
	at      map[string]int // name → index in specs
	who     string         // the workload being read, for errors
	err     error
}

// nearWish is an entry of near, before it is known what it names.
type nearWish struct {
	of     int // index in specs
	node   ast.Node
	name   string
	weight float64
}

func (r *specReader) fail(n ast.Node, format string, a ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s: %s", strict.Position(n.GetToken()), r.who, fmt.Sprintf(format, a...))
	}
}

// specKeys lists what a workload may say.
var specKeys = []string{"name", "class", "importance", "cpus", "memory", "huge_page", "smt", "near", "nodes", "max_nodes", "even", "bandwidth"}

func (r *specReader) workload(i int, n ast.Node) {
	r.who = fmt.Sprintf("workload %d", i+1)
	if r.err != nil {
		return
	}
	s := workload.Spec{Class: workload.Shared, Importance: workload.DefaultImportance, Given: true}
	fields := r.mapping(n, "a workload is a mapping", r.keys)
	if x := fields["name"]; x != nil {
		name := r.text(x, "name")
		switch {
		case len(name) > maxName || strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }):
			r.fail(x, "name is %q; give at most %d bytes on one line", strict.Clip(name), maxName)
		case name != "":
			r.who = fmt.Sprintf("workload %q", strict.Clip(name))
		}
		if first, twice := r.at[name]; twice {
			r.fail(x, "the name is taken by workload %d; give each its own", first+1)
		}
		s.ID, s.Name = workload.ID(name), name
	}
	if s.Name == "" {
		r.fail(n, "it has no name; give one")
	}
	r.at[s.Name] = i
	if x := fields["class"]; x != nil {
		c, err := workload.ParseClass(r.text(x, "class"))
		if err != nil {
			r.fail(x, "class is %q; give dedicated, shared or offline", strict.Clip(x.GetToken().Value))
		}
		s.Class = c
	}
	if x := fields["cpus"]; x != nil {
		s.CPUs = int(r.whole(x, "cpus", 1, topology.MaxID))
	} else {
		r.fail(n, "it has no cpus; give 1 to %d", topology.MaxID)
	}
	if x := fields["importance"]; x != nil {
		s.Importance = int(r.whole(x, "importance", 0, 100))
	}
	if x := fields["smt"]; x != nil {
		switch s.SMT = workload.SMTPolicy(r.text(x, "smt")); s.SMT {
		case workload.SMTPrefer, workload.SMTIsolate, workload.SMTRequire:
		default:
			r.fail(x, "smt is %q; give prefer, isolate or require", strict.Clip(string(s.SMT)))
		}
	}
	if x := fields["memory"]; x != nil {
		s.Memory = r.size(x, "memory")
	}
	if x := fields["huge_page"]; x != nil {
		s.HugePage = r.size(x, "huge_page")
		if k := uint64(s.HugePage); k < 4 || bits.OnesCount64(k) != 1 {
			r.fail(x, "huge_page is %q; give a page size of the kernel, such as 2MiB or 1GiB", strict.Clip(x.GetToken().Value))
		}
	}
	if x := fields["nodes"]; x != nil {
		var err error
		if s.Nodes, err = topology.ParseNodeSet(r.text(x, "nodes")); err != nil {
			r.fail(x, "nodes: %v; give a list such as 0-1,4", err)
		}
	}
	if x := fields["max_nodes"]; x != nil {
		s.MaxNodes = int(r.whole(x, "max_nodes", 0, topology.MaxID))
	}
	if x := fields["bandwidth"]; x != nil {
		s.Bandwidth = r.whole(x, "bandwidth", 0, 1<<40)
	}
	if x := fields["even"]; x != nil {
		b, ok := x.(*ast.BoolNode)
		if !ok {
			r.fail(x, "even is %q; give true or false", strict.Clip(x.GetToken().Value))
			return
		}
		s.Even = b.Value
	}
	r.specs = append(r.specs, s)
	run := r.runner(fields)
	run.Where = strict.Position(n.GetToken())
	r.runners = append(r.runners, run)
	if x := fields["near"]; x != nil {
		r.nears(i, x)
	}
}

// runner reads what only running workloads say.
func (r *specReader) runner(fields map[string]ast.Node) (out runner) {
	if x := fields["stay"]; x != nil {
		out.Stay = r.text(x, "stay")
	}
	x := fields["at"]
	if x == nil {
		return out
	}
	out.At = &seat{}
	at := r.mapping(x, "at is a mapping", []string{"cpus", "memory"})
	if c := at["cpus"]; c != nil {
		var err error
		if out.At.CPUs, err = topology.ParseCPUSet(r.text(c, "cpus")); err != nil {
			r.fail(c, "at: cpus: %v; give a list such as 0-3,8", err)
		}
	}
	m := at["memory"]
	if m == nil {
		return out
	}
	values, ok := m.(*ast.MappingNode)
	if !ok {
		r.fail(m, "at: memory is %s; give sizes by node, such as {0: 8GiB}", kindOf(m))
		return out
	}
	out.At.Memory = map[topology.NodeID]topology.KiB{}
	for _, v := range values.Values {
		node := topology.NodeID(r.whole(v.Key, "at: memory: a node", 0, topology.MaxID))
		if _, twice := out.At.Memory[node]; twice {
			r.fail(v.Key, "at: memory: node %d is there twice; keep one", node)
		}
		out.At.Memory[node] = r.size(v.Value, "at: memory")
	}
	return out
}

// mapping is the values of a mapping by key; its keys are all known, each is there once.
func (r *specReader) mapping(n ast.Node, want string, known []string) map[string]ast.Node {
	out := map[string]ast.Node{}
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		r.fail(n, "this is %s; %s of %s", kindOf(n), want, strings.Join(known, ", "))
	}
	for _, v := range values {
		key := v.Key.GetToken().Value
		switch {
		case !slices.Contains(known, key):
			r.fail(v.Key, "unknown key %q; known are %s", strict.Clip(key), strings.Join(known, ", "))
		case out[key] != nil:
			r.fail(v.Key, "key %q is there twice; keep one", key)
		}
		if v.Value != nil && v.Value.Type() != ast.NullType {
			out[key] = v.Value
		}
	}
	return out
}

// scalar reports whether a node is one value written out.
func scalar(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return true
	}
	return false
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return "an anchor, alias or tag"
	case *ast.LiteralNode:
		return "a block of text"
	}
	return fmt.Sprintf("%q", strict.Clip(n.GetToken().Value))
}

// text is a value as it is written: a number is fine where a text is wanted.
func (r *specReader) text(n ast.Node, key string) string {
	if !scalar(n) {
		r.fail(n, "%s is %s; write the value out", key, kindOf(n))
		return ""
	}
	return n.GetToken().Value
}

func (r *specReader) whole(n ast.Node, key string, low, high int64) int64 {
	text := r.text(n, key)
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < low || v > high {
		r.fail(n, "%s is %q; give a whole number from %d to %d", key, strict.Clip(text), low, high)
	}
	return v
}

func (r *specReader) size(n ast.Node, key string) topology.KiB {
	text := r.text(n, key)
	v, err := workload.ParseSize(text)
	if err != nil || text == "" {
		r.fail(n, "%s is %q; give a number with a unit, such as 16GiB", key, strict.Clip(text))
	}
	return v
}

// nears reads what a workload wants to be near to: names, or names with a weight.
func (r *specReader) nears(of int, n ast.Node) {
	entries := []ast.Node{n}
	if list, ok := n.(*ast.SequenceNode); ok {
		entries = list.Values
	}
	for _, x := range entries {
		wish := nearWish{of: of, node: x, weight: 1}
		if scalar(x) {
			wish.name = x.GetToken().Value
		} else {
			fields := r.mapping(x, "near takes names, or mappings", []string{"name", "weight"})
			if v := fields["name"]; v != nil {
				wish.node, wish.name = v, r.text(v, "near")
			}
			if v := fields["weight"]; v != nil {
				w, err := strconv.ParseFloat(r.text(v, "weight"), 64)
				if err != nil || !(w > 0 && w <= 100) {
					r.fail(v, "weight is %q; give a number above 0, at most 100", strict.Clip(v.GetToken().Value))
				}
				wish.weight = w
			}
		}
		if wish.name == "" {
			r.fail(x, "near names nothing; give a device or a workload")
		}
		r.near = append(r.near, wish)
	}
}

// peers settles what the entries of near name: a workload of the file, or else a
// device. Workloads are placed in the order of the file, so a peer stands above.
func (r *specReader) peers() {
	if r.err != nil {
		return
	}
	for i := range r.near {
		x := &r.near[i]
		s := &r.specs[x.of]
		r.who = fmt.Sprintf("workload %q", strict.Clip(s.Name))
		peer, is := r.at[x.name]
		switch {
		case !is:
			s.Near = append(s.Near, workload.Near{Device: x.name, Weight: x.weight})
			continue
		case peer == x.of:
			r.fail(x.node, "it is near to itself; take that out")
			return
		case peer > x.of:
			if way := r.wayBack(peer, x.of); way != nil {
				r.fail(x.node, "near goes in a circle, %s; take one of them out", r.circle(append([]int{x.of}, way...)))
			}
			r.fail(x.node, "near %q stands further down; move it above", strict.Clip(x.name))
			return
		}
		s.Near = append(s.Near, workload.Near{Workload: workload.ID(x.name), Weight: x.weight})
	}
}

// wayBack is the shortest way that near leads from one workload to another, both
// ends in it; nil when there is none.
func (r *specReader) wayBack(from, to int) []int {
	next := make([][]int, len(r.specs))
	for _, x := range r.near {
		if peer, is := r.at[x.name]; is {
			next[x.of] = append(next[x.of], peer)
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
		names = append(names, strict.Clip(r.specs[i].Name))
	}
	if members > mostNamed {
		names = append(names, fmt.Sprintf("… %d more …", members-mostNamed))
	}
	names = append(names, strict.Clip(r.specs[way[members]].Name))
	return strings.Join(names, " → ")
}
