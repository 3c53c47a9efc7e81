//go:build linux

package main

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

	"golang.org/x/sys/unix"
)

func init() { tests["homenode.isolated"] = homenodeIsolated }

// usualTicks is the timer ticks of a busy CPU in 10 s: Debian's kernels have CONFIG_HZ=250.
const usualTicks = 10 * 250

// spinnerFile is a program of two bytes: it jumps to itself. Programs in Go have threads that sleep and wake, with
// an interrupt for each.
const spinnerFile = "/tmp/spinner"

// writeSpinner makes it, an ELF file with a header, one segment and the code (elf(5)).
func (t *T) writeSpinner() {
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
func (t *T) spin(in group) *exec.Cmd {
	c := exec.Command(spinnerFile)
	if in == "" {
		t.Do(c.Start())
	} else {
		t.runIn(in, c)
	}
	t.Defer(func() {
		c.Process.Kill()
		c.Wait()
	})
	return c
}

// interruptsOf counts the interrupts of one CPU so far, by their names in /proc/interrupts.
func (t *T) interruptsOf(cpu int) map[string]int {
	out := map[string]int{}
	lines := strings.Split(t.read("/proc/interrupts"), "\n")
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
func (t *T) disturbed(long time.Duration, cpus ...int) []map[string]int {
	var before []map[string]int
	for _, cpu := range cpus {
		before = append(before, t.interruptsOf(cpu))
	}
	time.Sleep(long)
	var out []map[string]int
	for i, cpu := range cpus {
		more := map[string]int{}
		for name, n := range t.interruptsOf(cpu) {
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
func quietFiles() snapshot {
	return filesOf(
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

// isolated waits until a CPU has a partition of its own and kernel work has left it. It returns the number of
// interrupts that stay.
func (t *T) isolated(in group, cpu int) (left int) {
	t.until(120*time.Second, time.Second, "an isolated partition and a quiet host", func() (bool, string) {
		if got := readText(in.file("cpuset.cpus.partition")); got != "isolated" {
			return false, fmt.Sprintf("partition %q", got)
		}
		if got := t.set(readText("/sys/fs/cgroup/cpuset.cpus.isolated")); got != setOf(cpu) {
			return false, fmt.Sprintf("isolated CPUs %s, want %d", got, cpu)
		}
		latency := readText(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/power/pm_qos_resume_latency_us", cpu))
		if latency != "2" {
			return false, fmt.Sprintf("idle latency %q", latency)
		}
		for _, f := range []string{unboundMask, defaultIRQ} {
			n, err := strconv.ParseUint(readText(f), 16, 64)
			if err != nil || set(n).has(cpu) {
				return false, fmt.Sprintf("%s is %s", f, readText(f))
			}
		}
		return true, ""
	})
	warm(12 * time.Second) // interrupts follow a survey
	files, _ := filepath.Glob("/proc/irq/*/smp_affinity_list")
	for _, f := range files {
		actions := readText("/sys/kernel/irq/" + filepath.Base(filepath.Dir(f)) + "/actions")
		if actions != "" && t.set(readText(f)).has(cpu) {
			t.Logf("%s (%s) may still go to CPU %d: %s", f, actions, cpu, readText(f))
			left++
		}
	}
	return left
}

// homenodeIsolated: the CPU of isolated work becomes a partition of its own, and interrupts, unbound workqueues and
// deep idle states leave it; its interrupts of ten seconds are compared with those of a busy CPU without Homenode
// and of dedicated work; after kill -9 undo restores every file, byte for byte.
func homenodeIsolated(t *T) {
	t.writeSpinner()
	shop := t.newGroup(cgroupRoot, "shop")
	db := t.newGroup(shop, "db")
	t.newGroup(shop, "web")
	// Values of their own, so that undo can not pass by writing defaults.
	latencies, _ := filepath.Glob("/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us")
	for i, f := range latencies {
		t.write(f, strconv.Itoa(100+i))
	}
	t.write(unboundMask, "7f")
	t.write(defaultIRQ, "fb")
	settings := func() snapshot {
		s := takeSnapshot(nil)
		maps.Copy(s, quietFiles())
		return s
	}
	before := settings()
	work := t.spin(db)
	usual := t.spin("")
	t.Do(unix.SchedSetaffinity(usual.Process.Pid, &unix.CPUSet{1})) // CPU 0

	rule := "reserve: {cpus: \"0\"}\nworkloads: [{match: /shop/db, class: dedicated, cpus: 1%s}]\n"
	d := t.startDaemon(daemonOptions{mode: "enforce", extra: fmt.Sprintf(rule, "")})
	cpu := -1
	t.until(120*time.Second, time.Second, "a CPU of its own", func() (bool, string) {
		now := t.set(readText(db.file("cpuset.cpus")))
		if now.size() != 1 || now.has(0) {
			return false, fmt.Sprintf("CPUs %s", now)
		}
		cpu = now.ids()[0]
		return true, ""
	})
	warm(3 * time.Second)
	counts := t.disturbed(10*time.Second, 0, cpu)
	plain, dedicated := counts[0], counts[1]
	t.stop(d)

	d = t.startDaemon(daemonOptions{mode: "enforce", extra: fmt.Sprintf(rule, ", isolated: true")})
	left := t.isolated(db, cpu)
	quiet := t.disturbed(10*time.Second, cpu)[0]
	t.alive(d)
	for _, x := range []struct {
		what  string
		count map[string]int
	}{{"busy, nothing done", plain}, {"dedicated", dedicated}, {"isolated", quiet}} {
		ipis := x.count["RES"] + x.count["CAL"] + x.count["TLB"]
		t.Row("interrupts of a busy CPU in 10 s: all, timer, IPIs", x.what,
			fmt.Sprint(x.count["all"]), fmt.Sprint(x.count["LOC"]), fmt.Sprint(ipis))
		t.Logf("%s: %v", x.what, x.count)
	}
	for l := range strings.Lines(t.must(homenode("explain", "/shop/db"), exitOK).out) {
		t.Logf("%s", strings.TrimRight(l, "\n"))
	}
	tickless := bootParam("nohz_full") != ""
	// An emulated CPU loses most of its ticks: the kernel asks for usualTicks. It sends a busy CPU without ticks an IPI
	// a second nevertheless (sched_tick_remote, kernel/sched/core.c).
	tooMany := quiet["LOC"]*100 > plain["LOC"] || quiet["all"]*100 > usualTicks
	if tickless && tooMany {
		t.Fatalf("isolated: %v; busy, with nothing done: %v; more than 1 %%", quiet, plain)
	}

	d.kill9()
	t.must(homenode("undo", "--all"), exitOK)
	work.Process.Kill()
	t.same("after kill -9 and undo", before, settings(), all)
	t.Textf("CPU %d: %d interrupts in 10 s isolated, %d dedicated, %d with nothing done; %d could not be moved; "+
		"kill -9 and undo restored %d files", cpu, quiet["all"], dedicated["all"], plain["all"], left, len(before))
}
