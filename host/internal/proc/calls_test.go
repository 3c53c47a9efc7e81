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

func process(pid int) workload.Process { return workload.Process{PID: pid, Start: uint64(pid)} }

func TestCallAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCalls(nil)
		for range 100 {
			done := false
			if err := c.Do(process(7), 1000, func() { done = true }); err != nil || !done {
				t.Fatal(done, err)
			}
		}
		if n, users, silent := c.left(); n != 0 || users != 0 || silent != 0 {
			t.Errorf("left: %d, %d, %d", n, users, silent)
		}
	})
}

// left is how many calls are under way, of how many users, and how many processes do not
// answer.
func (c *Calls) left() (n, users, silent int) {
	synctest.Wait() // a call that has answered may not have been counted off yet
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n, len(c.byUser), len(c.silent)
}

// A process that does not answer costs one goroutine and is asked again ever less often.
func TestSilentProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCalls(nil)
		asked, release := 0, make(chan struct{})
		ask := func() error { return c.Do(process(7), 1000, func() { asked++; <-release }) }
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
		if n, _, _ := c.left(); asked != 1 || n != 1 {
			t.Fatalf("asked %d times, %d wait", asked, n)
		}
		if err := c.Do(workload.Process{PID: 7, Start: 8}, 1000, func() {}); err != nil { // another with that PID
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
			err := c.Do(process(7), 0, func() {
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

// One user's processes do not use up what all have.
func TestCallsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCalls(nil)
		release := make(chan struct{})
		begin := func(pid, user int) error {
			_, err := c.Begin(process(pid), user, func() { <-release })
			return err
		}
		for pid := range 10 {
			if err := begin(pid, 1000); (err == nil) != (pid < mostOfUser) {
				t.Errorf("call %d of a user: %v", pid, err)
			}
		}
		for pid := range 20 {
			if err := begin(100+pid, 0); (err == nil) != (pid < mostCalls-mostOfUser) {
				t.Errorf("call %d of root: %v", pid, err)
			}
		}
		close(release)
		synctest.Wait()
		if err := begin(200, 1000); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

// A call that panics is one that failed.
func TestCallThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCalls(nil)
		for range 2 {
			if err := c.Do(process(7), 1000, func() { panic("on purpose") }); err == nil || !strings.Contains(err.Error(), "on purpose") {
				t.Error(err)
			}
		}
		if err := c.Do(process(7), 1000, func() {}); err != nil {
			t.Error(err)
		}
		if n, users, silent := c.left(); n != 0 || users != 0 || silent != 0 {
			t.Errorf("left: %d, %d, %d", n, users, silent)
		}
	})
}
