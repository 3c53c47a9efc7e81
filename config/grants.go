package config

import (
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/homenode/homenode/core/workload"
)

// Grants is what the operator lets the authors of pods ask for by annotation: {allow: […], from: {namespaces: […],
// labels: {…}}}, or a list of such.
type Grants []workload.Grant

// grant is one grant as it is written.
type grant struct {
	Allow []workload.Permission `yaml:"allow"`
	From  struct {
		Namespaces []string          `yaml:"namespaces"`
		Labels     map[string]string `yaml:"labels"`
	} `yaml:"from"`
}

// Entry returns one grant as it is written (strict.OneOrMore).
func (Grants) Entry() any { return grant{} }

// UnmarshalYAML reads one grant or a list of them.
func (g *Grants) UnmarshalYAML(node ast.Node) error {
	entries := []ast.Node{node}
	if list, ok := node.(*ast.SequenceNode); ok {
		entries = list.Values
	}
	*g = Grants{}
	for _, entry := range entries {
		var x grant
		if err := yaml.NodeToValue(entry, &x, yaml.Strict()); err != nil {
			return err
		}
		*g = append(*g, workload.Grant{Allow: x.Allow, Namespaces: x.From.Namespaces, Labels: x.From.Labels})
	}
	return nil
}

func (g Grants) validate() error {
	for i := range g {
		at := "containers.annotations"
		if len(g) > 1 {
			at = fmt.Sprintf("containers.annotations[%d]", i)
		}
		if len(g[i].Allow) == 0 {
			return fmt.Errorf("%s.allow: empty; want what these pods may ask for, such as [class=dedicated]", at)
		}
		for k, text := range g[i].Allow {
			p, err := workload.ParsePermission(string(text))
			if err != nil {
				return fmt.Errorf("%s.allow: %w", at, err)
			}
			g[i].Allow[k] = p
		}
		if len(g[i].Namespaces) == 0 {
			return fmt.Errorf("%s.from: no namespaces; want some, such as {namespaces: [prod-*]}: the author of a "+
				"pod writes its labels, so labels alone grant to every pod", at)
		}
		for _, pattern := range g[i].Namespaces {
			if pattern == "" || strings.Contains(pattern, "/") || !doublestar.ValidatePattern(pattern) {
				return fmt.Errorf("%s.from.namespaces: bad pattern %q; want the name of a namespace or a pattern for "+
					"names, such as prod-*", at, pattern)
			}
		}
	}
	return nil
}

// boundLabels refuses a rule that labels alone choose and that takes from other workloads: the author of a
// pod writes its labels.
func (r *Rule) boundLabels() error {
	if len(r.Labels) == 0 {
		return nil
	}
	namespace, _, _ := strings.Cut(r.Match, "/")
	bounded := strings.Trim(namespace, "*?") != "" // a path from / names cgroups, which pods of all namespaces have
	gives := r.gives()
	if bounded || gives == "" {
		return nil
	}
	return fmt.Errorf("labels: the author of a pod writes its labels, and this rule gives %s to any pod that has "+
		"them; want a match with namespaces, such as prod-*/**", gives)
}

// gives returns the first wish of a rule that takes from other workloads; "" where all of them yield.
func (r *Rule) gives() string {
	tier, _ := r.tier()
	switch {
	case r.Class == workload.Dedicated:
		return "class dedicated"
	case tier == workload.Online || tier == workload.OnlineStrict:
		return "tier " + string(tier)
	case r.Importance != nil && *r.Importance > workload.DefaultImportance:
		return fmt.Sprintf("importance %d", *r.Importance)
	case r.CPUs > 0:
		return fmt.Sprintf("%d CPUs", r.CPUs)
	case r.Memory > 0:
		return "memory"
	case len(r.SLO) > 0:
		return "a latency goal"
	case (&workload.Spec{Near: r.Near}).Requires():
		return "near with policy required"
	}
	return ""
}
