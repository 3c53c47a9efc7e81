package scx

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
)

// hosted is a machine with Linux 7.3, and another scheduler that is enabled.
func hosted(t *testing.T, takes bool) *Driver {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"sys/kernel/sched_ext/state":    "enabled\n",
		"sys/kernel/sched_ext/root/ops": "flow_1.0\n",
		"sys/kernel/btf/vmlinux": string(types(t,
			append(slices.Clone(generations[0].needs), generationBelow.needs...)...)),
		"proc/self/status": "CapEff:\t000001ffffffffff\n",
		"proc/self/mounts": "bpf /sys/fs/bpf bpf rw 0 0\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if takes {
		if err := os.Mkdir(filepath.Join(root, subs), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return NewDriver(DriverOptions{Root: root, Folder: filepath.Join(root, "kept"), Pins: filepath.Join(root, "pins")})
}

// TestLookBelow: another scheduler that lets others have cgroups is no obstacle, and asks for the object
// that is made for it; one that does not is.
func TestLookBelow(t *testing.T) {
	for _, takes := range []bool{true, false} {
		d := hosted(t, takes)
		seen, err := d.Look(context.Background(), share.SchedulerOrders{})
		if err != nil || !seen.Unable.None() || seen.Loaded != "" {
			t.Fatalf("%+v, %v", seen, err)
		}
		if want := versionOf(objectBelow); (seen.Newest == want) != takes {
			t.Errorf("takes %v: newest %s, below another one %s", takes, seen.Newest, want)
		}
		if takes && (seen.Under != "flow_1.0" || seen.Other != "") || !takes && (seen.Other != "flow_1.0" || seen.Under != "") {
			t.Errorf("takes %v: %+v", takes, seen)
		}
		if object, err := d.object(versionOf(objectBelow)); err != nil || versionOf(object) != versionOf(objectBelow) {
			t.Errorf("its object: %v", err)
		}
	}
}

// TestMadeFor: an object is made to be the only scheduler, or to run below another one.
func TestMadeFor(t *testing.T) {
	for _, g := range append(slices.Clone(generations), generationBelow) {
		spec, err := g.spec()
		if err != nil {
			t.Fatal(err)
		}
		if isBelow(spec) != (g.name == generationBelow.name) {
			t.Errorf("%s: below another one: %v", g.name, isBelow(spec))
		}
		for _, name := range ownMaps {
			if g.name == generationBelow.name && spec.Maps[name] == nil {
				t.Errorf("no map %s", name)
			}
		}
		if err := putMember(spec, "timeout_ms", 4, func(b []byte) { native.PutUint32(b, 7) }); err != nil {
			t.Error(err)
		}
		if err := putMember(spec, "no_such", 4, nil); err == nil || !strings.Contains(err.Error(), "no_such") {
			t.Errorf("a member that is not there: %v", err)
		}
	}
	no := Support{Kind: Supported}.unfit()
	other := Support{Kind: Other, Why: "another sched_ext scheduler is loaded: x"}
	if no == nil || !strings.Contains(no.Error(), "below another one") || other.unfit() != error(other) {
		t.Errorf("%v, %v", no, other.unfit())
	}
}

// TestAdoptedInPart: what is left of a folder whose removal was interrupted is not taken for a scheduler.
func TestAdoptedInPart(t *testing.T) {
	s := &Scheduler{maps: map[string]*ebpf.Map{"below": new(ebpf.Map), "settings": new(ebpf.Map)}}
	if s.adoptedBelow() || s.below != nil {
		t.Error("it was adopted without the map of its end")
	}
	for _, name := range readMaps {
		if spec, err := generationBelow.spec(); err != nil || spec.Maps[name] == nil {
			t.Errorf("the object has no map %s: %v", name, err)
		}
	}
}

// TestYields: a user who has many batch cgroups makes room for the system's and for other users', and no two take
// turns in making room for each other.
func TestYields(t *testing.T) {
	of := func(user, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("/user.slice/user-%d.slice/job-%02d.scope", user, i))
		}
		return out
	}
	system := []string{"/system.slice/a.service", "/kubepods/b"}
	for _, c := range []struct {
		name   string
		have   []string
		cgroup string
		want   string
	}{
		{"the system's", of(1000, 3), "/system.slice/backup.service", of(1000, 3)[2]},
		{"another user's first", of(1000, 3), of(1001, 1)[0], of(1000, 3)[2]},
		{"another user has half", slices.Concat(of(1000, 2), of(1001, 2)), of(1001, 3)[2], ""},
		{"it would be equally many", slices.Concat(of(1000, 2), of(1001, 1)), of(1001, 2)[1], ""},
		{"the same user's", of(1000, 3), of(1000, 4)[3], ""},
		{"none is a user's", system, "/system.slice/backup.service", ""},
		{"a user's, where the system has all", system, of(1000, 1)[0], ""},
		{"a hostile name", []string{"/user.slice/user-1000.slice/../user-1001.slice"}, "/x", "/user.slice/user-1000.slice/../user-1001.slice"},
	} {
		if got := yields(c.have, c.cgroup); got != c.want {
			t.Errorf("%s: %q makes room, want %q", c.name, got, c.want)
		}
	}
}

// cut is a link that counts how often it is taken away.
type cut struct {
	link.Link
	times *int
}

func (c cut) Unpin() error { *c.times++; return nil }
func (c cut) Close() error { return nil }

// TestUndoBelow: a cgroup whose threads have all ended, or have another policy since, still loses its sub-scheduler.
func TestUndoBelow(t *testing.T) {
	made(t, threads{1: {Policy: 0}})
	was := alive
	t.Cleanup(func() { alive = was })
	alive = func(uint64) bool { return true }
	for _, tids := range [][]int{nil, {1}} {
		d, _ := grouped(t, tids...)
		id, err := inode(d.dir("/encode"))
		if err != nil {
			t.Fatal(err)
		}
		times := 0
		d.runs = &Scheduler{below: &below{}, links: map[string]link.Link{fmt.Sprint(linkBelow, id): cut{times: &times}}}
		e := plan.Entry{Kind: plan.TaskPolicy, Path: "/encode", Object: fmt.Sprint(id), Old: policyOther,
			New: plan.PolicyExt}
		now, err := d.Read(context.Background(), e)
		if err != nil || now.Value != plan.PolicyExt {
			t.Errorf("threads %v: it reads %q, %v: nothing would be restored", tids, now.Value, err)
		}
		errs := d.Restore(context.Background(), []plan.Entry{e})
		now, err = d.Read(context.Background(), e)
		if errs[0] != nil || times != 1 || err != nil || now.Value != policyOther {
			t.Errorf("threads %v: after undo %q, %v, %v; taken away %d times", tids, now.Value, err, errs, times)
		}
	}
}

// TestMostBelow: a user who has all 64 keeps out neither the system's nor another user's, and gets no 65th.
func TestMostBelow(t *testing.T) {
	was := alive
	t.Cleanup(func() { alive = was })
	alive = func(uint64) bool { return true }
	for cgroup, want := range map[string]int{"/system.slice/backup.service": 1, "/user.slice/user-1001.slice/job.scope": 1,
		"/user.slice/user-1000.slice/more.scope": 0} {
		d, _ := grouped(t)
		d.runs = &Scheduler{below: &below{}, links: map[string]link.Link{}}
		made := func(cgroup string) uint64 {
			if err := os.MkdirAll(d.dir(cgroup), 0o755); err != nil {
				t.Fatal(err)
			}
			id, err := inode(d.dir(cgroup))
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		times := 0
		var known []string
		for i := range mostBelow {
			known = append(known, fmt.Sprintf("/user.slice/user-1000.slice/job-%02d.scope", i))
			d.runs.links[fmt.Sprint(linkBelow, made(known[i]))] = cut{times: &times}
		}
		d.cgroups.Store(&known)
		err := d.attach(cgroup, made(cgroup))
		refused := err != nil && strings.Contains(err.Error(), "at most 64")
		if times != want || refused != (want == 0) {
			t.Errorf("%s: %d made room, want %d: %v", cgroup, times, want, err)
		}
	}
}

// TestEndedNotReplaced: a cgroup whose sub-scheduler the kernel ended gets no other one before that was reported.
func TestEndedNotReplaced(t *testing.T) {
	d, _ := grouped(t)
	d.runs = &Scheduler{below: &below{}, links: map[string]link.Link{}}
	id, err := inode(d.dir("/encode"))
	if err != nil {
		t.Fatal(err)
	}
	d.untold = map[uint64]share.SchedulerEnd{id: Exit{Kind: exitStall, Reason: "runnable task stall"}.end()}
	if err := d.attach("/encode", id); err == nil || !strings.Contains(err.Error(), "ended its scheduler: stalled") {
		t.Errorf("attach: %v", err)
	}
	seen, err := d.endedBelow([]string{"/encode", "/other"})
	if err != nil || len(seen) != 1 || seen["/encode"].Kind != share.EndStalled {
		t.Errorf("a Look says %v, %v", seen, err)
	}
	if err := d.attach("/encode", id); err == nil {
		t.Error("that Look may have failed since")
	}
}

// TestOlderBelow: an object of before the ends of single cgroups is no panic.
func TestOlderBelow(t *testing.T) {
	spec, err := generationBelow.spec()
	if err != nil {
		t.Fatal(err)
	}
	delete(spec.Variables, "own_cgroup")
	s := &Scheduler{below: &below{spec: spec}, links: map[string]link.Link{}}
	if err := s.AttachTo(7); err == nil {
		t.Error("attached without a kernel that takes it")
	}
	if ends, err := s.takeEnded(); err != nil || len(ends) > 0 {
		t.Errorf("ends %v, %v", ends, err)
	}
}
