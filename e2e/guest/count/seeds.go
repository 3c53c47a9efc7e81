//go:build linux

package count

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// seedsRunner is bench/seeds, which repeats published experiments.
const seedsRunner = "/e2e/bench-seeds"

// seedsPods has bench/seeds start the ten pods of an experiment through the real containerd, under the kernel alone,
// with CPU sets as the kubelet gives them, and under Homenode. Each arm has ten containers at once, every pod reports
// its transactions, and nothing is left.
func seedsPods(t *lab.T) {
	if _, err := os.Stat("/e2e/bin/numactl"); err != nil {
		t.Skipf("no numactl from this machine's archive")
	}
	programsOfSeeds(t)
	const pods = 10
	most, stop := countWhile(t, func() int {
		out, _ := exec.Command("ctr", "-n", "homenode-seeds", "task", "list").Output()
		return strings.Count(string(out), "RUNNING")
	})
	r := lab.CaptureFor(15*time.Minute, []string{seedsRunner, "-smoke", "-arms", "kernel,kubelet,homenode", "-measure",
		"10s", "-homenode", lab.HomenodeBin, "-o", "/tmp/seeds", "pacific"}, "bench/seeds pacific")
	stop()
	seedsRan(t, r, "transactions", "kernel", "kubelet", "homenode")
	if *most != pods {
		t.Fatalf("%d containers ran at once, want %d", *most, pods)
	}
	if left := lab.Capture([]string{"ctr", "-n", "homenode-seeds", "containers", "list", "-q"},
		"containers list").Out; strings.TrimSpace(left) != "" {
		t.Fatalf("containers are left: %q", left)
	}
	t.Textf("%d pods in each of three arms", pods)
}

// programsOfSeeds puts in place what Debian's packages would: commands of the shell's, and numactl.
func programsOfSeeds(t *lab.T) {
	for _, applet := range []string{"cp", "rm", "mkdir", "awk", "grep", "taskset", "sed"} {
		if _, err := exec.LookPath(applet); err != nil {
			t.Do(os.Symlink("busybox", "/usr/bin/"+applet))
		}
	}
	const numactl = "#!/bin/sh\nexec /e2e/lib64/ld-linux-x86-64.so.2 --library-path /e2e/lib /e2e/bin/numactl \"$@\"\n"
	t.Do(os.WriteFile("/usr/bin/numactl", []byte(numactl), 0o755))
	t.Do(os.MkdirAll("/var/tmp", 0o1777))
}

// countWhile counts something until it is stopped; most is the largest count.
func countWhile(t *lab.T, count func() int) (most *int, stop func()) {
	most = new(int)
	done := make(chan struct{})
	var counting sync.WaitGroup
	counting.Go(func() {
		for {
			*most = max(*most, count())
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
		}
	})
	return most, func() {
		close(done)
		counting.Wait()
	}
}

// seedsRan checks what a run of an experiment printed: a value in each arm, and nothing in the place of what it
// should start. What the run changed has to be restored.
func seedsRan(t *lab.T, r lab.Result, metric string, arms ...string) {
	t.LogLines("seeds", r.Out+r.Err, 40)
	if r.Exit != lab.ExitOK {
		t.Fatalf("%s", r)
	}
	for _, arm := range arms {
		if !regexp.MustCompile(arm + ": " + metric + " [0-9.,]*[1-9]").MatchString(r.Out) {
			t.Fatalf("arm %s printed no %s: %s", arm, metric, lab.Cut(r.Out))
		}
	}
	if state := lab.ReadText("/run/homenode-seeds.json"); state != "" {
		t.Fatalf("the run left its state: %s", state)
	}
}
