package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/ui/cli"
)

const rules = "../../packaging/prometheus/homenode.rules.yml"

// tool is a program of Debian's package prometheus, which e2e/fetch-prometheus.sh unpacks for
// `make test`. Nothing else needs it.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s here (package prometheus)", name)
	}
	return path
}

// TestAlertRules: Prometheus reads the rules, they say what their own tests want, and there is no
// alert without a test.
func TestAlertRules(t *testing.T) {
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(strings.Replace(rules, "rules.yml", "rules_test.yml", 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(string(tests), "alertname: "+m[1]) {
			t.Errorf("%s has no test", m[1])
		}
	}
	promtool := tool(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "homenode.rules.yml"}, {"test", "rules", "homenode.rules_test.yml"}} {
		c := exec.Command(promtool, args...)
		c.Dir = filepath.Dir(rules)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", args, err, out)
		}
	}
}

// queries is those of the Grafana dashboard, by the title of their panel, for all hosts.
func queries(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../packaging/grafana/homenode.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		UID, Title string
		Panels     []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ Expr string }
		}
		Templating struct{ List []struct{ Name, Type string } }
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	out := map[string][]string{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H < 1 || (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %d, %q: not as Grafana has it", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			out[p.Title] = append(out[p.Title], strings.ReplaceAll(target.Expr, "$host", ".*"))
		}
	}
	if board.UID == "" || len(board.Templating.List) != 2 || board.Templating.List[1].Name != "host" {
		t.Errorf("board %q: variables %v", board.UID, board.Templating.List)
	}
	return out
}

// TestPrometheus: a real Prometheus scrapes a daemon that looks after a simulated host, answers
// every query of the dashboard, and its alert for memory away from home comes and goes.
func TestPrometheus(t *testing.T) {
	all := queries(t)
	prometheus := tool(t, "prometheus")
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	ready := make(chan cli.DemoPlace, 1)
	go func() {
		ended <- demo(ctx, cli.DemoOptions{Nodes: 4, Seed: 1, Speed: 10, Ready: func(p cli.DemoPlace) { ready <- p }})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	var place cli.DemoPlace
	select {
	case place = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	// Prometheus asks TCP alone.
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "homenode"})
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", place.Socket)
	}}
	tcp := httptest.NewServer(proxy)
	defer tcp.Close()

	dir := t.TempDir()
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	quick := regexp.MustCompile(`for: \w+`).ReplaceAllString(string(text), "for: 0s")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("rules.yml", quick)
	write("prometheus.yml", fmt.Sprintf("global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\nrule_files: [rules.yml]\nscrape_configs:\n- job_name: homenode\n  static_configs: [{targets: [%q]}]\n",
		strings.TrimPrefix(tcp.URL, "http://")))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	var said strings.Builder
	c := exec.Command(prometheus, "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+address, "--log.level=warn")
	c.Dir, c.Stdout, c.Stderr = dir, &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.Process.Kill()
		c.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	}()
	// ask is the series of an answer.
	ask := func(query string) ([]map[string]string, error) {
		resp, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(query))
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, err
		}
		var a struct {
			Status, Error string
			Data          struct {
				Result []struct{ Metric map[string]string }
			}
		}
		if err := json.Unmarshal(body, &a); err != nil || a.Status != "success" {
			return nil, fmt.Errorf("%s: %s", resp.Status, body)
		}
		var out []map[string]string
		for _, r := range a.Data.Result {
			out = append(out, r.Metric)
		}
		return out, nil
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(5 * time.Minute); !done(); time.Sleep(200 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not within 5 minutes: %s", what)
			}
		}
	}
	const torn = `ALERTS{alertname="HomenodeWorkloadTorn",alertstate="firing"}`
	var workload string
	until("the alert of a workload away from home", func() bool {
		got, _ := ask(torn)
		if len(got) > 0 {
			workload = got[0]["workload"]
		}
		return workload != ""
	})
	until("that alert's end, for "+workload, func() bool {
		got, err := ask(fmt.Sprintf(`%s and on (workload) homenode_workload_info{workload=%q}`, torn, workload))
		there, err2 := ask(fmt.Sprintf(`homenode_workload_home_memory_ratio{workload=%q} >= 0.8`, workload))
		return err == nil && err2 == nil && len(got) == 0 && len(there) == 1
	})
	// What a simulated host has not, or only at times.
	may := regexp.MustCompile(`move_(done|planned)|huge_pages|unmoved|traffic|increase|rate\(homenode_moved`)
	for title, exprs := range all {
		for _, expr := range exprs {
			switch got, err := ask(expr); {
			case err != nil:
				t.Errorf("%s: %s: %v", title, expr, err)
			case len(got) == 0 && !may.MatchString(expr):
				t.Errorf("%s: %s: no series", title, expr)
			}
		}
	}
}
