package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/topology"
)

// Sizes is the value of each name that formulas and commands may use. Go's own arithmetic of
// constants works them out: exact, without calls of functions, and with an error where a name
// is wrong or something is divided by 0.
type Sizes map[string]constant.Value

func whole(n int) constant.Value { return constant.MakeInt64(int64(n)) }

// facts is what formulas may know of a machine.
func facts(h *topology.Host) Sizes {
	memory := topology.KiB(0)
	least := h.Allowed.Len()
	nodes := 0
	for _, n := range h.Nodes {
		memory += max(0, n.Memory)
		if cpus := n.CPUs.Intersect(h.Allowed).Len(); cpus > 0 {
			least = min(least, cpus)
			nodes++
		}
	}
	return Sizes{
		"cpus":       whole(h.Allowed.Len()),
		"cores":      whole(len(h.Cores)),
		"nodes":      whole(max(1, nodes)), // that have CPUs
		"packages":   whole(max(1, len(h.Packages))),
		"caches":     whole(max(1, len(h.LLCs))),
		"node_cpus":  whole(least), // of the node with the fewest
		"memory_mib": whole(int(memory / 1024)),
	}
}

// places is what commands may know besides.
var places = []string{"i", "seconds", "dir", "self", "homenode"}

// Value works out a formula.
func (s Sizes) Value(f Formula) (v constant.Value, err error) {
	defer func() { // of go/constant, on numbers that are too large
		if r := recover(); r != nil {
			v, err = nil, fmt.Errorf("%s: %v", f, r)
		}
	}()
	scope := types.NewPackage("sizes", "sizes")
	for _, name := range slices.Sorted(maps.Keys(s)) {
		kind := types.UntypedInt
		switch s[name].Kind() {
		case constant.String:
			kind = types.UntypedString
		case constant.Float:
			kind = types.UntypedFloat
		}
		scope.Scope().Insert(types.NewConst(token.NoPos, scope, name, types.Typ[kind], s[name]))
	}
	if len(f) > 200 {
		return nil, fmt.Errorf("%.40q…: a formula has 200 characters at most", string(f))
	}
	got, err := types.Eval(token.NewFileSet(), scope, token.NoPos, string(f))
	if wrong := (types.Error{}); errors.As(err, &wrong) {
		return nil, fmt.Errorf("%s: %s", f, wrong.Msg)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: this is no formula", f)
	}
	if got.Value == nil {
		return nil, fmt.Errorf("%s: not a number or text", f)
	}
	return got.Value, nil
}

// Int works out a formula that must be a whole number, at least 0.
func (s Sizes) Int(f Formula, otherwise int) (int, error) {
	if f == "" {
		return otherwise, nil
	}
	v, err := s.Value(f)
	if err != nil {
		return 0, err
	}
	n, exact := constant.Int64Val(constant.ToInt(v))
	if constant.ToInt(v).Kind() != constant.Int || !exact || n < 0 || n > 1<<40 {
		return 0, fmt.Errorf("%s is %s; want a whole number, 0 or more", f, v)
	}
	return int(n), nil
}

// With is the sizes and some more, each worked out after those that it uses.
func (s Sizes) With(more map[string]Formula) (Sizes, error) {
	out := maps.Clone(s)
	left := slices.Sorted(maps.Keys(more))
	for len(left) > 0 {
		var later []string
		var first error
		for _, name := range left {
			v, err := out.Value(more[name])
			if err != nil {
				first = cmp.Or(first, fmt.Errorf("%s: %w", name, err))
				later = append(later, name)
				continue
			}
			out[name] = v
		}
		if len(later) == len(left) {
			return nil, first
		}
		left = later
	}
	return out, nil
}

var place = regexp.MustCompile(`\$\{([^}]*)\}`)

// Fill replaces each ${FORMULA} of a command.
func (s Sizes) Fill(c Command) (string, error) {
	var bad error
	out := place.ReplaceAllStringFunc(string(c), func(m string) string {
		v, err := s.Value(Formula(m[2 : len(m)-1]))
		if err != nil {
			bad = cmp.Or(bad, err)
			return ""
		}
		switch v.Kind() {
		case constant.String:
			return constant.StringVal(v)
		case constant.Float:
			x, _ := constant.Float64Val(v)
			return fmt.Sprint(x)
		}
		return v.ExactString()
	})
	return out, bad
}

// SizesOn is the sizes of an experiment on a machine, in one arm.
func (e *Experiment) SizesOn(h *topology.Host, arm string, smoke bool) (Sizes, error) {
	all := maps.Clone(e.Sizes)
	if all == nil {
		all = map[string]Formula{}
	}
	var with map[string]Formula
	if v := e.variant(arm); v != nil {
		with = v.With
	}
	maps.Copy(all, with)
	if smoke {
		maps.Copy(all, e.Smoke)
		for name, f := range with { // what makes the arm, such as its command
			if _, short := e.Smoke[name]; !short {
				all[name] = f
			}
		}
	}
	return facts(h).With(all)
}

// set puts formulas of the user in the place of the file's.
func (e *Experiment) set(sizes map[string]Formula) error {
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if _, ok := e.Sizes[name]; !ok {
			return fmt.Errorf("-set: %s has no size %q; its sizes: %s", e.Name, name,
				strings.Join(slices.Sorted(maps.Keys(e.Sizes)), ", "))
		}
		e.Sizes[name] = sizes[name]
		delete(e.Smoke, name)
	}
	if path, err := e.checkSizes(); err != nil {
		return fmt.Errorf("-set: %s: %w", path, err)
	}
	return nil
}

// checkSizes works out every formula and command on machines of three sizes, and has sh read every command.
func (e *Experiment) checkSizes() (path string, err error) {
	for _, of := range []struct {
		key   string
		sizes map[string]Formula
	}{{"sizes", e.Sizes}, {"smoke", e.Smoke}} {
		for name := range of.sizes {
			_, fact := facts(&topology.Host{})[name]
			switch {
			case !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(name):
				return of.key, fmt.Errorf("%q; want lower-case letters, digits and _", name)
			case fact || slices.Contains(places, name) || types.Universe.Lookup(name) != nil || token.IsKeyword(name):
				return of.key, fmt.Errorf("%s is taken", name)
			}
			if _, ok := e.Sizes[name]; !ok {
				return of.key, fmt.Errorf("there is no size %q", name)
			}
		}
	}
	for _, h := range exampleHosts() {
		for _, arm := range e.Arms {
			for _, smoke := range []bool{false, true} {
				s, err := e.SizesOn(h, arm, smoke)
				if err != nil {
					return "sizes", err
				}
				if path, err := e.fillAll(s); err != nil {
					return path, err
				}
			}
		}
	}
	return "", nil
}

// fillAll works out all that an experiment says in formulas.
func (e *Experiment) fillAll(s Sizes) (path string, err error) {
	s = s.at(0, 1, "/tmp/seeds", "/tmp/self", "homenode")
	for i, c := range e.Prepare {
		if _, err := s.Fill(c); err != nil {
			return fmt.Sprintf("prepare[%d]", i), err
		}
	}
	for i, p := range e.Programs {
		for key, c := range map[string]Command{"run": p.Run, "ready": p.Ready, "fill": p.Fill} {
			if _, err := s.Fill(c); err != nil {
				return fmt.Sprintf("programs[%d].%s", i, key), err
			}
		}
		for key, f := range map[string]Formula{"count": p.Count, "cpus": p.CPUs, "memory_mib": p.Memory} {
			n, err := s.Int(f, 1)
			least, most := 1, 4096
			switch key {
			case "count":
				least = 0
			case "memory_mib":
				most = 1 << 30
			}
			if err == nil && (n < least || n > most) {
				err = fmt.Errorf("%s is %d; want %d to %d", f, n, least, most)
			}
			if err != nil {
				return fmt.Sprintf("programs[%d].%s", i, key), err
			}
		}
	}
	return "", nil
}

// at is the sizes for the commands of an instance.
func (s Sizes) at(i, seconds int, dir, self, homenode string) Sizes {
	out := maps.Clone(s)
	out["i"], out["seconds"] = whole(i), whole(seconds)
	out["dir"] = constant.MakeString(dir)
	out["self"] = constant.MakeString(self)
	out["homenode"] = constant.MakeString(homenode)
	return out
}

// exampleHosts is machines on which every file must work: a small one, one as published, and a large one.
func exampleHosts() []*topology.Host {
	var out []*topology.Host
	for _, text := range []string{
		"node:1(memory=4GiB) core:2",
		"package:2 node:1(memory=192GiB) core:20 pu:2 numbering=interleaved",
		"package:2 node:4(memory=64GiB) core:16 pu:2",
	} {
		h, err := topology.FromSynthetic(text)
		if err != nil {
			panic(err)
		}
		h.Allowed = h.Online
		out = append(out, h)
	}
	return out
}
