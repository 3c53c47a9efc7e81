package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// errSkip: what a judge needs is not on this machine.
var errSkip = errors.New("not on this machine")

// judgeAlert: Prometheus's own promtool takes what the daemon in the guest was scraped for, and by
// the alert rules as they ship the torn workload has an alert after 15 minutes, and none at home.
// Time is promtool's: what was scraped once stands for 20 minutes.
func judgeAlert(t *tally, _ counts) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	out, err := exec.Command(filepath.Join(root, "e2e", "fetch-prometheus.sh")).Output()
	if err != nil {
		return "", fmt.Errorf("run e2e/fetch-prometheus.sh: %w", err)
	}
	if len(out) == 0 {
		return "", fmt.Errorf("%w: promtool", errSkip)
	}
	promtool := filepath.Join(strings.TrimSpace(string(out)), "promtool")
	run := func(in string, args ...string) error {
		c := exec.Command(promtool, args...)
		c.Stdin = strings.NewReader(in)
		if b, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("promtool %s: %w: %s", strings.Join(args[:2], " "), err, bytes.TrimSpace(b))
		}
		return nil
	}
	for _, phase := range []string{"torn", "home"} {
		if err := run(strings.Join(t.scrapes[phase], "\n")+"\n", "check", "metrics"); err != nil {
			return "", err
		}
	}
	test, err := json.Marshal(alertTest(filepath.Join(root, "packaging", "prometheus", "homenode.rules.yml"),
		t.scrapes["torn"], t.scrapes["home"]))
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "alert")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "test.yml") // JSON is YAML
	if err := os.WriteFile(file, test, 0o644); err != nil {
		return "", err
	}
	if err := run("", "test", "rules", file); err != nil {
		return "", err
	}
	return "HomenodeWorkloadTorn pending, firing after 15 minutes, and over at home", nil
}

// alertTest is a file of promtool's tests of rules: every series of homenode's own, 20 minutes as it
// was in one scrape and 20 as in the other.
func alertTest(rules string, torn, home []string) any {
	values := [2]map[string]string{{}, {}}
	for i, lines := range [][]string{torn, home} {
		for _, l := range lines {
			if at := strings.LastIndexByte(l, ' '); at > 0 && strings.HasPrefix(l, "homenode_") {
				values[i][l[:at]] = l[at+1:]
			}
		}
	}
	all := maps.Clone(values[0])
	maps.Copy(all, values[1])
	type series struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	var input []series
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := series{Series: strings.Replace(name, "{", `{job="homenode",instance="guest:4663",`, 1)}
		if s.Series == name {
			s.Series += `{job="homenode",instance="guest:4663"}`
		}
		for _, of := range values {
			if v := of[name]; v != "" {
				s.Values += v + "x19 " // that and 19 more
			} else {
				s.Values += "_x20 " // none, 20 times
			}
		}
		input = append(input, s)
	}
	type sample struct {
		Labels string  `json:"labels"`
		Value  float64 `json:"value"`
	}
	type expr struct {
		Expr    string   `json:"expr"`
		Time    string   `json:"eval_time"`
		Samples []sample `json:"exp_samples"`
	}
	state := func(time, state string) expr {
		e := expr{Expr: `ALERTS{alertname="HomenodeWorkloadTorn"}`, Time: time}
		if state != "" {
			e.Samples = []sample{{`ALERTS{alertname="HomenodeWorkloadTorn",alertstate="` + state +
				`",instance="guest:4663",job="homenode",severity="warning",workload="/db"}`, 1}}
		}
		return e
	}
	return map[string]any{"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": []any{map[string]any{
		"interval": "1m", "input_series": input, "promql_expr_test": []expr{state("10m", "pending"),
			state("18m", "firing"), state("25m", "")},
	}}}
}
