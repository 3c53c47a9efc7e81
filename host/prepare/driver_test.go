package prepare

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
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
	err    error
	stuck  bool   // what is written is accepted and does not come
	most   string // huge pages there are in one piece
	lazy   bool   // systemd never writes the cgroup
}

func newModel() *model {
	m := &model{files: map[string]string{}, units: map[string]topology.CPUSet{}}
	for name, text := range before {
		m.files[name] = text
	}
	return m
}

func (m *model) fails(op, name string) error {
	if m.calls++; m.calls == m.failAt {
		return &fs.PathError{Op: op, Path: name, Err: m.err}
	}
	return nil
}

func (m *model) read(name string) (string, error) {
	if err := m.fails("read", name); err != nil {
		return "", err
	}
	text, ok := m.files[name]
	if !ok {
		return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return text, nil
}

func (m *model) write(name, text string) error {
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
	var have []plan.Setting
	for _, s := range steps {
		x, err := d.Settings(t.Context(), s)
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
			if err := errors.Join(d.Present(e), d.Restore(t.Context(), e)); err != nil {
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
			for n := 1; ; n++ {
				m := newModel()
				m.failAt, m.err = n, errno
				err := m.driver().Apply(t.Context(), s, nil)
				if m.calls < n {
					if err != nil {
						t.Fatal(err)
					}
					if n < 3 {
						t.Errorf("step %d: only %d calls", i, n-1)
					}
					break
				}
				if err == nil && s.Kind != plan.SetUnit { // systemd's file is read again until it follows
					t.Fatalf("step %d: call %d failed with %v and Apply did not", i, n, errno)
				}
				if err != nil && !cmp.Equal(before, m.files) && !strings.Contains(err.Error(), "put back") {
					t.Errorf("step %d, call %d, %v: changed and not told: %v", i, n, errno, err)
				}
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
	if err := m.driver().Apply(t.Context(), steps[6], nil); !gone(err) || m.files["proc/irq/9/smp_affinity_list"] != "0-7" {
		t.Error(err)
	}
}

// A path out of a journal leads to no other file, and a value to no other text.
func TestOnlyWhatIsKnown(t *testing.T) {
	for _, s := range []plan.Step{
		to(plan.SetFile, "etc/passwd", "1"), to(plan.SetFile, "proc/sys/kernel/panic", "1"), to(plan.SetFile, "sys/devices/system/node/node1/../../x", "1"),
		to(plan.SetFile, "/"+hostprep.KSM, "1"), to(plan.SetIRQ, "../9/x", "1"), to(plan.SetIRQ, "9", "1"), to(plan.SetUnit, "x.service", "1"),
		to(plan.SetUnit, "../a.slice", "1"), to(plan.SetFile, hostprep.KSM, "x"), to(plan.SetFile, hostprep.THP, "a\nb"), to(plan.SetFile, hostprep.Workqueue, ""),
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
	if err := New(root, Systemd{}).Apply(t.Context(), steps[3], nil); !gone(err) {
		t.Error(err)
	}
	if err := (disk{root}).write("x", "1"); err == nil {
		t.Error("a file was made")
	}
	if err := os.WriteFile(filepath.Join(root, "x"), []byte("long text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (disk{root}).write("x", "1\n"); err != nil {
		t.Error(err)
	}
	if got, err := (disk{root}).read("x"); got != "1" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
