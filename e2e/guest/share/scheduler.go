//go:build linux

package share

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

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/host/scx"
	"golang.org/x/sys/unix"
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

func readScheduling(t *lab.T) (s scheduling) {
	t.Do(json.Unmarshal([]byte(t.Must(lab.Homenode("share", "status", "--json"), lab.ExitOK).Out), &s))
	return s
}

// enabled is whether a scheduler runs, and its name.
func enabled() (bool, string) {
	return lab.ReadText(schedExt+"state") == "enabled", lab.ReadText(schedExt + "root/ops")
}

// policies is the scheduling policies of the threads of a cgroup, each once.
func policies(t *lab.T, g lab.Group) (out []int) {
	for _, tid := range strings.Fields(t.Read(g.File("cgroup.threads"))) {
		id, _ := strconv.Atoi(tid)
		if a, err := unix.SchedGetAttr(id, 0); err == nil && !slices.Contains(out, int(a.Policy)) {
			out = append(out, int(a.Policy))
		}
	}
	slices.Sort(out)
	return out
}

const sharingOn = "share: {enabled: true, probation: 8s, target: 100}\nworkloads:\n- {match: encode, tier: batch}\n- " +
	"{match: web, tier: online-strict}\n"

// sharedHost is a guest with batch and online work, and a kernel that takes a scheduler.
func sharedHost(t *lab.T) (encode, web *lab.Walker) {
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
	ws := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "encode", Slot: 0, MiB: 32, Threads: 3,
		Place: "interleave", Unbind: true},
		lab.WalkerSpec{Name: "web", Slot: 1, MiB: 32, Threads: 1, Place: "bind:0", Unbind: true})
	return ws[0], ws[1]
}

// awaitScheduler waits until it runs and has all threads of batch work.
func awaitScheduler(t *lab.T, encode *lab.Walker) scheduling {
	t.Poll(60*time.Second, time.Second, "the scheduler runs and has the threads of encode", func() (bool, string) {
		on, name := enabled()
		return on && name == "homenode" && slices.Equal(policies(t, encode.Group), []int{policyExt}), "see share status"
	})
	return readScheduling(t)
}

// AsService runs a command as root with no more capabilities than packaging/systemd/homenode.service
// leaves the daemon, less one that a number before the command names.
func AsService(args []string) error {
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
func noPins(t *lab.T) {
	if pins, _ := filepath.Glob("/sys/fs/bpf/homenode*"); len(pins) > 0 {
		t.Fatalf("left in bpffs: %v", pins)
	}
}

// shareScheduler: batch work goes to the scheduler; it stays enabled through kill -9 and a stop
// of the daemon; an upgrade that does not hold goes back; undo without a daemon takes it out.
func shareScheduler(t *lab.T) {
	encode, web := sharedHost(t)
	tids := strings.Fields(t.Read(encode.Group.File("cgroup.threads")))
	own, _ := strconv.Atoi(tids[len(tids)-1])
	t.Do(unix.SchedSetAttr(own, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: 3, Nice: 5}, 0)) // SCHED_BATCH
	before := policies(t, encode.Group)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Period: "2s", Extra: sharingOn})
	first := awaitScheduler(t, encode)
	if got := policies(t, web.Group); !slices.Equal(got, []int{0}) {
		t.Fatalf("web has the policies %v", got)
	}
	if lab.ReadText(encode.Group.File("cpu.idle")) != "1" {
		t.Fatalf("the base layer is not set")
	}
	seq := t.Read(schedExt + "enable_seq")
	d.Kill9()
	if on, _ := enabled(); !on {
		t.Fatalf("it ended with the daemon")
	}
	d = t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Period: "2s", Extra: sharingOn})
	t.Poll(30*time.Second, time.Second, "the next daemon adopts it", func() (bool, string) {
		s := readScheduling(t)
		return s.Scheduler.Enabled && s.Scheduler.Version == first.Scheduler.Version, "see share status"
	})
	if now := t.Read(schedExt + "enable_seq"); now != seq {
		t.Fatalf("it was loaded again: enable_seq %s, then %s", seq, now)
	}

	// Another version: the same object with a byte more, which no one reads.
	object := t.Read(filepath.Join(lab.StateFolder, "schedulers", first.Scheduler.Version+".o"))
	other := filepath.Join(lab.WorkFolder, "other.o")
	t.Do(os.WriteFile(other, []byte(object+"\x00"), 0o600))
	if r := t.Must(lab.Homenode("share", "upgrade"), lab.ExitOK); !strings.Contains(r.Out, "nothing is newer") {
		t.Fatalf("%s", r)
	}
	t.Must(lab.Homenode("share", "upgrade", "--no-wait", "--object", other), lab.ExitOK)
	s := readScheduling(t)
	if s.Scheduler.Version == first.Scheduler.Version || s.Scheduler.Trial == nil || s.Scheduler.Trial.GapMS <= 0 {
		t.Fatalf("after the upgrade %+v", s)
	}
	gap := s.Scheduler.Trial.GapMS
	t.Write("/proc/sysrq-trigger", "S") // it does not hold
	t.Poll(30*time.Second, time.Second, "the version before comes back", func() (bool, string) {
		s := readScheduling(t)
		return s.Scheduler.Enabled && s.Scheduler.Version == first.Scheduler.Version && s.Scheduler.Upgrade != nil &&
			!s.Scheduler.Upgrade.Held, "see share status"
	})
	awaitScheduler(t, encode)

	t.Stop(d)
	if on, _ := enabled(); !on {
		t.Fatalf("a stop of the daemon ends it")
	}
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	if on, _ := enabled(); on {
		t.Fatalf("undo leaves it: %s", lab.Homenode("history"))
	}
	noPins(t)
	if got := policies(t, encode.Group); !slices.Equal(got, before) {
		t.Fatalf("after undo the policies are %v, before %v", got, before)
	}
	if a, err := unix.SchedGetAttr(own, 0); err != nil || a.Policy != 3 || a.Nice != 5 {
		t.Fatalf("the thread with SCHED_BATCH and nice 5 has %+v (%v)", a, err)
	}
	t.Walking([]*lab.Walker{encode, web})
	t.Textf("version %s, gap of the swap %.1f ms", first.Scheduler.Version, gap)
}

// shareEnds: what SysRq-S ends is not loaded again soon, also by the next daemon; the base layer
// stands; share off is at once and for good.
func shareEnds(t *lab.T) {
	encode, web := sharedHost(t)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Period: "2s", Extra: sharingOn})
	awaitScheduler(t, encode)
	schedulerRun(t)
	t.Write("/proc/sysrq-trigger", "S")
	t.Poll(time.Second*3, 10*time.Millisecond, "the fair class has all", func() (bool, string) {
		on, _ := enabled()
		return !on, "still enabled"
	})
	t.Poll(30*time.Second, time.Second, "it is said how it ended", func() (bool, string) {
		s := readScheduling(t)
		return !s.Scheduler.Enabled && s.Scheduler.End != nil && s.Scheduler.End.Kind == "sysrq", "see share status"
	})
	seq := t.Read(schedExt + "enable_seq")
	for range 2 {
		time.Sleep(4 * time.Second)
		d.Kill9()
		d = t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Period: "2s", Extra: sharingOn})
	}
	time.Sleep(3 * time.Second)
	if now := t.Read(schedExt + "enable_seq"); now != seq {
		t.Fatalf("it is loaded again soon")
	}
	if lab.ReadText(encode.Group.File("cpu.idle")) != "1" {
		t.Fatalf("the base layer does not stand")
	}
	t.Must(lab.Homenode("share", "off"), lab.ExitOK)
	t.Poll(30*time.Second, time.Second, "all is as before", func() (bool, string) {
		return slices.Equal(policies(t, encode.Group), []int{0}) && lab.ReadText(encode.Group.File("cpu.idle")) == "0",
			"see share status"
	})
	noPins(t)
	t.Walking([]*lab.Walker{encode, web})
}

// schedulerRun: the scheduler has what `homenode run` starts, and undo takes it from it together
// with its cgroup.
func schedulerRun(t *lab.T) {
	w := t.WalkerBehind("run", []string{lab.HomenodeBin, "--socket", lab.SocketPath, "run", "--class", "batch", "--",
		"/bin/walker", "--slot", "8", "--mib", "16", "--threads", "2", "--place", "local"})
	policies := func() (out []int) {
		tids, _ := scx.ProcessThreads([]int{w.PID})()
		for _, tid := range tids {
			if a, err := unix.SchedGetAttr(tid, 0); err == nil && !slices.Contains(out, int(a.Policy)) {
				out = append(out, int(a.Policy))
			}
		}
		return out
	}
	t.Poll(30*time.Second, time.Second, "the scheduler has the threads of the run", func() (bool, string) {
		return slices.Equal(policies(), []int{policyExt}), fmt.Sprint(policies())
	})
	t.Must(lab.Homenode("undo", fmt.Sprintf("pid:%d", w.PID)), lab.ExitOK)
	if got := policies(); !slices.Equal(got, []int{0}) {
		t.Fatalf("undone, the run has the policies %v", got)
	}
	w.Kill()
}

// shareStarved: online-strict work takes each CPU for longer than the kernel's watchdog bears. Batch
// threads that wait are given back to the fair class in time, and the scheduler stays.
func shareStarved(t *lab.T) {
	encode, _ := sharedHost(t)
	all := strings.ReplaceAll(sharingOn, "match: web", `match: "web*"`)
	t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Extra: all})
	awaitScheduler(t, encode)
	startIn(t, encode.Group, "hog", "20")
	seq := t.Read(schedExt + "enable_seq")
	// As many on each node, which a daemon that places them would not leave.
	for cpu := range t.Shape.CPUs() {
		busy := t.NewGroup(lab.CgroupRoot, fmt.Sprintf("web%d", cpu))
		t.Write(busy.File("cpuset.cpus"), strconv.Itoa(cpu))
		startIn(t, busy, "hog", "1")
	}
	time.Sleep(50 * time.Second)
	if on, _ := enabled(); !on || t.Read(schedExt+"enable_seq") != seq {
		t.Fatalf("the scheduler was ended: %s", lab.Homenode("share", "status"))
	}
	for _, c := range readScheduling(t).Scheduler.Counters {
		if c.Name == "given_back" && c.Value > 0 {
			t.Logf("%d threads were given back", c.Value)
			return
		}
	}
	t.Fatalf("no thread was given back: %s", lab.Homenode("share", "status"))
}

// shareOther: share off takes the scheduler out at once and for good; somebody else's is left
// alone and named, and when that is gone ours is loaded.
func shareOther(t *lab.T) {
	encode, _ := sharedHost(t)
	t.StartDaemon(lab.DaemonOptions{
		Mode: "enforce", Period: "2s", Extra: sharingOn, Wrap: []string{lab.Self, "as-service"},
	})
	version := awaitScheduler(t, encode).Scheduler.Version
	t.Must(lab.Homenode("share", "off"), lab.ExitOK)
	t.Poll(5*time.Second, time.Second, "share off takes it out", func() (bool, string) {
		on, _ := enabled()
		pins, _ := filepath.Glob("/sys/fs/bpf/homenode*")
		return !on && len(pins) == 0, fmt.Sprint("enabled ", on, ", pins ", pins)
	})
	time.Sleep(4 * time.Second)
	if on, _ := enabled(); on {
		t.Fatalf("it came back")
	}
	object := strings.ReplaceAll(t.Read(filepath.Join(lab.StateFolder, "schedulers", version+".o")), "homenode\x00",
		"somebody\x00")
	theirs, err := scx.Load(context.Background(),
		scx.Options{Pin: "/sys/fs/bpf/somebody", Config: anyConfig(t), Object: []byte(object)})
	t.Do(err)
	t.Do(theirs.Attach())
	t.Defer(func() { theirs.Detach() })
	t.Must(lab.Homenode("share", "on"), lab.ExitOK)
	t.Poll(30*time.Second, time.Second, "the other one is named", func() (bool, string) {
		s := readScheduling(t)
		return !s.Scheduler.Enabled && s.Scheduler.Other == "somebody" &&
			strings.Contains(s.Scheduler.Why, "leaves that one alone"), "see share status"
	})
	time.Sleep(3 * time.Second)
	if on, name := enabled(); !on || name != "somebody" {
		t.Fatalf("%s runs", name)
	}
	if lab.ReadText(encode.Group.File("cpu.idle")) != "1" {
		t.Fatalf("the base layer does not stand")
	}
	t.Do(theirs.Detach())
	awaitScheduler(t, encode)
}

// anyConfig lets batch work run anywhere.
func anyConfig(t *lab.T) (c scx.Config) {
	for cpu := range t.Shape.CPUs() {
		c.CPUs = append(c.CPUs, scx.CPU{ID: topology.CPUID(cpu), Node: topology.NodeID(cpu / t.Shape.CPUsPerNode)})
	}
	return c
}
