package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
)

// mountOrSkip is a cgroup v2 mount that the tests may change: only where someone
// says so, for the machine's own cgroups are not for tests.
func mountOrSkip(t *testing.T) string {
	mount := os.Getenv("HOMENODE_TEST_CGROUP")
	if mount == "" {
		t.Skip("HOMENODE_TEST_CGROUP names no cgroup v2 mount to change")
	}
	return mount
}

func TestRealCgroup(t *testing.T) {
	mount := mountOrSkip(t)
	d := New(Options{Mount: mount})
	base := fmt.Sprintf("/homenode-test-%d", os.Getpid())
	leaf, sibling := base+"/leaf", base+"/sibling"
	for _, c := range []string{base, leaf, sibling} {
		if err := os.Mkdir(filepath.Join(mount, c), 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(filepath.Join(mount, c))
	}
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "CGROUP_TEST_CHILD=1")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Kill(); c.Wait() }()
	if err := os.WriteFile(filepath.Join(mount, leaf, "cgroup.procs"), fmt.Append(nil, c.Process.Pid), 0); err != nil {
		t.Fatal(err)
	}
	read := func(cgroup, file string) string {
		text, err := d.files.read(cgroup, file)
		if err != nil {
			return err.Error()
		}
		return text
	}
	rootBefore := read("/", subtreeControl)
	cpus, err := d.list("sys/devices/system/cpu/online")
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := d.list("sys/devices/system/node/has_memory")
	if err != nil {
		t.Fatal(err)
	}
	var journal []plan.Entry
	for _, s := range []plan.Step{
		step(plan.SetCPUs, leaf, fmt.Sprint(cpus.Max())), step(plan.SetMems, leaf, fmt.Sprint(nodes.Max())),
	} {
		have, err := d.Changes(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("settings %+v", have)
		journal = append(journal, entries(have)...)
		for range 2 {
			if err := d.Apply(ctx, s, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if read(leaf, "cpuset.cpus.effective") != fmt.Sprint(cpus.Max()) || read(leaf, "cpuset.mems.effective") != fmt.Sprint(nodes.Max()) {
		t.Error(read(leaf, "cpuset.cpus.effective"), read(leaf, "cpuset.mems.effective"))
	}
	var mismatch *MismatchError
	before := read(leaf, "cpuset.cpus")
	err = d.Apply(ctx, step(plan.SetCPUs, leaf, fmt.Sprintf("%d-%d", cpus.Max(), cpus.Max()+1)), nil)
	t.Logf("a CPU that is not there: %v", err)
	if err == nil || read(leaf, "cpuset.cpus") != before {
		t.Errorf("%v, then %q", err, read(leaf, "cpuset.cpus"))
	}
	if err := d.files.write(base, "cpuset.cpus", "0\n"); err != nil {
		t.Fatal(err)
	}
	err = d.Apply(ctx, step(plan.SetCPUs, leaf, "0-1"), nil)
	t.Logf("a parent with less: %v", err)
	if !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "has only 0") {
		t.Error(err)
	}
	if err := d.putBack(ctx, base, plan.CgroupCPUs, ""); err != nil {
		t.Error(err)
	}
	t.Logf("a populated parent set back to inherit has %q", read(base, "cpuset.cpus"))
	for _, e := range slices.Backward(journal) {
		if now, err := d.Read(ctx, e); err != nil || !e.Ours(now) {
			t.Errorf("%+v %v of %+v", now, err, e)
		}
		if err := restore(d, e); err != nil {
			t.Errorf("restore %+v: %v", e, err)
		}
		t.Logf("%s %s: back to %q, file has %q", e.Path, e.Kind, e.Old, read(e.Path, string(e.Kind)))
	}
	if got := read("/", subtreeControl); got != rootBefore {
		t.Errorf("root subtree_control %q, was %q", got, rootBefore)
	}
	c.Process.Kill()
	c.Wait()
	for _, p := range []string{sibling, leaf} {
		if err := os.Remove(filepath.Join(mount, p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Apply(ctx, step(plan.SetCPUs, leaf, "0"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after its removal: %v", err)
	}
}

func TestMain(m *testing.M) {
	if os.Getenv("CGROUP_TEST_CHILD") != "" {
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

// BenchmarkRealFreeze freezes and thaws a thousand processes, and looks for others with the same
// memory: bench/results/freeze.md.
func BenchmarkRealFreeze(b *testing.B) {
	mount := os.Getenv("HOMENODE_TEST_CGROUP")
	if mount == "" {
		b.Skip("HOMENODE_TEST_CGROUP names no cgroup v2 mount to change")
	}
	for _, processes := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(processes), func(b *testing.B) {
			leaf := fmt.Sprintf("/homenode-test-%d", os.Getpid())
			if err := os.Mkdir(filepath.Join(mount, leaf), 0o755); err != nil {
				b.Fatal(err)
			}
			defer os.Remove(filepath.Join(mount, leaf))
			for range processes {
				c := exec.Command("sleep", "600")
				if err := c.Start(); err != nil {
					b.Fatal(err)
				}
				defer func() { c.Process.Kill(); c.Wait() }()
				if err := os.WriteFile(filepath.Join(mount, leaf, "cgroup.procs"), fmt.Append(nil, c.Process.Pid), 0); err != nil {
					b.Fatal(err)
				}
			}
			d := New(Options{Mount: mount, Run: b.TempDir()})
			check := d.shared
			var frozen, before []time.Duration
			refused := 0
			d.shared = func(ctx context.Context, at string) error {
				start := time.Now()
				defer func() { before = append(before, time.Since(start)) }()
				return check(ctx, at)
			}
			ctx := plan.WithFrozen(ctx, func(d time.Duration) { frozen = append(frozen, d) })
			for b.Loop() {
				f, err := d.freeze(ctx, leaf)
				if errors.Is(err, plan.ErrNotFrozen) { // the machine is too busy
					refused++
					continue
				}
				if err != nil {
					b.Fatal(err)
				}
				if err := f.thaw(ctx); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(refused), "refused")
			for name, all := range map[string][]time.Duration{"frozen": frozen, "before": before} {
				slices.Sort(all)
				b.ReportMetric(float64(all[0].Microseconds())/1000, name+"-least-ms")
				b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name+"-p50-ms")
				b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, name+"-p99-ms")
			}
		})
	}
}
