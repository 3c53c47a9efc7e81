package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestMain is also the child process of the tests below.
func TestMain(m *testing.M) {
	switch os.Getenv("PROCESS_TEST_CHILD") {
	case "":
		os.Exit(m.Run())
	case "busy":
		busy()
	case "show":
		show()
	case "confine":
		confineChild()
	case "step":
		stepChild()
	case "hold":
		holder()
	}
	os.Exit(0)
}

// busy makes threads and forks without end: half of the children stay a while.
func busy() {
	cpus, _ := AffinityOf(0)
	var pin func()
	pin = func() { // gives one thread its own CPUs, but not the first, whose CPUs count as the process's
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			go pin()
			time.Sleep(time.Hour)
		}
		one := New(Options{})
		one.kernel.SetAffinity(0, topology.CPUs(cpus.Max()))
		fmt.Println("ready", unix.Gettid())
		time.Sleep(time.Hour)
	}
	go pin()
	for range 8 {
		go func() {
			runtime.LockOSThread()
			time.Sleep(time.Hour)
		}()
	}
	go func() {
		for {
			go func() {
				runtime.LockOSThread() // ended locked: the thread ends too
				time.Sleep(2 * time.Millisecond)
			}()
			time.Sleep(time.Millisecond)
		}
	}()
	for i := 0; ; i++ {
		c := exec.Command("/bin/sleep", []string{"0.02", "30"}[i%2])
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if c.Start() == nil {
			go c.Wait()
		}
		time.Sleep(20 * time.Millisecond)
		if i == 40 {
			time.Sleep(time.Hour)
		}
	}
}

// childrenOf is the machine's tree as if a process and its descendants were alone there.
type childrenOf struct {
	fs.FS
	pid int
}

func (c childrenOf) ReadDir(name string) ([]fs.DirEntry, error) {
	if name != "proc" {
		return fs.ReadDir(c.FS, name)
	}
	var all []fs.DirEntry
	for queue := []string{strconv.Itoa(c.pid)}; len(queue) > 0; queue = queue[1:] {
		all = append(all, fs.FileInfoToDirEntry(modelInfo(queue[0])))
		lists, _ := filepath.Glob("/proc/" + queue[0] + "/task/*/children")
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			queue = append(queue, strings.Fields(string(text))...)
		}
	}
	return all, nil
}

// rooted is a driver that sees a process and its descendants only.
func rooted(pid int) *Driver { return New(Options{Root: childrenOf{os.DirFS("/"), pid}}) }

func childProcess(t *testing.T, what string, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "PROCESS_TEST_CHILD="+what, "PROCESS_TEST_ARG="+strings.Join(args, " "))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c, bufio.NewScanner(out)
}

func realStep(t *testing.T, kind plan.StepKind, pid int, to string) plan.Step {
	t.Helper()
	s, err := proc{os.DirFS("/")}.stat(pid)
	if err != nil {
		t.Fatal(err)
	}
	return plan.Step{Kind: kind, Workload: "w", To: to, Target: plan.Target{Kind: workload.InProcess, Processes: []workload.Process{s.Process}}}
}

func TestRealAffinityOfBusyProcess(t *testing.T) {
	all, err := AffinityOf(0)
	if err != nil {
		t.Fatal(err)
	}
	if all.Len() < 2 {
		t.Skip("needs two CPUs")
	}
	ctx := context.Background()
	c, lines := childProcess(t, "busy")
	lines.Scan()
	var pinned int
	fmt.Sscanf(lines.Text(), "ready %d", &pinned)
	d := rooted(c.Process.Pid)
	p := d.proc
	to := topology.CPUs(all.Min())
	step := realStep(t, plan.SetCPUs, c.Process.Pid, to.String())
	have, err := d.Changes(ctx, step)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(have[0].Value, fmt.Sprintf(";%d=%s", pinned, topology.CPUs(all.Max()))) {
		t.Errorf("pinned thread %d is not in %q", pinned, have[0].Value)
	}
	if err := d.Apply(ctx, step, nil); err != nil {
		t.Fatal(err)
	}
	check := func(want func(tid int) topology.CPUSet) (n int) {
		members, err := p.family(step.Target.Processes)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			threads, _ := p.threads(m.PID)
			for _, tid := range threads {
				if got, err := AffinityOf(tid); err == nil && !got.Equal(want(tid)) {
					t.Errorf("thread %d of %d on %s, want %s", tid, m.PID, got, want(tid))
				}
				n++
			}
		}
		return n
	}
	n := check(func(int) topology.CPUSet { return to })
	time.Sleep(300 * time.Millisecond) // more threads and children are made
	t.Logf("%d settings, %d threads at once, %d later", len(have), n, check(func(int) topology.CPUSet { return to }))
	for _, err := range rooted(c.Process.Pid).Restore(ctx, entries(have)) {
		if err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
	}
	check(func(tid int) topology.CPUSet {
		if tid == pinned {
			return topology.CPUs(all.Max())
		}
		return all
	})
	c.Process.Kill()
	c.Wait()
	if err := d.Apply(ctx, step, nil); !errors.Is(err, unix.ESRCH) {
		t.Errorf("after its end: %v", err)
	}
}

func TestRealMoveOfChild(t *testing.T) {
	c, lines := childProcess(t, "busy")
	lines.Scan()
	step := realStep(t, plan.MovePages, c.Process.Pid, "0")
	if _, err := os.Stat("/proc/self/numa_maps"); err != nil {
		t.Skip(err)
	}
	p := proc{os.DirFS("/")}
	ranges, err := rangesOf(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	var movable int64
	kinds := map[rangeKind]int{}
	for i := range ranges {
		movable += ranges[i].movable()
		kinds[ranges[i].kind]++
	}
	if movable < 1<<20 || kinds[anon] == 0 || kinds[left] == 0 {
		t.Errorf("%d movable bytes, ranges by kind %v", movable, kinds)
	}
	// Every range is walked when no node is home; asking is all that is done.
	m := NewMover(MoverOptions{Root: childrenOf{os.DirFS("/"), c.Process.Pid}})
	j := &job{Mover: m, home: topology.Nodes(63), owners: map[int]workload.Owner{}}
	pm := p.openPagemap(c.Process.Pid)
	if pm == nil {
		t.Fatal("no pagemap")
	}
	defer pm.Close()
	tg := &target{step.Target.Processes[0], ranges}
	var found int64
	for i := range ranges {
		r := &ranges[i]
		if r.kind == left || r.total() == 0 {
			continue
		}
		for start := r.start; start < r.end; {
			end := min(r.end, start-start%(queryBatch*basePage)+queryBatch*basePage)
			_, off, err := j.find(tg, r, pm, start, end, basePage)
			if err != nil {
				t.Fatal(err)
			}
			found += off
			start = end
		}
	}
	if found < movable*9/10 || found > movable*11/10 {
		t.Errorf("%d bytes by query, %d by numa_maps", found, movable)
	}
	t.Logf("%d bytes by query, %d by numa_maps", found, movable)
	if topologyNodes(t) == 1 {
		var rec plan.Move
		if err := m.Move(context.Background(), step, func(r plan.Move) { rec = r }); err != nil || rec.Moved != 0 || rec.State != "done" {
			t.Errorf("%+v %v", rec, err)
		}
	}
}

func topologyNodes(t *testing.T) int {
	text, err := os.ReadFile("/sys/devices/system/node/has_memory")
	if err != nil {
		t.Skip(err)
	}
	s, err := topology.ParseNodeSet(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Len()
}

// stepChild tries a step on the process in its argument, as another user.
func stepChild() {
	var pid int
	fmt.Sscan(os.Getenv("PROCESS_TEST_ARG"), &pid)
	s, err := proc{os.DirFS("/")}.stat(pid)
	if err != nil {
		fmt.Println(err)
		return
	}
	step := plan.Step{Kind: plan.SetCPUs, To: "0", Target: plan.Target{Kind: workload.InProcess, Processes: []workload.Process{s.Process}}}
	fmt.Println(rooted(pid).Apply(context.Background(), step, nil))
	step.Kind = plan.MovePages
	fmt.Println(rooted(pid).Apply(context.Background(), step, nil))
}

func TestRealOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become nobody")
	}
	all, _ := AffinityOf(0)
	if all.Len() < 2 {
		t.Skip("needs two CPUs")
	}
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	exe := t.TempDir() + "/test"
	if err := os.WriteFile(exe, self, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := exe; dir != "/"; dir = dir[:max(1, strings.LastIndexByte(dir, '/'))] {
		os.Chmod(dir, 0o755)
		if strings.Count(dir, "/") <= 2 {
			break
		}
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), "PROCESS_TEST_CHILD=step", fmt.Sprint("PROCESS_TEST_ARG=", os.Getpid()))
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Skip(err, string(out))
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "not permitted") || !strings.Contains(lines[0], "needs root") ||
		!strings.Contains(lines[1], "permi") {
		t.Errorf("%q", lines)
	}
	if now, _ := AffinityOf(0); !now.Equal(all) {
		t.Errorf("affinity went from %s to %s", all, now)
	}
}

// confineChild confines itself, then becomes a shell that says what it has.
func confineChild() {
	runtime.LockOSThread()
	all, _ := AffinityOf(0)
	err := ConfineSelf(topology.CPUs(all.Max()), topology.Nodes(0), MemPolicy(os.Getenv("PROCESS_TEST_ARG")))
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	os.Setenv("PROCESS_TEST_CHILD", "show")
	fmt.Println(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// show says what the main thread has.
func show() {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "Cpus_allowed_list:") {
			fmt.Print(line)
		}
	}
	policy, _ := os.ReadFile("/proc/self/numa_maps")
	line, _, _ := strings.Cut(string(policy), "\n")
	fmt.Println(line)
}

func TestRealConfine(t *testing.T) {
	all, _ := AffinityOf(0)
	for policy, want := range map[MemPolicy]string{MemBind: "bind", MemPreferred: "prefer", MemInterleave: "interleave", MemWeightedInterleave: "interleave"} {
		_, lines := childProcess(t, "confine", string(policy))
		var out []string
		for lines.Scan() {
			out = append(out, lines.Text())
		}
		text := strings.Join(out, "\n")
		if strings.HasPrefix(text, "error:") && strings.Contains(text, "needs") {
			t.Log(text)
			continue
		}
		if !strings.Contains(text, ":0 ") || !strings.Contains(text, fmt.Sprintf("Cpus_allowed_list:\t%s\n", topology.CPUs(all.Max()))) || !strings.Contains(text, want) {
			t.Errorf("%s: %q", policy, text)
		}
	}
}

func rangesOf(pid int) ([]memRange, error) {
	p := proc{os.DirFS("/")}
	return p.ranges(pid, func(file string, parse func(io.Reader) error) error { return p.parse(pid, file, parse) })
}
