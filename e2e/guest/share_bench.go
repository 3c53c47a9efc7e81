//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

func init() { tests["share.bench"] = shareBench }

// shareBench: bench/share goes through in its smallest size, here with its own server and
// batch work, measures every case but the one with sched_ext, and leaves nothing behind. A user is told why not.
func shareBench(t *T) {
	const program, out = "/bin/bench-share", workFolder + "/bench"
	if r := capture([]string{self, "as-nobody", program, "-smoke", "-o", out}, "bench"); r.exit != exitForbidden || strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, "not root") {
		t.Fatalf("a user: %v", r)
	}
	before := t.read(cgroupRoot + "/cgroup.subtree_control")
	start := time.Now()
	r := captureFor(70*time.Second*suite.Slack, []string{program, "-smoke", "-cases", "B,C,W,T", "-homenode", homenodeBin, "-o", out}, "bench")
	t.logLines("bench", r.out+r.err, 30)
	if r.exit != exitOK {
		t.Fatalf("%v", r)
	}
	took := time.Since(start)
	var d struct {
		Cases []struct {
			ID      string
			Runs    int
			Offline float64                 `json:"offline"`
			P99     struct{ Value float64 } `json:"p99_us"`
		}
		Skipped map[string]string
	}
	t.Do(json.Unmarshal([]byte(t.read(filepath.Join(out, "results.json"))), &d))
	ids := ""
	for _, c := range d.Cases {
		ids += c.ID
		if c.Runs != 1 || c.P99.Value <= 0 || c.ID != "B" && c.Offline <= 0 {
			t.Fatalf("case %+v", c)
		}
	}
	if ids != "BCWT" {
		t.Fatalf("cases %s, skipped %v", ids, d.Skipped)
	}
	if page := t.read(filepath.Join(out, "report.html")); !strings.Contains(page, "<svg") {
		t.Fatalf("the report has no picture")
	}
	for _, dir := range subtree(cgroupRoot) {
		if strings.Contains(dir, "bench") {
			t.Fatalf("left behind: %s", dir)
		}
	}
	if now := t.read(cgroupRoot + "/cgroup.subtree_control"); now != before {
		t.Fatalf("the root hands down %q, before %q", now, before)
	}
	if left, _ := filepath.Glob(os.TempDir() + "/homenode-bench*"); len(left) > 0 {
		t.Fatalf("left behind: %v", left)
	}
	t.Textf("cases %s in %.0f s", ids, took.Seconds())
}
