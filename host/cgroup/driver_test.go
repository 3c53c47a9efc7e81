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
	"syscall"
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

// entries is the journal of changes.
func entries(all []plan.Change) (out []plan.Entry) {
	for i, c := range all {
		out = append(out, plan.Entry{Seq: uint64(i + 1), Kind: c.Kind, Path: c.Path, Old: c.Value, New: c.Will, Object: c.Object})
	}
	return out
}

// restore puts one entry back.
func restore(d *Driver, e plan.Entry) error { return d.Restore(ctx, []plan.Entry{e})[0] }

func TestApplyAndRestore(t *testing.T) {
	m := slice(t)
	d := m.driver()
	before := m.state()
	var journal []plan.Entry
	for _, s := range []plan.Step{step(plan.SetCPUs, "/a/b", "2-3"), step(plan.SetMems, "/a/b", "1")} {
		have, err := d.Changes(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		if s.Kind == plan.SetCPUs {
			want := []plan.Change{{Setting: plan.Setting{Kind: plan.CgroupControllers, Path: "/", Value: "-cpuset"}, Will: "+cpuset"},
				{Setting: plan.Setting{Kind: plan.CgroupControllers, Path: "/a", Value: "-cpuset"}, Will: "+cpuset"},
				{Setting: plan.Setting{Kind: plan.CgroupCPUs, Path: "/a/b"}, Will: "2-3"}}
			for i := range want {
				want[i].Object, _ = m.object(want[i].Path)
			}
			if !slices.Equal(have, want) {
				t.Errorf("changes %+v", have)
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
			if err := restore(d, e); err != nil {
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
		have, err := d.Changes(ctx, s)
		if err != nil || len(have) != 1 || have[0].Value != "" {
			t.Fatalf("%+v %v", have, err)
		}
		if err := d.Apply(ctx, s, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := restore(d, entries(have)[0]); err != nil {
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
	haveB, _ := d.Changes(ctx, b)
	if err := d.Apply(ctx, b, nil); err != nil {
		t.Fatal(err)
	}
	haveC, _ := d.Changes(ctx, c)
	if err := d.Apply(ctx, c, nil); err != nil || len(haveC) != 1 {
		t.Fatal(haveC, err)
	}
	journal := entries(haveB)
	var inUse *InUseError
	if err := restore(d, journal[2]); err != nil {
		t.Fatal(err)
	}
	if err := restore(d, journal[1]); !errors.As(err, &inUse) || inUse.By != "/a/c" {
		t.Errorf("%v", err)
	}
	if err := restore(d, journal[0]); !errors.As(err, &inUse) {
		t.Errorf("%v", err)
	}
	if m.get("/a/c", "cpuset.cpus.effective") != "4" {
		t.Error("the sibling lost its CPU set")
	}
}

// A sibling that is a partition uses the controller, one that is none does not.
func TestControllerStaysOnForPartitions(t *testing.T) {
	for partition, stays := range map[string]bool{"member": false, "root": true, "isolated": true, "isolated invalid (x)": true} {
		m := slice(t)
		d := m.driver()
		b := step(plan.SetCPUs, "/a/b", "2-3")
		have, err := d.Changes(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Apply(ctx, b, nil); err != nil {
			t.Fatal(err)
		}
		m.put("/a/c", "cpuset.cpus.partition", partition)
		journal := entries(have)
		if err := restore(d, journal[2]); err != nil {
			t.Fatal(err)
		}
		var inUse *InUseError
		if err := restore(d, journal[1]); errors.As(err, &inUse) != stays || !stays && err != nil {
			t.Errorf("a sibling that is %q: %v", partition, err)
		}
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
		if _, err := d.Changes(ctx, s); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if err := d.Apply(ctx, s, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if err := restore(d, plan.Entry{Kind: plan.CgroupCPUs, Path: "/a/b"}); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	t.Run("while it is read", func(t *testing.T) {
		for _, e := range []error{unix.ENOENT, unix.ENODEV} {
			m := slice(t)
			m.fault = func(_ int, what string) error {
				if what == "read /a/b "+controllers {
					return e
				}
				return nil
			}
			if _, err := m.driver().Changes(ctx, s); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v: %v", e, err)
			}
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
			if err := restore(d, plan.Entry{Kind: plan.CgroupCPUs, Path: "/a/b"}); !errors.As(err, &mount) || errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		}
	})
	t.Run("the controller is no reason either", func(t *testing.T) {
		m := slice(t)
		m.put("/", controllers, "cpu memory")
		var unsupported *plan.UnsupportedError
		if err := m.driver().Apply(ctx, s, nil); !errors.As(err, &unsupported) || errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	t.Run("controller turned off since", func(t *testing.T) {
		m := slice(t)
		d := m.driver()
		if err := restore(d, plan.Entry{Kind: plan.CgroupCPUs, Path: "/a/b"}); err != nil {
			t.Error(err)
		}
		if err := restore(d, plan.Entry{Kind: plan.CgroupCPUs, Path: "/a/b", Old: "1"}); err == nil || errors.Is(err, fs.ErrNotExist) {
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
		if have, err := d.Changes(ctx, step(plan.SetCPUs, path, "1")); err == nil {
			t.Errorf("%q: settings %v", path, have)
		}
		if err := d.Apply(ctx, step(plan.SetCPUs, path, "1"), nil); err == nil {
			t.Errorf("%q: applied", path)
		}
		if err := restore(d, plan.Entry{Kind: plan.CgroupCPUs, Path: path, Old: "1"}); err == nil {
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
	var unsupported *plan.UnsupportedError
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
			if err == nil && e == unix.EIO && !strings.HasSuffix(at, "cpuset.cpus.partition") { // older kernels have none
				t.Errorf("%s: and nobody is told", what)
			}
			if errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(at, "read /a/b cgroup.controllers") {
				t.Errorf("%s: cgroup taken for gone: %v", what, err)
			}
		}
	}
}

// Every call of Changes fails once: that is an error, not a value to put back later.
func TestEachCallOfChangesFailing(t *testing.T) {
	for _, to := range []plan.Step{step(plan.SetCPUs, "/a/b", "1"), step(plan.SetMems, "/a/b", "1")} {
		for _, on := range []bool{false, true} {
			for n := 1; ; n++ {
				m := slice(t)
				if on {
					m.write("/", subtreeControl, "+cpuset")
					m.write("/a", subtreeControl, "+cpuset")
				}
				m.calls = 0
				m.fault = func(call int, _ string) error {
					if call == n {
						return unix.EIO
					}
					return nil
				}
				have, err := m.driver().Changes(ctx, to)
				if m.calls < n {
					if err != nil || n < 3 {
						t.Errorf("%s: %d calls, %v", to.Kind, n-1, err)
					}
					break
				}
				if err == nil {
					t.Errorf("%s, controller on %t: call %d fails, and it is %+v", to.Kind, on, n, have)
				}
			}
		}
	}
}

// What somebody else has set since is theirs, and so is everything in a cgroup that was
// made anew under the same path (R2).
func TestSetBySomebodyElse(t *testing.T) {
	put := func(cgroup, file, text string) func(*model) error {
		return func(m *model) error {
			m.others = true
			defer func() { m.others = false }()
			return m.write(cgroup, file, text)
		}
	}
	anew := func(m *model) error {
		m.rmdir("/a/b")
		m.mkdir("/a/b", 5)
		return nil
	}
	for _, c := range []struct {
		name  string
		kind  plan.SettingKind
		path  string
		after func(*model) error
		read  string
		ours  bool
	}{
		{"untouched", plan.CgroupCPUs, "/a/b", put("/a/b", "cpuset.mems", "0"), "2-3", true},
		{"CPUs", plan.CgroupCPUs, "/a/b", put("/a/b", "cpuset.cpus", "0,1"), "0-1", false},
		{"CPUs back", plan.CgroupCPUs, "/a/b", put("/a/b", "cpuset.cpus", "0-7"), "", true}, // see Restore
		{"CPUs that the parent lacks", plan.CgroupCPUs, "/a/b", put("/a", "cpuset.cpus", "0-1"), "2-3", true},
		{"mems", plan.CgroupMems, "/a/b", put("/a/b", "cpuset.mems", "2"), "2", false},
		{"controller off", plan.CgroupControllers, "/a", put("/a", subtreeControl, "-cpuset"), "-cpuset", true},
		{"controller on", plan.CgroupControllers, "/a", put("/a", subtreeControl, "+cpu"), "+cpuset", true},
		{"CPUs with the controller off", plan.CgroupCPUs, "/a/b", put("/a", subtreeControl, "-cpuset"), "", true},
		{"made anew", plan.CgroupCPUs, "/a/b", anew, "", false},
		{"made anew and set alike", plan.CgroupCPUs, "/a/b", func(m *model) error {
			return errors.Join(anew(m), m.write("/a/b", "cpuset.cpus", "2-3"))
		}, "2-3", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := slice(t)
			d := m.driver()
			var journal []plan.Entry
			for _, s := range []plan.Step{step(plan.SetCPUs, "/a/b", "3,2"), step(plan.SetMems, "/a/b", "1")} {
				have, err := d.Changes(ctx, s)
				if err != nil {
					t.Fatal(err)
				}
				if err := d.Apply(ctx, s, nil); err != nil {
					t.Fatal(err)
				}
				journal = append(journal, entries(have)...)
			}
			i := slices.IndexFunc(journal, func(e plan.Entry) bool { return e.Kind == c.kind && e.Path == c.path })
			e := journal[i]
			if now, err := d.Read(ctx, e); err != nil || now.Value != e.New || now.Object != e.Object || !e.Ours(now) {
				t.Errorf("%+v %v of %+v", now, err, e)
			}
			if err := c.after(m); err != nil {
				t.Fatal(err)
			}
			now, err := d.Read(ctx, e)
			if err != nil || now.Kind != e.Kind || now.Path != e.Path || now.Value != c.read || e.Ours(now) != c.ours {
				t.Errorf("%+v %v, ours %v", now, err, e.Ours(now))
			}
			isAnew := now.Object != e.Object
			if got := d.Present(e); isAnew != errors.Is(got, fs.ErrNotExist) || !isAnew && got != nil {
				t.Errorf("present: %v", got)
			}
			if isAnew {
				before := m.state()
				if err := restore(d, e); !errors.Is(err, fs.ErrNotExist) || !maps.Equal(before, m.state()) {
					t.Errorf("another cgroup was changed: %v", err)
				}
				e.Object = "" // as entries of before
				if err := d.Present(e); err != nil {
					t.Error(err)
				}
			}
			m.rmdir("/a/b")
			m.rmdir("/a")
			if now, err := d.Read(ctx, e); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%+v %v of a cgroup that is gone", now, err)
			}
		})
	}
	d := slice(t).driver()
	if now, err := d.Read(ctx, plan.Entry{Kind: plan.Affinity, Path: "/a/b"}); err == nil {
		t.Errorf("%+v of another kind", now)
	}
}

// A cgroup made anew while it is read is not taken for either.
func TestMadeAnewWhileRead(t *testing.T) {
	m := slice(t)
	m.write("/", subtreeControl, "+cpuset")
	m.write("/a", subtreeControl, "+cpuset")
	d := m.driver()
	have, err := d.Changes(ctx, step(plan.SetCPUs, "/a/b", "1"))
	if err != nil {
		t.Fatal(err)
	}
	m.hook = func(what string) {
		if what == "read /a/b cpuset.cpus" {
			m.hook = nil
			if err := os.Rename(filepath.Join(m.mount, "a/b"), filepath.Join(m.mount, "a/old")); err != nil {
				t.Fatal(err)
			}
			m.mkdir("/a/b")
		}
	}
	if now, err := d.Read(ctx, entries(have)[0]); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%+v %v", now, err)
	}
}

// What was read of one cgroup is not for the one that was made anew under its path since.
func TestMadeAnewSinceRead(t *testing.T) {
	m := slice(t)
	m.write("/", subtreeControl, "+cpuset")
	m.write("/a", subtreeControl, "+cpuset")
	d := m.driver()
	s := step(plan.SetCPUs, "/a/b", "1")
	have, err := d.Changes(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	s.Target.Object = have[len(have)-1].Object
	if err := os.Rename(filepath.Join(m.mount, "a/b"), filepath.Join(m.mount, "a/old")); err != nil {
		t.Fatal(err)
	}
	m.mkdir("/a/b")
	before := m.state()
	if err := d.Apply(ctx, s, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if after := m.state(); !maps.Equal(after, before) {
		t.Errorf("changed: %v, was %v", after, before)
	}
	s.Target.Object = ""
	if err := d.Apply(ctx, s, nil); err != nil {
		t.Error(err)
	}
}

// Every call of Read fails once: it is an error and none that looks as if a cgroup that
// is there were gone, unless just that was said.
func TestEachCallOfReadFailing(t *testing.T) {
	for _, kind := range []plan.SettingKind{plan.CgroupCPUs, plan.CgroupMems, plan.CgroupControllers} {
		for _, errno := range []error{unix.EIO, unix.ENODEV, unix.EACCES} {
			for n := 1; ; n++ {
				m := slice(t)
				if err := m.driver().Apply(ctx, step(plan.SetCPUs, "/a/b", "1"), nil); err != nil {
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
				e := plan.Entry{Kind: kind, Path: map[bool]string{true: "/a", false: "/a/b"}[kind == plan.CgroupControllers], Old: "x"}
				_, err := m.driver().Read(ctx, e)
				if at == "" {
					if err != nil || n < 5 {
						t.Errorf("%s without a fault, %d calls: %v", kind, m.calls, err)
					}
					break
				}
				if err == nil || looksGone(err) && at != "read "+e.Path+" cgroup.controllers" {
					t.Errorf("%s: %s fails with %v: %v", kind, at, errno, err)
				}
			}
		}
	}
}

func TestOwns(t *testing.T) {
	d := slice(t).driver()
	for _, s := range []plan.Step{step(plan.SetCPUs, "/a/b", "1"), step(plan.SetMems, "/a/b", "1")} {
		have, err := d.Changes(ctx, s)
		if err != nil || len(have) != 3 {
			t.Fatal(have, err)
		}
		for _, h := range have {
			if !slices.Contains(d.Owns(), h.Kind) || d.SurvivesBoot(h.Kind) {
				t.Error(h.Kind)
			}
		}
	}
	if have, err := d.Changes(ctx, step(plan.MovePages, "/a/b", "1")); len(have) != 0 || err != nil {
		t.Error(have, err)
	}
}

// The object of a cgroup is its inode.
func TestObject(t *testing.T) {
	m := slice(t)
	got, err := m.tree.object("/a/b")
	info, lost := os.Stat(filepath.Join(m.mount, "a/b"))
	if err != nil || lost != nil || got != fmt.Sprint(info.Sys().(*syscall.Stat_t).Ino) {
		t.Error(got, err, lost)
	}
	if got, err := m.tree.object("/a/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(got, err)
	}
}
