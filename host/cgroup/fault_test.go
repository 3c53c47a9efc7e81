package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/host/internal/fault"
)

// looksGone is what the daemon takes for a cgroup that is no more; it then forgets how
// to put it back.
func looksGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV)
}

// Every call of every step and of its restoring fails once, with errnos in turn: a step
// that fails leaves the tree as it was, what fails never looks gone once something
// was changed, and what was read before the step puts it all back.
func TestEachCallOfEachStepFailing(t *testing.T) {
	ctx := t.Context()
	errnos := []error{unix.EPERM, unix.EINVAL, unix.ENOSPC, unix.EBUSY, unix.ESRCH, unix.ENOENT, unix.EIO, unix.EINTR, unix.ENODEV, unix.EOPNOTSUPP}
	for _, s := range []plan.Step{step(plan.SetCPUs, "/a/b", "1"), step(plan.SetMems, "/a/b", "1")} {
		for turn := range 3 {
			for n := 1; ; n++ {
				errno := errnos[(n*3+turn)%len(errnos)]
				m := slice(t)
				before := m.state()
				have, err := m.driver().Changes(ctx, s)
				if err != nil {
					t.Fatal(err)
				}
				m.calls = 0
				at := ""
				m.fault = func(call int, what string) error {
					if call == n {
						at = what
						return errno
					}
					return nil
				}
				d := m.driver()
				err = d.Apply(ctx, s, nil)
				applying := at
				changed := !maps.Equal(before, m.state())
				what := fmt.Sprintf("%s, call %d (%s) fails with %v", s.Kind, n, at, errno)
				if err != nil && changed {
					t.Errorf("%s: %v, and left %v", what, err, m.state())
				}
				if changed && looksGone(err) {
					t.Errorf("%s: changed and taken for gone: %v", what, err)
				}
				for i := len(have) - 1; i >= 0; i-- { // as undo does, the last first
					e := plan.Entry{Kind: have[i].Kind, Path: have[i].Path, Old: have[i].Value}
					if err := restore(d, e); err != nil {
						if at == "" || applying != "" && !errors.Is(err, plan.ErrInUse) {
							t.Errorf("%s: restore %s without a fault: %v", what, e.Path, err)
						}
						if err := restore(d, e); err != nil && !errors.Is(err, plan.ErrInUse) {
							t.Errorf("%s: restore %s again: %v", what, e.Path, err)
						}
					}
				}
				m.fault = nil
				if got := m.state(); at != "" && !restored(before, got) {
					t.Errorf("%s: restored to %v\nfrom %v", what, got, before)
				}
				if at == "" {
					if n < 10 {
						t.Fatalf("%s: only %d calls", s.Kind, n)
					}
					break
				}
			}
		}
	}
}

// restored compares trees. The set of all CPUs or nodes stands for none: see Restore.
func restored(before, now map[string]string) bool {
	return maps.EqualFunc(before, now, func(a, b string) bool { return a == b || a == "" && (b == "0-7" || b == "0-3") })
}

// The same with the calls that the kernel gets, on a folder in whose files what is
// written is effective at once.
func TestEverySystemCallFails(t *testing.T) {
	errnos := []unix.Errno{unix.EPERM, unix.EINVAL, unix.ENOSPC, unix.EBUSY, unix.ESRCH, unix.ENOENT, unix.EIO, unix.EINTR, unix.ENODEV}
	fault.Each(t, errnos, func(t *testing.T, watched func(func())) {
		mount := t.TempDir()
		put := func(name, text string) {
			if err := os.WriteFile(filepath.Join(mount, name), []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(filepath.Join(mount, "a"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{"", "a/"} {
			put(dir+controllers, cpusets.name)
			put(dir+subtreeControl, cpusets.name)
		}
		put("a/cgroup.threads", "")
		for file, text := range map[string]string{"cpuset.cpus": "0-1", "cpuset.mems": "0"} {
			put("a/"+file, text)
			if err := os.Link(filepath.Join(mount, "a", file), filepath.Join(mount, "a", file+".effective")); err != nil {
				t.Fatal(err)
			}
		}
		// Its processes freeze at once.
		for file, text := range map[string]string{eventsFile: "populated 1\nfrozen 1", freezeFile: "0", typeFile: "domain", "cgroup.procs": "7"} {
			put("a/"+file, text)
		}
		put("cpuset.mems.effective", "0-3")
		run := filepath.Join(t.TempDir(), "frozen")
		d := New(Options{Mount: mount, Root: fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/homenode\n")}}, Run: run})
		value := func(kind plan.SettingKind) string {
			text, err := os.ReadFile(filepath.Join(mount, "a", string(kind)))
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(text))
		}
		thawed := func(err error) {
			t.Helper()
			left, _ := os.ReadDir(run)
			switch now := value(freezeFile); {
			case now == "0" && len(left) == 0:
			case now == "0" && err == nil: // homenode could not remove the note of what is thawed
			case len(left) == 1 && err != nil:
			default:
				t.Errorf("cgroup.freeze is %q, %d notes, %v", now, len(left), err)
			}
		}
		for _, s := range []plan.Step{step(plan.SetCPUs, "/a", "2-3"), step(plan.SetMems, "/a", "1")} {
			var have []plan.Change
			var err error
			watched(func() {
				if have, err = d.Changes(t.Context(), s); err == nil {
					err = d.Apply(t.Context(), s, nil)
				}
			})
			thawed(err)
			if err := d.Thaw(); err != nil || value(freezeFile) != "0" { // as the next homenode does
				t.Errorf("%s: cgroup.freeze is %q at last, %v", s.Kind, value(freezeFile), err)
			}
			kind := plan.CgroupCPUs
			old := "0-1"
			if s.Kind == plan.SetMems {
				kind, old = plan.CgroupMems, "0"
			}
			now := value(kind)
			switch {
			case err == nil && now != s.To:
				t.Errorf("%s: no error, and %q", s.Kind, now)
			case err != nil && now != old && len(have) == 0:
				t.Errorf("%s: %q has no record: %v", s.Kind, now, err)
			case err != nil && now != old && !strings.Contains(err.Error(), "restore: "):
				t.Errorf("%s: %q is left and not told: %v", s.Kind, now, err)
			}
			if len(have) == 0 {
				continue
			}
			e := plan.Entry{Kind: have[0].Kind, Path: have[0].Path, Old: have[0].Value}
			watched(func() { err = restore(d, e) })
			thawed(err)
			if err := d.Thaw(); err != nil || value(freezeFile) != "0" { // as the next homenode does
				t.Errorf("%s: cgroup.freeze is %q at last, %v", s.Kind, value(freezeFile), err)
			}
			if now := value(kind); err == nil && now != old {
				t.Errorf("%s: restored to %q", s.Kind, now)
			}
			if err := restore(d, e); err != nil || value(kind) != old {
				t.Errorf("%s: restored at last to %q, %v", s.Kind, value(kind), err)
			}
		}
	})
}
