//go:build linux

package share

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
	"golang.org/x/sys/unix"
)

// lacking is what `share status` says of the scheduler where there is none: once, in one line. The
// settings of cgroups stand.
func lacking(t *lab.T, encode lab.Group, want string) {
	var text string
	t.Poll(60*time.Second, 2*time.Second, "share status says "+want, func() (bool, string) {
		s := readScheduling(t)
		text = s.Scheduler.Why
		return !s.Scheduler.Enabled && strings.Contains(text, want), fmt.Sprintf("enabled %t: %s", s.Scheduler.Enabled,
			text)
	})
	out := strings.Join(strings.Fields(t.Must(lab.Homenode("share", "status"), lab.ExitOK).Out), " ")
	if strings.Contains(text, "\n") || strings.Count(out, text) != 1 {
		t.Fatalf("not once and in one line: %s", out)
	}
	awaitFile(t, encode, "cpu.idle", "1")
	t.Poll(60*time.Second, 2*time.Second, "batch work has a part of the CPUs", func() (bool, string) {
		cpus, limit := strings.TrimSpace(lab.ReadText(encode.File("cpuset.cpus"))),
			strings.TrimSpace(lab.ReadText(encode.File("cpu.max")))
		return (cpus != "" && t.Set(cpus).Size() < t.Shape.CPUs()) || !strings.HasPrefix(limit, "max"),
			cpus + ", " + limit
	})
	if got := policies(t, encode); !slices.Equal(got, []int{0}) {
		t.Fatalf("batch work has the policies %v", got)
	}
	t.Logf("%s", text)
}

// lackingHost is a service, and batch work of so many busy threads.
func lackingHost(t *lab.T, threads int) (encode lab.Group, ws []*lab.Walker) {
	ws = t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "web", Slot: 0, MiB: 16, Threads: 1, Place: "local"},
		lab.WalkerSpec{Name: "encode", Slot: 1, MiB: 16, Threads: threads, Place: "local", Busy: true})
	return ws[1].Group, ws
}

const lacksConfig = shareRules + "share: {enabled: true}\n"

// shareLacks: what a scheduler needs is missing, one thing after the other. (With all of it there is one: shareOther.)
func shareLacks(t *lab.T) {
	if _, err := os.Stat(schedExt + "state"); err != nil {
		t.Skipf("the kernel has no sched_ext")
	}
	encode, ws := lackingHost(t, t.Shape.CPUs())
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
		{want: "This kernel does not describe its types", without: func() { mount("tmpfs", "/sys/kernel/btf") },
			mend: func() { t.Do(syscall.Unmount("/sys/kernel/btf", 0)) }},
		{want: "This process may not load BPF programs",
			wrap: []string{lab.Self, "as-service", strconv.Itoa(unix.CAP_BPF)}},
		{want: "This process may not load BPF programs",
			wrap: []string{lab.Self, "as-service", strconv.Itoa(unix.CAP_PERFMON)}},
		{want: "No BPF file system is mounted", without: func() { t.Do(syscall.Unmount("/sys/fs/bpf", 0)) }},
	} {
		if c.without != nil {
			c.without()
		}
		d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Period: "2s", Extra: lacksConfig, Wrap: c.wrap})
		lacking(t, encode, c.want)
		if on, name := enabled(); on {
			t.Fatalf("%s runs", name)
		}
		t.Must(lab.Homenode("share", "off"), lab.ExitOK)
		awaitFile(t, encode, "cpu.idle", "0")
		t.Must(lab.Homenode("undo", "--all"), lab.ExitOK) // CPUs too: the next daemon knows nothing of this one
		t.Stop(d)
		if c.mend != nil {
			c.mend()
		}
		lab.FreshState()
	}
	t.Walking(ws)
}

// shareKernel: a kernel without sched_ext. Settings alone do it, and are put back.
func shareKernel(t *lab.T) {
	if _, err := os.Stat(schedExt + "state"); err == nil {
		t.Skipf("the kernel has sched_ext")
	}
	encode, ws := lackingHost(t, t.Shape.CPUs())
	before := shareState(encode)
	t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Period: "2s", Extra: lacksConfig})
	lacking(t, encode, "This kernel has no sched_ext")
	r := lab.Homenode("share", "upgrade")
	if r.Exit != lab.ExitForbidden || strings.Count(strings.TrimSpace(r.Err), "\n") > 0 {
		t.Fatalf("%s", r)
	}
	t.Must(lab.Homenode("share", "off"), lab.ExitOK)
	backAs(t, "turned off,", before, encode)
	t.Walking(ws)
}

// shareController: the cpu controller is at another place (cgroup v1 has it). The CPU set of
// batch work holds, and the history says once why cpu.idle does not.
func shareController(t *lab.T) {
	v1 := lab.WorkFolder + "/cpu"
	t.Do(os.MkdirAll(v1, 0o755))
	t.Write(lab.CgroupRoot+"/cgroup.subtree_control", "-cpu")
	t.Defer(func() { lab.WriteText(lab.CgroupRoot+"/cgroup.subtree_control", "+cpu") })
	t.Poll(60*time.Second, time.Second, "cgroup v1 has the controller", func() (bool, string) {
		err := syscall.Mount("cgroup", v1, "cgroup", 0, "cpu")
		if err != nil && err != syscall.EBUSY { // what is left of it in cgroups of tests before goes beside
			t.Skipf("the kernel has no cgroup v1: %v", err)
		}
		return err == nil, fmt.Sprint(err)
	})
	t.Defer(func() { syscall.Unmount(v1, 0) })
	if strings.Contains(" "+lab.ReadText(lab.CgroupRoot+"/cgroup.controllers")+" ", " cpu ") {
		t.Fatalf("controllers: %s", lab.ReadText(lab.CgroupRoot+"/cgroup.controllers"))
	}
	encode, ws := lackingHost(t, 1)
	// two of the four of each node
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Period: "2s",
		Extra: shareRules + "share: {enabled: true, sched_ext: off, idle_cpus: 2}\n"})
	t.Poll(60*time.Second, 2*time.Second, "batch work has a CPU set", func() (bool, string) {
		got := strings.TrimSpace(lab.ReadText(encode.File("cpuset.cpus")))
		return got != "" && t.Set(got).Size() < t.Shape.CPUs(), got
	})
	e := t.AwaitEvent(60*time.Second, encode.Path(), "step-failed")
	const want = "needs the cpu controller, which is absent" // not what the kernel says of a file
	if !strings.Contains(e.Text, want) || strings.Contains(e.Text, "\n") {
		t.Fatalf("history says %q", e.Text)
	}
	lab.Warm(5 * time.Second)
	t.Alive(d)
	t.Unrepeated()
	r := lab.Homenode("run", "--class", "batch", "--", "/bin/walker", "--help")
	if r.Exit != lab.ExitOK || !strings.Contains(r.Err, want) {
		t.Fatalf("%s", r)
	}
	t.Must(lab.Homenode("share", "off"), lab.ExitOK)
	t.Poll(60*time.Second, 2*time.Second, "batch work has every CPU again", func() (bool, string) {
		got := t.Read(encode.File("cpuset.cpus.effective"))
		return t.Set(got).Size() == t.Shape.CPUs(), got
	})
	t.Walking(ws)
	t.Textf("history: %s; run: %s", lab.Cut(e.Text), lab.Cut(r.Err))
}

// shareDelegated: an ordinary user, in a cgroup that is delegated to that user.
func shareDelegated(t *lab.T) {
	own := t.NewGroup(lab.CgroupRoot, "delegated")
	for _, f := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		t.Do(os.Chown(own.File(f), lab.Nobody, lab.Nobody))
	}
	within := []string{lab.Self, "in-group", string(own), lab.Self, "as-nobody"}
	one := func(what, text, about string) { // homenode's lines; the command's own are not meant
		lines := slices.DeleteFunc(strings.Split(text, "\n"),
			func(l string) bool { return !strings.HasPrefix(l, "homenode: ") || !strings.Contains(l, about) })
		if len(lines) != 1 {
			t.Fatalf("%s says %q, not one line about %q", what, lab.Cut(text), about)
		}
		t.Logf("%s: %s", what, lines[0])
	}
	d := t.LaunchDaemon(lab.DaemonOptions{Mode: "enforce", Period: "2s", Extra: lacksConfig, Wrap: within})
	t.Poll(20*time.Second, 2*time.Second, "the daemon ends", func() (bool, string) { return d.Ended(), d.Text() })
	if d.Exit != lab.ExitForbidden {
		t.Fatalf("status %d: %s", d.Exit, d.Text())
	}
	one("a daemon", d.Text(), "as root")
	r := t.Must(lab.HomenodeVia(within, "run", "--class", "batch", "--", "/bin/walker", "--help"), lab.ExitOK)
	one("run", r.Err, "no cgroup of its own")
	strict := []string{"run", "--class", "batch", "--strict", "--", "/bin/walker", "--help"}
	r = t.Must(lab.HomenodeVia(within, strict...), lab.ExitForbidden)
	one("run --strict", r.Err, "--strict")

	// It may look, and says what batch work would have.
	user := lab.WorkFolder + "/user"
	t.Do(os.MkdirAll(user, 0o755))
	t.Do(os.Chown(user, lab.Nobody, lab.Nobody))
	encode, ws := lackingHost(t, 1)
	before := shareState(encode)
	socket := user + "/homenode.sock"
	t.LaunchDaemon(lab.DaemonOptions{Mode: "observe", Period: "2s", Extra: lacksConfig, Wrap: within, Socket: socket,
		State: user + "/state"})
	var out string
	t.Poll(60*time.Second, 2*time.Second, "share status says what it would do", func() (bool, string) {
		r := lab.Capture([]string{lab.HomenodeBin, "--socket", socket, "share", "status"}, "share status")
		out = r.Out
		return r.Exit == lab.ExitOK && strings.Contains(out, encode.Path()), r.String()
	})
	t.LogLines("share status", out, 30)
	if now := shareState(encode); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Fatalf("it has changed %v to %v", before, now)
	}
	t.Walking(ws)
}

// InGroup runs a command in a cgroup.
func InGroup(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("in-group: FOLDER COMMAND")
	}
	if err := os.WriteFile(args[0]+"/cgroup.procs", []byte("0"), 0); err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", args[1], syscall.Exec(args[1], args[1:], os.Environ()))
}
