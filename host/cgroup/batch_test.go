package cgroup

import (
	"maps"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBatch: what enters runs last, and its cgroup goes when it is empty, with the controller
// that was turned on for it; one that somebody else uses stays on.
func TestBatch(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*model)
		want string // cpu.idle
	}{
		{"controller on", func(*model) {}, "1"},
		{"controller off", func(m *model) { m.write("/", subtreeControl, "-cpu") }, "1"},
		{"no cpu.idle", func(m *model) { m.lacks = map[string]bool{"cpu.idle": true} }, ""},
	} {
		m := slice(t)
		m.mkdir("/from")
		tt.edit(m)
		m.enter("/from", "77")
		m.enter("/from", "78")
		d, before := m.driver(), m.state()
		for _, pid := range []int{77, 78} {
			if c, err := d.Enter(ctx, pid); err != nil || !strings.HasPrefix(c, BatchGroup+"/") || !strings.Contains(m.get(c, "cgroup.procs"), "7") {
				t.Fatalf("%s: %q %v", tt.name, c, err)
			}
		}
		idle, weight := m.get(BatchGroup, "cpu.idle"), m.get(BatchGroup, "cpu.weight")
		if tt.want != "" && idle != tt.want || tt.want == "" && weight != "1" {
			t.Errorf("%s: cpu.idle %q, cpu.weight %q", tt.name, idle, weight)
		}
		if err := d.Leave(ctx, BatchGroup+"/77", "/from"); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if below, _ := m.tree.children(BatchGroup); len(below) != 1 {
			t.Errorf("%s: %v is left, and one process is", tt.name, below)
		}
		m.enter("/from", "78")
		if err := d.Sweep(ctx); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := m.state(); !maps.Equal(got, before) {
			t.Errorf("%s: afterwards %v, want %v", tt.name, got, before)
		}
	}
	m := slice(t)
	const was = "/homenode-offline" // as version 0.1 called it
	m.mkdir("/from")
	m.enter("/", "77")
	before := m.state()
	for _, c := range []string{was, was + "/77", was + "/78"} {
		m.mkdir(c)
	}
	m.enter(was+"/77", "77")
	if err := m.driver().Leave(ctx, was+"/77", "/from"); err != nil || m.get("/from", "cgroup.procs") != "77" {
		t.Errorf("%v, in /from is %q", err, m.get("/from", "cgroup.procs"))
	}
	if below, err := m.tree.children(was); err == nil {
		t.Errorf("%s is left, with %v", was, below)
	}
	m.enter("/", "77")
	if got := m.state(); !maps.Equal(got, before) {
		t.Errorf("afterwards %v, want %v", got, before)
	}
	m = slice(t)
	m.write("/", subtreeControl, "-cpu")
	d := m.driver()
	d.Enter(ctx, 77)
	m.put("/a", "cpu.weight", "50")
	m.enter("/", "77")
	if err := d.Sweep(ctx); err != nil || !strings.Contains(m.get("/", subtreeControl), "cpu") {
		t.Errorf("%v; a controller that /a uses is %q", err, m.get("/", subtreeControl))
	}
}

// TestBatchRemoved: a cgroup that another command takes for empty is made anew.
func TestBatchRemoved(t *testing.T) {
	m := slice(t)
	d, once := m.driver(), true
	m.hook = func(what string) {
		if once && strings.HasPrefix(what, "write "+BatchGroup+"/77") {
			once = false
			m.rmdir(BatchGroup)
		}
	}
	if c, err := d.Enter(ctx, 77); err != nil || m.get(c, "cgroup.procs") != "77" || once {
		t.Error(c, err)
	}
}

// TestBatchRefused: where it may not, nothing is left and one line says why.
func TestBatchRefused(t *testing.T) {
	for n, tt := range []struct {
		edit func(*model)
		want string
	}{
		{func(m *model) { m.put("/", controllers, "cpuset memory") }, "needs the cpu controller"},
		{func(m *model) { refuse(m, "make", unix.EACCES) }, "permission denied"},
		{func(m *model) { refuse(m, "write "+BatchGroup+"/77 cgroup.procs", unix.EBUSY) }, "busy"},
		{func(m *model) { m.rmdir("/") }, "no cgroup v2"},
	} {
		m := slice(t)
		tt.edit(m)
		_, err := m.driver().Enter(ctx, 77)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%d: %v, want %q", n, err, tt.want)
		}
		if _, err := m.tree.object(BatchGroup); err == nil {
			t.Errorf("%d: %s is left", n, BatchGroup)
		}
	}
}

func refuse(m *model, what string, err error) {
	m.fault = func(_ int, did string) error {
		if strings.HasPrefix(did, what) {
			return err
		}
		return nil
	}
}

// TestLeaveSwept: a daemon that removes what is empty may be faster than who has just emptied it.
func TestLeaveSwept(t *testing.T) {
	m := slice(t)
	m.mkdir("/from")
	m.enter("/from", "77")
	d, swept := m.driver(), false
	c, err := d.Enter(ctx, 77)
	if err != nil {
		t.Fatal(err)
	}
	m.hook = func(what string) {
		if !swept && strings.HasPrefix(what, "read "+c) && m.get(c, "cgroup.procs") == "" {
			swept = true
			m.rmdir(c)
		}
	}
	if err := d.Leave(ctx, c, "/from"); err != nil || !swept || m.get("/from", "cgroup.procs") != "77" {
		t.Errorf("swept %t, /from has %q: %v", swept, m.get("/from", "cgroup.procs"), err)
	}
}
