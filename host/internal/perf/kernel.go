package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Kernel is this machine's Opener.
type Kernel struct{}

// Cgroup implements Opener.
func (Kernel) Cgroup(dir string, cpus []int, p *Pair) (Counter, error) {
	pid, flags := 0, unix.PERF_FLAG_FD_CLOEXEC
	if dir == "" {
		cpus = []int{-1}
		// The calling thread is counted: it must be the same one throughout.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	} else {
		// The events keep the cgroup from being freed, not from being removed; the
		// descriptor is needed for opening only.
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: dir, Err: err}
		}
		defer unix.Close(fd)
		pid, flags = fd, flags|unix.PERF_FLAG_PID_CGROUP
	}
	return pairs(pid, cpus, p, flags)
}

// All counts a pair for every task while it runs on the given CPUs. It takes two descriptors a CPU.
func (Kernel) All(cpus []int, p *Pair) (Counter, error) {
	return pairs(-1, cpus, p, unix.PERF_FLAG_FD_CLOEXEC)
}

// pairs opens a pair on each CPU, or nothing at all.
func pairs(pid int, cpus []int, p *Pair, flags int) (Counter, error) {
	c := &counter{}
	for _, cpu := range cpus {
		g := group{size: 2}
		var err error
		if g.leader, err = open(p.First, pid, cpu, -1, flags); err == nil {
			g.member, err = open(p.Second, pid, cpu, g.leader, flags)
			if err != nil {
				unix.Close(g.leader)
			}
		}
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		c.groups = append(c.groups, g)
	}
	return c, nil
}

// On implements Opener.
func (Kernel) On(cpu int, e Event) (Counter, error) {
	fd, err := open(e, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &counter{groups: []group{{leader: fd, member: -1, size: 1}}}, nil
}

func open(e Event, pid, cpu, leader, flags int) (int, error) {
	attr := unix.PerfEventAttr{
		Type: e.Type, Config: e.Config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Read_format: unix.PERF_FORMAT_GROUP | unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
	}
	for {
		fd, err := unix.PerfEventOpen(&attr, pid, cpu, leader, flags)
		if !errors.Is(err, unix.EINTR) {
			return fd, os.NewSyscallError("perf_event_open", err)
		}
	}
}

// counter is one group a CPU.
type counter struct{ groups []group }

type group struct {
	leader, member int
	size           int
	last           raw
}

func (c *counter) Read() (first, second float64, err error) {
	for i := range c.groups {
		g := &c.groups[i]
		now, err := g.read()
		if err != nil {
			return 0, 0, err
		}
		n := now.since(g.last)
		g.last = now
		first, second = first+n[0], second+n[1]
	}
	return first, second, nil
}

// read takes nr, time_enabled, time_running and the values (perf_event_open(2),
// PERF_FORMAT_GROUP).
func (g *group) read() (raw, error) {
	var b [5 * 8]byte
	n, err := unix.Read(g.leader, b[:])
	if err != nil {
		return raw{}, os.NewSyscallError("read", err)
	}
	if n < (3+g.size)*8 {
		return raw{}, ErrShort
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
	r := raw{enabled: time.Duration(word(1)), running: time.Duration(word(2))}
	for i := range g.size {
		r.value[i] = word(3 + i)
	}
	return r, nil
}

func (c *counter) Close() error {
	var first error
	for _, g := range c.groups {
		for _, fd := range []int{g.member, g.leader} {
			if fd >= 0 {
				if err := unix.Close(fd); first == nil {
					first = err
				}
			}
		}
	}
	c.groups = nil
	return first
}

// Reason is an error of opening in words.
func Reason(err error, paranoid string) string {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EOPNOTSUPP):
		return "the kernel has no such event on this machine; most guests are given no counters"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		text := "it takes root or CAP_PERFMON"
		if paranoid != "" {
			text += ", or a lower kernel.perf_event_paranoid than " + paranoid
		}
		return text
	case errors.Is(err, unix.ENOSYS):
		return "the kernel was built without perf events"
	case errors.Is(err, unix.EMFILE):
		return "too few descriptors (ulimit -n)"
	}
	return err.Error()
}
