package observe

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/observe/files"
)

// R9: what a process or whoever made a cgroup chose for a name is shown as text. IDs are
// paths and stay as they are.
func TestNamesArePrintable(t *testing.T) {
	m := newFake()
	m.proc(100, 1, "\x1b[2J\x1b[31mroot", "/", 100*mib)
	m.service("/a\x1b]52;c;cm0=\a.service", 101, "a", 100*mib)
	m.service("/line\\x0a\\x1b[31m\\x2dend.service", 102, "b", 100*mib)
	m.service("/caf\\xc3\\xa9\\xff.service", 103, "c", 100*mib)
	m.service("/docker-0123456789abcdef0123456789abcdef.scope", 104, "\x1bc", 100*mib)
	r := newRig(t, m, Options{})
	r.fs.fail = func(name string) error {
		if strings.HasSuffix(name, "/cpu.stat") {
			return fs.ErrPermission
		}
		return nil
	}
	s := r.look()
	got := map[workload.ID]string{}
	for _, o := range s.Observations {
		got[o.ID] = o.Name
	}
	for id, want := range map[workload.ID]string{
		"pid:100":                                        `\x1b[2J\x1b[31mroot`,
		"/a\x1b]52;c;cm0=\a.service":                     `a\x1b]52;c;cm0=\x07`,
		`/line\x0a\x1b[31m\x2dend.service`:               `line\x0a\x1b[31m-end`,
		`/caf\xc3\xa9\xff.service`:                       `café\xff`,
		"/docker-0123456789abcdef0123456789abcdef.scope": `\x1bc 0123456789ab`,
	} {
		if got[id] != want {
			t.Errorf("%q: name %q, want %q", id, got[id], want)
		}
	}
	for _, p := range s.Problems {
		if strings.ContainsFunc(p.Subject+p.Text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("problem %q", p)
		}
	}
	if len(s.Problems) == 0 {
		t.Error("no problem")
	}
}

// What systemd escaped in a unit's name is undone; what only looks like it stays.
func TestUnescapeUnit(t *testing.T) {
	for name, want := range map[string]string{
		`a\x2db`: "a-b", `a\x2d`: "a-", `\x2d\x2D`: "--", `a\x2`: `a\x2`, `a\x`: `a\x`, `a\`: `a\`, `a\y2d`: `a\y2d`, `a\xzz`: `a\xzz`, `x2d`: "x2d", `\\x41`: `\A`, "": "",
	} {
		if got := workload.UnescapeUnit(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for s, want := range map[string]bool{"0123456789abcdef": true, "g": false, "A": false, "0a/": false, ":": false, "`": false, "": true} {
		if got := isHex(s); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}

// A workload is named after its unit, a container without a name in its path after its
// largest process.
func TestName(t *testing.T) {
	const hex = "0123456789abcdef0123456789abcdef"
	for path, want := range map[string]string{
		"/a.service": "a", "/a.slice/b.scope": "b", "/b.slice": "b", "/c": "c", "/a-b.service": "a-b", "/d.timer": "d.timer",
		`/machine.slice/machine-qemu\x2d1\x2dvm.scope/libvirt`: "qemu-1-vm", "/a.service/payload": "a", "/a.service/container": "a", "/a.service/supervisor": "a", "/a.service/other": "other",
		"/" + hex: "large 0123456789ab", "/docker-" + hex + ".scope": "large 0123456789ab", "/docker-" + hex[1:] + ".scope": "docker-" + hex[1:], "/cri:x-" + hex: "cri:x-" + hex, "/docker-" + hex + "x": "docker-" + hex + "x",
	} {
		w := &work{leaf: &leaf{path: path}, procs: []*process{{comm: "small", rss: 1}, {comm: "large", rss: 2, huge: 2}, {comm: "middle", rss: 3}}}
		if got := w.name(); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := (&work{root: &process{comm: "a\x1b"}}).name(); got != `a\x1b` {
		t.Errorf("%q", got)
	}
}

// R4: a cgroup whose path is longer than system calls take is no place to hide in, and its
// path is no burden either: the history has it in each line, and the store takes no key of
// more than 32 KiB.
func TestLongPaths(t *testing.T) {
	m, dir := newFake(), t.TempDir()
	m.write(t, dir)
	// Made and filled folder by folder, since nothing takes the whole path.
	at, err := unix.Open(filepath.Join(dir, "sys/fs/cgroup"), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("x", 250)
	id := ""
	for range 20 {
		if err := unix.Mkdirat(at, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(at)
		if at = next; len(id+"/"+name) <= longestPath {
			id += "/" + name
		}
		writeFile(t, fmt.Sprintf("/proc/self/fd/%d/cgroup.procs", at), "")
	}
	defer unix.Close(at)
	m.service("/hidden", 100, "miner", 200*mib)
	for file, text := range m.files() {
		if base, ok := strings.CutPrefix(file, "sys/fs/cgroup/hidden/"); ok {
			if err := os.WriteFile(filepath.Join(fmt.Sprintf("/proc/self/fd/%d", at), base), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if strings.HasPrefix(file, "proc/100/") {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(dir, file), text)
		}
	}
	before := descriptors(t)
	o := New(files.Root(dir), Options{Host: m.host, Free: func(fsys fs.FS, _ *topology.Host) (*topology.Host, error) { return m.host(fsys) }, PageSize: 4})
	for range 3 {
		s, err := o.Look(context.Background(), control.Attention{})
		if err != nil || ids(s) != id {
			t.Fatalf("%d workloads, problems %v, %v", len(s.Observations), s.Problems, err)
		}
		if got := s.Observations[0]; workload.Total(got.Memory) != 200*mib || got.CgroupID == 0 {
			t.Errorf("memory %v, cgroup %d", got.Memory, got.CgroupID)
		}
	}
	if after := descriptors(t); after > before+20+2+3 { // a look keeps one file of each cgroup open, and three of a leaf
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// A cgroup that was removed and made again under the same path is another one.
func TestCgroupMadeAgain(t *testing.T) {
	m, dir := newFake(), t.TempDir()
	m.service("/a.service", 100, "a", 200*mib)
	m.write(t, dir)
	o := New(files.Root(dir), Options{Host: m.host, Free: func(fsys fs.FS, _ *topology.Host) (*topology.Host, error) { return m.host(fsys) }, PageSize: 4})
	now := time.Unix(1_700_000_000, 0)
	o.opts.Now = func() time.Time { return now }
	look := func() workload.Observation {
		now = now.Add(2 * time.Second)
		s, err := o.Look(context.Background(), control.Attention{})
		if err != nil {
			t.Fatal(err)
		}
		return find(t, s, "/a.service")
	}
	first := look()
	if again := look(); first.CgroupID == 0 || again.CgroupID != first.CgroupID || again.Window == 0 {
		t.Errorf("%d, then %d, window %v", first.CgroupID, again.CgroupID, again.Window)
	}
	old := filepath.Join(dir, "sys/fs/cgroup/a.service")
	if err := os.Rename(old, filepath.Join(t.TempDir(), "old")); err != nil { // so that its inode is not used again
		t.Fatal(err)
	}
	m.write(t, dir)
	if other := look(); other.CgroupID == 0 || other.CgroupID == first.CgroupID || other.Window != 0 {
		t.Errorf("%d, before %d; window %v", other.CgroupID, first.CgroupID, other.Window)
	}
}

// R20: what a partition takes is no longer a workload's to use.
func TestPartitionTakesCPUs(t *testing.T) {
	m := newFake()
	g, _ := m.service("/app.service", 100, "app", 200*mib)
	g.cpus = "0-1"
	r := newRig(t, m, Options{})
	if o := find(t, r.look(), "/app.service"); o.CPUs.String() != "0-1" {
		t.Errorf("CPUs %s", o.CPUs)
	}
	g.cpus = "0" // the partition beside it has 1
	if o := find(t, r.after(cpusetEvery), "/app.service"); o.CPUs.String() != "0" || o.Pinned {
		t.Errorf("CPUs %s, pinned %v", o.CPUs, o.Pinned)
	}
}

// A container is called as its engine calls it, wherever below its cgroup its processes are.
func TestContainersHaveNames(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	o := &Observer{opts: Options{Container: func(x string) string {
		if x == id {
			return "web"
		}
		return ""
	}}}
	for cgroup, want := range map[string]string{"/system.slice/docker-" + id + ".scope": "web", "/machine.slice/libpod-" + id + ".scope/container": "web", "/docker/" + id: "web", "/system.slice/x.service": "x",
		"/user.slice/user-1000.slice/user@1000.service/docker-" + id + ".scope": "sh 0123456789ab"} { // any user may call a cgroup so
		if got := o.nameOf(&work{leaf: &leaf{path: cgroup}, procs: []*process{{comm: "sh"}}}); got != want {
			t.Errorf("%s is called %q, want %q", cgroup, got, want)
		}
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
