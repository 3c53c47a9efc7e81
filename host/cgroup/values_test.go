package cgroup

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
)

func value(file plan.SettingKind, cgroup, to string) plan.Step {
	s := step(plan.SetCgroup, cgroup, to)
	s.Target.File = string(file)
	return s
}

// TestValues: each file is set where its controller was off, reads as it was set, and goes
// back with the controller to what was there, the last change first. A weight that cpu.idle made
// the kernel forget comes back with it.
func TestValues(t *testing.T) {
	for file, to := range map[plan.SettingKind]string{plan.CgroupIdle: "1", plan.CgroupWeight: "50", plan.CgroupMax: "400000 100000", plan.CgroupFreeze: "1",
		plan.MemoryHigh: "104857600", plan.IOWeight: "10", plan.IOMax: "8:0 rbps=4096 wbps=max riops=max wiops=max; 8:16 rbps=max wbps=max riops=max wiops=5"} {
		for _, on := range []bool{false, true} {
			m := slice(t)
			if on {
				m.write("/a", subtreeControl, "+cpu")
				m.put("/a/b", "cpu.weight", "77")
			}
			d, before := m.driver(), m.state()
			s := value(file, "/a/b", to)
			have, err := d.Changes(ctx, s)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if !maps.Equal(m.state(), before) {
				t.Errorf("%s: reading changed %v", file, m.state())
			}
			for range 2 {
				if err := d.Apply(ctx, s, nil); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
			}
			journal := entries(have)
			for _, e := range journal {
				if now, err := d.Read(ctx, e); err != nil || now.Value != e.New || !slices.Contains(d.Owns(), e.Kind) {
					t.Errorf("%s: %s reads %q, %v; want %q", file, e.Kind, now.Value, err, e.New)
				}
			}
			for range 2 {
				for _, e := range slices.Backward(journal) {
					if err := restore(d, e); err != nil {
						t.Errorf("%s: restore %+v: %v", file, e, err)
					}
				}
			}
			if got := m.state(); !maps.Equal(got, before) {
				t.Errorf("%s (on %t): after Restore %v, want %v", file, on, got, before)
			}
		}
	}
}

// TestValuesMissing: what cannot be set says so in one line, with what is missing.
func TestValuesMissing(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*model)
		step plan.Step
		want string
	}{
		{"no controller", func(m *model) { m.put("/", controllers, "cpuset memory") }, value(plan.CgroupIdle, "/a/b", "1"), "shares of CPU time in cgroup v2: needs the cpu controller"},
		{"old kernel", func(m *model) { m.lacks = map[string]bool{"cpu.idle": true} }, value(plan.CgroupIdle, "/a/b", "1"), "cpu.idle: needs Linux 5.15"},
		{"no bandwidth", func(m *model) { m.lacks = map[string]bool{"cpu.max": true} }, value(plan.CgroupMax, "/a/b", "5000 100000"), "cpu.max: needs CONFIG_CFS_BANDWIDTH"},
		{"not taken", func(m *model) { m.write("/a", subtreeControl, "+cpu"); m.write("/a/b", "cpu.idle", "1\n") }, value(plan.CgroupWeight, "/a/b", "50"), "the kernel takes no such value"},
		{"gone", func(m *model) { m.rmdir("/a/b") }, value(plan.CgroupFreeze, "/a/b", "1"), "cgroup /a/b: file does not exist"},
		{"unknown file", func(*model) {}, value("cgroup.kill", "/a/b", "1"), `no "cgroup.kill" that homenode sets`},
		{"the root", func(*model) {}, value(plan.CgroupFreeze, "/", "1"), "that homenode sets"},
		{"two lines", func(*model) {}, value(plan.CgroupFreeze, "/a/b", "1\n1"), "want one line"},
		{"not permitted", func(m *model) {
			m.fault = func(_ int, what string) error {
				if strings.HasPrefix(what, "write") {
					return unix.EACCES
				}
				return nil
			}
		}, value(plan.CgroupFreeze, "/a/b", "1"), "permission denied"},
	} {
		m := slice(t)
		tt.edit(m)
		m.sync()
		before, d := m.state(), m.driver()
		_, err := d.Changes(ctx, tt.step)
		if apply := d.Apply(ctx, tt.step, nil); err == nil {
			err = apply
		} else if apply == nil {
			t.Errorf("%s: applied though it cannot be read", tt.name)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
		if tt.name == "gone" != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if !maps.Equal(m.state(), before) {
			t.Errorf("%s: it failed and left %v", tt.name, m.state())
		}
	}
}

// TestWeightNeedsIdleBack: a weight that the kernel would not take is not tried.
func TestWeightNeedsIdleBack(t *testing.T) {
	m := slice(t)
	m.write("/a", subtreeControl, "+cpu")
	m.write("/a/b", "cpu.idle", "1\n")
	d := m.driver()
	if err := restore(d, plan.Entry{Kind: plan.CgroupWeight, Path: "/a/b", Old: "100", New: "idle"}); err == nil || !strings.Contains(err.Error(), "somebody else") {
		t.Error(err)
	}
	if err := restore(d, plan.Entry{Kind: plan.CgroupWeight, Path: "/a/b", Old: "idle", New: "idle"}); err != nil {
		t.Error(err)
	}
}

// TestBurst: as much as cpu.max gives is written as a number and reads as a word; where there is
// no limit there is nothing to add to.
func TestBurst(t *testing.T) {
	m := slice(t)
	m.write("/a", subtreeControl, "+cpu")
	m.put("/a/b", "cpu.max", "200000 100000")
	d, s := m.driver(), value(plan.CgroupBurst, "/a/b", plan.WholeQuota)
	have, err := d.Changes(ctx, s)
	if err == nil {
		err = d.Apply(ctx, s, nil)
	}
	if err != nil || m.get("/a/b", "cpu.max.burst") != "200000" {
		t.Fatalf("%v, cpu.max.burst %s", err, m.get("/a/b", "cpu.max.burst"))
	}
	e := entries(have)[0]
	if now, err := d.Read(ctx, e); err != nil || now.Value != plan.WholeQuota {
		t.Errorf("reads %q, %v", now.Value, err)
	}
	if err := restore(d, e); err != nil || m.get("/a/b", "cpu.max.burst") != "0" {
		t.Errorf("%v, cpu.max.burst %s", err, m.get("/a/b", "cpu.max.burst"))
	}
	m.put("/a/b", "cpu.max", "max 100000")
	if err := d.Apply(ctx, s, nil); err == nil || !strings.Contains(err.Error(), "no limit in cpu.max") {
		t.Error(err)
	}
}

// TestLow: memory.low below a cgroup that has none would do nothing, and is refused with its name.
func TestLow(t *testing.T) {
	m := slice(t)
	m.write("/a", subtreeControl, "+memory")
	d, s := m.driver(), value(plan.MemoryLow, "/a/b", "1048576")
	if _, err := d.Changes(ctx, s); err == nil || !strings.Contains(err.Error(), "memory.low of /a, which is 0") {
		t.Error(err)
	}
	m.put("/a", "memory.low", "9999999")
	if _, err := d.Changes(ctx, s); err != nil {
		t.Error(err)
	}
}

// TestControllerOfOthers: a controller that homenode turned on stays while somebody has a limit of
// it that homenode does not set.
func TestControllerOfOthers(t *testing.T) {
	m := slice(t)
	d, s := m.driver(), value(plan.MemoryHigh, "/a/b", "1048576")
	have, err := d.Changes(ctx, s)
	if err == nil {
		err = d.Apply(ctx, s, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.put("/a/b", "memory.max", "5000000")
	for _, e := range slices.Backward(entries(have)) {
		if err := restore(d, e); e.Kind == plan.MemoryController && !errors.Is(err, plan.ErrInUse) {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if m.get("/a/b", "memory.max") != "5000000" {
		t.Error("somebody's memory.max is lost")
	}
}

// partitions is a model whose kernel makes a cgroup the partition that is asked for, or gives a reason why not.
type partitions struct {
	files
	why string
}

func (p *partitions) write(cgroup, file, text string) error {
	if file == partitionFile && p.why != "" && strings.TrimSpace(text) == "isolated" {
		text = "isolated invalid (" + p.why + ")\n"
	}
	return p.files.write(cgroup, file, text)
}

// TestPartitions: a cgroup that the kernel does not make a partition is a member again, with the kernel's reason; one
// that becomes invalid later is still that of the journal, and undo makes it a member.
func TestPartitions(t *testing.T) {
	m := slice(t)
	m.write("/", subtreeControl, "+cpuset")
	m.write("/a", subtreeControl, "+cpuset")
	m.put("/a/b", partitionFile, "member")
	m.put("/a/b", string(plan.CgroupExclusive), "")
	d := m.driver()
	p := &partitions{files: m, why: "Parent is not a partition root"}
	d.files = p
	s := value(plan.CgroupPartition, "/a/b", "isolated")
	err := d.Apply(ctx, s, nil)
	if err == nil || !strings.Contains(err.Error(), "(Parent is not a partition root)") || m.get("/a/b", partitionFile) != "member" {
		t.Errorf("%v, %q", err, m.get("/a/b", partitionFile))
	}
	p.why = ""
	changes, err := d.Changes(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(ctx, s, nil); err != nil || m.get("/a/b", partitionFile) != "isolated" {
		t.Fatalf("%v, %q", err, m.get("/a/b", partitionFile))
	}
	m.put("/a/b", partitionFile, "isolated invalid (CPUs are gone)")
	e := entries(changes)[0]
	if now, err := d.Read(ctx, e); err != nil || !e.Ours(now) {
		t.Errorf("%+v, %v", now, err)
	}
	if err := restore(d, e); err != nil || m.get("/a/b", partitionFile) != "member" {
		t.Errorf("%v, %q", err, m.get("/a/b", partitionFile))
	}
	exclusive := value(plan.CgroupExclusive, "/a/b", "2-3")
	changes, err = d.Changes(ctx, exclusive)
	if err != nil || len(changes) != 1 || changes[0].Value != "" {
		t.Fatalf("%+v, %v", changes, err)
	}
	if err := d.Apply(ctx, exclusive, nil); err != nil || m.get("/a/b", string(plan.CgroupExclusive)) != "2-3" {
		t.Errorf("%v, %q", err, m.get("/a/b", string(plan.CgroupExclusive)))
	}
	if err := restore(d, entries(changes)[0]); err != nil || m.get("/a/b", string(plan.CgroupExclusive)) != "" {
		t.Errorf("%v, %q", err, m.get("/a/b", string(plan.CgroupExclusive)))
	}
}
