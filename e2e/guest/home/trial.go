//go:build linux

package home

import (
	"bytes"
	"fmt"
	"os/exec"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// Settings of the kernel that arms of a trial switch.
const (
	cachesFile = "/sys/kernel/debug/sched/llc_balancing/enabled"
	trialEvery = 500 * time.Millisecond
)

// arms is what a trial switches, as the kernel shows it.
type arms struct {
	balancing, caches string
	home              bool // the workload is bound to a node
}

// homenodeTrial runs a trial of all arms on a real kernel: each arm stands as it should, and all
// is as found once the trial is over, or once its program was killed.
func homenodeTrial(t *lab.T) {
	all := fmt.Sprintf("0-%d", t.Shape.Nodes-1)
	g := t.NewGroup(lab.CgroupRoot, "steady")
	t.Write(g.File("cpuset.mems"), all)
	startIn(t, g, "/init", "many", "1", "32")
	if lab.ReadText(cachesFile) == "" {
		t.Fatalf("this kernel has no %s", cachesFile)
	}
	now := func() arms {
		bound := lab.ReadText(g.File("cpuset.mems")) != all
		return arms{lab.ReadText(lab.BalancingFile), lab.ReadText(cachesFile), bound}
	}
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Restore: true,
		Extra: "workloads: [{match: /steady, class: dedicated, cpus: 1}]\n"})
	defer t.Stop(d)
	t.Until(60*time.Second, "it is at home", func() (bool, string) { return now().home, "" })
	found := now()

	trial := func(folder string) (*exec.Cmd, *bytes.Buffer) {
		var out bytes.Buffer
		c := exec.Command(lab.HomenodeBin, "--socket", lab.SocketPath, "trial", "--arms", "off,balancing,caches,on",
			"--blocks", "8", "--period", (4 * trialEvery).String(),
			"--every", trialEvery.String(), "--washout", "1s", "--seed", "1", "--out", folder)
		c.Stdout, c.Stderr = &out, &out
		t.Do(c.Start())
		return c, &out
	}

	// Every arm, and nothing left of it.
	c, out := trial("/tmp/whole")
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	seen := map[arms]int{}
	for over := false; !over; {
		select {
		case err := <-done:
			if over = true; err != nil {
				t.Fatalf("the trial: %v: %s", err, out)
			}
		case <-time.After(trialEvery):
			seen[now()]++
		}
	}
	for _, want := range []arms{{"0", "0", false}, {"1", "0", false}, {"0", "1", false}, found} {
		if seen[want] == 0 {
			t.Fatalf("no arm had %+v; seen: %v", want, seen)
		}
	}
	back := func(when string) {
		t.Until(150*time.Second, "all is as found "+when, func() (bool, string) {
			x := now()
			return x == found, fmt.Sprintf("%+v, found %+v", x, found)
		})
	}
	back("after the trial")
	t.Textf("seen: %v", seen)

	// Its program is killed in an arm that is not on: the daemon restores everything.
	c, out = trial("/tmp/killed")
	t.Until(60*time.Second, "the arm caches stands", func() (bool, string) {
		return now() == arms{"0", "1", false},
			fmt.Sprint(now(), out)
	})
	c.Process.Kill()
	c.Wait()
	back("after the program was killed")
}
