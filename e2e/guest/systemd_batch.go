//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func init() {
	tests["systemd.batch"] = systemdBatch
}

// systemdBatch: `homenode run --class batch` makes a scope in homenode-batch.slice, which has
// CPUWeight=idle, without and with a daemon; undo takes what runs out of it, and systemd
// takes the slice away with the last scope.
func systemdBatch(t *T) {
	t.install()
	const slice = "/homenode.slice/homenode-batch.slice"
	start := func() *walker {
		return t.walkerBehind("batch", []string{installed, "run", "--quiet", "--class", "batch", "--", "/e2e/walker", "--slot", "8", "--mib", "32", "--threads", "1", "--place", "local"})
	}
	of := func(pid int) string {
		return strings.TrimPrefix(strings.TrimSpace(readText(fmt.Sprintf("/proc/%d/cgroup", pid))), "0::")
	}
	gone := func(when string) {
		t.until(systemdLimit, time.Second, when+" the slices are gone", func() (bool, string) {
			s := t.show("homenode-batch.slice", "ActiveState") + " " + t.show("homenode.slice", "ActiveState")
			return s == "inactive inactive", s
		})
	}
	for _, daemon := range []bool{false, true} {
		when := map[bool]string{false: "without a daemon", true: "with a daemon"}[daemon]
		if daemon {
			t.command("systemctl", "start", "homenode")
			t.Defer(func() { capture([]string{"systemctl", "stop", "homenode"}, "") })
			t.answers("0")
		}
		w := start()
		if got, want := of(w.pid), fmt.Sprintf("%s/homenode-%d.scope", slice, w.pid); got != want {
			t.Fatalf("%s it is in %s, not %s", when, got, want)
		}
		for _, unit := range []string{"homenode.slice", "homenode-batch.slice"} {
			if got, file := t.show(unit, "CPUWeight"), readText(cgroupRoot+t.show(unit, "ControlGroup")+"/cpu.idle"); got != "idle" && got != "0" || file != "1" {
				t.Fatalf("%s CPUWeight of %s is %q, its cpu.idle %q", when, unit, got, file)
			}
		}
		if daemon {
			t.until(systemdLimit, time.Second, "the daemon knows it as batch work", func() (bool, string) {
				r := capture([]string{installed, "explain", strconv.Itoa(w.pid)}, "explain")
				return r.exit == exitOK && strings.Contains(r.out, "batch"), r.String()
			})
		}
		t.command(installed, "undo", strconv.Itoa(w.pid))
		if got := of(w.pid); strings.Contains(got, "batch") {
			t.Fatalf("%s, undone, it is in %s", when, got)
		}
		t.Do(syscall.Kill(w.pid, 0))
		gone(when + ", undone,")
		w.kill()
		w = start()
		w.kill()
		gone(when + ", ended,")
	}
}
