package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

var ctx = context.Background()

func step(kind plan.StepKind, cgroup, to string) plan.Step {
	return plan.Step{Kind: kind, Workload: workload.ID(cgroup), To: to, Target: plan.Target{Kind: workload.InCgroup, Cgroup: cgroup}}
}

// slice is /a/b with threads 5 and 6, /a/c with 7, and no cpuset controller.
func slice(t testing.TB) *model {
	m := newModel(t)
	m.mkdir("/a")
	m.mkdir("/a/b", 5, 6)
	m.mkdir("/a/c", 7)
	return m
}

func entries(have []plan.Setting) (out []plan.Entry) {
	for i, h := range have {
		out = append(out, plan.Entry{Seq: uint64(i), Kind: h.Kind, Path: h.Path, Old: h.Value, New: "x"})
	}
	return out
}

func TestApplyAndRestore(t *testing.T) {
	m := slice(t)
	d := m.driver()
	before := m.state()
	var journal []plan.Entry
	for _, s := range []plan.Step{step(plan.SetCPUs, "/a/b", "2-3"), step(plan.SetMems, "/a/b", "1")} {
		have, err := d.Settings(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		if s.Kind == plan.SetCPUs {
			want := []plan.Setting{{Kind: plan.CgroupControllers, Path: "/", Value: "cpu memory"},
				{Kind: plan.CgroupControllers, Path: "/a"}, {Kind: plan.CgroupCPUs, Path: "/a/b"}}
			if !slices.Equal(have, want) {
				t.Errorf("settings %+v", have)
			}
		}
		journal = append(journal, entries(have)...)
		if err := d.Apply(ctx, s, nil); err != nil {
			t.Fatal(err)
		}
		after := m.state()
		if err := d.Apply(ctx, s, nil); err != nil || !maps.Equal(after, m.state()) {
			t.Errorf("a second Apply: %v", err)
		}
	}
	if m.get("/a/b", "cpuset.cpus.effective") != "2-3" || m.get("/a/b", "cpuset.mems.effective") != "1" || m.threads[5] != "2-3" || m.threads[7] != "0-7" {
		t.Errorf("%v", m.state())
	}
	for range 2 { // restoring what is restored does no harm
		for _, e := range slices.Backward(journal) {
			if err := d.Restore(ctx, e); err != nil {
				t.Errorf("restore %+v: %v", e, err)
			}
		}
	}
	if got := m.state(); !maps.Equal(got, before) {
		t.Errorf("after Restore %v, want %v", got, before)
	}
}

// A populated cgroup whose controller stays on cannot be emptied on most kernels.
func TestRestoreToInherit(t *testing.T) {
	for _, strict := range []bool{true, false} {
		m := slice(t)
		m.strict = strict
		m.write("/", subtreeControl, "+cpuset")
		m.write("/a", subtreeControl, "+cpuset")
		d := m.driver()
		s := step(plan.SetCPUs, "/a/b", "2-3")
		have, err := d.Settings(ctx, s)
		if err != nil || len(have) != 1 || have[0].Value != "" {
			t.Fatalf("%+v %v", have, err)
		}
		if err := d.Apply(ctx, s, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := d.Restore(ctx, entries(have)[0]); err != nil {
				t.Fatal(err)
			}
		}
		want := map[bool]string{true: "0-7", false: ""}[strict]
		if got := m.get("/a/b", "cpuset.cpus"); got != want || m.get("/a/b", "cpuset.cpus.effective") != "0-7" {
			t.Errorf("cpuset.cpus is %q", got)
		}
		// It still inherits: a parent made narrower shows through.
		m.write("/a", "cpuset.cpus", "0-1")
		if got := m.get("/a/b", "cpuset.cpus.effective"); got != "0-1" {
			t.Errorf("effective %q below 0-1", got)
		}
	}
}

func TestControllerStaysOnForSiblings(t *testing.T) {
	m := slice(t)
	d := m.driver()
	b, c := step(plan.SetCPUs, "/a/b", "2-3"), step(plan.SetCPUs, "/a/c", "4")
	haveB, _ := d.Settings(ctx, b)
	if err := d.Apply(ctx, b, nil); err != nil {
		t.Fatal(err)
	}
	haveC, _ := d.Settings(ctx, c)
	if err := d.Apply(ctx, c, nil); err != nil || len(haveC) != 1 {
		t.Fatal(haveC, err)
	}
	journal := entries(haveB)
	var inUse *InUseError
	if err := d.Restore(ctx, journal[2]); err != nil {
		t.Fatal(err)
	}
	if err := d.Restore(ctx, journal[1]); !errors.As(err, &inUse) || inUse.By != "/a/c" {
		t.Errorf("%v", err)
	}
	if err := d.Restore(ctx, journal[0]); !errors.As(err, &inUse) {
		t.Errorf("%v", err)
	}
	if m.get("/a/c", "cpuset.cpus.effective") != "4" {
		t.Error("the sibling lost its CPU set")
	}
}

func TestMismatchIsExplainedAndPutBack(t *testing.T) {
	m := slice(t)
	m.write("/", subtreeControl, "+cpuset")
	m.write("/a", "cpuset.cpus", "0-3")
	d := m.driver()
	before := m.state()
	for _, c := range []struct {
		step plan.Step
		want string
	}{
		{step(plan.SetCPUs, "/a/b", "2-5"), "cgroup /a/b: cpuset.cpus set to 2-5 but 2-3 is effective: the parent /a has only 0-3"},
		{step(plan.SetCPUs, "/a/b", "6"), "cgroup /a/b: cpuset.cpus set to 6 but 0-3 is effective: the parent /a has only 0-3"},
	} {
		err := d.Apply(ctx, c.step, nil)
		var mismatch *MismatchError
		if !errors.As(err, &mismatch) || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
		if got := m.state(); !maps.Equal(got, before) {
			t.Errorf("a failed step left %v", got)
		}
	}
	m.possible = "0-9"
	d = m.driver()
	m.put("/", "cpuset.cpus.effective", "0-7")
	m.write("/a", "cpuset.cpus", "")
	if err := d.Apply(ctx, step(plan.SetCPUs, "/a/b", "7-8"), nil); err == nil || !strings.Contains(err.Error(), "CPU 8 is offline") {
		t.Error(err)
	}
}

func TestStrayThreads(t *testing.T) {
	m := slice(t)
	d := m.driver()
	m.hook = func(what string) {
		if strings.HasSuffix(what, "cgroup.threads") {
			m.threads[6] = "9"
		}
	}
	err := d.Apply(ctx, step(plan.SetCPUs, "/a/b", "2-3"), nil)
	var stray *StrayError
	if !errors.As(err, &stray) || len(stray.Threads) != 1 || !strings.Contains(err.Error(), "thread 6 may run on 9") {
		t.Error(err)
	}
	if m.get("/", subtreeControl) != "cpu memory" {
		t.Errorf("controllers left on: %v", m.state())
	}
}

func TestRefusedByTheKernel(t *testing.T) {
	for errno, want := range map[unix.Errno]string{unix.EBUSY: "deadline", unix.EROFS: "read-only", unix.EACCES: "needs root", unix.EINVAL: "no such CPU"} {
		m := slice(t)
		before := m.state()
		m.fault = func(_ int, what string) error {
			if strings.HasPrefix(what, "write /a/b cpuset.cpus") {
				return errno
			}
			return nil
		}
		err := m.driver().Apply(ctx, step(plan.SetCPUs, "/a/b", "1"), nil)
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), want) || !maps.Equal(before, m.state()) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	m := slice(t)
	m.fault = func(_ int, what string) error {
		if what == "write /a cgroup.subtree_control +cpuset" {
			return unix.EBUSY
		}
		return nil
	}
	if err := m.driver().Apply(ctx, step(plan.SetCPUs, "/a/b", "1"), nil); err == nil || !strings.Contains(err.Error(), "processes of its own") ||
		m.get("/", subtreeControl) != "cpu memory" {
		t.Error(err)
	}
}

func TestGone(t *testing.T) {
	s := step(plan.SetCPUs, "/a/b", "1")
	t.Run("before", func(t *testing.T) {
		m := slice(t)
		m.rmdir("/a/b")
		d := m.driver()
		if _, err := d.Settings(ctx, s); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if err := d.Apply(ctx, s, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if err := d.Restore(ctx, plan.Entry{Kind: plan.CgroupCPUs, Path: "/a/b"}); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	t.Run("ENODEV of an open file", func(t *testing.T) {
		m := slice(t)
		m.fault = func(_ int, what string) error {
			if strings.HasPrefix(what, "write /a/b") {
				m.fault = nil
				m.rmdir("/a/b")
				return unix.ENODEV
			}
			return nil
		}
		if err := m.driver().Apply(ctx, s, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	t.Run("the mount is no reason to forget a cgroup", func(t *testing.T) {
		var mount *MountError
		for _, d := range []*Driver{New(Options{Mount: filepath.Join(t.TempDir(), "none")}), New(Options{Mount: t.TempDir()})} {
			if err := d.Restore(ctx, plan.Entry{Kind: plan.CgroupCPUs, Path: "/a/b"}); !errors.As(err, &mount) || errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		}
	})
	t.Run("the controller is no reason either", func(t *testing.T) {
		m := slice(t)
		m.put("/", controllers, "cpu memory")
		var unsupported *UnsupportedError
		if err := m.driver().Apply(ctx, s, nil); !errors.As(err, &unsupported) || errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	t.Run("controller turned off since", func(t *testing.T) {
		m := slice(t)
		d := m.driver()
		if err := d.Restore(ctx, plan.Entry{Kind: plan.CgroupCPUs, Path: "/a/b"}); err != nil {
			t.Error(err)
		}
		if err := d.Restore(ctx, plan.Entry{Kind: plan.CgroupCPUs, Path: "/a/b", Old: "1"}); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
}

func TestPathsStayInside(t *testing.T) {
	m := slice(t)
	outside := t.TempDir()
	os.WriteFile(filepath.Join(outside, "cpuset.cpus"), []byte("secret\n"), 0o644)
	os.WriteFile(filepath.Join(outside, controllers), []byte("cpuset\n"), 0o644)
	if err := os.Symlink(outside, filepath.Join(m.mount, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(m.mount, "a/b"), filepath.Join(m.mount, "a/inside")); err != nil {
		t.Fatal(err)
	}
	d := m.driver()
	for _, path := range []string{"", "a", "..", "/..", "/../x", "/a/../b", "/a/./b", "//a", "/a/", "/link", "/a/inside", "/a\x00b", "/"} {
		if have, err := d.Settings(ctx, step(plan.SetCPUs, path, "1")); err == nil {
			t.Errorf("%q: settings %v", path, have)
		}
		if err := d.Apply(ctx, step(plan.SetCPUs, path, "1"), nil); err == nil {
			t.Errorf("%q: applied", path)
		}
		if err := d.Restore(ctx, plan.Entry{Kind: plan.CgroupCPUs, Path: path, Old: "1"}); err == nil {
			t.Errorf("%q: restored", path)
		}
	}
	if text, _ := os.ReadFile(filepath.Join(outside, "cpuset.cpus")); string(text) != "secret\n" {
		t.Error("a file outside was written")
	}
}

func TestOtherRefusals(t *testing.T) {
	m := slice(t)
	d := m.driver()
	for _, to := range []string{"", "x", "3-1"} {
		if err := d.Apply(ctx, step(plan.SetCPUs, "/a/b", to), nil); err == nil {
			t.Errorf("to %q: no error", to)
		}
	}
	var unsupported *UnsupportedError
	if err := d.Apply(ctx, step(plan.MovePages, "/a/b", "0"), nil); !errors.As(err, &unsupported) {
		t.Error(err)
	}
	m.write("/", subtreeControl, "+cpuset")
	m.write("/a", subtreeControl, "+cpuset")
	m.put("/a/b", "cpuset.cpus.partition", "isolated")
	if err := d.Apply(ctx, step(plan.SetCPUs, "/a/b", "1"), nil); err == nil || !strings.Contains(err.Error(), "partition") {
		t.Error(err)
	}
}

// Every call fails once: a step that fails leaves the tree as it was, and one
// that succeeds is done.
func TestEachCallFailing(t *testing.T) {
	m := slice(t)
	if err := m.driver().Apply(ctx, step(plan.SetCPUs, "/a/b", "1"), nil); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= m.calls; n++ {
		for _, e := range []error{unix.EIO, unix.ENOENT, unix.ENODEV} {
			m := slice(t)
			before := m.state()
			var at string
			m.fault = func(call int, what string) error {
				if call == n {
					at = what
					return e
				}
				return nil
			}
			err := m.driver().Apply(ctx, step(plan.SetCPUs, "/a/b", "1"), nil)
			m.fault = nil
			what := fmt.Sprintf("call %d (%s) fails with %v", n, at, e)
			if err == nil && m.get("/a/b", "cpuset.cpus.effective") != "1" {
				t.Errorf("%s: success, but %v", what, m.state())
			}
			if err != nil && !maps.Equal(before, m.state()) {
				t.Errorf("%s: failed with %v and left %v", what, err, m.state())
			}
			if errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(at, "read /a/b cgroup.controllers") {
				t.Errorf("%s: cgroup taken for gone: %v", what, err)
			}
		}
	}
}
