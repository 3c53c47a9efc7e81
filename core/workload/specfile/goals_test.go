package specfile_test

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/homenode/homenode/core/workload/specfile"
)

func TestGoals(t *testing.T) {
	for _, x := range []struct{ text, want, bad string }{
		{text: "{metric: p99, of: {file: /tmp/p99}, most: 2ms, window: 5s}", want: "p99 2 ms or less (file)"},
		{text: "{metric: p99, of: {file: /run/p99, pattern: 'p99=([0-9.]+)'}, most: 1.5}", want: "p99 1.5 or less (file)"},
		{text: "{metric: p99, of: {query: 'x{a=\"b\"}'}, most: 2ms}", want: "p99 2 ms or less (query)"},
		{text: "{metric: p99, of: {command: './p99.sh | tail -1'}, most: 200µs}", want: "p99 200 us or less (command)"},
		{text: "{most: 5%}", want: "wait 5 % or less (kernel)"},
		{text: "{of: kernel, most: 5%}", want: "wait 5 % or less (kernel)"},
		{text: "{of: baseline}", want: "harm at its baseline"},
		{text: "[{most: 5%}, {of: baseline}]", want: "wait 5 % or less (kernel); harm at its baseline"},

		{text: "{metric: p99, of: {file: run/p99}, most: 2ms}", bad: "want a path from /"},
		{text: "{metric: p99, of: {file: /a, query: b}, most: 2ms}", bad: "two sources"},
		{text: "{metric: p99, of: {}, most: 2ms}", bad: "no source"},
		{text: "{metric: p99, of: magic, most: 2ms}", bad: "magic"},
		{text: "{of: kernel, most: 5ms}", bad: "want a percentage"},
		{text: "{of: kernel, most: 500%}", bad: "want a percentage"},
		{text: "{of: kernel}", bad: "most: not given"},
		{text: "{of: baseline, most: 5%}", bad: "leave it out"},
		{text: "{metric: p99, of: {command: x}, most: -1ms}", bad: "above 0"},
		{text: "{metric: p99, of: {command: x}, most: 1ms, window: 2h}", bad: "window: 2h"},
		{text: "{of: {command: x}, most: 1ms}", bad: "metric:"},
		{text: "{metric: p99, of: {command: x, pattern: y}, most: 1ms}", bad: "pattern"},
		{text: "[{most: 5%}, {most: 6%}]", bad: "twice"},
		{text: "{most: 5%, colour: red}", bad: "colour"},
	} {
		var g specfile.Goals
		err := yaml.Unmarshal([]byte(x.text), &g)
		if err == nil {
			err = g.Check()
		}
		if x.bad != "" {
			if err == nil || !strings.Contains(err.Error(), x.bad) {
				t.Errorf("%s: %v; want %q", x.text, err, x.bad)
			}
			continue
		}
		var all []string
		for _, one := range g {
			all = append(all, one.String())
		}
		if got := strings.Join(all, "; "); err != nil || got != x.want {
			t.Errorf("%s: %q, %v; want %q", x.text, got, err, x.want)
		}
	}
}
