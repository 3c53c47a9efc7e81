//go:build linux

package home

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// churned cgroups come and go, each with a process, churnRate a second if the
// emulated guest is that fast, churnLife long.
const (
	churned   = 300
	churnRate = 20
	churnLife = 3 * time.Second
)

// homenodeChurn: cgroups that come and go leave nothing behind in the daemon.
func homenodeChurn(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "stays", Slot: 1, MiB: 48, Threads: 1,
		Place: "interleave", Unbind: true})
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Memory: "1MiB"})
	homes := t.AwaitHome(lab.SettleLimit, ws)
	before := t.Status().Self
	if before.Goroutines == 0 || before.Descriptors == 0 || before.Journal == 0 {
		t.Fatalf("the daemon does not say what it holds: %+v", before)
	}

	start := time.Now()
	most := before
	var wg sync.WaitGroup
	errs := make(chan error, churned)
	for i := range churned {
		wg.Go(func() {
			if err := comeAndGo(lab.Group(fmt.Sprintf("%s/churn%d", lab.CgroupRoot, i))); err != nil {
				errs <- err
			}
		})
		time.Sleep(time.Second / churnRate)
		if i%churnRate == churnRate-1 { // it answers all the while
			now := t.Status().Self
			most.Goroutines, most.Descriptors = max(most.Goroutines, now.Goroutines),
				max(most.Descriptors, now.Descriptors)
			most.Journal = max(most.Journal, now.Journal)
		}
	}
	wg.Wait()
	took := time.Since(start)
	close(errs)
	for err := range errs {
		t.Fatalf("%v", err)
	}
	if most.Journal < before.Journal+churnRate {
		t.Fatalf("the journal grew from %d to %d entries only: the cgroups were not seen", before.Journal, most.Journal)
	}
	after := before
	t.Poll(90*time.Second, 2*time.Second, "the daemon holds no more than before", func() (bool, string) {
		t.Alive(d)
		after = t.Status().Self
		// The connection that asks, and one more that closes, may be counted or not.
		return after.Journal == before.Journal && after.Descriptors <= before.Descriptors+1 &&
				after.Goroutines <= before.Goroutines+4,
			fmt.Sprintf("%+v, before %+v", after, before)
	})
	if now := t.Homes(ws); now["stays"] != homes["stays"] {
		t.Fatalf("the one that stays moved from node %s to %s", homes["stays"], now["stays"])
	}
	t.Walking(ws)
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	t.Textf("%d cgroups in %.0f s; goroutines %d, at most %d, then %d; descriptors %d, %d, %d; journal entries "+
		"%d, %d, %d", churned, took.Seconds(),
		before.Goroutines, most.Goroutines, after.Goroutines, before.Descriptors, most.Descriptors, after.Descriptors,
		before.Journal, most.Journal, after.Journal)
}

// comeAndGo is the life of one cgroup.
func comeAndGo(g lab.Group) error {
	if err := syscall.Mkdir(string(g), 0o755); err != nil {
		return fmt.Errorf("make cgroup %s: %w", g, err)
	}
	fd, err := syscall.Open(string(g), syscall.O_DIRECTORY|syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	pid, err := syscall.ForkExec("/init", []string{"/init", "sleeper"},
		&syscall.ProcAttr{Env: []string{"GODEBUG=asyncpreemptoff=1"},
			Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}})
	syscall.Close(fd)
	if err != nil {
		return fmt.Errorf("start a process in %s: %w", g, err)
	}
	time.Sleep(churnLife)
	syscall.Kill(pid, syscall.SIGKILL)
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		return fmt.Errorf("wait for %d: %w", pid, err)
	}
	for try := 0; ; try++ { // a process leaves its cgroup a moment after it was waited for
		err := syscall.Rmdir(string(g))
		if err == nil {
			return nil
		}
		if try == 50 {
			return fmt.Errorf("remove cgroup %s: %w", g, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
