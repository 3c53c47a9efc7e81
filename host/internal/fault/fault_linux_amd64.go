package fault

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	envTest = "HOMENODE_FAULT_TEST" // set for a traced process: the test it runs
	envAll  = "HOMENODE_FAULTS_ALL" // set by who has the time: see Each
)

// Each runs scenario once without a fault and then, for every n, in a process whose nth
// call within watched fails; in every second one all later calls of its name fail too,
// as on a disk that stays full. With HOMENODE_FAULTS_ALL set each n has a process of
// either kind. The errnos take turns. The scenario checks for itself
// what has become of it; it must call watched, and may do so several times. A process
// that crashes, or whose test fails, fails t. Where tracing is not allowed the test is
// skipped.
func Each(t *testing.T, errnos []unix.Errno, scenario func(t *testing.T, watched func(do func()))) {
	t.Helper()
	if name := os.Getenv(envTest); name == t.Name() {
		scenario(t, func(do func()) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			mark()
			defer mark()
			do()
		})
		return
	} else if name != "" {
		t.Skip("the process runs another test")
	}
	dir := t.TempDir() // the process is killed at times, and cleans up nothing
	program, err := plainProgram(dir)
	if err != nil {
		t.Fatal(err)
	}
	failed := map[string]int{}
	for i, ended := 0, false; !ended; {
		batch := make([]outcome, atOnce)
		if i == 0 {
			batch = batch[:1] // without a fault
		}
		var all sync.WaitGroup
		for k := range batch {
			all.Go(func() { batch[k] = run(program, t.Name(), dir, i+k, errnos) })
		}
		all.Wait()
		for k := range batch {
			r := &batch[k]
			if errors.Is(r.err, errNotAllowed) {
				t.Skip(r.err)
			}
			if r.err != nil {
				t.Fatal(r.err)
			}
			if !r.passed {
				t.Errorf("call %d of the scenario, %s, fails with %v (for good: %v): %s\n%s", r.n, r.call, r.errno,
					r.lasts, r.end, r.output)
			}
			if r.n == 0 && r.calls == 0 {
				t.Fatal("the scenario makes no call that could fail")
			}
			ended = ended || (r.n > 0 && r.call == "")
			if r.call != "" {
				failed[r.call]++
			}
		}
		i += len(batch)
	}
	t.Logf("processes with a call that failed: %v", failed)
}

// atOnce is how many processes run beside each other: most of their time is their start.
const atOnce = 4

// plainProgram is the test program, built anew without the race detector when this
// one has it: hundreds of traced processes start ten times as fast, and the scenario
// is one thread.
func plainProgram(dir string) (string, error) {
	if info, ok := debug.ReadBuildInfo(); !ok ||
		!slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return os.Args[0], nil
	}
	program := filepath.Join(dir, "plain.test")
	c := exec.Command("go", "test", "-c", "-o", program) // go test runs in the package's folder
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s without the race detector: %w: %s", os.Args[0], err, out)
	}
	return program, nil
}

// run is one of the processes of a test, the first without a fault.
func run(program, test, dir string, i int, errnos []unix.Errno) outcome {
	o := outcome{n: i, lasts: i > 0 && i%2 == 0, errno: errnos[i%len(errnos)]}
	if os.Getenv(envAll) != "" {
		o.n = (i + 1) / 2
	}
	if o.lasts && o.errno == unix.EINTR {
		o.errno = unix.EIO // whoever is interrupted tries again, without end
	}
	o.result, o.err = trace(program, test, dir, &tracer{n: o.n, lasts: o.lasts, errno: o.errno})
	return o
}

// outcome is how a process was run and how it ended.
type outcome struct {
	result
	n     int
	lasts bool
	errno unix.Errno
	err   error
}

// mark tells the tracer that the watched part begins or ends. The tracer keeps the
// signal for itself.
func mark() { _ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGUSR1) }

var errNotAllowed = errors.New("tracing a process is not allowed here")

// result is how a traced process ended.
type result struct {
	calls  int    // that could have failed
	call   string // the one that did, "" when none
	passed bool
	end    string
	output string
}

// trace runs one test in a process that t follows.
func trace(program, test, dir string, t *tracer) (r result, err error) {
	runtime.LockOSThread() // ptrace(2): only the thread that started the process may
	defer runtime.UnlockOSThread()
	out, err := os.CreateTemp(dir, "output")
	if err != nil {
		return r, err
	}
	defer out.Close()
	cmd := exec.Command(program, "-test.run=^"+strings.ReplaceAll(test, "/", "$/^")+"$", "-test.v", "-test.count=1",
		"-test.timeout=5m")
	cmd.Env = append(os.Environ(), envTest+"="+test, "TMPDIR="+dir)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true, Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: %w", errNotAllowed, err)
		}
		return r, err
	}
	pid := cmd.Process.Pid
	defer cmd.Process.Release() // waited for below
	t.pid = pid
	status, err := t.run()
	if err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		return r, err
	}
	text, err := os.ReadFile(out.Name())
	r = result{calls: t.calls, call: t.call, output: string(text),
		end: fmt.Sprintf("exit status %d", status.ExitStatus())}
	if status.Signaled() {
		r.end = status.Signal().String()
	}
	// A test that does not exist passes too.
	r.passed = status.Exited() && status.ExitStatus() == 0 &&
		(strings.Contains(r.output, "--- PASS: "+test) || strings.Contains(r.output, "--- SKIP: "+test))
	return r, err
}

// tracer follows one process.
type tracer struct {
	pid    int
	n      int // the call to fail; 0 is none
	lasts  bool
	errno  unix.Errno
	thread int  // that is watched, 0 when none
	inside bool // of a system call
	fails  bool // the one it is in
	calls  int
	call   string
}

// run follows the process to its end.
func (t *tracer) run() (unix.WaitStatus, error) {
	var status unix.WaitStatus
	if _, err := unix.Wait4(t.pid, &status, unix.WALL, nil); err != nil {
		return status, err
	}
	const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(t.pid, options); err != nil {
		return status, fmt.Errorf("%w: %w", errNotAllowed, err)
	}
	if err := unix.PtraceCont(t.pid, 0); err != nil {
		return status, err
	}
	known := map[int]bool{t.pid: true}
	for {
		tid, err := unix.Wait4(-t.pid, &status, unix.WALL, nil) // the process group: all threads
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return status, fmt.Errorf("wait for a traced process: %w", err)
		}
		if status.Exited() || status.Signaled() {
			if tid == t.pid {
				return status, nil
			}
			continue
		}
		deliver := 0
		switch sig := status.StopSignal(); {
		case sig == unix.SIGTRAP|0x80:
			if err := t.systemCall(tid); err != nil && err != unix.ESRCH {
				return status, err
			}
		case sig == unix.SIGTRAP: // exec, clone
		case sig == unix.SIGSTOP && !known[tid]: // a thread begins so
		case sig == unix.SIGUSR1:
			if t.inside = false; t.thread == tid {
				t.thread = 0
			} else {
				t.thread = tid
			}
		default:
			deliver = int(sig)
		}
		known[tid] = true
		resume := unix.PtraceCont
		if tid == t.thread {
			resume = unix.PtraceSyscall
		}
		if err := resume(tid, deliver); err != nil && err != unix.ESRCH {
			return status, err
		}
	}
}

// systemCall is the watched thread's entry into a call, or its way out.
func (t *tracer) systemCall(tid int) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	if t.inside = !t.inside; t.inside {
		name := failing(tid, &regs)
		if name == "" {
			return nil
		}
		t.calls++
		if t.calls != t.n && (t.call != name || !t.lasts) {
			return nil
		}
		t.call, t.fails = name, true
		if name == "close" {
			return nil
		}
		regs.Orig_rax = ^uint64(0) // no call
		return unix.PtraceSetRegs(tid, &regs)
	}
	if !t.fails {
		return nil
	}
	t.fails = false
	regs.Rax = uint64(-int64(t.errno))
	return unix.PtraceSetRegs(tid, &regs)
}

// onFile are calls whose first argument is a descriptor, onPath the others.
var (
	onFile = map[uint64]string{
		unix.SYS_READ: "read", unix.SYS_PREAD64: "pread64", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite64",
		unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync", unix.SYS_FTRUNCATE: "ftruncate",
		unix.SYS_FALLOCATE: "fallocate",
		unix.SYS_CLOSE:     "close", unix.SYS_FSTAT: "fstat", unix.SYS_GETDENTS64: "getdents64",
		unix.SYS_FLOCK: "flock",
		unix.SYS_LSEEK: "lseek",
	}
	onPath = map[uint64]string{
		unix.SYS_OPEN: "open", unix.SYS_OPENAT: "openat", unix.SYS_OPENAT2: "openat2",
		unix.SYS_NEWFSTATAT: "newfstatat", unix.SYS_STATX: "statx",
		unix.SYS_RENAME: "rename", unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2",
		unix.SYS_LINK: "link", unix.SYS_LINKAT: "linkat",
		unix.SYS_UNLINK: "unlink", unix.SYS_UNLINKAT: "unlinkat", unix.SYS_MKDIR: "mkdir", unix.SYS_MKDIRAT: "mkdirat",
		unix.SYS_RMDIR:    "rmdir",
		unix.SYS_READLINK: "readlink", unix.SYS_READLINKAT: "readlinkat", unix.SYS_CHMOD: "chmod",
		unix.SYS_FCHMODAT:          "fchmodat",
		unix.SYS_SCHED_SETAFFINITY: "sched_setaffinity", unix.SYS_SCHED_GETAFFINITY: "sched_getaffinity",
		unix.SYS_SCHED_SETATTR: "sched_setattr", unix.SYS_SCHED_GETATTR: "sched_getattr",
		unix.SYS_PRLIMIT64:  "prlimit64",
		unix.SYS_MOVE_PAGES: "move_pages", unix.SYS_MIGRATE_PAGES: "migrate_pages",
		unix.SYS_SET_MEMPOLICY: "set_mempolicy", unix.SYS_GET_MEMPOLICY: "get_mempolicy", unix.SYS_MBIND: "mbind",
	}
)

// failing names a call that may fail, "" for one that is the runtime's own.
func failing(tid int, regs *unix.PtraceRegs) string {
	nr := regs.Orig_rax
	if name, ok := onPath[nr]; ok {
		return name
	}
	fd := regs.Rdi
	name, ok := onFile[nr]
	if nr == unix.SYS_MMAP && int32(regs.R8) >= 0 {
		name = "mmap"
		ok = true
		fd = regs.R8
	}
	if !ok || int32(fd) == 1 || int32(fd) == 2 {
		return ""
	}
	// Not the event descriptor of the runtime's poller.
	if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, int32(fd))); err == nil &&
		!strings.HasPrefix(to, "/") {
		return ""
	}
	return name
}
