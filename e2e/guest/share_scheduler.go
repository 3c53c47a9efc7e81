//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/scx"
)

const (
	schedExt  = "/sys/kernel/sched_ext/"
	policyExt = 7 // SCHED_EXT
)

// scheduling is what `homenode share status --json` says of the scheduler.
type scheduling struct {
	Scheduler struct {
		Enabled bool   `json:"enabled"`
		Why     string `json:"why"`
		Version string `json:"version"`
		Other   string `json:"other"`
		Left    int    `json:"threads_left"`
		Loads   int    `json:"loads"`
		End     *struct {
			Kind string `json:"kind"`
			Text string `json:"text"`
		} `json:"end"`
		Trial *struct {
			GapMS float64 `json:"gap_ms"`
		} `json:"trial"`
		Upgrade *struct {
			Held bool   `json:"held"`
			Why  string `json:"why"`
		} `json:"upgrade"`
		Counters []struct {
			Name  string `json:"name"`
			Value uint64 `json:"value"`
		} `json:"counters"`
	} `json:"scheduler"`
}

func (t *T) scheduling() (s scheduling) {
	t.Do(json.Unmarshal([]byte(t.must(homenode("share", "status", "--json"), exitOK).out), &s))
	return s
}

// enabled is whether a scheduler runs, and its name.
func enabled() (bool, string) {
	return readText(schedExt+"state") == "enabled", readText(schedExt + "root/ops")
}

// policies is the scheduling policies of the threads of a cgroup, each once.
func (t *T) policies(g group) (out []int) {
	for _, tid := range strings.Fields(t.read(g.file("cgroup.threads"))) {
		id, _ := strconv.Atoi(tid)
		if a, err := unix.SchedGetAttr(id, 0); err == nil && !slices.Contains(out, int(a.Policy)) {
			out = append(out, int(a.Policy))
		}
	}
	slices.Sort(out)
	return out
}

const sharingOn = "share: {enabled: true, probation: 8s, target: 100}\nworkloads:\n- {match: encode, tier: batch}\n- {match: web, tier: online-strict}\n"

// sharedHost is a guest with batch and online work, and a kernel that takes a scheduler.
func (t *T) sharedHost() (encode, web *walker) {
	os.MkdirAll("/sys/fs/bpf", 0o755)
	if err := syscall.Mount("bpf", "/sys/fs/bpf", "bpf", 0, ""); err != nil && err != syscall.EBUSY {
		t.Fatalf("mount bpffs: %v", err)
	}
	if _, err := os.Stat(schedExt + "state"); err != nil {
		t.Skipf("the kernel has no sched_ext")
	}
	t.Defer(func() {
		pins, _ := filepath.Glob("/sys/fs/bpf/homenode*")
		for _, pin := range pins {
			os.RemoveAll(pin)
		}
	})
	ws := t.startWalkers(cgroupRoot, walkerSpec{name: "encode", slot: 0, mib: 32, threads: 3, place: "interleave", unbind: true},
		walkerSpec{name: "web", slot: 1, mib: 32, threads: 1, place: "bind:0", unbind: true})
	return ws[0], ws[1]
}

// awaitScheduler waits until it runs and has all threads of batch work.
func (t *T) awaitScheduler(encode *walker) scheduling {
	t.until(60*time.Second, time.Second, "the scheduler runs and has the threads of encode", func() (bool, string) {
		on, name := enabled()
		return on && name == "homenode" && slices.Equal(t.policies(encode.group), []int{policyExt}), homenode("share", "status").String()
	})
	return t.scheduling()
}

// asService runs a command as root with no more capabilities than packaging/systemd/homenode.service
// leaves the daemon, less one that a number before the command names.
func asService(args []string) error {
	less, err := strconv.Atoi(append(args, "")[0])
	if err == nil {
		args = args[1:]
	} else {
		less = -1
	}
	if len(args) == 0 {
		return errors.New("as-service: no command")
	}
	keep := []uintptr{unix.CAP_SYS_NICE, unix.CAP_SYS_PTRACE, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH,
		unix.CAP_CHOWN, unix.CAP_PERFMON, unix.CAP_BPF, unix.CAP_SYS_RESOURCE}
	runtime.LockOSThread()
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if !slices.Contains(keep, c) || int(c) == less {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
				return fmt.Errorf("as-service: drop capability %d: %w", c, err)
			}
		}
	}
	return syscall.Exec(args[0], args, os.Environ())
}

// noPins: nothing of it is left in bpffs.
func (t *T) noPins() {
	if pins, _ := filepath.Glob("/sys/fs/bpf/homenode*"); len(pins) > 0 {
		t.Fatalf("left in bpffs: %v", pins)
	}
}

// shareScheduler: batch work goes to the scheduler; it stays enabled through kill -9 and a stop
// of the daemon; an upgrade that does not hold goes back; undo without a daemon takes it out.
func shareScheduler(t *T) {
	encode, web := t.sharedHost()
	tids := strings.Fields(t.read(encode.group.file("cgroup.threads")))
	own, _ := strconv.Atoi(tids[len(tids)-1])
	t.Do(unix.SchedSetAttr(own, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: 3, Nice: 5}, 0)) // SCHED_BATCH
	before := t.policies(encode.group)
	d := t.startDaemon(daemonOptions{mode: "enforce", period: "2s", extra: sharingOn})
	first := t.awaitScheduler(encode)
	if got := t.policies(web.group); !slices.Equal(got, []int{0}) {
		t.Fatalf("web has the policies %v", got)
	}
	if readText(encode.group.file("cpu.idle")) != "1" {
		t.Fatalf("the base layer is not set")
	}
	seq := t.read(schedExt + "enable_seq")
	d.kill9()
	if on, _ := enabled(); !on {
		t.Fatalf("it ended with the daemon")
	}
	d = t.startDaemon(daemonOptions{mode: "enforce", period: "2s", extra: sharingOn})
	t.until(30*time.Second, time.Second, "the next daemon adopts it", func() (bool, string) {
		s := t.scheduling()
		return s.Scheduler.Enabled && s.Scheduler.Version == first.Scheduler.Version, homenode("share", "status").String()
	})
	if now := t.read(schedExt + "enable_seq"); now != seq {
		t.Fatalf("it was loaded again: enable_seq %s, then %s", seq, now)
	}

	// Another version: the same object with a byte more, which no one reads.
	object := t.read(filepath.Join(stateFolder, "schedulers", first.Scheduler.Version+".o"))
	other := filepath.Join(workFolder, "other.o")
	t.Do(os.WriteFile(other, []byte(object+"\x00"), 0o600))
	if r := t.must(homenode("share", "upgrade"), exitOK); !strings.Contains(r.out, "nothing is newer") {
		t.Fatalf("%s", r)
	}
	t.must(homenode("share", "upgrade", "--no-wait", "--object", other), exitOK)
	s := t.scheduling()
	if s.Scheduler.Version == first.Scheduler.Version || s.Scheduler.Trial == nil || s.Scheduler.Trial.GapMS <= 0 {
		t.Fatalf("after the upgrade %+v", s)
	}
	gap := s.Scheduler.Trial.GapMS
	t.write("/proc/sysrq-trigger", "S") // it does not hold
	t.until(30*time.Second, time.Second, "the version before comes back", func() (bool, string) {
		s := t.scheduling()
		return s.Scheduler.Enabled && s.Scheduler.Version == first.Scheduler.Version && s.Scheduler.Upgrade != nil && !s.Scheduler.Upgrade.Held, homenode("share", "status").String()
	})
	t.awaitScheduler(encode)

	t.stop(d)
	if on, _ := enabled(); !on {
		t.Fatalf("a stop of the daemon ends it")
	}
	t.must(homenode("undo", "--all"), exitOK)
	if on, _ := enabled(); on {
		t.Fatalf("undo leaves it: %s", homenode("history"))
	}
	t.noPins()
	if got := t.policies(encode.group); !slices.Equal(got, before) {
		t.Fatalf("after undo the policies are %v, before %v", got, before)
	}
	if a, err := unix.SchedGetAttr(own, 0); err != nil || a.Policy != 3 || a.Nice != 5 {
		t.Fatalf("the thread with SCHED_BATCH and nice 5 has %+v (%v)", a, err)
	}
	t.walking([]*walker{encode, web})
	t.Textf("version %s, gap of the swap %.1f ms", first.Scheduler.Version, gap)
}

// shareEnds: what SysRq-S ends is not loaded again soon, also by the next daemon; the base layer
// stands; share off is at once and for good.
func shareEnds(t *T) {
	encode, web := t.sharedHost()
	d := t.startDaemon(daemonOptions{mode: "enforce", period: "2s", extra: sharingOn})
	t.awaitScheduler(encode)
	t.schedulerRun()
	t.write("/proc/sysrq-trigger", "S")
	t.until(time.Second*3, 10*time.Millisecond, "the fair class has all", func() (bool, string) {
		on, _ := enabled()
		return !on, "still enabled"
	})
	t.until(30*time.Second, time.Second, "it is said how it ended", func() (bool, string) {
		s := t.scheduling()
		return !s.Scheduler.Enabled && s.Scheduler.End != nil && s.Scheduler.End.Kind == "sysrq", homenode("share", "status").String()
	})
	seq := t.read(schedExt + "enable_seq")
	for range 2 {
		time.Sleep(4 * time.Second)
		d.kill9()
		d = t.startDaemon(daemonOptions{mode: "enforce", period: "2s", extra: sharingOn})
	}
	time.Sleep(3 * time.Second)
	if now := t.read(schedExt + "enable_seq"); now != seq {
		t.Fatalf("it is loaded again soon")
	}
	if readText(encode.group.file("cpu.idle")) != "1" {
		t.Fatalf("the base layer does not stand")
	}
	t.must(homenode("share", "off"), exitOK)
	t.until(30*time.Second, time.Second, "all is as before", func() (bool, string) {
		return slices.Equal(t.policies(encode.group), []int{0}) && readText(encode.group.file("cpu.idle")) == "0", homenode("share", "status").String()
	})
	t.noPins()
	t.walking([]*walker{encode, web})
}

// schedulerRun: the scheduler has what `homenode run` starts, and undo takes it from it together
// with its cgroup.
func (t *T) schedulerRun() {
	w := t.walkerBehind("run", []string{homenodeBin, "--socket", socketPath, "run", "--class", "batch", "--", "/bin/walker", "--slot", "8", "--mib", "16", "--threads", "2", "--place", "local"})
	policies := func() (out []int) {
		tids, _ := scx.ProcessThreads([]int{w.pid})()
		for _, tid := range tids {
			if a, err := unix.SchedGetAttr(tid, 0); err == nil && !slices.Contains(out, int(a.Policy)) {
				out = append(out, int(a.Policy))
			}
		}
		return out
	}
	t.until(30*time.Second, time.Second, "the scheduler has the threads of the run", func() (bool, string) {
		return slices.Equal(policies(), []int{policyExt}), fmt.Sprint(policies(), homenode("share", "status"))
	})
	t.must(homenode("undo", fmt.Sprintf("pid:%d", w.pid)), exitOK)
	if got := policies(); !slices.Equal(got, []int{0}) {
		t.Fatalf("undone, the run has the policies %v", got)
	}
	w.kill()
}

// shareStarved: online-strict work takes each CPU for longer than the kernel's watchdog bears. Batch
// threads that wait are given back to the fair class in time, and the scheduler stays.
func shareStarved(t *T) {
	encode, _ := t.sharedHost()
	t.startDaemon(daemonOptions{mode: "enforce", extra: strings.ReplaceAll(sharingOn, "match: web", `match: "web*"`)})
	t.awaitScheduler(encode)
	t.in(encode.group, "hog", "20")
	seq := t.read(schedExt + "enable_seq")
	// As many on each node, which a daemon that places them would not leave.
	for cpu := range t.shape.CPUs() {
		busy := t.newGroup(cgroupRoot, fmt.Sprintf("web%d", cpu))
		t.write(busy.file("cpuset.cpus"), strconv.Itoa(cpu))
		t.in(busy, "hog", "1")
	}
	time.Sleep(50 * time.Second)
	if on, _ := enabled(); !on || t.read(schedExt+"enable_seq") != seq {
		t.Fatalf("the scheduler was ended: %s", homenode("share", "status"))
	}
	for _, c := range t.scheduling().Scheduler.Counters {
		if c.Name == "given_back" && c.Value > 0 {
			t.Logf("%d threads were given back", c.Value)
			return
		}
	}
	t.Fatalf("no thread was given back: %s", homenode("share", "status"))
}

// shareOther: share off takes the scheduler out at once and for good; somebody else's is left
// alone and named, and when that is gone ours is loaded.
func shareOther(t *T) {
	encode, _ := t.sharedHost()
	t.startDaemon(daemonOptions{mode: "enforce", period: "2s", extra: sharingOn, wrap: []string{self, "as-service"}})
	version := t.awaitScheduler(encode).Scheduler.Version
	t.must(homenode("share", "off"), exitOK)
	t.until(5*time.Second, time.Second, "share off takes it out", func() (bool, string) {
		on, _ := enabled()
		pins, _ := filepath.Glob("/sys/fs/bpf/homenode*")
		return !on && len(pins) == 0, fmt.Sprint("enabled ", on, ", pins ", pins)
	})
	time.Sleep(4 * time.Second)
	if on, _ := enabled(); on {
		t.Fatalf("it came back")
	}
	object := strings.ReplaceAll(t.read(filepath.Join(stateFolder, "schedulers", version+".o")), "homenode\x00", "somebody\x00")
	theirs, err := scx.Load(context.Background(), scx.Options{Pin: "/sys/fs/bpf/somebody", Config: t.anyConfig(), Object: []byte(object)})
	t.Do(err)
	t.Do(theirs.Attach())
	t.Defer(func() { theirs.Detach() })
	t.must(homenode("share", "on"), exitOK)
	t.until(30*time.Second, time.Second, "the other one is named", func() (bool, string) {
		s := t.scheduling()
		return !s.Scheduler.Enabled && s.Scheduler.Other == "somebody" && strings.Contains(s.Scheduler.Why, "left alone"), homenode("share", "status").String()
	})
	time.Sleep(3 * time.Second)
	if on, name := enabled(); !on || name != "somebody" {
		t.Fatalf("%s runs", name)
	}
	if readText(encode.group.file("cpu.idle")) != "1" {
		t.Fatalf("the base layer does not stand")
	}
	t.Do(theirs.Detach())
	t.awaitScheduler(encode)
}

// anyConfig lets batch work run anywhere.
func (t *T) anyConfig() (c scx.Config) {
	for cpu := range t.shape.CPUs() {
		c.CPUs = append(c.CPUs, scx.CPU{ID: topology.CPUID(cpu), Node: topology.NodeID(cpu / t.shape.CPUsPerNode)})
	}
	return c
}
