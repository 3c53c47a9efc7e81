//go:build linux

package share

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/host/scx"
)

// endsIn waits until the kernel has no scheduler, and tells how long that took.
func endsIn(t *lab.T, limit time.Duration) time.Duration {
	begin := time.Now()
	t.Poll(limit, 5*time.Millisecond, "the fair class has all", func() (bool, string) {
		on, _ := enabled()
		return !on, "still enabled"
	})
	return time.Since(begin)
}

// stands is what holds whatever becomes of the scheduler; status says that it was ended.
func stands(t *lab.T, encode *lab.Walker) {
	if out := t.Must(lab.Homenode("status"), lab.ExitOK).Out; !strings.Contains(strings.Join(strings.Fields(out), " "),
		"the kernel ended the scheduler. It is not loaded again for") {
		t.Fatalf("status says %q", out)
	}
	if got := policies(t, encode.Group); slices.Contains(got, policyExt) && t.Read(schedExt+"state") == "enabled" {
		t.Fatalf("batch work has the policies %v", got)
	}
	if lab.ReadText(encode.Group.File("cpu.idle")) != "1" {
		t.Fatalf("the base layer does not stand")
	}
}

// loadedAgain waits until the next load, which must not come before the earliest nor after the latest.
func loadedAgain(t *lab.T, ended time.Time, earliest, latest time.Duration) {
	t.Poll(latest, 500*time.Millisecond, "it is loaded again", func() (bool, string) {
		on, _ := enabled()
		return on, "no scheduler runs"
	})
	if after := time.Since(ended); after < earliest || after > latest {
		t.Fatalf("loaded again after %v, not %v to %v", after, earliest, latest)
	} else {
		t.Logf("loaded again after %v", after.Round(100*time.Millisecond))
	}
}

// quietly has the walkers stand still while f waits: time is free while nobody works.
func quietly(f func(), ws ...*lab.Walker) {
	for _, w := range ws {
		syscall.Kill(w.PID, syscall.SIGSTOP)
		defer syscall.Kill(w.PID, syscall.SIGCONT)
	}
	f()
}

// shareSysRq: SysRq-S gives all to the fair class within a second; it is said, the base layer stands,
// and the next load is 10 minutes later, by the guest's clock.
func shareSysRq(t *lab.T) {
	encode, web := sharedHost(t)
	t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Extra: sharingOn, Period: "5s"})
	awaitScheduler(t, encode)
	t.Write("/proc/sysrq-trigger", "S")
	ended := time.Now()
	atMost(t, "from SysRq-S to the fair class", endsIn(t, 30*time.Second), time.Second)
	t.Poll(20*time.Second, time.Second, "it is said how it ended", func() (bool, string) {
		s := readScheduling(t).Scheduler
		return !s.Enabled && s.End != nil && s.End.Kind == "sysrq" && strings.Contains(s.Why, "not loaded again for"),
			s.Why
	})
	stands(t, encode)
	quietly(func() { loadedAgain(t, ended, 10*time.Minute, 10*time.Minute+30*time.Second) }, encode, web)
	t.Walking([]*lab.Walker{encode, web})
}

// shareWatchdog: the kernel's watchdog ends the scheduler three times, for it is told to refuse
// batch work for ever while the daemon stands still. Each time the base layer stands, status says so, and the
// next load comes later; more than three within an hour there are not.
func shareWatchdog(t *lab.T) {
	encode, web := sharedHost(t)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Extra: sharingOn, Period: "5s"})
	wait := 30 * time.Second
	for i := range 3 {
		s := awaitScheduler(t, encode)
		t.Do(d.Cmd.Process.Signal(syscall.SIGSTOP))
		took := stall(t)
		ended := time.Now()
		t.Do(d.Cmd.Process.Signal(syscall.SIGCONT))
		t.Logf("the watchdog ended it after %v; loaded %d times", took.Round(100*time.Millisecond), s.Scheduler.Loads)
		want := "not loaded again for"
		t.Poll(20*time.Second, time.Second, "it is said how it ended", func() (bool, string) {
			s := readScheduling(t).Scheduler
			return !s.Enabled && s.End != nil && s.End.Kind == "stalled" && strings.Contains(s.Why, want),
				fmt.Sprint(s.Why, s.End)
		})
		stands(t, encode)
		if i < 2 {
			quietly(func() { loadedAgain(t, ended, wait, wait+30*time.Second) }, encode, web)
			wait *= 2
		}
	}
	quietly(func() { time.Sleep(10 * time.Minute) }, encode, web)
	if st := readScheduling(t).Scheduler; st.Enabled || !strings.Contains(st.Why, "loaded 3 times within an hour") {
		t.Fatalf("after 10 minutes: %+v", st)
	}
	t.Walking([]*lab.Walker{encode, web})
}

// stall has the scheduler refuse all batch work, without its guard, until the watchdog ends it.
func stall(t *lab.T) time.Duration {
	pins, _ := filepath.Glob(scx.DefaultPin + "*")
	if len(pins) != 1 {
		t.Fatalf("pinned: %v", pins)
	}
	s, err := scx.Adopt(pins[0])
	t.Do(err)
	defer s.Close()
	conf := machine(t)
	conf.NoGuard, conf.Timeout = true, 0
	for n := range t.Shape.Nodes {
		conf.Nodes = append(conf.Nodes, scx.Node{ID: topology.NodeID(n)})
	}
	t.Do(s.Set(conf))
	took := endsIn(t, 2*time.Minute)
	t.Poll(20*time.Second, 50*time.Millisecond, "the watchdog has ended it", func() (bool, string) { // why is told last
		end := counters(t, s).Exit
		return strings.Contains(end.Reason, "stall"), fmt.Sprintf("%+v", end)
	})
	return took
}

// shareSMTOff: SMT is turned off and on while the scheduler runs. It stays; with SMT off
// nothing is put off a sibling, and batch work has CPUs that are there.
func shareSMTOff(t *lab.T) {
	const control = "/sys/devices/system/cpu/smt/control"
	if lab.ReadText(control) != "on" {
		t.Skipf("SMT is %q", lab.ReadText(control))
	}
	encode, web := sharedHost(t)
	t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Extra: sharingOn, Period: "2s"})
	awaitScheduler(t, encode)
	seq := t.Read(schedExt + "enable_seq")
	kicks := func() (n uint64) {
		for _, c := range readScheduling(t).Scheduler.Counters {
			if c.Name == "kicks_expel" || c.Name == "kicks_late" {
				n += c.Value
			}
		}
		return n
	}
	ran := func(what string) {
		before := encode.Group.Used()
		time.Sleep(time.Second)
		if took := encode.Group.Used() - before; took < 5*time.Millisecond {
			t.Fatalf("%s batch work ran for %v of a second", what, took)
		}
	}
	ran("before,")
	t.Poll(30*time.Second, time.Second, "with SMT on batch work is put off siblings",
		func() (bool, string) { n := kicks(); return n > 0, strconv.FormatUint(n, 10) })
	t.Write(control, "off")
	t.Defer(func() { lab.WriteText(control, "on") })
	time.Sleep(4 * time.Second)
	if on, name := enabled(); !on || name != "homenode" || t.Read(schedExt+"enable_seq") != seq {
		t.Fatalf("with SMT off it does not stay: %s", lab.Homenode("share", "status"))
	}
	before := kicks()
	ran("with SMT off")
	if n := kicks(); n != before {
		t.Fatalf("without siblings batch work was put off one %d times", n-before)
	}
	there := t.Set(lab.ReadText("/sys/devices/system/cpu/online"))
	if given := t.Set(t.Read(encode.Group.File("cpuset.cpus.effective"))); given&^there != 0 || given == 0 ||
		there.Size() != t.Shape.CPUs()/2 {
		t.Fatalf("batch work has CPUs %s of %s", given, there)
	}
	t.Write(control, "on")
	time.Sleep(4 * time.Second)
	if on, _ := enabled(); !on || t.Read(schedExt+"enable_seq") != seq {
		t.Fatalf("with SMT on again it does not stay: %s", lab.Homenode("share", "status"))
	}
	t.Poll(30*time.Second, time.Second, "with SMT on again batch work is put off siblings",
		func() (bool, string) { n := kicks(); return n > before, strconv.FormatUint(n, 10) })
	t.Walking([]*lab.Walker{encode, web})
}
