package prepare

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/kernfile"
)

const pool = "sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"

var before = map[string]string{
	hostprep.Workqueue: "ff", hostprep.Writeback: "ff", hostprep.DefaultIRQ: "ff", hostprep.KSM: "1", pool: "0",
	hostprep.THP:                                  "always [madvise] never",
	"proc/irq/9/smp_affinity_list":                "0-7",
	"sys/kernel/irq/9/actions":                    "acpi, i/o",
	"sys/fs/cgroup/a.slice/a-b.slice/cpuset.cpus": "",
}

// model is a machine's files that behave as the kernel's do, in memory; it is its
// systemd as well.
type model struct {
	files  map[string]string
	units  map[string]topology.CPUSet
	calls  int
	failAt int
	ever   bool // and each call after it
	err    error
	stuck  bool   // what is written is accepted and does not come
	most   string // huge pages there are in one piece
	lazy   bool   // systemd never writes the cgroup

	stopped []string
}

func newModel() *model {
	m := &model{files: map[string]string{}, units: map[string]topology.CPUSet{}}
	for name, text := range before {
		m.files[name] = text
	}
	return m
}

func (m *model) fails(op, name string) error {
	if m.calls++; m.calls == m.failAt || m.ever && m.calls > m.failAt {
		return &fs.PathError{Op: op, Path: name, Err: m.err}
	}
	return nil
}

func (m *model) Read(name string) (string, error) {
	if err := m.fails("read", name); err != nil {
		return "", err
	}
	text, ok := m.files[name]
	if !ok {
		return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return text, nil
}

func (m *model) Write(name, text string) error {
	if err := m.fails("write", name); err != nil {
		return err
	}
	text = strings.TrimSuffix(text, "\n")
	switch {
	case m.stuck:
	case name == pool && m.most != "" && text > m.most:
		m.files[name] = m.most
	case name == hostprep.THP:
		all := strings.NewReplacer("[", "", "]", "").Replace(m.files[name])
		m.files[name] = strings.Replace(all, text, "["+text+"]", 1)
	default:
		m.files[name] = text
	}
	return nil
}

func (m *model) AllowedCPUs(_ context.Context, unit string) (topology.CPUSet, error) {
	return m.units[unit], m.fails("get", unit)
}

func (m *model) SetAllowedCPUs(_ context.Context, unit string, cpus topology.CPUSet) error {
	if err := m.fails("set", unit); err != nil {
		return err
	}
	m.units[unit] = cpus
	if !m.lazy {
		m.files["sys/fs/cgroup"+hostprep.CgroupOf(unit)+"/cpuset.cpus"] = cpus.String()
	}
	return nil
}

func (m *model) Stop(_ context.Context, unit string) error {
	if err := m.fails("stop", unit); err != nil {
		return err
	}
	m.stopped = append(m.stopped, unit)
	return nil
}

func (m *model) driver() *Driver { return &Driver{files: m, units: m, follow: time.Millisecond} }

func to(kind plan.StepKind, path, value string) plan.Step {
	return plan.Step{Kind: kind, Workload: hostprep.ID, Target: plan.Target{Kind: workload.InHost, Host: path}, To: value}
}

var steps = []plan.Step{
	to(plan.SetUnit, "a-b.slice", "0-1"), to(plan.SetFile, hostprep.Workqueue, "0-1"), to(plan.SetFile, hostprep.DefaultIRQ, "0,33"),
	to(plan.SetFile, hostprep.KSM, "0"), to(plan.SetFile, pool, "512"), to(plan.SetFile, hostprep.THP, "never"), to(plan.SetIRQ, "9/acpi, i/o", "1"),
}

// after is what each step leaves in its file.
var after = map[string]string{
	hostprep.Workqueue: "03", hostprep.DefaultIRQ: "2,00000001", hostprep.KSM: "0", pool: "512", hostprep.THP: "always madvise [never]",
	"proc/irq/9/smp_affinity_list": "1", "sys/fs/cgroup/a.slice/a-b.slice/cpuset.cpus": "0-1",
}

func TestApplyAndRestore(t *testing.T) {
	m := newModel()
	d := m.driver()
	var have []plan.Change
	for _, s := range steps {
		x, err := d.Changes(t.Context(), s)
		if err != nil || len(x) != 1 {
			t.Fatalf("%v: %v, %v", s.Target, x, err)
		}
		have = append(have, x...)
		for range 2 {
			if err := d.Apply(t.Context(), s, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, want := range after {
		got := m.files[name]
		if a, err := topology.ParseMask(got); err == nil && name != pool && name != hostprep.KSM {
			if b, _ := topology.ParseMask(want); a.Equal(b) {
				continue
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for range 2 {
		for _, s := range have {
			e := plan.Entry{Kind: s.Kind, Path: s.Path, Old: s.Value}
			if err := errors.Join(d.Present(e), d.Restore(t.Context(), []plan.Entry{e})[0]); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff(before, m.files); diff != "" || !m.units["a-b.slice"].Empty() {
			t.Error(diff, m.units)
		}
	}
}

// The nth call fails, for every n and step: the step has come out, its value is the
// old one, or the error says that it could not be put back.
func TestNthCallFails(t *testing.T) {
	for _, errno := range []error{unix.EIO, unix.EINVAL, unix.EACCES, unix.ENOSPC} {
		for i, s := range steps {
			for n := 1; nthCallFails(t, i, s, n, errno, false) && nthCallFails(t, i, s, n, errno, true); n++ {
			}
		}
	}
}

// nthCallFails lets call n of a step fail, and each after it when it fails for ever, and
// reports whether the step has so many.
func nthCallFails(t *testing.T, i int, s plan.Step, n int, errno error, ever bool) bool {
	m := newModel()
	m.failAt, m.err, m.ever = n, errno, ever
	err := m.driver().Apply(t.Context(), s, nil)
	if m.calls < n {
		if err != nil {
			t.Fatal(err)
		}
		if n < 3 {
			t.Errorf("step %d: only %d calls", i, n-1)
		}
		return false
	}
	if err == nil && (ever || s.Kind != plan.SetUnit) { // systemd's file is read again until it follows
		t.Fatalf("step %d: call %d failed with %v and Apply did not", i, n, errno)
	}
	if err != nil && !cmp.Equal(before, m.files) && !strings.Contains(err.Error(), "restore: ") {
		t.Errorf("step %d, call %d, %v: changed and not told: %v", i, n, errno, err)
	}
	return true
}

// A call of undo that fails is told, and the next undo puts back what is left.
func TestNthCallOfRestoreFails(t *testing.T) {
	for i, s := range steps {
		for n := 1; ; n++ {
			m := newModel()
			d := m.driver()
			have, err := d.Changes(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Apply(t.Context(), s, nil); err != nil {
				t.Fatal(err)
			}
			entries := []plan.Entry{{Kind: have[0].Kind, Path: have[0].Path, Old: have[0].Value, New: have[0].Will}}
			m.failAt, m.err = m.calls+n, unix.EIO
			err = d.Restore(t.Context(), entries)[0]
			if m.calls < m.failAt {
				if err != nil || n < 3 {
					t.Errorf("step %d: %d calls, %v", i, n-1, err)
				}
				break
			}
			if err == nil && s.Kind != plan.SetUnit { // systemd's file is read again until it follows
				t.Errorf("step %d: call %d failed and Restore did not", i, n)
			}
			if err := d.Restore(t.Context(), entries)[0]; err != nil || !cmp.Equal(before, m.files) {
				t.Errorf("step %d, call %d: the second undo: %v, %s", i, n, err, cmp.Diff(before, m.files))
			}
		}
	}
}

func TestWhatDoesNotComeOut(t *testing.T) {
	m := newModel()
	m.stuck = true
	if err := m.driver().Apply(t.Context(), steps[1], nil); err == nil || !strings.Contains(err.Error(), "someone else") {
		t.Error(err)
	}
	m = newModel()
	m.most = "100"
	if err := m.driver().Apply(t.Context(), steps[4], nil); err == nil || !strings.Contains(err.Error(), "100 pages instead of 512") || m.files[pool] != "0" {
		t.Error(err, m.files[pool])
	}
	m = newModel()
	m.lazy = true
	if err := m.driver().Apply(t.Context(), steps[0], nil); err == nil || !strings.Contains(err.Error(), "does not follow") || !m.units["a-b.slice"].Empty() {
		t.Error(err, m.units)
	}
	m = newModel()
	m.failAt, m.err = 3, unix.EIO // the write
	if err := m.driver().Apply(t.Context(), steps[6], nil); !errors.Is(err, plan.ErrFixed) {
		t.Error(err)
	}
	m = newModel()
	m.files["sys/kernel/irq/9/actions"] = "eth7"
	if err := m.driver().Apply(t.Context(), steps[6], nil); !kernfile.Gone(err) || m.files["proc/irq/9/smp_affinity_list"] != "0-7" {
		t.Error(err)
	}
}

// An interrupt whose number is another's by now is not touched by undo, and what stands
// as it was is not written again.
func TestRestoreLeavesAlone(t *testing.T) {
	m := newModel()
	e := plan.Entry{Kind: plan.HostIRQ, Path: "9/acpi, i/o", Old: "0-3", New: "1"}
	m.files["sys/kernel/irq/9/actions"] = "eth7"
	if err := m.driver().Restore(t.Context(), []plan.Entry{e})[0]; !kernfile.Gone(err) || m.files["proc/irq/9/smp_affinity_list"] != "0-7" {
		t.Error(err, m.files["proc/irq/9/smp_affinity_list"])
	}
	m = newModel()
	e.Old = "0-7"
	if err := m.driver().Restore(t.Context(), []plan.Entry{e})[0]; err != nil || m.calls != 2 { // whose it is, and its value
		t.Errorf("%v after %d calls", err, m.calls)
	}
}

// A path out of a journal leads to no other file, and a value to no other text.
func TestOnlyWhatIsKnown(t *testing.T) {
	for _, s := range []plan.Step{
		to(plan.SetFile, "etc/passwd", "1"), to(plan.SetFile, "proc/sys/kernel/panic", "1"), to(plan.SetFile, "sys/devices/system/node/node1/../../x", "1"),
		to(plan.SetFile, "/"+hostprep.KSM, "1"), to(plan.SetIRQ, "../9/x", "1"), to(plan.SetIRQ, "9", "1"), to(plan.SetUnit, "x.service", "1"),
		to(plan.SetUnit, "../a.slice", "1"), to(plan.SetFile, hostprep.KSM, "x"), to(plan.SetFile, hostprep.THP, "a\nb"), to(plan.SetFile, hostprep.Workqueue, ""),
		to(plan.SetFile, hostprep.Workqueue, "x"), to(plan.SetUnit, "a-b.slice", ""), to(plan.SetUnit, "a-b.slice", "x"), to(plan.SetIRQ, "9/acpi, i/o", "1-"),
		to(plan.SetCPUs, "a.slice", "0"), {Kind: plan.SetFile, Target: plan.Target{Kind: workload.InCgroup, Host: hostprep.KSM}, To: "1"},
	} {
		m := newModel()
		if err := m.driver().Apply(t.Context(), s, nil); err == nil || m.calls > 0 {
			t.Errorf("%+v: %v after %d calls", s, err, m.calls)
		}
	}
}

// On a disk nothing is created.
func TestDiskCreatesNothing(t *testing.T) {
	root := t.TempDir()
	if err := New(root, Systemd{}).Apply(t.Context(), steps[3], nil); !kernfile.Gone(err) {
		t.Error(err)
	}
}

// What somebody else has set since is theirs (R2). The same in other words is not
// another value.
func TestSetBySomebodyElse(t *testing.T) {
	const cgroup = "sys/fs/cgroup/a.slice/a-b.slice/cpuset.cpus"
	for i, c := range []struct {
		alike, foreign map[string]string // files; the one of a unit stands for systemctl
		read           string            // of foreign
	}{
		{nil, map[string]string{"unit": "2"}, "2"},
		{map[string]string{hostprep.Workqueue: "00000003"}, map[string]string{hostprep.Workqueue: "1"}, "1"},
		{map[string]string{hostprep.DefaultIRQ: "2,1"}, map[string]string{hostprep.DefaultIRQ: "2,00000000"}, "2,00000000"},
		{nil, map[string]string{hostprep.KSM: "2"}, "2"},
		{nil, map[string]string{pool: "511"}, "511"},
		{nil, map[string]string{hostprep.THP: "[always] madvise never"}, "always"},
		{map[string]string{"proc/irq/9/smp_affinity_list": "1-1"}, map[string]string{"proc/irq/9/smp_affinity_list": "1-2"}, "1-2"},
		{nil, map[string]string{cgroup: "3"}, "3"}, // behind systemd's back
	} {
		step := steps[i%len(steps)]
		m := newModel()
		d := m.driver()
		have, err := d.Changes(t.Context(), step)
		if err != nil || len(have) != 1 || !slices.Contains(d.Owns(), have[0].Kind) || d.SurvivesBoot(have[0].Kind) {
			t.Fatal(have, err)
		}
		e := plan.Entry{Kind: have[0].Kind, Path: have[0].Path, Old: have[0].Value, New: have[0].Will}
		check := func(value string, ours bool) {
			t.Helper()
			now, err := d.Read(t.Context(), e)
			if err != nil || now.Kind != e.Kind || now.Path != e.Path || now.Value != value || e.Ours(now) != ours {
				t.Errorf("%s: %+v %v, ours %v; want %q, %v", e.Path, now, err, e.Ours(now), value, ours)
			}
		}
		check(e.Old, true)
		if err := d.Apply(t.Context(), step, nil); err != nil {
			t.Fatal(err)
		}
		check(step.To, true)
		maps.Copy(m.files, c.alike)
		check(step.To, true)
		for file, text := range c.foreign {
			m.files[file] = text
			if file == "unit" {
				m.units["a-b.slice"], _ = topology.ParseCPUSet(text)
				m.files[cgroup] = text
			}
		}
		check(c.read, false)
	}
	if now, err := newModel().driver().Read(t.Context(), plan.Entry{Kind: plan.HostFile, Path: "etc/passwd"}); err == nil {
		t.Errorf("%+v of a file that is none of these", now)
	}
}

// Every call of reading fails once: that is an error and no value.
func TestEachCallOfReadingFailing(t *testing.T) {
	for _, step := range steps {
		have, err := newModel().driver().Changes(t.Context(), step)
		if err != nil {
			t.Fatal(err)
		}
		e := plan.Entry{Kind: have[0].Kind, Path: have[0].Path, Old: have[0].Value, New: have[0].Will}
		for what, read := range map[string]func(*Driver) error{
			"Changes": func(d *Driver) error { _, err := d.Changes(t.Context(), step); return err },
			"Apply":   func(d *Driver) error { return d.Apply(t.Context(), step, nil) },
			"Read":    func(d *Driver) error { _, err := d.Read(t.Context(), e); return err },
		} {
			m := newModel()
			m.failAt, m.err = 1, unix.EIO
			if err := read(m.driver()); !errors.Is(err, unix.EIO) {
				t.Errorf("%s of %s: %v", what, e.Path, err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			m = newModel()
			if _, err := m.driver().Read(ended, e); !errors.Is(err, context.Canceled) || m.calls > 0 {
				t.Errorf("%v after %d calls without time", err, m.calls)
			}
		}
		if m := newModel(); e.Kind != plan.UnitCPUs {
			m.failAt, m.err = 1, unix.EIO
			if err := m.driver().Present(e); !errors.Is(err, unix.EIO) {
				t.Errorf("present: %v", err)
			}
		}
	}
}

func TestUnits(t *testing.T) {
	const cgroup = "sys/fs/cgroup/a.slice/a-b.slice/cpuset.cpus"
	unit := to(plan.SetUnit, "a-b.slice", "1,0")
	m := newModel()
	have, err := m.driver().Changes(t.Context(), unit)
	if err != nil || have[0].Will != "0-1" {
		t.Errorf("%+v %v", have, err)
	}
	if have, err := m.driver().Changes(t.Context(), to(plan.SetFile, hostprep.Workqueue, "1,0")); err != nil || have[0].Will != "0-1" {
		t.Errorf("%+v %v", have, err)
	}
	e := plan.Entry{Kind: plan.UnitCPUs, Path: "a-b.slice", New: "0-1"}
	m.files[cgroup] = "3" // of a unit that systemd does not restrict: another's, and nothing of homenode's stands
	if now, err := m.driver().Read(t.Context(), e); err != nil || now.Value != "" {
		t.Errorf("%+v %v", now, err)
	}
	// systemd turns the controller off where nothing needs it.
	if err := m.driver().Apply(t.Context(), unit, nil); err != nil {
		t.Fatal(err)
	}
	m.lazy = true
	delete(m.files, cgroup)
	if err := m.driver().Restore(t.Context(), []plan.Entry{e})[0]; err != nil || !m.units["a-b.slice"].Empty() {
		t.Errorf("%v, %v", err, m.units)
	}
	if err := m.driver().Apply(t.Context(), unit, nil); err == nil {
		t.Error("CPUs hold where there is no controller")
	}
	// Waiting for systemd ends with the context.
	d := m.driver()
	d.follow = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := d.followed(ctx, setting{kind: plan.UnitCPUs, path: "a-b.slice"}, "0-1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// Only a write to an interrupt that the kernel refuses says that nobody can change it.
func TestFixed(t *testing.T) {
	irq, file := setting{kind: plan.HostIRQ, path: "9/x"}, setting{kind: plan.HostFile, path: hostprep.KSM}
	for _, c := range []struct {
		s     setting
		op    string
		errno error
		fixed bool
		says  string
	}{
		{irq, "write", unix.EPERM, true, "interrupt 9/x is kept by the kernel"},
		{irq, "write", unix.EIO, true, "input/output error"},
		{irq, "write", unix.ENOSPC, false, "no interrupt vector left"},
		{irq, "open", unix.EPERM, false, "needs root"},
		{irq, "open", unix.EACCES, false, "needs root"},
		{file, "write", unix.EPERM, false, "needs root"},
		{file, "open", unix.EROFS, false, "read-only"},
	} {
		err := refused(c.s, "1", &fs.PathError{Op: c.op, Err: c.errno})
		if errors.Is(err, plan.ErrFixed) != c.fixed || !strings.Contains(err.Error(), c.says) || !c.fixed && !errors.Is(err, c.errno) {
			t.Errorf("%s of %s says %v: %v", c.op, c.s.path, c.errno, err)
		}
	}
	for _, number := range []string{"9223372036854775808", "-1", "0x1", ""} {
		if _, _, err := wanted(to(plan.SetFile, hostprep.KSM, number)); err == nil {
			t.Errorf("%q is a number", number)
		}
	}
}

// TestStopUnit: systemd is asked to stop services and scopes and nothing else, and there is
// nothing to be put back.
func TestStopUnit(t *testing.T) {
	m := newModel()
	d := m.driver()
	step := func(unit string) plan.Step {
		return plan.Step{Kind: plan.StopUnit, Workload: "/system.slice/" + workload.ID(unit), Target: plan.Target{Kind: workload.InHost, Host: unit}}
	}
	for _, unit := range []string{"", ".service", "system.slice", "a/b.service", "../a.service", "a b.service", "init.scope", "dbus.socket", "a.service\n"} {
		if _, err := d.Changes(t.Context(), step(unit)); err == nil || d.Apply(t.Context(), step(unit), nil) == nil || len(m.stopped) > 0 {
			t.Errorf("%q is stopped: %v", unit, m.stopped)
		}
	}
	const unit = `encode@1-\x2d.service`
	if changes, err := d.Changes(t.Context(), step(unit)); err != nil || len(changes) > 0 {
		t.Errorf("%v, %v", changes, err)
	}
	if err := d.Apply(t.Context(), step(unit), nil); err != nil || len(m.stopped) != 1 || m.stopped[0] != unit {
		t.Errorf("%v: %v", err, m.stopped)
	}
}

// TestFilesOfCPUs: the settings of single CPUs and no other files below them.
func TestFilesOfCPUs(t *testing.T) {
	for path, want := range map[string]form{
		"sys/devices/system/cpu/cpu3/power/pm_qos_resume_latency_us":              number,
		"sys/devices/system/cpu/cpu12/cpufreq/scaling_governor":                   word,
		"sys/devices/system/cpu/cpu12/cpufreq/energy_performance_preference":      word,
		"sys/devices/system/cpu/cpu12/cpufreq/scaling_max_freq":                   -1,
		"sys/devices/system/cpu/cpu/../../../../etc/passwd":                       -1,
		"sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us/../../online": -1,
		"sys/devices/system/cpu/cpu123456/power/pm_qos_resume_latency_us":         -1,
		"sys/devices/virtual/workqueue/cpumask_requested":                         -1,
		"sys/kernel/mm/mempolicy/weighted_interleave/node2":                       number,
		"sys/kernel/mm/mempolicy/weighted_interleave/auto":                        word,
		"sys/kernel/mm/mempolicy/weighted_interleave/node2/../../../../etc":       -1,
		"sys/kernel/mm/mempolicy/weighted_interleave/other":                       -1,
	} {
		s, err := parse(plan.HostFile, path)
		if ok := err == nil; ok != (want >= 0) || ok && s.form != want {
			t.Errorf("%s: %v, %v", path, s.form, err)
		}
	}
}
