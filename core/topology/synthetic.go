package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits of a synthetic host: those of the kernel (NR_CPUS, MAX_NUMNODES).
const (
	maxSynthetic      = 4096 // bytes of text
	maxSyntheticCPUs  = 8192
	maxSyntheticNodes = 1024
)

// Defaults of a synthetic host. The distances are those that two-socket servers
// with sub-NUMA clustering report in their SLIT.
const (
	syntheticMemory  KiB = 64 << 20
	syntheticNear        = 12 // another node of the package
	syntheticFar         = 32 // a node of another package
	syntheticSpecial     = 14 // added for a node without CPUs
)

// syntheticLevel is one word of a synthetic string.
type syntheticLevel struct {
	kind  string
	name  string // as written
	count int
	at    int // byte position in the string
}

// syntheticKinds maps the words of the grammar, and hwloc's words for the same, to one.
var syntheticKinds = map[string]string{
	"package": "package", "pack": "package", "socket": "package",
	"node": "node", "numa": "node", "numanode": "node",
	"special": "special",
	"llc":     "llc", "l3": "llc", "l3cache": "llc",
	"core": "core",
	"pu":   "pu", "thread": "pu", "cpu": "pu",
	"die": "level", "group": "level", "cluster": "level", "l4": "level", "l2": "level", "l1": "level",
	"l2cache": "level", "l1cache": "level", "l1d": "level", "l1i": "level", "l1dcache": "level", "l1icache": "level",
}

type syntheticSpec struct {
	levels    []syntheticLevel
	memory    KiB
	special   KiB
	pools     []HugePool
	numbering string
}

// FromSynthetic makes a host up from one line:
//
//	package:2 node:2 llc:2 core:8 pu:2
//	package:2 node:1(memory=64GiB hugepages=2MiB:1024) special:1(memory=256GiB) core:4 numbering=interleaved
//
// Each word is a kind and how many of it each one of the kind before it holds.
// Kinds are package (also pack, socket), node (numa, numanode), llc (l3), core
// and pu (thread, cpu), in any order but core before pu, each at most once and
// all but core optional; die, group, cluster, l1, l2 and l4 multiply and leave
// no trace. special:N adds N nodes without CPUs to each thing of the level
// before, and multiplies nothing.
//
// In parentheses a node may have memory=SIZE (default 64GiB) and
// hugepages=SIZE:COUNT, more than once; special may have memory. Sizes are in
// KiB, MiB, GiB or TiB (also KB, MB, GB, TB, which mean the same here, as they
// do in hwloc). All memory is free.
//
// numbering= at the end says how CPUs are numbered: block (default; the first
// threads of all cores in order, then the second ones, as Linux on x86 does),
// interleaved (the same, but going round the nodes core by core), or adjacent
// (the threads of a core next to each other, as hwloc and POWER do).
//
// Distances are 10 within a node, 12 within a package, 32 across, and 14 more
// to, from and between nodes without CPUs.
func FromSynthetic(s string) (*Host, error) {
	spec, err := parseSynthetic(s)
	if err != nil {
		return nil, fmt.Errorf("read synthetic host: %w", err)
	}
	return spec.build(), nil
}

func parseSynthetic(s string) (*syntheticSpec, error) {
	if len(s) > maxSynthetic {
		return nil, fmt.Errorf("more than %d characters", maxSynthetic)
	}
	spec := &syntheticSpec{memory: syntheticMemory, special: syntheticMemory, numbering: "block"}
	seen := map[string]bool{}
	for at := 0; ; {
		at += len(s[at:]) - len(strings.TrimLeft(s[at:], " \t\n"))
		if at == len(s) {
			break
		}
		end := wordEnd(s, at)
		if err := spec.word(s[at:end], at, seen); err != nil {
			return nil, fmt.Errorf("character %d: %w", at+1, err)
		}
		at = end
	}
	return spec, spec.check()
}

// wordEnd is where the word that starts at at ends: blanks inside parentheses belong to it.
func wordEnd(s string, at int) int {
	open := false
	for i := at; i < len(s); i++ {
		switch c := s[i]; {
		case c == '(':
			open = true
		case c == ')':
			open = false
		case !open && (c == ' ' || c == '\t' || c == '\n'):
			return i
		}
	}
	return len(s)
}

func (spec *syntheticSpec) word(word string, at int, seen map[string]bool) error {
	if value, ok := strings.CutPrefix(word, "numbering="); ok {
		if !slices.Contains([]string{"block", "interleaved", "adjacent"}, value) {
			return fmt.Errorf("numbering is %q; give block, interleaved or adjacent", clip(value))
		}
		if seen["numbering"] {
			return fmt.Errorf("numbering is there twice")
		}
		seen["numbering"], spec.numbering = true, value
		return nil
	}
	head, attributes, haveAttributes := strings.Cut(word, "(")
	name, number, ok := strings.Cut(head, ":")
	kind := syntheticKinds[strings.ToLower(name)]
	switch {
	case kind == "":
		return fmt.Errorf("unknown kind %q; known are package, node, special, llc, core, pu", clip(name))
	case !ok:
		return fmt.Errorf("%s lacks a count; give %s:1", clip(name), clip(name))
	case kind != "level" && seen[kind]:
		return fmt.Errorf("%s is there twice", kind)
	}
	count, err := strconv.ParseUint(number, 10, 16)
	if err != nil || count == 0 || count > maxSyntheticCPUs {
		return fmt.Errorf("count of %s is %q; give 1 to %d", clip(name), clip(number), maxSyntheticCPUs)
	}
	seen[kind] = true
	spec.levels = append(spec.levels, syntheticLevel{kind, clip(name), int(count), at})
	if !haveAttributes {
		return nil
	}
	inside, after, closed := strings.Cut(attributes, ")")
	if !closed || after != "" {
		return fmt.Errorf("%s( wants one closing parenthesis at its end", clip(name))
	}
	for attribute := range strings.FieldsSeq(strings.ReplaceAll(inside, ",", " ")) {
		if err := spec.attribute(kind, attribute); err != nil {
			return err
		}
	}
	return nil
}

func (spec *syntheticSpec) attribute(kind, attribute string) error {
	key, value, _ := strings.Cut(attribute, "=")
	switch {
	case key == "memory" && (kind == "node" || kind == "special"):
		size, err := parseMemory(value)
		if err != nil {
			return err
		}
		if kind == "node" {
			spec.memory = size
		} else {
			spec.special = size
		}
		return nil
	case key == "hugepages" && kind == "node":
		page, number, _ := strings.Cut(value, ":")
		size, err := parseMemory(page)
		if err != nil {
			return err
		}
		count, err := strconv.ParseUint(number, 10, 31)
		if err != nil || size == 0 {
			return fmt.Errorf("hugepages is %q; give SIZE:COUNT, such as 2MiB:1024", clip(value))
		}
		if slices.ContainsFunc(spec.pools, func(p HugePool) bool { return p.Size == size }) {
			return fmt.Errorf("huge page size %s is there twice", clip(page))
		}
		spec.pools = append(spec.pools, HugePool{Size: size, Total: int64(count), Free: int64(count)})
		return nil
	}
	return fmt.Errorf("%s has no attribute %q; node has memory and hugepages, special has memory", kind, clip(key))
}

func parseMemory(text string) (KiB, error) {
	digits := strings.TrimRight(text, "KMGTiBb")
	units := map[string]uint64{"KiB": 1, "KB": 1, "MiB": 1 << 10, "MB": 1 << 10, "GiB": 1 << 20, "GB": 1 << 20,
		"TiB": 1 << 30, "TB": 1 << 30}
	unit, ok := units[strings.TrimPrefix(text, digits)]
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || (!ok && text != "0") || n*unit > maxAmount>>10 {
		return 0, fmt.Errorf("size is %q; give a size up to 4096TiB, such as 64GiB, or 0", clip(text))
	}
	return KiB(n * unit), nil
}

// check finds levels that cannot hold one another.
func (spec *syntheticSpec) check() error {
	at := func(kind string) int {
		return slices.IndexFunc(spec.levels, func(l syntheticLevel) bool { return l.kind == kind })
	}
	core, pu := at("core"), at("pu")
	if core < 0 && pu < 0 {
		return fmt.Errorf("no CPUs; add core:N at the end, and pu:N for the SMT siblings of each")
	}
	last := max(core, pu)
	for i, l := range spec.levels {
		switch {
		case pu >= 0 && i > pu:
			return fmt.Errorf("character %d: %s stands after pu, which holds nothing", l.at+1, l.name)
		case (core >= 0 && i > core && l.kind != "pu" && l.kind != "level") || (l.kind == "level" && i > last):
			return fmt.Errorf("character %d: %s stands after core; a core is in one", l.at+1, l.name)
		}
	}
	cpus, nodes := 1, 1
	for _, l := range spec.levels {
		if l.kind == "special" {
			nodes = max(nodes, cpus*l.count)
			continue
		}
		cpus *= l.count
		if cpus > maxSyntheticCPUs {
			return fmt.Errorf("character %d: more than %d CPUs", l.at+1, maxSyntheticCPUs)
		}
		if l.kind == "node" {
			nodes = max(nodes, cpus)
		}
	}
	if nodes > maxSyntheticNodes {
		return fmt.Errorf("more than %d nodes", maxSyntheticNodes)
	}
	return nil
}

// total is the number of things of a kind on the whole host; 1 when the kind is absent
// (all CPUs are then in one).
func (spec *syntheticSpec) total(kind string) int {
	n := 1
	for _, l := range spec.levels {
		if l.kind == "special" && kind != "special" {
			continue
		}
		n *= l.count
		if l.kind == kind {
			return n
		}
	}
	return 1
}

func (spec *syntheticSpec) has(kind string) bool {
	return slices.ContainsFunc(spec.levels, func(l syntheticLevel) bool { return l.kind == kind })
}

func (spec *syntheticSpec) build() *Host {
	threads := 1
	if spec.has("pu") && spec.has("core") {
		threads = spec.total("pu") / spec.total("core")
	}
	cpus := max(spec.total("pu"), spec.total("core"))
	cores := cpus / threads
	nodes := spec.total("node")
	packages := spec.total("package")
	h := &Host{}
	for i := range nodes {
		h.Nodes = append(h.Nodes, Node{
			ID: NodeID(i), Package: None, Memory: spec.memory, Free: spec.memory, Reclaimable: 0,
			HugePages: slices.Clone(spec.pools),
		})
		slices.SortFunc(h.Nodes[i].HugePages, func(a, b HugePool) int { return int(a.Size - b.Size) })
	}
	for i := range packages {
		h.Packages = append(h.Packages, Package{ID: PackageID(i)})
	}
	if spec.has("llc") {
		h.LLCs = slices.Repeat([]LLC{{ID: None, Level: 3, Size: None}}, spec.total("llc"))
	}
	for c := range cores {
		core := Core{Node: NodeID(c * nodes / cores), Package: PackageID(c * packages / cores), Capacity: None}
		for t := range threads {
			cpu := spec.cpu(c, t, cores, threads, nodes)
			core.CPUs.Add(cpu)
			h.Online.Add(cpu)
			h.Nodes[core.Node].CPUs.Add(cpu)
			h.Packages[core.Package].CPUs.Add(cpu)
			if len(h.LLCs) > 0 {
				h.LLCs[c*len(h.LLCs)/cores].CPUs.Add(cpu)
			}
		}
		h.Cores = append(h.Cores, core)
	}
	slices.SortFunc(h.Cores, func(a, b Core) int { return int(a.CPUs.Min() - b.CPUs.Min()) })
	h.NumberLLCs()
	setNodePackages(h)
	spec.addSpecial(h, packages)
	for i := range h.Nodes {
		h.Nodes[i].Kind = kindOf(h.Nodes[i])
		if h.Nodes[i].Memory > 0 {
			h.AllowedMems.Add(h.Nodes[i].ID)
		}
	}
	h.Distances = syntheticDistances(h)
	h.Allowed = h.Online.Clone()
	return h
}

// cpu numbers thread t of core c, cores counted in the order of the string.
func (spec *syntheticSpec) cpu(c, t, cores, threads, nodes int) CPUID {
	switch spec.numbering {
	case "adjacent":
		return CPUID(c*threads + t)
	case "interleaved":
		each := cores / nodes
		return CPUID(t*cores + c%each*nodes + c/each)
	}
	return CPUID(t*cores + c)
}

// addSpecial appends the nodes without CPUs, with the package they hang from.
func (spec *syntheticSpec) addSpecial(h *Host, packages int) {
	if !spec.has("special") {
		return
	}
	n := spec.total("special")
	for i := range n {
		node := Node{ID: NodeID(len(h.Nodes)), Package: None, Memory: spec.special, Free: spec.special}
		if n >= packages {
			node.Package = PackageID(i * packages / n)
		}
		h.Nodes = append(h.Nodes, node)
	}
}

func syntheticDistances(h *Host) Matrix {
	m := newMatrix(len(h.Nodes))
	for i, a := range h.Nodes {
		for j, b := range h.Nodes {
			switch {
			case i == j:
				m[i][j] = localDistance
				continue
			case a.Package == b.Package && a.Package != None:
				m[i][j] = syntheticNear
			default:
				m[i][j] = syntheticFar
			}
			if a.CPUs.Empty() || b.CPUs.Empty() {
				m[i][j] += syntheticSpecial
			}
		}
	}
	return m
}
