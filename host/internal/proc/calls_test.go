package proc

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

const user = workload.Owner("user:1000")

func process(pid int) workload.Process { return workload.Process{PID: pid, Start: uint64(pid)} }

func TestCallAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCalls(nil)
		for range 100 {
			done := false
			if err := c.Do(process(7), user, func() { done = true }); err != nil || !done {
				t.Fatal(done, err)
			}
		}
		if n, users, silent := c.left(); n != 0 || users != 0 || silent != 0 {
			t.Errorf("left: %d, %d, %d", n, users, silent)
		}
	})
}

// left is how many calls are at work, how many owners have any at work or lost, and how many
// processes do not answer.
func (c *Calls) left() (n, owners, silent int) {
	synctest.Wait() // a call that has answered may not have been counted off yet
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n.all, len(c.byOwner), len(c.silent)
}

// A process that does not answer costs one goroutine and is asked again ever less often.
func TestSilentProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCalls(nil)
		asked, release := 0, make(chan struct{})
		ask := func() error { return c.Do(process(7), user, func() { asked++; <-release }) }
		began := time.Now()
		if err := ask(); !errors.Is(err, plan.ErrNoAnswer) || time.Since(began) != Deadline {
			t.Fatal(err, time.Since(began))
		}
		for range 1000 { // nobody asks a second time while the first waits
			if err := ask(); !errors.Is(err, plan.ErrNoAnswer) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n, _, _ := c.left(); asked != 1 || n != 0 || c.lost.others() != 1 {
			t.Fatalf("asked %d times, %d at work, %d lost", asked, n, c.lost.others())
		}
		if err := c.Do(workload.Process{PID: 7, Start: 8}, user, func() {}); err != nil { // another with that PID
			t.Fatal(err)
		}
		close(release)
		synctest.Wait()
		err := ask()
		if n, _, silent := c.left(); err != nil || silent != 0 || n != 0 {
			t.Fatal(err, silent, n)
		}
	})
}

// A process that answers late is asked again after 10 s, 20 s and so on to 10 minutes.
func TestSlowProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCalls(nil)
		var pauses []time.Duration
		last := time.Now()
		for len(pauses) < 9 {
			err := c.Do(process(7), workload.SystemOwner, func() {
				pauses = append(pauses, time.Since(last))
				last = time.Now()
				time.Sleep(Deadline + time.Second)
			})
			if !errors.Is(err, plan.ErrNoAnswer) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		want := []time.Duration{0, 12, 22, 42, 82, 162, 322, 602, 602}
		for i, w := range want {
			if d := pauses[i] - w*time.Second; d < -time.Second || d > 2*time.Second {
				t.Errorf("asked after %v, want %v s", pauses[i], int(w))
			}
		}
	})
}

// Owners together do not use up what the system has, and an owner who comes finds a place.
func TestCallsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCalls(nil)
		release := make(chan struct{})
		pid := 0
		begin := func(owner workload.Owner) error {
			pid++
			_, err := c.Begin(process(pid), owner, func() { <-release })
			return err
		}
		begun := map[workload.Owner]int{}
		for range 10 {
			for uid := 1000; uid < 1003; uid++ {
				owner := workload.UserOwner(uid)
				switch err := begin(owner); {
				case err == nil:
					begun[owner]++
				case !errors.Is(err, ErrBusy) || !errors.Is(err, plan.ErrNoAnswer):
					t.Errorf("refused with %v", err)
				}
			}
		}
		if begun[user] == 0 || begun[user] > mostOfOwner {
			t.Errorf("one user has %d calls of %d", begun[user], mostOfOwner)
		}
		if err := begin(workload.UserOwner(2000)); err != nil {
			t.Errorf("a user who comes later: %v", err)
		}
		for range mostCalls {
			begin(workload.PodOwner(string(rune('a' + pid))))
		}
		if n := c.n.others(); n != mostCalls-keptForSystem {
			t.Errorf("%d calls of owners, want %d", n, mostCalls-keptForSystem)
		}
		for n := range keptForSystem {
			if err := begin(workload.SystemOwner); err != nil {
				t.Errorf("call %d of the system: %v", n, err)
			}
		}
		if err := begin(workload.SystemOwner); !errors.Is(err, ErrBusy) {
			t.Errorf("one call too many: %v", err)
		}
		close(release)
		if n, owners, _ := c.left(); n != 0 || owners != 0 {
			t.Errorf("left: %d, %d", n, owners)
		}
		if err := begin(user); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

// A lost call gives its place back; after some of them an owner is asked no more, and others
// are. Threads are bounded whatever the number of owners.
func TestLostCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCalls(nil)
		release := make(chan struct{})
		pid := 0
		// lose makes a call that does not come back.
		lose := func(owner workload.Owner) error {
			pid++
			k, err := c.Begin(process(pid), owner, func() { <-release })
			if err == nil {
				k.Abandon()
			}
			return err
		}
		answers := func(owner workload.Owner) error {
			pid++
			return c.Do(process(pid), owner, func() {})
		}
		var of *LostError
		for n := range 100 {
			if err := lose(user); (err == nil) != (n < mostLostOfOwner) {
				t.Fatalf("call %d: %v", n, err)
			} else if err != nil && (!errors.As(err, &of) || of.Owner != user || of.Lost != mostLostOfOwner || !errors.Is(err, plan.ErrNoAnswer)) {
				t.Fatalf("refused with %v", err)
			}
		}
		if n, _, _ := c.left(); n != 0 {
			t.Errorf("%d at work after all were given up", n)
		}
		for uid := 2000; uid < 3000; uid++ {
			lose(workload.UserOwner(uid))
			lose(workload.UserOwner(uid))
		}
		if n := c.lost.others(); n != mostLost {
			t.Errorf("%d threads are lost, want %d", n, mostLost)
		}
		for range 100 {
			if err := answers(workload.SystemOwner); err != nil {
				t.Fatalf("the system: %v", err)
			}
		}
		for n := range 100 {
			if err := lose(workload.SystemOwner); (err == nil) != (n < mostLostOfSystem) {
				t.Fatalf("call %d of the system: %v", n, err)
			}
		}
		close(release)
		synctest.Wait()
		if n, owners, _ := c.left(); n != 0 || owners != 0 || c.lost != (count{}) {
			t.Errorf("left: %d, %d, %+v", n, owners, c.lost)
		}
		if err := answers(user); err != nil {
			t.Errorf("once all are back: %v", err)
		}
	})
}

// Calls at work may all be lost: they count before they are.
func TestCallsAtWorkCountAsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCalls(nil)
		release := make(chan struct{})
		var atWork []*Call
		pid := 0
		for range 10 {
			for {
				pid++
				k, err := c.Begin(process(pid), user, func() { <-release })
				if err != nil {
					break
				}
				atWork = append(atWork, k)
			}
			if len(atWork) > 0 { // one at a time, so that others are at work beside the lost ones
				atWork[0].Abandon()
				atWork = atWork[1:]
			}
		}
		if n := c.byOwner[user]; n.lost != mostLostOfOwner || n.n != 0 {
			t.Errorf("%d lost, %d at work; want %d and 0", n.lost, n.n, mostLostOfOwner)
		}
		close(release)
		synctest.Wait()
	})
}

// While many calls of others are lost, an owner none of whose calls is has one at work.
func TestManyOwnersLoseCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCalls(nil)
		release := make(chan struct{})
		pid := 0
		for uid := 2000; c.lost.others() < manyLost; uid++ {
			for range mostLostOfOwner {
				pid++
				k, err := c.Begin(process(pid), workload.UserOwner(uid), func() { <-release })
				if err != nil {
					t.Fatal(err)
				}
				k.Abandon()
			}
		}
		for range 100 {
			pid++
			if err := c.Do(process(pid), user, func() {}); err != nil {
				t.Fatalf("a user whose processes answer: %v", err)
			}
			synctest.Wait()
		}
		pid++
		if err := c.Do(process(pid), user, func() { <-release }); !errors.Is(err, plan.ErrNoAnswer) {
			t.Errorf("the first that does not: %v", err)
		}
		pid++
		var of *LostError
		if err := c.Do(process(pid), user, func() {}); !errors.As(err, &of) {
			t.Errorf("after that: %v", err)
		}
		close(release)
		synctest.Wait()
	})
}

// A call that panics is one that failed.
func TestCallThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCalls(nil)
		for range 2 {
			if err := c.Do(process(7), user, func() { panic("on purpose") }); err == nil || !strings.Contains(err.Error(), "on purpose") {
				t.Error(err)
			}
		}
		if err := c.Do(process(7), user, func() {}); err != nil {
			t.Error(err)
		}
		if n, users, silent := c.left(); n != 0 || users != 0 || silent != 0 {
			t.Errorf("left: %d, %d, %d", n, users, silent)
		}
	})
}
