//go:build linux

package runtimes

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// startLimit bounds how much longer a container may take to start because of a daemon that
// does not answer: the runtime of the guest waits 8 s for a plugin (plugin_request_timeout in
// e2e/disk/containerd.sh), once, and then goes on without it. The rest is for a busy machine.
const startLimit = 12 * time.Second

// oneMore makes a pod of a small container and removes it again.
func oneMore(t *lab.T, c *CRI, name string, slot int) (*Pod, time.Duration) {
	s := numbered(1, slot)[0].named(name)
	start := time.Now()
	p := morePods(t, c, s)[0]
	return p, time.Since(start)
}

// containersFaults: a daemon that is stopped, killed or silent, and a runtime that is
// restarted, keep no container from starting; what was missed is put right after.
func containersFaults(t *lab.T) {
	c := ConnectCRI(t)
	CleanPods(t, c)
	t.Defer(func() { CleanPods(t, c) })
	plain, usual := oneMore(t, c, "plain", 0)
	o := lab.DaemonOptions{Mode: "enforce"}
	d := UnderRuntime(t, o)
	all := []*Pod{plain}
	began := func(what string, placed bool) {
		p, took := oneMore(t, c, what, len(all))
		all = append(all, p)
		k := p.Containers[0]
		if why := firstPageAtHome(t, k); placed && why != "" {
			t.Fatalf("%s: %s", what, why)
		}
		if took > 2*usual+startLimit {
			t.Fatalf("%s: a pod took %v to start, without homenode %v", what, took, usual)
		}
		t.Logf("%s: %v, CreateContainer %v, without homenode %v; began on CPUs %s", what, took, k.took, usual, k.First)
	}
	home := func(what string) {
		t.Logf("%s", what)
		t.AwaitHome(lab.SettleLimit, WalkersOf(all))
	}
	home("adopted one that ran")
	began("running", true)
	home("all at home")

	t.Stop(d)
	began("stopped", false)
	d = UnderRuntime(t, o)
	home("after a restart")

	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 4 {
		created := make(chan bool)
		at := time.Duration(random.Int64N(int64(usual)))
		go func() {
			time.Sleep(at)
			d.Kill9()
			close(created)
		}()
		began(fmt.Sprintf("killed-%d", i), false)
		<-created
		d = UnderRuntime(t, o)
	}
	home(fmt.Sprintf("after four kills, seed %d", seed))

	t.Do(syscall.Kill(d.Cmd.Process.Pid, syscall.SIGSTOP))
	began("silent", false)
	said := len(lab.ReadText(runtimeLog))
	t.Do(syscall.Kill(d.Cmd.Process.Pid, syscall.SIGCONT))
	connected(t, said)
	home("after it was silent")

	said = len(lab.ReadText(runtimeLog))
	restartRuntime(t)
	connected(t, said)
	began("restarted", true)
	home("after the runtime was restarted")
	t.Alive(d)
	t.UndoneAll()
	t.Textf("stopped, killed four times, silent, runtime restarted: %d pods started, the usual time is %.1f s",
		len(all), usual.Seconds())
}

// comings is how many containers come and go, as many at a time as there are pods.
const comings = 50

// containersComeAndGo: containers that come and go leave nothing behind in the daemon.
func containersComeAndGo(t *lab.T) {
	c := ConnectCRI(t)
	d := UnderRuntime(t, lab.DaemonOptions{Mode: "enforce", Memory: "1MiB"})
	pods := Pods(t, c, numbered(4, 0)...)
	homes := t.AwaitHome(lab.SettleLimit, WalkersOf(pods))
	t.Poll(60*time.Second, time.Second, "the journal has an entry for each pod", func() (bool, string) {
		n := t.Status().Self.Journal
		return n >= len(pods), fmt.Sprint(n)
	})
	begin := t.Status()
	before := begin.Self
	most := before
	start := time.Now()
	turns := make(chan *Pod, len(pods))
	errs := make(chan error, comings)
	for _, p := range pods {
		turns <- p
	}
	placed := make(chan bool, comings)
	for i := range comings {
		p := <-turns
		go func() {
			first, err := c.comeAndGo(p, i)
			placed <- t.NodesOf(first).Size() == 1
			errs <- err
			turns <- p
		}()
		time.Sleep(500 * time.Millisecond)
		if i%8 == 7 {
			most.Journal = max(most.Journal, t.Status().Self.Journal)
		}
	}
	for range comings {
		t.Do(<-errs)
	}
	took := time.Since(start)
	close(placed)
	n := 0
	for yes := range placed {
		if yes {
			n++
		}
	}
	if n != comings {
		t.Fatalf("%d of %d containers began on one node", n, comings)
	}
	after := before
	t.Poll(90*time.Second, 2*time.Second, "the daemon holds no more than before", func() (bool, string) {
		t.Alive(d)
		after = t.Status().Self
		return after.Journal <= before.Journal && after.Descriptors <= before.Descriptors+1 &&
				after.Goroutines <= before.Goroutines+4,
			fmt.Sprintf("%+v, before %+v", after, before)
	})
	// Processes of the runtime are workloads, too, and may be a few more or less.
	if n := len(t.Status().Workloads); n > len(begin.Workloads)+8 {
		t.Fatalf("%d workloads are left in status, of %d before", n, len(begin.Workloads))
	}
	for name, home := range t.Homes(WalkersOf(pods)) {
		if home != homes[name] {
			t.Fatalf("%s, which stays, moved from node %s to %s", name, homes[name], home)
		}
	}
	t.Walking(WalkersOf(pods))
	t.Textf("%d containers in %.0f s, all on one node from the start; journal entries %d, at most %d, then %d; "+
		"descriptors %d, then %d; goroutines %d, then %d", comings, took.Seconds(),
		before.Journal, most.Journal, after.Journal, before.Descriptors, after.Descriptors, before.Goroutines,
		after.Goroutines)
}

// comeAndGo is the life of one more container in a pod, which began on the CPUs returned.
func (c *CRI) comeAndGo(p *Pod, i int) (first lab.Set, err error) {
	s := small(fmt.Sprintf("brief%d", i), 0)
	s.idle, s.CPUs = true, 0.1
	k, err := c.create(p, s)
	if err != nil {
		return 0, err
	}
	if err := c.start(k); err != nil {
		return 0, err
	}
	for wait := time.Now(); first == 0 && time.Since(wait) < time.Minute; time.Sleep(200 * time.Millisecond) {
		if first, err = lab.ParseSet(statusIn(lab.ReadText(k.folder()+"/first"), "Cpus_allowed_list")); err != nil {
			return 0, err
		}
	}
	return first, c.end(k)
}
