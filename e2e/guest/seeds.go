//go:build linux

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

func init() { tests["seeds.pods"] = seedsPods }

// seedsRunner is bench/seeds, which repeats published experiments.
const seedsRunner = "/e2e/bench-seeds"

// seedsPods has bench/seeds start the ten pods of an experiment through the real containerd, under the kernel alone, with CPU sets as the
// kubelet gives them, and under Homenode. Each arm has ten containers at once, every pod reports its
// transactions, and nothing is left.
func seedsPods(t *T) {
	if _, err := os.Stat("/e2e/bin/numactl"); err != nil {
		t.Skipf("no numactl from this machine's archive")
	}
	t.programsOfSeeds()
	const pods = 10
	most, stop := t.countWhile(func() int {
		out, _ := exec.Command("ctr", "-n", "homenode-seeds", "task", "list").Output()
		return strings.Count(string(out), "RUNNING")
	})
	r := captureFor(15*time.Minute, []string{seedsRunner, "-smoke", "-arms", "kernel,kubelet,homenode", "-measure", "10s", "-homenode", homenodeBin, "-o", "/tmp/seeds", "pacific"}, "bench/seeds pacific")
	stop()
	t.seedsRan(r, "transactions", "kernel", "kubelet", "homenode")
	if *most != pods {
		t.Fatalf("%d containers ran at once, want %d", *most, pods)
	}
	if left := capture([]string{"ctr", "-n", "homenode-seeds", "containers", "list", "-q"}, "containers list").out; strings.TrimSpace(left) != "" {
		t.Fatalf("containers are left: %q", left)
	}
	t.Textf("%d pods in each of three arms", pods)
}

// programsOfSeeds puts in place what Debian's packages would: commands of the shell's, and numactl.
func (t *T) programsOfSeeds() {
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
func (t *T) countWhile(count func() int) (most *int, stop func()) {
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
func (t *T) seedsRan(r result, metric string, arms ...string) {
	t.logLines("seeds", r.out+r.err, 40)
	if r.exit != exitOK {
		t.Fatalf("%s", r)
	}
	for _, arm := range arms {
		if !regexp.MustCompile(arm + ": " + metric + " [0-9.,]*[1-9]").MatchString(r.out) {
			t.Fatalf("arm %s printed no %s: %s", arm, metric, cut(r.out))
		}
	}
	if state := readText("/run/homenode-seeds.json"); state != "" {
		t.Fatalf("the run left its state: %s", state)
	}
}
