package scx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// threads is a made-up kernel's, by ID.
type threads map[int]*unix.SchedAttr

// made puts a kernel with these threads in place of this one.
func made(t *testing.T, all threads) {
	was := kernel
	t.Cleanup(func() { kernel = was })
	find := func(tid int) (*unix.SchedAttr, error) {
		if a := all[tid]; a != nil {
			copied := *a
			return &copied, nil
		}
		return nil, syscall.ESRCH
	}
	kernel = calls{get: find,
		set: func(tid int, a *unix.SchedAttr) error {
			if all[tid] == nil {
				return syscall.ESRCH
			}
			*all[tid] = *a
			return nil
		},
		start: func(tid int) (uint64, error) { _, err := find(tid); return uint64(tid) * 10, err },
	}
}

// grouped is a machine with a cgroup that has these threads, and one below it.
func grouped(t *testing.T, tids ...int) (*Driver, string) {
	root := t.TempDir()
	below := filepath.Join(root, "sys/fs/cgroup/encode/vcpu0")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(below, "cgroup.threads")
	if err := os.WriteFile(list, []byte(strings.Trim(fmt.Sprint(tids), "[]")), 0o644); err != nil {
		t.Fatal(err)
	}
	return NewDriver(DriverOptions{Root: root, Folder: filepath.Join(root, "kept"), Pins: filepath.Join(root, "pins")}), list
}

func (all threads) policies() map[int]uint32 {
	out := map[int]uint32{}
	for tid, a := range all {
		out[tid] = a.Policy
	}
	return out
}

// TestPolicies: all threads of the fair class go to the scheduler, each that had another policy
// than most is in what is read first, and all go back to what they had.
func TestPolicies(t *testing.T) {
	all := threads{1: {Policy: 0}, 2: {Policy: 0, Nice: 7}, 3: {Policy: 3}, 4: {Policy: 5}, 5: {Policy: 1, Priority: 50}}
	before := all.policies()
	made(t, all)
	d, list := grouped(t, 1, 2, 3, 4, 5)
	step := plan.Step{Kind: plan.SetPolicy, Workload: "/encode", Target: plan.Target{Kind: workload.InKernel, Cgroup: "/encode"}, To: plan.PolicyExt}
	ctx := context.Background()
	changes, err := d.Changes(ctx, step)
	if err != nil || len(changes) != 3 {
		t.Fatalf("%+v, %v", changes, err)
	}
	all[6], all[7] = &unix.SchedAttr{Policy: 0}, &unix.SchedAttr{Policy: 3} // made since
	if err := os.WriteFile(list, []byte("1\n2\n3\n4\n5\n6\n7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	step.Target.Object = changes[0].Object
	if err := d.Apply(ctx, step, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[int]uint32{1: 7, 2: 7, 3: 7, 4: 7, 5: 1, 6: 7, 7: 3}, all.policies()); diff != "" {
		t.Errorf("switched:\n%s", diff)
	}
	if n := d.left("/encode"); n != 1 {
		t.Errorf("%d are left, want the one that is in no journal", n)
	}
	more, err := d.Changes(ctx, step) // the next look
	if err != nil || len(more) != 2 {
		t.Fatalf("%+v, %v", more, err)
	}
	if err := d.Apply(ctx, step, nil); err != nil || d.left("/encode") != 0 {
		t.Errorf("left %d, %v", d.left("/encode"), err)
	}
	var entries []plan.Entry
	for i, c := range append(changes, more[1:]...) {
		e := plan.Entry{Seq: uint64(i + 1), Kind: c.Kind, Path: c.Path, Old: c.Value, New: c.Will, Object: c.Object}
		now, err := d.Read(ctx, e)
		if err != nil || now.Value != e.New || !e.Ours(now) {
			t.Errorf("%s reads %+v, %v", e.Path, now, err)
		}
		entries = append(entries, e)
	}
	for i, err := range d.Restore(ctx, entries) { // the cgroup is the first
		if err != nil {
			t.Errorf("%s: %v", entries[i].Path, err)
		}
	}
	before[6], before[7] = 0, 3
	if diff := cmp.Diff(before, all.policies()); diff != "" || all[2].Nice != 7 {
		t.Errorf("put back:\n%s", diff)
	}
	if now, err := d.Read(ctx, entries[0]); err != nil || now.Value != policyOther {
		t.Errorf("reads %+v, %v", now, err)
	}
	delete(all, 3)
	entries[1].Path = "3@30"
	if err := d.Present(entries[1]); err == nil {
		t.Error("a thread that has ended is present")
	}
	step.Target.Object = "1"
	if err := d.Apply(ctx, step, nil); err == nil {
		t.Error("another cgroup under the path is changed")
	}
	os.RemoveAll(filepath.Dir(list))
	os.RemoveAll(filepath.Dir(filepath.Dir(list)))
	if err := d.Present(entries[0]); err == nil {
		t.Error("a cgroup that is gone is present")
	}
}

// TestVersions: an object is kept by its checksum, found again, and no other file is taken for
// one; few are kept.
func TestVersions(t *testing.T) {
	d, _ := grouped(t)
	ctx := context.Background()
	folder := t.TempDir()
	write := func(name string, content []byte) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	pipe, huge := filepath.Join(folder, "pipe"), write("huge", nil)
	if err := errors.Join(unix.Mkfifo(pipe, 0o600), os.Truncate(huge, 1<<40)); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"no such file": filepath.Join(folder, "none"), "no file": folder, "no object": write("text", []byte("hello")), "a pipe": pipe,
		"no end": "/dev/zero", "a TiB": huge, "cut": write("cut", objectV2[:len(objectV2)/2]), "no name": "\x00"} {
		if v, err := d.Keep(ctx, file, false); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: version %q, %v", name, v, err)
		}
	}
	if v, err := d.Keep(ctx, write("object", objectV2), true); err != nil || v != versionOf(objectV2) {
		t.Errorf("a dry run: version %q, %v", v, err)
	}
	if entries, _ := os.ReadDir(d.o.Folder); len(entries) > 0 {
		t.Error("a dry run keeps an object")
	}
	if _, err := d.Keep(ctx, write("object", objectV1), false); err != nil {
		t.Fatal(err)
	}
	d.before = versionOf(objectV1)
	versions := map[string]bool{}
	for n := range 12 {
		v, err := d.Keep(ctx, write("object", append(slices.Clone(objectV2), make([]byte, n)...)), false)
		if err != nil || versions[v] {
			t.Fatalf("version %q, %v", v, err)
		}
		versions[v] = true
		if b, err := d.object(v); err != nil || versionOf(b) != v {
			t.Errorf("version %s is not found again: %v", v, err)
		}
	}
	entries, _ := os.ReadDir(d.o.Folder)
	if len(entries) > mostKept+1 {
		t.Errorf("%d are kept", len(entries))
	}
	if _, err := d.object(d.before); err != nil {
		t.Errorf("there is none to go back to: %v", err)
	}
	v := strings.TrimSuffix(entries[0].Name(), ".o")
	if err := os.WriteFile(d.kept(v), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{v, "000000000000"} {
		if _, err := d.object(version); err == nil {
			t.Errorf("version %s is found", version)
		}
	}
}

// TestLookWithoutSchedExt: a kernel that takes none says so, and there is nothing to take out.
func TestLookWithoutSchedExt(t *testing.T) {
	d, _ := grouped(t)
	seen, err := d.Look(context.Background(), share.SchedulerOrders{})
	if err != nil || seen.Unable.Code != words.SchedulerNoKernel || seen.Loaded != "" {
		t.Errorf("%+v, %v", seen, err)
	}
	entry := plan.Entry{Kind: plan.Scheduler, Path: string(share.SchedulerID), New: "x"}
	if err := d.Restore(context.Background(), []plan.Entry{entry})[0]; err != nil {
		t.Error(err)
	}
	reasons := map[words.Code]bool{}
	for k := NoSchedExt; k <= Refused; k++ {
		if r := unable(Support{Kind: k, Why: "x"}); k != Other {
			reasons[r.Code] = true
			if strings.Contains(r.String(), "\n") || r.None() {
				t.Errorf("kind %d: %q", k, r)
			}
		}
	}
	if len(reasons) != 5 {
		t.Errorf("%v", slices.Collect(maps.Keys(reasons)))
	}
}

// TestObjectsThatAreNone: whatever is in a file, reading it ends in an error or an object.
func TestObjectsThatAreNone(t *testing.T) {
	folder, random := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	try := func(object []byte) {
		file := filepath.Join(folder, "object")
		if err := os.WriteFile(file, object, 0o600); err != nil {
			t.Fatal(err)
		}
		readObject(file)
	}
	for range 300 {
		try(objectV2[:random.IntN(len(objectV2))])
		object := slices.Clone(objectV2)
		sections := len(object) - 64*(20+random.IntN(20)) // their headers are at the end
		for range 1 + random.IntN(8) {
			object[[]int{random.IntN(64), random.IntN(len(object)), sections + random.IntN(64)}[random.IntN(3)]] = byte(random.Uint32())
		}
		try(object)
	}
}

// TestPinsOfOthers: bpffs may be open to all. What others put there is not taken for a scheduler of
// homenode's, nor removed.
func TestPinsOfOthers(t *testing.T) {
	d, _ := grouped(t)
	for name, make := range map[string]func(path string) error{
		"mine": func(path string) error { return os.Mkdir(path, 0o700) },
		"open": func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o777)) },
		"link": func(path string) error { return os.Symlink(d.pin("mine"), path) },
		"file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		if err := make(d.pin(name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.pinned(); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("%q", got)
	}
	for _, name := range []string{"open", "link", "file"} {
		if _, err := Adopt(d.pin(name)); err == nil || !strings.Contains(err.Error(), "alone") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := d.unload(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(d.o.Pins + "-*"); len(left) != 3 {
		t.Errorf("%q are left", left)
	}
}

// TestManyPolicies: one step writes a bounded number of threads into the journal, and gets on.
func TestManyPolicies(t *testing.T) {
	all, tids := threads{}, []int{}
	for tid := 1; tid <= mostListed+10; tid++ {
		all[tid], tids = &unix.SchedAttr{Policy: 3}, append(tids, tid)
	}
	made(t, all)
	d, _ := grouped(t, tids...)
	step := plan.Step{Kind: plan.SetPolicy, Workload: "/encode", Target: plan.Target{Kind: workload.InKernel, Cgroup: "/encode"}, To: plan.PolicyExt}
	for n, left := range []int{10, 0} {
		changes, err := d.Changes(context.Background(), step)
		if err != nil || len(changes) > mostListed+1 {
			t.Fatalf("%d changes, %v", len(changes), err)
		}
		if err := d.Apply(context.Background(), step, nil); err != nil || d.left("/encode") != left {
			t.Errorf("step %d: %d are left, %v", n, d.left("/encode"), err)
		}
	}
}

// TestEndIsToldOnceItIsKnown: while the kernel takes the scheduler off, how it ended is not there
// to read; who asks then must not be told that nobody knows.
func TestEndIsToldOnceItIsKnown(t *testing.T) {
	d, _ := grouped(t, 1)
	d.support, d.runs, d.version = Support{Kind: Supported, Generation: "v2"}, &Scheduler{}, "abc"
	dir := filepath.Join(d.o.Root, "sys/kernel/sched_ext")
	if err := os.MkdirAll(filepath.Join(dir, "root"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ state, name, loaded string }{
		{"disabling", Name, "abc"},
		{"disabling", "another", ""}, // ours ended before
		{"disabled", "", ""},
	} {
		err := errors.Join(os.WriteFile(filepath.Join(dir, "state"), []byte(c.state+"\n"), 0o644), os.WriteFile(filepath.Join(dir, "root/ops"), []byte(c.name+"\n"), 0o644))
		if err != nil {
			t.Fatal(err)
		}
		seen, err := d.Look(context.Background(), share.SchedulerOrders{})
		if err != nil || seen.Loaded != c.loaded || (seen.End == nil) != (c.loaded != "") {
			t.Errorf("%s %s: loaded %q, ended %v, %v", c.state, c.name, seen.Loaded, seen.End, err)
		}
	}
}
