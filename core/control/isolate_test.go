package control

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// noisy gives a host the settings that isolation changes, and finds them.
func (f *fake) noisy() {
	all := f.host().Online
	put := func(kind plan.SettingKind, path, value string) {
		f.values[settingKey{kind, path}] = plan.Setting{Kind: kind, Path: path, Value: value}
	}
	put(plan.HostFile, hostprep.Workqueue, topology.Mask(all))
	put(plan.HostFile, hostprep.DefaultIRQ, topology.Mask(all))
	n := hostprep.Noise{Tickless: f.tickless, Unbound: all, Default: all, Latency: all, Preference: topology.CPUs(0, 1, 2, 3), Governor: all.Minus(topology.CPUs(0, 1, 2, 3))}
	for cpu := range all.All() {
		put(plan.HostFile, hostprep.IdleLatency(cpu), "0")
		put(plan.HostFile, hostprep.EnergyPreference(cpu), "balance_performance")
		put(plan.HostFile, hostprep.Governor(cpu), "powersave")
	}
	put(plan.HostIRQ, "9/acpi", all.String())
	n.Interrupts = []hostprep.Interrupt{{Number: 9, Name: "acpi", CPUs: all}}
	for _, path := range []string{"/a", "/a/b"} {
		for kind, unset := range plan.CgroupFiles {
			put(kind, path, unset)
		}
	}
	f.turn(Input{Survey: &Survey{Kind: Isolation, Noise: n}})
	f.run()
}

// TestIsolated: the cgroup of isolated work becomes a partition once those above it let it have its CPUs; what the
// kernel can move goes off its CPUs; undo and another class restore every setting.
func TestIsolated(t *testing.T) {
	begin := func() (f *fake, db workload.ID, before any) {
		rule := workload.Rule{Match: "/a/b/db", Class: workload.Dedicated, Isolated: true}
		f = newFake(t, 2, 8, ruled(rule))
		f.noisy()
		db, web := f.add("a/b/db", 2, 1<<20, 0), f.add("web", 2, 1<<20, 1)
		for _, id := range []workload.ID{db, web} {
			f.batch(id)
		}
		before = f.all()
		f.scans(8)
		return f, db, before
	}
	f, db, before := begin()
	cpus, err := topology.ParseCPUSet(f.cpus(db))
	if err != nil || cpus.Len() != 2 {
		t.Fatal(cpus, err)
	}
	others := f.host().Online.Minus(cpus)
	for _, x := range []struct {
		kind       plan.SettingKind
		path, want string
	}{
		{plan.CgroupPartition, string(db), "isolated"},
		{plan.CgroupExclusive, string(db), cpus.String()},
		{plan.CgroupExclusive, "/a/b", cpus.String()},
		{plan.CgroupExclusive, "/a", cpus.String()},
		{plan.CgroupPartition, "/a/b", "member"},
		{plan.CgroupPartition, "/web", "member"},
		{plan.CgroupExclusive, "/web", ""},
		{plan.HostFile, hostprep.Workqueue, others.String()},
		{plan.HostFile, hostprep.DefaultIRQ, others.String()},
		{plan.HostIRQ, "9/acpi", others.String()},
		{plan.HostFile, hostprep.IdleLatency(cpus.Min()), "2"},
		{plan.HostFile, hostprep.IdleLatency(others.Max()), "0"},
	} {
		if got := f.get(x.kind, x.path); got != x.want {
			t.Errorf("%s of %s: %q, want %q", x.kind, x.path, got, x.want)
		}
	}
	file := hostprep.Governor(cpus.Min())
	if cpus.Min() < 4 {
		file = hostprep.EnergyPreference(cpus.Min())
	}
	if got := f.get(plan.HostFile, file); got != "performance" {
		t.Errorf("%s: %q", file, got)
	}
	partitions := 0
	for _, e := range f.events {
		if e.Code == words.StepTook && strings.Contains(e.Text, "cpuset.cpus.partition") {
			partitions++
		}
	}
	if partitions != 1 {
		t.Errorf("the partition was made %d times", partitions)
	}
	if !f.s.Halted.None() {
		t.Errorf("halted: %v", f.s.Halted)
	}
	if o := f.s.Observation("/web"); o == nil || !f.s.SetByOthers(&f.s.Journal, o).None() {
		t.Error("the kernel keeps other work off the CPUs, and that counts as another program")
	}
	f.undo("")
	if diff := cmp.Diff(before, f.all()); diff != "" {
		t.Errorf("undo left:\n%s", diff)
	}

	f, db, _ = begin()
	f.start(func(s *Settings) { s.Rules = []workload.Rule{{Match: "/a/b/db", Class: workload.Dedicated}} })
	f.scans(8)
	f.noisyGone(t, db)
}

// noisyGone checks that nothing of isolation is left.
func (f *fake) noisyGone(t *testing.T, db workload.ID) {
	t.Helper()
	for _, e := range f.s.Journal.All() {
		if f.s.isolate().Owns(&e) {
			t.Errorf("left: %+v", e)
		}
	}
	if got := f.get(plan.CgroupPartition, string(db)); got != "member" {
		t.Errorf("partition %q", got)
	}
}

// TestIsolatedTick: explain names the isolated CPUs whose tick goes on, and no others.
func TestIsolatedTick(t *testing.T) {
	for _, tt := range []struct {
		name     string
		tickless topology.CPUSet
		some     bool // CPUs are named
	}{
		{"started without nohz_full=", topology.CPUSet{}, true},
		{"with nohz_full= for every CPU", topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), false},
	} {
		rule := workload.Rule{Match: "/a/b/db", Class: workload.Dedicated, Isolated: true}
		f := newFake(t, 2, 8, ruled(rule))
		f.tickless = tt.tickless
		f.noisy()
		db, web := f.add("a/b/db", 2, 1<<20, 0), f.add("web", 2, 1<<20, 1)
		f.batch(db)
		f.batch(web)
		f.scans(8)
		named := map[workload.ID]bool{}
		for _, d := range f.s.Plan.Report.Decisions {
			for _, r := range d.Reasons {
				named[d.Workload] = named[d.Workload] || r.Code == words.IsolatedTick
			}
		}
		if named[db] != tt.some || named[web] {
			t.Errorf("%s: named for %v", tt.name, named)
		}
	}
}
