//go:build linux

package share

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/suite"
)

// shareBench: bench/share measures every case but the one with sched_ext, with its own server
// and batch work, and steps of load. A user is told why not.
func shareBench(t *lab.T) {
	const program, out = "/bin/bench-share", lab.WorkFolder + "/bench"
	if r := lab.Capture([]string{lab.Self, "as-nobody", program, "-smoke", "-o", out},
		"bench"); r.Exit != lab.ExitForbidden || strings.Count(r.Err, "\n") != 1 ||
		!strings.Contains(r.Err, "not root") {
		t.Fatalf("a user: %v", r)
	}
	before := t.Read(lab.CgroupRoot + "/cgroup.subtree_control")
	start := time.Now()
	smoke(t, program, out, "BCT", "own", "own")
	smoke(t, program, out+"-step", "BWT", "step", "own")
	if now := t.Read(lab.CgroupRoot + "/cgroup.subtree_control"); now != before {
		t.Fatalf("the root hands down %q, before %q", now, before)
	}
	t.Textf("cases BCT, and BWT of steps, in %.0f s", time.Since(start).Seconds())
}

// systemdBench: the same with what it is for: nginx, ffmpeg, stress-ng, systemd, and homenode's
// scheduler for batch work. Batch work that ends is an error, not a figure.
func systemdBench(t *lab.T) {
	const broken = "/tmp/broken"
	t.Do(os.Mkdir(broken, 0o755))
	t.Do(os.WriteFile(broken+"/ffmpeg", []byte("#!/bin/sh\nexit 9\n"), 0o755))
	path := os.Getenv("PATH")
	t.Do(os.Setenv("PATH", broken+":"+path))
	r := lab.CaptureFor(70*time.Second*suite.Slack, []string{"/e2e/bench-share", "-smoke", "-cases", "B,C", "-batch",
		"ffmpeg", "-homenode", lab.HomenodeBin, "-o", "/tmp/bench-broken"}, "bench")
	if r.Exit != lab.ExitNo || !strings.Contains(r.Err, "the batch work ended: ffmpeg: exit status 1") {
		t.Fatalf("with batch work that ends: %v", r)
	}
	// What Debian's scripts would have linked.
	t.Do(errors.Join(os.Setenv("PATH", path),
		os.Setenv("LD_LIBRARY_PATH", "/usr/lib/x86_64-linux-gnu/blas:/usr/lib/x86_64-linux-gnu/lapack")))
	for _, of := range []struct{ batch, cases string }{{"ffmpeg", "BCWTP"}, {"stress-ng", "BTP"}} {
		smoke(t, "/e2e/bench-share", "/tmp/bench-"+of.batch, of.cases, "nginx", of.batch, "-warm", "4s", "-time", "4s")
		if left := t.Command("systemctl", "list-units", "--all", "--no-legend", "--plain", "*bench*",
			"homenode*.scope"); left != "" {
			t.Fatalf("left behind: %s", left)
		}
	}
}

// smoke runs bench/share in its smallest size: every case is measured with these programs, there
// is a report, and nothing is left behind.
func smoke(t *lab.T, program, out, cases, online, batch string, more ...string) {
	r := lab.CaptureFor(4*70*time.Second*suite.Slack,
		append([]string{program, "-smoke", "-cases", strings.Join(strings.Split(cases, ""), ","), "-online", online,
			"-batch", batch, "-homenode", lab.HomenodeBin, "-o", out}, more...), "bench")
	t.LogLines("bench", r.Out+r.Err, 30)
	if r.Exit != lab.ExitOK {
		t.Fatalf("%v", r)
	}
	var d struct {
		Online, Batch struct{ Name string }
		Cases         []struct {
			ID    string
			Runs  int
			Batch float64                 `json:"batch"`
			P99   struct{ Value float64 } `json:"p99_us"`
		}
		Skipped map[string]string
	}
	t.Do(json.Unmarshal([]byte(t.Read(filepath.Join(out, "results.json"))), &d))
	ids := ""
	for _, c := range d.Cases {
		ids += c.ID
		if c.Runs != 1 || c.P99.Value <= 0 || (c.ID != "B" && c.Batch <= 0) {
			t.Fatalf("case %+v", c)
		}
	}
	if ids != cases || d.Online.Name != online || d.Batch.Name != batch {
		t.Fatalf("cases %s of %s beside %s, skipped %v", ids, d.Online.Name, d.Batch.Name, d.Skipped)
	}
	if page := t.Read(filepath.Join(out, "report.html")); !strings.Contains(page, "<svg") {
		t.Fatalf("the report has no picture")
	}
	for _, dir := range lab.Subtree(lab.CgroupRoot) {
		if strings.Contains(dir, "bench") {
			t.Fatalf("left behind: %s", dir)
		}
	}
	if left, _ := filepath.Glob(os.TempDir() + "/homenode-bench*"); len(left) > 0 {
		t.Fatalf("left behind: %v", left)
	}
}
