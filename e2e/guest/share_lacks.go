//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	tests["share.lacks"] = shareLacks
	tests["share.kernel"] = shareKernel
	tests["share.controller"] = shareController
	tests["share.delegated"] = shareDelegated
}

// lacking is what `share status` says of the scheduler where there is none: once, in one line. The
// settings of cgroups stand.
func (t *T) lacking(encode group, want string) {
	var text string
	t.until(60*time.Second, 2*time.Second, "share status says "+want, func() (bool, string) {
		s := t.scheduling()
		text = s.Scheduler.Why
		return !s.Scheduler.Enabled && strings.Contains(text, want), fmt.Sprintf("enabled %t: %s", s.Scheduler.Enabled, text)
	})
	out := strings.Join(strings.Fields(t.must(homenode("share", "status"), exitOK).out), " ")
	if strings.Contains(text, "\n") || strings.Count(out, text) != 1 {
		t.Fatalf("not once and in one line: %s", out)
	}
	t.awaitFile(encode, "cpu.idle", "1")
	t.until(60*time.Second, 2*time.Second, "batch work has a part of the CPUs", func() (bool, string) {
		cpus, limit := strings.TrimSpace(readText(encode.file("cpuset.cpus"))), strings.TrimSpace(readText(encode.file("cpu.max")))
		return cpus != "" && t.set(cpus).size() < t.shape.CPUs() || !strings.HasPrefix(limit, "max"), cpus + ", " + limit
	})
	if got := t.policies(encode); !slices.Equal(got, []int{0}) {
		t.Fatalf("batch work has the policies %v", got)
	}
	t.Logf("%s", text)
}

// lackingHost is a service, and batch work of so many busy threads.
func (t *T) lackingHost(threads int) (encode group, ws []*walker) {
	ws = t.startWalkers(cgroupRoot, walkerSpec{name: "web", slot: 0, mib: 16, threads: 1, place: "local"},
		walkerSpec{name: "encode", slot: 1, mib: 16, threads: threads, place: "local", busy: true})
	return ws[1].group, ws
}

const lacksConfig = shareRules + "share: {enabled: true}\n"

// shareLacks: what a scheduler needs is missing, one thing after the other. (With all of it there is one: shareOther.)
func shareLacks(t *T) {
	if _, err := os.Stat(schedExt + "state"); err != nil {
		t.Skipf("the kernel has no sched_ext")
	}
	encode, ws := t.lackingHost(t.shape.CPUs())
	mount := func(kind, at string) {
		os.MkdirAll(at, 0o755)
		if err := syscall.Mount(kind, at, kind, 0, ""); err != nil && err != syscall.EBUSY {
			t.Fatalf("mount %s: %v", at, err)
		}
	}
	for syscall.Unmount("/sys/fs/bpf", 0) == nil { // what tests before have mounted, one on the other
	}
	mount("bpf", "/sys/fs/bpf")
	for _, c := range []struct {
		want          string
		wrap          []string
		without, mend func()
	}{
		{want: "This kernel does not describe its types", without: func() { mount("tmpfs", "/sys/kernel/btf") }, mend: func() { t.Do(syscall.Unmount("/sys/kernel/btf", 0)) }},
		{want: "This process may not load BPF programs", wrap: []string{self, "as-service", strconv.Itoa(unix.CAP_BPF)}},
		{want: "This process may not load BPF programs", wrap: []string{self, "as-service", strconv.Itoa(unix.CAP_PERFMON)}},
		{want: "No BPF file system is mounted", without: func() { t.Do(syscall.Unmount("/sys/fs/bpf", 0)) }},
	} {
		if c.without != nil {
			c.without()
		}
		d := t.startDaemon(daemonOptions{mode: "enforce", period: "2s", extra: lacksConfig, wrap: c.wrap})
		t.lacking(encode, c.want)
		if on, name := enabled(); on {
			t.Fatalf("%s runs", name)
		}
		t.must(homenode("share", "off"), exitOK)
		t.awaitFile(encode, "cpu.idle", "0")
		t.must(homenode("undo", "--all"), exitOK) // CPUs too: the next daemon knows nothing of this one
		t.stop(d)
		if c.mend != nil {
			c.mend()
		}
		freshState()
	}
	t.walking(ws)
}

// shareKernel: a kernel without sched_ext. Settings alone do it, and are put back.
func shareKernel(t *T) {
	if _, err := os.Stat(schedExt + "state"); err == nil {
		t.Skipf("the kernel has sched_ext")
	}
	encode, ws := t.lackingHost(t.shape.CPUs())
	before := shareState(encode)
	t.startDaemon(daemonOptions{mode: "enforce", period: "2s", extra: lacksConfig})
	t.lacking(encode, "This kernel has no sched_ext")
	if r := homenode("share", "upgrade"); r.exit != exitForbidden || strings.Count(strings.TrimSpace(r.err), "\n") > 0 {
		t.Fatalf("%s", r)
	}
	t.must(homenode("share", "off"), exitOK)
	t.backAs("turned off,", before, encode)
	t.walking(ws)
}

// shareController: the cpu controller is at another place (cgroup v1 has it). The CPU set of
// batch work holds, and the history says once why cpu.idle does not.
func shareController(t *T) {
	v1 := workFolder + "/cpu"
	t.Do(os.MkdirAll(v1, 0o755))
	t.write(cgroupRoot+"/cgroup.subtree_control", "-cpu")
	t.Defer(func() { writeText(cgroupRoot+"/cgroup.subtree_control", "+cpu") })
	t.until(60*time.Second, time.Second, "cgroup v1 has the controller", func() (bool, string) {
		err := syscall.Mount("cgroup", v1, "cgroup", 0, "cpu")
		if err != nil && err != syscall.EBUSY { // what is left of it in cgroups of tests before goes beside
			t.Skipf("the kernel has no cgroup v1: %v", err)
		}
		return err == nil, fmt.Sprint(err)
	})
	t.Defer(func() { syscall.Unmount(v1, 0) })
	if strings.Contains(" "+readText(cgroupRoot+"/cgroup.controllers")+" ", " cpu ") {
		t.Fatalf("controllers: %s", readText(cgroupRoot+"/cgroup.controllers"))
	}
	encode, ws := t.lackingHost(1)
	d := t.startDaemon(daemonOptions{mode: "enforce", period: "2s", extra: shareRules + "share: {enabled: true, sched_ext: off, idle_cpus: 2}\n"}) // two of the four of each node
	t.until(60*time.Second, 2*time.Second, "batch work has a CPU set", func() (bool, string) {
		got := strings.TrimSpace(readText(encode.file("cpuset.cpus")))
		return got != "" && t.set(got).size() < t.shape.CPUs(), got
	})
	e := t.awaitEvent(60*time.Second, encode.path(), "step-failed")
	const want = "needs the cpu controller, which is absent" // not what the kernel says of a file
	if !strings.Contains(e.Text, want) || strings.Contains(e.Text, "\n") {
		t.Fatalf("history says %q", e.Text)
	}
	warm(5 * time.Second)
	t.alive(d)
	t.unrepeated()
	r := homenode("run", "--class", "batch", "--", "/bin/walker", "--help")
	if r.exit != exitOK || !strings.Contains(r.err, want) {
		t.Fatalf("%s", r)
	}
	t.must(homenode("share", "off"), exitOK)
	t.until(60*time.Second, 2*time.Second, "batch work has every CPU again", func() (bool, string) {
		got := t.read(encode.file("cpuset.cpus.effective"))
		return t.set(got).size() == t.shape.CPUs(), got
	})
	t.walking(ws)
	t.Textf("history: %s; run: %s", cut(e.Text), cut(r.err))
}

// shareDelegated: an ordinary user, in a cgroup that is delegated to that user.
func shareDelegated(t *T) {
	own := t.newGroup(cgroupRoot, "delegated")
	for _, f := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		t.Do(os.Chown(own.file(f), nobody, nobody))
	}
	within := []string{self, "in-group", string(own), self, "as-nobody"}
	one := func(what, text, about string) { // homenode's lines; the command's own are not meant
		lines := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return !strings.HasPrefix(l, "homenode: ") || !strings.Contains(l, about) })
		if len(lines) != 1 {
			t.Fatalf("%s says %q, not one line about %q", what, cut(text), about)
		}
		t.Logf("%s: %s", what, lines[0])
	}
	d := t.launchDaemon(daemonOptions{mode: "enforce", period: "2s", extra: lacksConfig, wrap: within})
	t.until(20*time.Second, 2*time.Second, "the daemon ends", func() (bool, string) { return d.ended(), d.text() })
	if d.exit != exitForbidden {
		t.Fatalf("status %d: %s", d.exit, d.text())
	}
	one("a daemon", d.text(), "as root")
	r := t.must(homenodeVia(within, "run", "--class", "batch", "--", "/bin/walker", "--help"), exitOK)
	one("run", r.err, "no cgroup of its own")
	r = t.must(homenodeVia(within, "run", "--class", "batch", "--strict", "--", "/bin/walker", "--help"), exitForbidden)
	one("run --strict", r.err, "--strict")

	// It may look, and says what batch work would have.
	user := workFolder + "/user"
	t.Do(os.MkdirAll(user, 0o755))
	t.Do(os.Chown(user, nobody, nobody))
	encode, ws := t.lackingHost(1)
	before := shareState(encode)
	socket := user + "/homenode.sock"
	t.launchDaemon(daemonOptions{mode: "observe", period: "2s", extra: lacksConfig, wrap: within, socket: socket, state: user + "/state"})
	var out string
	t.until(60*time.Second, 2*time.Second, "share status says what it would do", func() (bool, string) {
		r := capture([]string{homenodeBin, "--socket", socket, "share", "status"}, "share status")
		out = r.out
		return r.exit == exitOK && strings.Contains(out, encode.path()), r.String()
	})
	t.logLines("share status", out, 30)
	if now := shareState(encode); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Fatalf("it has changed %v to %v", before, now)
	}
	t.walking(ws)
}

// inGroup runs a command in a cgroup.
func inGroup(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("in-group: FOLDER COMMAND")
	}
	if err := os.WriteFile(args[0]+"/cgroup.procs", []byte("0"), 0); err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", args[1], syscall.Exec(args[1], args[1:], os.Environ()))
}
