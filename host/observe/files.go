package observe

import (
	"errors"
	"io/fs"
	"strconv"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/topology"
)

// files is how the observer reads the machine: what it needs from an fs.FS, in
// calls that reuse their buffers. Root implements it on system calls, anyFS on
// any fs.FS.
type files interface {
	// read returns the content of the file, in buf if it fits.
	read(name string, buf []byte) ([]byte, error)
	// record is read of a file that the kernel writes as one record, or as lines of
	// less than 64 bytes: what falls short of a page is then all of it, and need not be
	// asked for its end.
	record(name string, buf []byte) ([]byte, error)
	// readOpen is record of the file name in the folder dir of a cgroup, which may stay open
	// for the next look.
	readOpen(dir string, name cgroupFile, buf []byte) ([]byte, error)
	// closeUnread closes what is held of folders that were not read since the last closeUnread.
	closeUnread()
	// numbers appends the entries of dir that are numbers to out, in any order.
	numbers(dir string, out []int) ([]int, error)
	// subdirs appends the names of the directories in dir to out, in any order. inode is
	// of dir, 0 when it is not told.
	subdirs(dir string, out []string) (names []string, inode uint64, err error)
	// link is where a symbolic link leads.
	link(name string) (string, error)
	// affinity is the CPU set the thread may run on, or errors.ErrUnsupported
	// when it is to be read from its status file.
	affinity(tid int) (topology.CPUSet, error)
	// clock is the CPU time that the process has used, to the nanosecond, or
	// errors.ErrUnsupported when only its stat file has it, by ticks.
	clock(pid int) (time.Duration, error)
}

// cgroupFile is a file of a cgroup that each look reads.
type cgroupFile int

const (
	cgroupProcs cgroupFile = iota
	cpuStat
	memoryNUMAStat
	cpuPressure
	cgroupFiles // how many they are
)

var cgroupFileNames = [cgroupFiles]string{"cgroup.procs", "cpu.stat", "memory.numa_stat", "cpu.pressure"}

// anyFS reads through an fs.FS.
type anyFS struct{ fs.FS }

func (a anyFS) read(name string, _ []byte) ([]byte, error) { return fs.ReadFile(a.FS, name) }

func (a anyFS) record(name string, buf []byte) ([]byte, error) { return a.read(name, buf) }

func (a anyFS) readOpen(dir string, name cgroupFile, buf []byte) ([]byte, error) {
	return a.read(dir+"/"+cgroupFileNames[name], buf)
}

func (a anyFS) closeUnread() {}

func (a anyFS) numbers(dir string, out []int) ([]int, error) {
	entries, err := fs.ReadDir(a.FS, dir)
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 {
			out = append(out, n)
		}
	}
	return out, err
}

func (a anyFS) link(name string) (string, error) { return fs.ReadLink(a.FS, name) }

func (a anyFS) subdirs(dir string, out []string) (names []string, inode uint64, err error) {
	entries, err := fs.ReadDir(a.FS, dir)
	if info, err := fs.Stat(a.FS, dir); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			inode = st.Ino
		}
	}
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, inode, err
}

func (a anyFS) affinity(int) (topology.CPUSet, error) {
	return topology.CPUSet{}, errors.ErrUnsupported
}

func (a anyFS) clock(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

// gone reports whether err means that the process or cgroup has ended since it
// was listed. kernfs answers ENODEV for a removed cgroup, /proc ESRCH.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENODEV)
}

func denied(err error) bool { return errors.Is(err, fs.ErrPermission) }
