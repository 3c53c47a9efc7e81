package resctrl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/workload"
)

// model is a machine with resctrl as the kernel has it (fs/resctrl/rdtgroup.c), as far as is needed.
type model struct {
	files   map[string]string
	groups  map[string]string // schemata by folder
	in      map[int]string    // folder of the group that each thread is in
	cgroups map[string][]int
	classes int
	fresh   string                // schemata that a new group has; "" where that is the default group's
	bounds  func(v uint64) uint64 // what the kernel makes of a value of MB; nil where it keeps all values
	calls   int
	fault   func(call int, what string) error
}

func newModel() *model {
	m := &model{classes: 4, in: map[int]string{}, groups: map[string]string{mount: "MB:0=100;1=100\nL3:0=7ff;1=7ff\n"},
		files: map[string]string{
			"proc/mounts":               "proc /proc proc rw 0 0\nresctrl /sys/fs/resctrl resctrl rw,relatime 0 0\n",
			mount + "/info/L3/cbm_mask": "7ff\n", mount + "/info/L3/min_cbm_bits": "1\n", mount + "/info/L3/shareable_bits": "600\n",
			mount + "/info/MB/min_bandwidth": "10\n", mount + "/info/MB/bandwidth_gran": "10\n", mount + "/info/last_cmd_status": "ok\n",
		},
		cgroups: map[string][]int{"/encode": {11, 12, 13}, "/train": {21}}}
	for tid := range 30 {
		m.in[tid] = mount
	}
	m.in[13] = mount + "/theirs"
	return m
}

func (m *model) state() string { return fmt.Sprint(m.groups, m.in) }

func (m *model) call(what string) error {
	m.calls++
	if m.fault == nil {
		return nil
	}
	return m.fault(m.calls, what)
}

func (m *model) read(name string) (string, error) {
	if err := m.call("read " + name); err != nil {
		return "", err
	}
	dir, file := filepath.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	if s, ok := m.groups[dir]; ok {
		switch file {
		case "schemata":
			return s, nil
		case "tasks":
			var out []string
			for _, tid := range slices.Sorted(maps.Keys(m.in)) {
				if m.in[tid] == dir {
					out = append(out, strconv.Itoa(tid))
				}
			}
			return strings.Join(out, "\n") + "\n", nil
		case "cpus":
			return "0\n", nil
		case "mode":
			return "shareable\n", nil
		}
	}
	if text, ok := m.files[name]; ok {
		return text, nil
	}
	return "", &fs.PathError{Op: "open", Path: name, Err: unix.ENOENT}
}

func (m *model) write(name, text string) error {
	if err := m.call("write " + name); err != nil {
		return err
	}
	dir, file := filepath.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	have, ok := m.groups[dir]
	if !ok {
		return &fs.PathError{Op: "open", Path: name, Err: unix.ENOENT}
	}
	if file == "tasks" {
		tid, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return unix.EINVAL
		}
		m.in[tid] = dir
		return nil
	}
	now, err := parse(have)
	if err != nil {
		return err
	}
	want, err := parse(text)
	if err != nil {
		return unix.EINVAL
	}
	for resource, domains := range want {
		for domain, v := range domains {
			if resource == bandwidth && m.bounds != nil {
				if domains[domain] = m.bounds(v); domains[domain] == 0 {
					return unix.EINVAL
				}
			}
		}
		maps.Copy(now[resource], domains)
	}
	m.groups[dir] = strings.ReplaceAll(now.String(), " ", "\n") + "\n"
	return nil
}

func (m *model) mkdir(name string) error {
	if err := m.call("mkdir " + name); err != nil {
		return err
	}
	if _, ok := m.groups[name]; ok {
		return unix.EEXIST
	}
	if len(m.groups) >= m.classes {
		return unix.ENOSPC
	}
	m.groups[name] = cmp.Or(m.fresh, m.groups[mount])
	return nil
}

func (m *model) rmdir(name string) error {
	if err := m.call("rmdir " + name); err != nil {
		return err
	}
	if _, ok := m.groups[name]; !ok {
		return unix.ENOENT
	}
	delete(m.groups, name)
	for tid, dir := range m.in {
		if dir == name {
			m.in[tid] = mount
		}
	}
	return nil
}

func (m *model) threads(cgroup string) ([]int, string, error) {
	if err := m.call("threads " + cgroup); err != nil {
		return nil, "", err
	}
	tids, ok := m.cgroups[cgroup]
	if !ok {
		return nil, "", fmt.Errorf("cgroup %s: %w", cgroup, fs.ErrNotExist)
	}
	return tids, "5", nil
}

func toGroup(limit share.CacheLimit) plan.Step { return toPart(limit, nil) }

// toPart is toGroup with the measured bandwidth.
func toPart(limit share.CacheLimit, whole share.Bandwidth) plan.Step {
	return plan.Step{Kind: plan.SetCache, Workload: share.CacheID,
		Target: plan.Target{Kind: workload.InCache, Host: share.CacheGroup},
		To:     share.CacheSetting{CacheLimit: limit, Whole: whole}.String()}
}

func into(cgroup string) plan.Step {
	return plan.Step{Kind: plan.SetCacheTasks, Workload: workload.ID(cgroup), Target: plan.Target{Kind: workload.InCache, Cgroup: cgroup}, To: share.CacheGroup}
}

// run does a step as the daemon does, with its entries first.
func run(d *Driver, s plan.Step) ([]plan.Entry, error) {
	changes, err := d.Changes(context.Background(), s)
	if err != nil {
		return nil, err
	}
	var out []plan.Entry
	for _, c := range changes {
		out = append(out, plan.Entry{Kind: c.Kind, Path: c.Path, Old: c.Value, New: c.Will, Object: c.Object, State: plan.Intended})
	}
	return out, d.Apply(context.Background(), s, nil)
}

// TestGroup: the group is made with what it may have in each cache, threads of the default group go
// into it and those of others do not, and all is as before once it is put back.
func TestGroup(t *testing.T) {
	m := newModel()
	before := m.state()
	d, ctx := &Driver{files: m}, context.Background()
	one, err := run(d, toGroup(share.CacheLimit{Cache: 30, Bandwidth: 25}))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.groups[group]; got != "L3:0=7;1=7\nMB:0=30;1=30\n" || one[0].Old != "" || one[0].New != "L3:0=7;1=7 MB:0=30;1=30" {
		t.Errorf("%q, %+v", got, one)
	}
	two, err := run(d, into("/encode"))
	if err != nil || m.in[11] != group || m.in[12] != group || m.in[13] != mount+"/theirs" || m.in[21] != mount {
		t.Errorf("%v, %v", err, m.in)
	}
	for _, d := range []*Driver{d, {files: m}} { // another daemon too
		for _, e := range append(one, two...) {
			if now, err := d.Read(ctx, e); err != nil || now.Value != e.New || !e.Ours(now) {
				t.Errorf("%s reads %+v, %v", e.Path, now, err)
			}
		}
	}
	m.in[12] = mount
	if now, err := d.Read(ctx, two[0]); err != nil || now.Value != "" {
		t.Errorf("a thread outside: %+v, %v", now, err)
	}
	if _, err := run(d, into("/encode")); err != nil || m.in[12] != group {
		t.Error("it stays there", err)
	}
	for _, e := range d.Restore(ctx, two) {
		if e != nil || m.in[11] != mount || m.in[13] != mount+"/theirs" {
			t.Error(e, m.in)
		}
	}
	if _, err := run(d, into("/encode")); err != nil {
		t.Error(err)
	}
	if err := d.Restore(ctx, one)[0]; err != nil || m.state() != before {
		t.Errorf("%v: %s, before %s", err, m.state(), before)
	}
	if err := d.Restore(ctx, one)[0]; err != nil {
		t.Errorf("once more: %v", err)
	}
}

// TestUnmounted: the groups go with the mount, and there is nothing to put back.
func TestGroupOfBefore(t *testing.T) {
	m := newModel()
	d, ctx := &Driver{files: m}, context.Background()
	m.groups[groupBefore] = m.groups[mount] // as version 0.1 called it
	m.in[11], m.in[12] = groupBefore, groupBefore
	made, err := run(d, toGroup(share.CacheLimit{Cache: 30, Bandwidth: 25}))
	if err != nil || m.groups[groupBefore] != "L3:0=7;1=7\nMB:0=30;1=30\n" || m.groups[group] != "" || made[0].Path != share.CacheGroup {
		t.Fatalf("%v, %+v: %s", err, made, m.state())
	}
	in := plan.Entry{Kind: plan.CacheTasks, Path: "/encode", New: share.CacheGroup}
	if now, err := d.Read(ctx, in); err != nil || now.Value != in.New {
		t.Errorf("its threads: %+v, %v", now, err)
	}
	if err := errors.Join(d.Restore(ctx, []plan.Entry{in, made[0]})...); err != nil || m.groups[groupBefore] != "" || m.in[11] != mount {
		t.Errorf("%v: %s", err, m.state())
	}
	if _, err := run(d, toGroup(share.CacheLimit{Cache: 30})); err != nil || m.groups[group] == "" || m.groups[groupBefore] != "" {
		t.Errorf("then: %v: %s", err, m.state())
	}
}

func TestUnmounted(t *testing.T) {
	m := newModel()
	d, ctx := &Driver{files: m}, context.Background()
	one, err := run(d, toGroup(share.CacheLimit{Cache: 30}))
	two, bad := run(d, into("/encode"))
	if err = errors.Join(err, bad); err != nil {
		t.Fatal(err)
	}
	m.files["proc/mounts"], m.groups, m.in = "", map[string]string{}, map[int]string{}
	for _, e := range append(two, one...) {
		if now, err := d.Read(ctx, e); err != nil || now.Value != "" {
			t.Errorf("%s reads %+v, %v", e.Path, now, err)
		}
		if err := d.Restore(ctx, []plan.Entry{e})[0]; err != nil {
			t.Errorf("%s is not put back: %v", e.Path, err)
		}
	}
}

// TestShapes: code and data apart, no bandwidth, bandwidth alone, other units.
func TestShapes(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*model)
		limit  share.CacheLimit
		want   string // schemata, or the error
	}{
		"cdp": {func(m *model) {
			m.groups[mount] = "L3CODE:0=fff\nL3DATA:0=fff\n"
			for _, n := range []string{"L3CODE", "L3DATA"} {
				m.files[mount+"/info/"+n+"/cbm_mask"], m.files[mount+"/info/"+n+"/min_cbm_bits"] = "fff", "2"
			}
		}, share.CacheLimit{Cache: 10}, "L3CODE:0=3\nL3DATA:0=3\n"},
		"cache alone":  {func(*model) {}, share.CacheLimit{Cache: 50}, "L3:0=1f;1=1f\nMB:0=100;1=100\n"},
		"MB alone":     {func(m *model) { m.groups[mount] = "MB:0=100\n" }, share.CacheLimit{Bandwidth: 20}, "MB:0=20\n"},
		"no MB":        {func(m *model) { m.groups[mount] = "L3:0=7ff\n" }, share.CacheLimit{Bandwidth: 20}, "MB: needs a processor"},
		"no L3":        {func(m *model) { m.groups[mount] = "MB:0=100\n" }, share.CacheLimit{Cache: 20}, "L3: needs a processor"},
		"not mounted":  {func(m *model) { m.files["proc/mounts"] = "" }, share.CacheLimit{Cache: 30}, "resctrl: needs to be mounted (mount -t resctrl"},
		"elsewhere":    {func(m *model) { m.files["proc/mounts"] = "resctrl /mnt resctrl rw 0 0" }, share.CacheLimit{Cache: 30}, "resctrl: needs to be mounted"},
		"read-only":    {func(m *model) { m.files["proc/mounts"] = "resctrl /sys/fs/resctrl resctrl ro 0 0" }, share.CacheLimit{Cache: 30}, "read-only"},
		"unknown mode": {func(m *model) { m.files["proc/mounts"] = "resctrl /sys/fs/resctrl resctrl rw,mba_X 0 0" }, share.CacheLimit{Cache: 30}, `has "mba_X"`},
		"no CLOSID":    {func(m *model) { m.classes = 1 }, share.CacheLimit{Cache: 30}, "all classes of service (num_closids) are used"},
		"bad file":     {func(m *model) { m.files[mount+"/info/L3/cbm_mask"] = "x" }, share.CacheLimit{Cache: 30}, `info/L3/cbm_mask: "x" is no number`},
	} {
		m := newModel()
		tt.change(m)
		before := m.state()
		_, err := run(&Driver{files: m}, toGroup(tt.limit))
		if err == nil && m.groups[group] != tt.want || err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %q, %v", name, m.groups[group], err)
		}
		if err != nil && (m.state() != before || errors.Is(err, fs.ErrNotExist)) {
			t.Errorf("%s: %v, and it left %s", name, err, m.state())
		}
	}
}

// TestTheirs: a group of the name that somebody has set reads as such; one that was made just
// before a daemon was killed as nothing.
func TestTheirs(t *testing.T) {
	m := newModel()
	m.groups[group] = m.groups[mount]
	changes, err := (&Driver{files: m}).Changes(context.Background(), toGroup(share.CacheLimit{Cache: 30}))
	if err != nil || changes[0].Value != "" {
		t.Errorf("just made: %+v, %v", changes, err)
	}
	m.in[5] = group
	if changes, err = (&Driver{files: m}).Changes(context.Background(), toGroup(share.CacheLimit{Cache: 30})); err != nil || changes[0].Value == "" {
		t.Errorf("with tasks: %+v, %v", changes, err)
	}
	delete(m.in, 5)
	m.groups[group] = "L3:0=f;1=f\nMB:0=100;1=100\n"
	if changes, err = (&Driver{files: m}).Changes(context.Background(), toGroup(share.CacheLimit{Cache: 30})); err != nil || changes[0].Value != "L3:0=f;1=f MB:0=100;1=100" {
		t.Errorf("with a mask: %+v, %v", changes, err)
	}
}

// TestDomains: a cache that went is no change by somebody else, one that came is not limited yet.
func TestDomains(t *testing.T) {
	m := newModel()
	d := &Driver{files: m}
	entries, err := run(d, toGroup(share.CacheLimit{Cache: 30}))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"L3:0=7\nMB:0=100\n": entries[0].New, "L3:0=7;1=7;2=7ff\nMB:0=100;1=100;2=100\n": "", "L3:0=1;1=7\nMB:0=100;1=100\n": "L3:0=1;1=7 MB:0=100;1=100"} {
		m.groups[group] = text
		if now, err := d.Read(context.Background(), entries[0]); err != nil || now.Value != want {
			t.Errorf("%q reads %q, %v", text, now.Value, err)
		}
	}
}

// TestEachCallFailing: every call fails once, for each of several causes. What fails never looks
// gone, a first write that failed leaves nothing, and whatever was left is put back.
func TestEachCallFailing(t *testing.T) {
	ctx := context.Background()
	for i, errno := range slices.Repeat([]unix.Errno{unix.EIO, unix.EACCES, unix.EINVAL, unix.ENOSPC, unix.ENOENT,
		unix.ENODEV, unix.EBUSY}, 2) {
		machine := []func() *model{newModel, newAMD}[i%2]
		for n := 1; ; n++ {
			m := machine()
			before := m.state()
			d := &Driver{files: m}
			steps := []plan.Step{toPart(share.CacheLimit{Cache: 30, Bandwidth: 50}, both), into("/encode"),
				toPart(share.CacheLimit{Cache: 15, Bandwidth: 20}, both)}
			at := ""
			m.fault = func(call int, what string) error {
				if call == n {
					at = what
					return errno
				}
				return nil
			}
			var entries []plan.Entry
			for i, s := range steps {
				had := m.state()
				got, err := run(d, s)
				if i < 2 {
					entries = append(entries, got...)
				}
				if err != nil && s.Kind == plan.SetCache && (errors.Is(err, fs.ErrNotExist) || m.state() != had && m.groups[group] != "" && i == 0) {
					t.Errorf("%s fails with %v: %v, left %s", at, errno, err, m.state())
				}
				if err != nil && strings.Contains(err.Error(), "\n") {
					t.Errorf("%s fails with %v: more than a line: %v", at, errno, err)
				}
			}
			m.fault = nil
			slices.Reverse(entries)
			for i, err := range d.Restore(ctx, entries) {
				if err != nil {
					t.Errorf("%s failed with %v: %s is not put back: %v", at, errno, entries[i].Path, err)
				}
			}
			if len(entries) == 2 && m.state() != before {
				t.Errorf("%s failed with %v: left %s", at, errno, m.state())
			}
			if at == "" {
				break
			}
		}
	}
}

// TestTree: the files of a real tree: threads of a cgroup and below it, names, and what is missing.
func TestTree(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"sys/fs/cgroup/a/cgroup.threads": "1\n2\n", "sys/fs/cgroup/a/b/cgroup.threads": "3\n", "proc/mounts": "x\n"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := tree{root}
	tids, object, err := f.threads("/a")
	if slices.Sort(tids); err != nil || !slices.Equal(tids, []int{1, 2, 3}) || object == "" {
		t.Errorf("%v %s, %v", tids, object, err)
	}
	if _, _, err := f.threads("/gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := f.mkdir("x"); err != nil {
		t.Error(err)
	}
	if err := f.mkdir("x"); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if err := f.rmdir("x"); err != nil {
		t.Error(err)
	}
	if err := f.rmdir("x"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := f.rmdir("proc/mounts"); err == nil {
		t.Error("a file was removed as a folder")
	}
	if _, err := New(root).Changes(context.Background(), toGroup(share.CacheLimit{Cache: 30})); err == nil || !strings.HasPrefix(err.Error(), "resctrl: needs to be mounted") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("    MB:0=100;1=100\n    L3:0=fff;1=fff\n")
	f.Add("L3CODE:0=f\nL2:0=zz")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse(text)
		if err != nil {
			return
		}
		again, err := parse(s.String())
		if err != nil || again.String() != s.String() || !again.agrees(s) {
			t.Errorf("%q is %q, read as %q, %v", text, s, again, err)
		}
	})
}

func FuzzMounted(f *testing.F) {
	f.Add("resctrl /sys/fs/resctrl resctrl rw,relatime 0 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		if o := mounted(text, "/sys/fs/resctrl"); o != nil && !strings.Contains(text, "resctrl") {
			t.Errorf("%q: %q", text, o)
		}
	})
}
