package specfile

import (
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/homenode/homenode/core/workload"
)

// Goals is latency goals as configuration has them: {metric: p99, of: {query: …}, most: 2ms, window: 30s}, or
// a list of them. of is kernel, baseline, {command: …}, {file: …, pattern: …} or {query: …}.
type Goals []workload.Goal

// GoalsWant is what to write, for errors (strict.Wants).
const GoalsWant = "{metric: p99, of: {query: TEXT}, most: 2ms, window: 30s}, where of is kernel, baseline, " +
	"{command: TEXT}, {file: PATH} or {query: TEXT}, or a list of them"

type goalText struct {
	Metric string        `yaml:"metric"`
	Of     goalSource    `yaml:"of"`
	Most   string        `yaml:"most"`
	Window time.Duration `yaml:"window"`
}

type goalSource workload.Goal

// UnmarshalYAML reads where a metric comes from.
func (s *goalSource) UnmarshalYAML(node ast.Node) error {
	if _, ok := node.(ast.MapNode); !ok {
		var name string
		if err := yaml.NodeToValue(node, &name, yaml.Strict()); err != nil {
			return err
		}
		s.From = workload.GoalSource(name)
		if s.From != workload.FromKernel && s.From != workload.FromBaseline {
			return fmt.Errorf("of: %.60q", name)
		}
		return nil
	}
	var x struct {
		Command string `yaml:"command"`
		File    string `yaml:"file"`
		Pattern string `yaml:"pattern"`
		Query   string `yaml:"query"`
	}
	if err := yaml.NodeToValue(node, &x, yaml.Strict()); err != nil {
		return err
	}
	s.From = "" // not that of a goal without of
	for _, one := range []struct {
		from workload.GoalSource
		text string
	}{{workload.FromCommand, x.Command}, {workload.FromFile, x.File}, {workload.FromQuery, x.Query}} {
		switch {
		case one.text == "":
		case s.From != "":
			return errors.New("of: two sources")
		default:
			s.From, s.Text = one.from, one.text
		}
	}
	if s.From == "" {
		return errors.New("of: no source")
	}
	s.Match = x.Pattern
	return nil
}

// UnmarshalYAML reads one or a list.
func (g *Goals) UnmarshalYAML(node ast.Node) error {
	entries := []ast.Node{node}
	if list, ok := node.(*ast.SequenceNode); ok {
		entries = list.Values
	}
	*g = Goals{}
	for _, entry := range entries {
		x := goalText{Of: goalSource{From: workload.FromKernel}}
		if err := yaml.NodeToValue(entry, &x, yaml.Strict()); err != nil {
			return err
		}
		goal := workload.Goal(x.Of)
		goal.Metric, goal.Window = x.Metric, x.Window
		if x.Most != "" {
			var err error
			goal.Most, goal.Unit, err = workload.ParseLimit(x.Most)
			if err != nil {
				return err
			}
		}
		*g = append(*g, goal)
	}
	return nil
}

// Check completes goals and returns what is wrong with them.
func (g Goals) Check() error {
	if len(g) > workload.MostGoals {
		return fmt.Errorf("%d goals; want %d at most", len(g), workload.MostGoals)
	}
	for i := range g {
		if err := g[i].Check(); err != nil {
			return err
		}
		for k := range g[:i] {
			if g[k].Metric == g[i].Metric {
				return fmt.Errorf("metric: %q is there twice", g[i].Metric)
			}
		}
	}
	return nil
}

// Written returns goals as YAML has them.
func (g Goals) Written() []map[string]any {
	all := make([]map[string]any, len(g))
	for i := range g {
		x := &g[i]
		all[i] = map[string]any{"metric": x.Metric, "window": x.Window.String()}
		if x.Most > 0 {
			all[i]["most"] = fmt.Sprint(x.Most, x.Unit)
		}
		switch {
		case x.Match != "":
			all[i]["of"] = map[string]string{string(x.From): x.Text, "pattern": x.Match}
		case x.From.Named():
			all[i]["of"] = map[string]string{string(x.From): x.Text}
		default:
			all[i]["of"] = string(x.From)
		}
	}
	return all
}
