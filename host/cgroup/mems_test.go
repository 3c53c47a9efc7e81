package cgroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
)

// running is slice with the cpuset controller on, and whatever is written of the freezer.
func running(t *testing.T) (*model, *[]string) {
	m := slice(t)
	m.write("/", subtreeControl, "+cpuset")
	m.write("/a", subtreeControl, "+cpuset")
	var writes []string
	m.hook = func(what string) {
		if strings.HasPrefix(what, "write ") {
			writes = append(writes, strings.TrimPrefix(what, "write "))
		}
	}
	return m, &writes
}

// The model itself fails a test that changes memory nodes in effect while processes run.
func TestMemsOfRunningProcesses(t *testing.T) {
	m, writes := running(t)
	var frozen time.Duration
	ctx := plan.WithFrozen(ctx, func(d time.Duration) { frozen += d })
	if err := m.driver().Apply(ctx, step(plan.SetMems, "/a/b", "1"), nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"/a/b cgroup.freeze 1", "/a/b cpuset.mems 1", "/a/b cgroup.freeze 0"}
	if fmt.Sprint(*writes) != fmt.Sprint(want) || frozen <= 0 || frozen > time.Second {
		t.Errorf("%q, frozen for %v", *writes, frozen)
	}
	*writes, frozen = nil, 0
	for _, err := range m.driver().Restore(ctx, []plan.Entry{{Kind: plan.CgroupMems, Path: "/a/b", Old: "", New: "1"}}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if m.get("/a/b", "cpuset.mems.effective") != "0-3" || m.get("/a/b", freezeFile) != "0" || frozen <= 0 {
		t.Errorf("restored by %q", *writes)
	}
}

// Where a write reaches no process nothing is frozen.
func TestMemsWithoutFreezing(t *testing.T) {
	for name, prepare := range map[string]func(m *model) (cgroup, to string){
		"empty": func(m *model) (string, string) { m.mkdir("/a/d"); return "/a/d", "1" },
		"same in effect": func(m *model) (string, string) {
			return "/a/b", "0-3"
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, writes := running(t)
			cgroup, to := prepare(m)
			if err := m.driver().Apply(ctx, step(plan.SetMems, cgroup, to), nil); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(*writes); got != fmt.Sprintf("[%s cpuset.mems %s]", cgroup, to) {
				t.Error(got)
			}
		})
	}
}

func TestMemsRefused(t *testing.T) {
	var notFrozen *NotFrozenError
	var frozen *FrozenError
	var shared *SharedError
	var lacks *plan.UnsupportedError
	for _, c := range []struct {
		name    string
		prepare func(m *model, d *Driver)
		is      any
		says    string
	}{
		{"a process that does not freeze", func(m *model, d *Driver) { m.stuck = map[string]bool{"/a/b": true} }, &notFrozen, "did not freeze within 300ms"},
		{"frozen by another program", func(m *model, d *Driver) { m.put("/a/b", freezeFile, "1") }, &frozen, "another program has frozen it"},
		{"shared memory", func(m *model, d *Driver) { sharing(m, d, "/elsewhere") }, &shared, "process 9 in /elsewhere shares the memory of its process 5"},
		{"a kernel without a freezer", func(m *model, d *Driver) { os.Remove(filepath.Join(m.mount, "a/b", freezeFile)) }, &lacks, "Linux 5.2"},
		{"homenode's own", func(m *model, d *Driver) {
			d.root.(fstest.MapFS)["proc/self/cgroup"] = &fstest.MapFile{Data: []byte("0::/a/b/c\n")}
		}, nil, "homenode itself is in /a/b"},
		{"delegated to the top", func(m *model, d *Driver) { m.delegated = map[string]bool{"/a": true, "/a/b": true} }, nil, "users other than root can thaw it"},
		{"another PID namespace", func(m *model, d *Driver) { m.put("/a/b", "cgroup.procs", "0") }, &lacks, "PID namespace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _ := running(t)
			d := m.driver()
			d.run = t.TempDir()
			c.prepare(m, d)
			before := m.state()
			err := d.Apply(ctx, step(plan.SetMems, "/a/b", "1"), nil)
			if err == nil || c.is != nil && !errors.As(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
			if errors.As(err, &notFrozen) != (errors.Is(err, plan.ErrNoAnswer) && errors.Is(err, plan.ErrNotFrozen)) {
				t.Errorf("%v as an answer", err)
			}
			if after := m.state(); !maps.Equal(before, after) {
				t.Errorf("left %v\nof %v", after, before)
			}
			if left, _ := os.ReadDir(d.run); len(left) > 0 {
				t.Errorf("notes are left: %v", left)
			}
		})
	}
}

// stat is /proc/PID/stat of a process whose memory is laid out from there.
func stat(pid int, at string) *fstest.MapFile {
	text := fmt.Sprintf("%d (a) b) S 1", pid)
	for field := 5; field <= 52; field++ {
		switch {
		case field == 22:
			text += " 777"
		case field >= 26 && field <= 28, field >= 45 && field <= 51:
			text += " " + at
		default:
			text += " 0"
		}
	}
	return &fstest.MapFile{Data: []byte(text + "\n")}
}

// sharing gives process 5 of /a/b an address space that process 9 elsewhere has, too.
func sharing(m *model, d *Driver, elsewhere string) {
	m.put("/a/b", "cgroup.procs", "5")
	root := d.root.(fstest.MapFS)
	root["proc/5/stat"], root["proc/9/stat"] = stat(5, "4096"), stat(9, "4096")
	root["proc/8/stat"], root["proc/7/stat"] = stat(8, "8192"), stat(7, "0")
	root["proc/9/cgroup"] = &fstest.MapFile{Data: []byte("1:name=systemd:/x\n0::" + elsewhere + "\n")}
	d.sameMemory = func(a, b int) (bool, error) {
		if a != 5 || b != 9 {
			m.t.Errorf("compared %d and %d", a, b)
		}
		return true, nil
	}
}

// A child that a process has started since in the same cgroup freezes with it.
func TestMemsSharedInside(t *testing.T) {
	m, _ := running(t)
	d := m.driver()
	sharing(m, d, "/a/b/new")
	if err := d.Apply(ctx, step(plan.SetMems, "/a/b", "1"), nil); err != nil {
		t.Error(err)
	}
}

// The guardian, whose start takes long and which every user can see, stands by before it is asked who
// shares memory: a process may be put into the cgroup since.
func TestMemsSharersAreAskedLast(t *testing.T) {
	m, _ := running(t)
	d := m.driver()
	d.run = t.TempDir()
	var order []string
	d.guardian = func(string, string) (func(), error) {
		order = append(order, "guardian")
		return func() { order = append(order, "end") }, nil
	}
	refused := &SharedError{Cgroup: "/a/b"}
	d.shared = func(context.Context, string) error {
		order = append(order, "shared")
		return refused
	}
	if err := d.Apply(ctx, step(plan.SetMems, "/a/b", "1"), nil); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	if want := []string{"guardian", "shared", "end"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
	if left, err := os.ReadDir(d.run); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Children that one process forked are laid out alike: a user who puts half of them into another
// cgroup makes as many pairs as the square of their number.
func TestMemsOfManyAlike(t *testing.T) {
	const inside, outside = 400, 400
	m, writes := running(t)
	d := m.driver()
	root := d.root.(fstest.MapFS)
	procs := ""
	for pid := 1000; pid < 1000+inside; pid++ {
		procs += fmt.Sprintln(pid)
		root[fmt.Sprintf("proc/%d/stat", pid)] = stat(pid, "4096")
	}
	for pid := 5000; pid < 5000+outside; pid++ {
		root[fmt.Sprintf("proc/%d/stat", pid)] = stat(pid, "4096")
	}
	m.put("/a/b", "cgroup.procs", procs)
	asked := 0
	d.sameMemory = func(int, int) (bool, error) {
		asked++
		return false, nil
	}
	*writes = nil
	err := d.Apply(ctx, step(plan.SetMems, "/a/b", "1"), nil)
	if many := new(ManyAlikeError); !errors.As(err, &many) || many.Inside != inside || many.Outside != outside {
		t.Errorf("error %v", err)
	}
	if asked != 0 || len(*writes) != 0 {
		t.Errorf("the kernel was asked %d times; written: %q", asked, *writes)
	}
}

// The kernel knows vfork's child by the memory that it has of its parent.
func TestSameMemory(t *testing.T) {
	if same, err := sameMemory(os.Getpid(), os.Getpid()); err == nil && !same || err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		t.Errorf("%v %v of itself", same, err)
	}
	if same, err := sameMemory(os.Getpid(), os.Getppid()); err == nil && same {
		t.Error("the same as its parent's")
	}
}

// What others can thaw is frozen from further up.
func TestMemsOfDelegated(t *testing.T) {
	m, writes := running(t)
	m.delegated = map[string]bool{"/a/b": true}
	if err := m.driver().Apply(ctx, step(plan.SetMems, "/a/b", "1"), nil); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(*writes); got != "[/a cgroup.freeze 1 /a/b cpuset.mems 1 /a cgroup.freeze 0]" {
		t.Error(got)
	}
}

// Another program's freeze above stands, and that of homenode comes and goes below it.
func TestMemsBelowFrozen(t *testing.T) {
	m, writes := running(t)
	m.put("/a", freezeFile, "1")
	m.sync()
	if err := m.driver().Apply(ctx, step(plan.SetMems, "/a/b", "1"), nil); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(*writes); m.get("/a", freezeFile) != "1" || strings.Contains(got, "/a cgroup.freeze") {
		t.Error(got)
	}
}

// Every call of changing memory nodes and of restoring them fails once: nothing stays frozen,
// and what another program froze stays so.
func TestFreezeEachCallFailing(t *testing.T) {
	for _, others := range []string{"0", "1"} {
		for n, reached := 1, true; reached; n++ {
			errno := []error{unix.EIO, unix.EINTR, unix.EBUSY, unix.ENODEV, unix.ENOENT}[n%5]
			m, _ := running(t)
			m.put("/a/b", freezeFile, others)
			d := m.driver()
			d.run = t.TempDir()
			m.calls, reached = 0, false
			m.fault = func(call int, what string) error {
				if call == n {
					reached = true
					return errno
				}
				return nil
			}
			_ = d.Apply(ctx, step(plan.SetMems, "/a/b", "1"), nil)
			_ = restore(d, plan.Entry{Kind: plan.CgroupMems, Path: "/a/b", Old: "", New: "1"})
			m.fault = nil
			if now := m.get("/a/b", freezeFile); now != others {
				t.Errorf("call %d fails with %v: cgroup.freeze is %s, another program has set %s", n, errno, now, others)
			}
			if left, _ := os.ReadDir(d.run); len(left) > 0 {
				t.Errorf("call %d fails with %v: notes are left: %v", n, errno, left)
			}
		}
	}
}

// A homenode that was killed left a cgroup frozen: the next one thaws it, and nothing else.
func TestThaw(t *testing.T) {
	m, _ := running(t)
	object, _ := m.object("/a/b")
	for name, c := range map[string]struct {
		note   string // under the name of /a/b
		freeze string // of /a/b afterwards
		gone   bool
	}{
		"left":               {"1 1\n/a/b\n", "0", true},
		"cut":                {"1 1\n/a", "1", true},
		"another under name": {"1 1\n/a/c\n", "1", true},
		"gone":               {"1 1\n/a/x\n", "1", true},
		"no path":            {"1 1\n../b\n", "1", true},
		"of one that lives":  {"9 777\n/a/b\n", "1", false},
		"empty":              {"", "1", true},
	} {
		t.Run(name, func(t *testing.T) {
			d := m.driver()
			d.run = t.TempDir()
			d.root.(fstest.MapFS)["proc/9/stat"] = stat(9, "1")
			m.put("/a/b", freezeFile, "1")
			m.put("/a/c", freezeFile, "1") // by another program
			if err := os.WriteFile(filepath.Join(d.run, object), []byte(c.note), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := d.Thaw(); err != nil { // one that lives thaws it itself
				t.Error(err)
			}
			left, _ := os.ReadDir(d.run)
			if now := m.get("/a/b", freezeFile); now != c.freeze || m.get("/a/c", freezeFile) != "1" || (len(left) == 0) != c.gone {
				t.Errorf("cgroup.freeze is %s, notes %v", now, left)
			}
		})
	}
}

// Two writes at once: the second waits until the first has thawed.
func TestFreezesTakeTurns(t *testing.T) {
	m, _ := running(t)
	d := m.driver()
	free, err := d.alone(ctx, "/a")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"/a", "/a/b"} {
		done := make(chan struct{})
		go func() {
			free, err := d.alone(ctx, at)
			if err == nil {
				free()
			}
			close(done)
		}()
		select {
		case <-done:
			t.Errorf("%s is frozen beside /a", at)
		case <-time.After(20 * time.Millisecond):
		}
	}
	other, err := d.alone(ctx, "/ab")
	if err != nil {
		t.Fatal(err)
	}
	other()
	free()
	if free, err = d.alone(ctx, "/a/b"); err != nil {
		t.Fatal(err)
	}
	free()
}

// A write that takes long keeps the processes frozen for a second at most.
func TestLongWrite(t *testing.T) {
	m, _ := running(t)
	d := m.driver()
	s := &slowly{files: m}
	s.pages = func() {
		for i := 0; i < 500; i++ {
			if now, _ := s.read("/a/b", freezeFile); now == "0" {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	d.files = s
	var frozen time.Duration
	if err := d.Apply(plan.WithFrozen(ctx, func(d time.Duration) { frozen = d }), step(plan.SetMems, "/a/b", "1"), nil); err != nil {
		t.Fatal(err)
	}
	if frozen < frozenMost || frozen > frozenMost+time.Second {
		t.Errorf("frozen for %v", frozen)
	}
}

// The guardian thaws when homenode is killed, and leaves alone what homenode has thawed.
func TestGuardian(t *testing.T) {
	if os.Getenv("CGROUP_TEST_GUARDIAN") != "" {
		args := strings.Split(os.Getenv("CGROUP_TEST_GUARDIAN"), ":")
		if err := Guardian("", "", args, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	for _, c := range []struct {
		name string
		note bool
		want string
	}{{"killed", true, "0"}, {"thawed", false, "1"}} {
		t.Run(c.name, func(t *testing.T) {
			mount, run := t.TempDir(), t.TempDir()
			at := filepath.Join(mount, "a")
			if err := os.Mkdir(at, 0o755); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{controllers: "", "a/" + controllers: "", "a/" + freezeFile: "1\n"} {
				if err := os.WriteFile(filepath.Join(mount, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			object, err := tree{mount}.object("/a")
			if err != nil {
				t.Fatal(err)
			}
			if c.note { // by this process, which lives: the guardian asks only for its own pipe
				if err := os.WriteFile(filepath.Join(run, object), fmt.Appendf(nil, "%d %d\n/a\n", os.Getpid(), New(Options{}).startOf(os.Getpid())), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			g := exec.Command(os.Args[0], "-test.run=^TestGuardian$")
			g.Env = append(os.Environ(), "CGROUP_TEST_GUARDIAN="+mount+":"+run+":"+object)
			hold, _ := g.StdinPipe()
			ready, _ := g.StdoutPipe()
			g.Stderr = os.Stderr
			if err := g.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := ready.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if text, _ := os.ReadFile(filepath.Join(at, freezeFile)); strings.TrimSpace(string(text)) != "1" {
				t.Errorf("thawed before homenode was killed: %s", text)
			}
			hold.Close()
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			if text, _ := os.ReadFile(filepath.Join(at, freezeFile)); strings.TrimSpace(string(text)) != c.want {
				t.Errorf("cgroup.freeze is %q", text)
			}
			if left, _ := os.ReadDir(run); len(left) > 0 {
				t.Errorf("notes are left: %v", left)
			}
		})
	}
}

// slowly is a model whose write of cpuset.mems has the kernel go through many pages once the
// nodes are in effect.
type slowly struct {
	files
	mu      sync.Mutex
	pages   func() // goes through them
	rebound chan struct{}
}

func (s *slowly) read(cgroup, file string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files.read(cgroup, file)
}

func (s *slowly) write(cgroup, file, text string) error {
	if file == partitionFile {
		<-s.rebound // waits for cpuset_mutex
	}
	s.mu.Lock()
	err := s.files.write(cgroup, file, text)
	s.mu.Unlock()
	if file == "cpuset.mems" && err == nil {
		s.pages()
	}
	return err
}

// What the kernel does after it has let cpuset_mutex go keeps nothing frozen.
func TestThawedOnceRebound(t *testing.T) {
	m, _ := running(t)
	m.put("/a/b", partitionFile, "member")
	d := m.driver()
	s := &slowly{files: m, rebound: make(chan struct{})}
	is := func() string {
		now, _ := s.read("/a/b", freezeFile)
		return now
	}
	s.pages = func() {
		time.Sleep(50 * time.Millisecond)
		if is() != "1" {
			t.Error("thawed while the kernel still has cpuset_mutex")
		}
		close(s.rebound)
		for i := 0; is() == "1" && i < 100; i++ {
			time.Sleep(5 * time.Millisecond)
		}
		if is() != "0" {
			t.Error("frozen while the kernel goes through the pages")
		}
	}
	d.files = s
	if err := d.Apply(ctx, step(plan.SetMems, "/a/b", "1"), nil); err != nil || m.get("/a/b", "cpuset.mems") != "1" {
		t.Error(err)
	}
}

// A restore waits for a workload that needs longer to freeze, and lets it run in between.
func TestRestoreTriesAgain(t *testing.T) {
	for _, late := range []bool{false, true} {
		m, writes := running(t)
		d := m.driver()
		if err := d.Apply(ctx, step(plan.SetMems, "/a/b", "1"), nil); err != nil {
			t.Fatal(err)
		}
		*writes = nil
		m.stuck = map[string]bool{"/a/b": true}
		count := m.hook
		thaws := 0
		m.hook = func(what string) {
			if count(what); what == "write /a/b cgroup.freeze 0" {
				thaws++
				m.stuck["/a/b"] = late || thaws < 2
			}
		}
		err := restore(d, plan.Entry{Kind: plan.CgroupMems, Path: "/a/b", Old: "", New: "1"})
		if want := map[bool]int{false: 3, true: restoreTries}[late]; errors.Is(err, plan.ErrNotFrozen) != late || thaws < want-1 || m.get("/a/b", freezeFile) != "0" {
			t.Errorf("late %v: %v after %d thaws: %q", late, err, thaws, *writes)
		}
	}
}
