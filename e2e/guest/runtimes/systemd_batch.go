//go:build linux

package runtimes

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// systemdBatch: `homenode run --class batch` makes a scope in homenode-batch.slice, which has
// CPUWeight=idle, without and with a daemon; undo takes what runs out of it, and systemd
// takes the slice away with the last scope.
func systemdBatch(t *lab.T) {
	Install(t)
	const slice = "/homenode.slice/homenode-batch.slice"
	start := func() *lab.Walker {
		return t.WalkerBehind("batch", []string{Installed, "run", "--quiet", "--class", "batch", "--", "/e2e/walker",
			"--slot", "8", "--mib", "32", "--threads", "1", "--place", "local"})
	}
	of := func(pid int) string {
		return strings.TrimPrefix(strings.TrimSpace(lab.ReadText(fmt.Sprintf("/proc/%d/cgroup", pid))), "0::")
	}
	gone := func(when string) {
		t.Poll(lab.SystemdLimit, time.Second, when+" the slices are gone", func() (bool, string) {
			s := Show(t, "homenode-batch.slice", "ActiveState") + " " + Show(t, "homenode.slice", "ActiveState")
			return s == "inactive inactive", s
		})
	}
	for _, daemon := range []bool{false, true} {
		when := map[bool]string{false: "without a daemon", true: "with a daemon"}[daemon]
		if daemon {
			t.Command("systemctl", "start", "homenode")
			t.Defer(func() { lab.Capture([]string{"systemctl", "stop", "homenode"}, "") })
			Answers(t, "0")
		}
		w := start()
		if got, want := of(w.PID), fmt.Sprintf("%s/homenode-%d.scope", slice, w.PID); got != want {
			t.Fatalf("%s it is in %s, not %s", when, got, want)
		}
		for _, unit := range []string{"homenode.slice", "homenode-batch.slice"} {
			if got, file := Show(t, unit, "CPUWeight"),
				lab.ReadText(lab.CgroupRoot+Show(t, unit, "ControlGroup")+"/cpu.idle"); (got != "idle" && got != "0") ||
				file != "1" {
				t.Fatalf("%s CPUWeight of %s is %q, its cpu.idle %q", when, unit, got, file)
			}
		}
		if daemon {
			t.Poll(lab.SystemdLimit, time.Second, "the daemon knows it as batch work", func() (bool, string) {
				r := lab.Capture([]string{Installed, "explain", strconv.Itoa(w.PID)}, "explain")
				return r.Exit == lab.ExitOK && strings.Contains(r.Out, "batch"), r.String()
			})
		}
		t.Command(Installed, "undo", strconv.Itoa(w.PID))
		if got := of(w.PID); strings.Contains(got, "batch") {
			t.Fatalf("%s, undone, it is in %s", when, got)
		}
		t.Do(syscall.Kill(w.PID, 0))
		gone(when + ", undone,")
		w.Kill()
		w = start()
		w.Kill()
		gone(when + ", ended,")
	}
}
