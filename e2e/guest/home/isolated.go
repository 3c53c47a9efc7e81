//go:build linux

package home

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
	"golang.org/x/sys/unix"
)

// usualTicks is the timer ticks of a busy CPU in 10 s: Debian's kernels have CONFIG_HZ=250.
const usualTicks = 10 * 250

// spinnerFile is a program of two bytes: it jumps to itself. Programs in Go have threads that sleep and wake, with
// an interrupt for each.
const spinnerFile = "/tmp/spinner"

// writeSpinner makes it, an ELF file with a header, one segment and the code (elf(5)).
func writeSpinner(t *lab.T) {
	const base, header = 0x400000, 64 + 56
	code := []byte{0xeb, 0xfe}
	var b []byte
	put := func(v ...any) {
		for _, x := range v {
			b, _ = binary.Append(b, binary.LittleEndian, x)
		}
	}
	put([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	put(uint16(2), uint16(62), uint32(1), uint64(base+header), uint64(64), uint64(0))
	put(uint32(0), uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0))
	size := uint64(header + len(code))
	put(uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), size, size, uint64(0x1000), code)
	t.Do(os.MkdirAll(filepath.Dir(spinnerFile), 0o755))
	t.Do(os.WriteFile(spinnerFile, b, 0o755))
}

// spin starts it in a cgroup, "" for that of the tests.
func spin(t *lab.T, in lab.Group) *exec.Cmd {
	c := exec.Command(spinnerFile)
	if in == "" {
		t.Do(c.Start())
	} else {
		t.RunIn(in, c)
	}
	t.Defer(func() {
		c.Process.Kill()
		c.Wait()
	})
	return c
}

// interruptsOf counts the interrupts of one CPU so far, by their names in /proc/interrupts.
func interruptsOf(t *lab.T, cpu int) map[string]int {
	out := map[string]int{}
	lines := strings.Split(t.Read("/proc/interrupts"), "\n")
	column := slices.Index(strings.Fields(lines[0]), fmt.Sprintf("CPU%d", cpu))
	if column < 0 {
		t.Fatalf("no CPU %d in /proc/interrupts", cpu)
	}
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		if len(f) <= column+1 {
			continue
		}
		if n, err := strconv.Atoi(f[column+1]); err == nil {
			out[strings.TrimSuffix(f[0], ":")] = n
		}
	}
	return out
}

// disturbed counts the interrupts of CPUs in some seconds.
func disturbed(t *lab.T, long time.Duration, cpus ...int) []map[string]int {
	var before []map[string]int
	for _, cpu := range cpus {
		before = append(before, interruptsOf(t, cpu))
	}
	time.Sleep(long)
	var out []map[string]int
	for i, cpu := range cpus {
		more := map[string]int{}
		for name, n := range interruptsOf(t, cpu) {
			if d := n - before[i][name]; d > 0 {
				more[name] = d
				more["all"] += d
			}
		}
		out = append(out, more)
	}
	return out
}

// quietFiles is what isolation may change outside cgroups, by file.
func quietFiles() lab.Snapshot {
	return lab.FilesOf(
		"/proc/irq/*/smp_affinity",
		defaultIRQ,
		"/sys/devices/virtual/workqueue/cpumask*",
		"/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us",
		"/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
		"/sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference",
		"/sys/devices/system/cpu/isolated",
	)
}

const (
	unboundMask = "/sys/devices/virtual/workqueue/cpumask"
	defaultIRQ  = "/proc/irq/default_smp_affinity"
)

// isolated waits until cgroups have partitions of their own, with these CPUs, and kernel work has left them. It
// returns the number of interrupts that stay.
func isolated(t *lab.T, cpus lab.Set, in ...lab.Group) (left int) {
	t.Poll(120*time.Second, time.Second, "isolated partitions and a quiet host", func() (bool, string) {
		for _, g := range in {
			if got := lab.ReadText(g.File("cpuset.cpus.partition")); got != "isolated" {
				return false, fmt.Sprintf("partition %q", got)
			}
		}
		if got := t.Set(lab.ReadText("/sys/fs/cgroup/cpuset.cpus.isolated")); got != cpus {
			return false, fmt.Sprintf("isolated CPUs %s, want %s", got, cpus)
		}
		for _, cpu := range cpus.IDs() {
			latency := lab.ReadText(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/power/pm_qos_resume_latency_us", cpu))
			if latency != "2" {
				return false, fmt.Sprintf("idle latency %q", latency)
			}
		}
		for _, f := range []string{unboundMask, defaultIRQ} {
			n, err := strconv.ParseUint(lab.ReadText(f), 16, 64)
			if err != nil || lab.Set(n)&cpus != 0 {
				return false, fmt.Sprintf("%s is %s", f, lab.ReadText(f))
			}
		}
		return true, ""
	})
	lab.Warm(12 * time.Second) // interrupts follow a survey
	files, _ := filepath.Glob("/proc/irq/*/smp_affinity_list")
	for _, f := range files {
		actions := lab.ReadText("/sys/kernel/irq/" + filepath.Base(filepath.Dir(f)) + "/actions")
		if actions != "" && t.Set(lab.ReadText(f))&cpus != 0 {
			t.Logf("%s (%s) may still go to CPUs %s: %s", f, actions, cpus, lab.ReadText(f))
			left++
		}
	}
	return left
}

// runsOn returns the CPU that a process last ran on (proc(5), field 39 of stat).
func runsOn(t *lab.T, pid int) int {
	_, rest, _ := strings.Cut(t.Read(fmt.Sprintf("/proc/%d/stat", pid)), ") ")
	f := strings.Fields(rest)
	if len(f) < 37 {
		t.Fatalf("stat of process %d: %q", pid, rest)
	}
	cpu, err := strconv.Atoi(f[36])
	t.Do(err)
	return cpu
}

// lone is a workload of one busy thread.
type lone struct {
	lab.Group
	id   string
	work *exec.Cmd
	cpu  int
}

// homenodeIsolated: the CPUs of isolated work become partitions of their own, and interrupts, unbound workqueues and
// deep idle states leave them. The interrupts of ten seconds are compared for the same busy thread: with nothing
// done, as dedicated work and as isolated work, on a node without nohz_full= and on one with. After kill -9 undo
// restores every file, byte for byte.
func homenodeIsolated(t *lab.T) {
	writeSpinner(t)
	shop := t.NewGroup(lab.CgroupRoot, "shop")
	// Each wants three CPUs: there is room for one of them on either node.
	ticks, still := &lone{id: "/shop/db"}, &lone{id: "/shop/log"}
	for _, w := range []*lone{ticks, still} {
		w.Group = t.NewGroup(shop, filepath.Base(w.id))
	}
	t.NewGroup(shop, "web")
	// Values of their own, so that undo can not pass by writing defaults.
	latencies, _ := filepath.Glob("/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us")
	for i, f := range latencies {
		t.Write(f, strconv.Itoa(100+i))
	}
	t.Write(unboundMask, "7f")
	t.Write(defaultIRQ, "fb")
	settings := func() lab.Snapshot {
		s := lab.TakeSnapshot(nil)
		maps.Copy(s, quietFiles())
		return s
	}
	before := settings()
	for _, w := range []*lone{ticks, still} {
		w.work = spin(t, w.Group)
	}
	usual := spin(t, "")
	t.Do(unix.SchedSetaffinity(usual.Process.Pid, &unix.CPUSet{1})) // CPU 0

	rule := "reserve: {cpus: \"0\"}\nworkloads: [{match: /shop/db, class: dedicated, cpus: 3%[1]s}, " +
		"{match: /shop/log, class: dedicated, cpus: 3%[1]s}]\n"
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Extra: fmt.Sprintf(rule, "")})
	var own lab.Set
	t.Poll(120*time.Second, time.Second, "CPUs of their own", func() (bool, string) {
		own = 0
		for _, w := range []*lone{ticks, still} {
			now := t.Set(lab.ReadText(w.File("cpuset.cpus")))
			if now.Size() != 3 || now.Has(0) || own&now != 0 {
				return false, fmt.Sprintf("CPUs %s of %s", now, w.id)
			}
			own |= now
		}
		return true, ""
	})
	lab.Warm(3 * time.Second)
	tickless := t.Set(lab.BootParam("nohz_full"))
	if tickless.Has(runsOn(t, ticks.work.Process.Pid)) {
		ticks, still = still, ticks
	}
	where := func() {
		ticks.cpu, still.cpu = runsOn(t, ticks.work.Process.Pid), runsOn(t, still.work.Process.Pid)
	}
	where()
	dedicated := disturbed(t, 10*time.Second, 0, ticks.cpu, still.cpu)
	t.Stop(d)

	d = t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Extra: fmt.Sprintf(rule, ", isolated: true")})
	left := isolated(t, own, ticks.Group, still.Group)
	where()
	var isolated []map[string]int
	by := interrupters(t, still.cpu, func() { isolated = disturbed(t, 10*time.Second, ticks.cpu, still.cpu) })
	t.Alive(d)
	for _, what := range by {
		t.Logf("CPU %d: %s", still.cpu, what)
	}
	interruptTable(t, dedicated, isolated)
	tickNamed(t, ticks, still)
	// An emulated CPU that waits for a real one loses ticks. So 1 % is of the ticks counted with nothing done, and for
	// all interrupts of usualTicks: the kernel sends a busy CPU without ticks an IPI a second nevertheless
	// (sched_tick_remote, kernel/sched/core.c).
	plain, quiet := dedicated[0], isolated[1]
	if quiet["LOC"]*100 > plain["LOC"] || quiet["all"]*100 > usualTicks {
		t.Fatalf("isolated: %v; more than 1 %% of %d timer interrupts or of %d interrupts", quiet, plain["LOC"],
			usualTicks)
	}

	d.Kill9()
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	for _, w := range []*lone{ticks, still} {
		w.work.Process.Kill()
	}
	t.Same("after kill -9 and undo", before, settings(), lab.All)
	t.Textf("CPU %d: %d interrupts in 10 s isolated, %d dedicated; CPU %d, without nohz_full: %d and %d; "+
		"%d with nothing done; %d could not be moved; kill -9 and undo restored %d files", still.cpu, quiet["all"],
		dedicated[2]["all"],
		ticks.cpu, isolated[0]["all"], dedicated[1]["all"], dedicated[0]["all"], left, len(before))
}

// interruptTable prints the interrupts of busy CPUs: with nothing done; as dedicated and as isolated work, each
// without nohz_full= and with.
func interruptTable(t *lab.T, dedicated, isolated []map[string]int) {
	const without, with = "without nohz_full", "with nohz_full"
	for _, x := range []struct {
		what, boot string
		count      map[string]int
	}{
		{"busy, nothing done", without, dedicated[0]},
		{"dedicated", without, dedicated[1]},
		{"dedicated", with, dedicated[2]},
		{"isolated", without, isolated[0]},
		{"isolated", with, isolated[1]},
	} {
		ipis := x.count["RES"] + x.count["CAL"] + x.count["TLB"]
		t.Row("interrupts of a busy CPU in 10 s: all, timer, IPIs", x.what, x.boot,
			fmt.Sprint(x.count["all"]), fmt.Sprint(x.count["LOC"]), fmt.Sprint(ipis))
		t.Logf("%s, %s: %v", x.what, x.boot, x.count)
	}
}

// tickNamed checks that explain names the CPUs of the first workload as those where the tick goes on, and not those
// of the second.
func tickNamed(t *lab.T, ticks, still *lone) {
	const sentence = "was started without nohz_full="
	for w, want := range map[*lone]bool{ticks: true, still: false} {
		text := t.Must(lab.Homenode("explain", w.id), lab.ExitOK).Out
		if strings.Contains(strings.Join(strings.Fields(text), " "), sentence) != want {
			t.Fatalf("explain %s on CPU %d: %q is there: %v; want %v\n%s", w.id, w.cpu, sentence, !want, want, text)
		}
	}
}
