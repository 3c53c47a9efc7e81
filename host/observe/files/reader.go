package files

import (
	"errors"
	"io/fs"
	"strconv"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/topology"
)

// Reader is how the observer reads the machine: what it needs from an fs.FS, in
// calls that reuse their buffers. Of returns it on system calls for Root, and Any is it on
// any fs.FS.
type Reader interface {
	// Read returns the content of the file, in buf if it fits.
	Read(name string, buf []byte) ([]byte, error)
	// Record is Read of a file that the kernel writes as one record, or as lines of
	// less than 64 bytes: what falls short of a page is then all of it, and need not be
	// asked for its end.
	Record(name string, buf []byte) ([]byte, error)
	// ReadOpen is Record of the file name in the folder dir of a cgroup, which may stay open
	// for the next look.
	ReadOpen(dir string, name CgroupFile, buf []byte) ([]byte, error)
	// CloseUnread closes what is held of folders that were not read since the last CloseUnread.
	CloseUnread()
	// Numbers appends the entries of dir that are numbers to out, in any order.
	Numbers(dir string, out []int) ([]int, error)
	// Subdirs appends the names of the directories in dir to out, in any order. inode is
	// of dir, 0 when it is not told.
	Subdirs(dir string, out []string) (names []string, inode uint64, err error)
	// Link is where a symbolic link leads.
	Link(name string) (string, error)
	// Affinity is the CPU set the thread may run on, or errors.ErrUnsupported
	// when only its status file has it.
	Affinity(tid int) (topology.CPUSet, error)
	// Clock is the CPU time that the process has used, to the nanosecond, or
	// errors.ErrUnsupported when only its stat file has it, by ticks.
	Clock(pid int) (time.Duration, error)
}

// Of returns the reader of a file system: on system calls where that is of Root.
func Of(fsys fs.FS) Reader {
	if r, ok := fsys.(interface{ reader() Reader }); ok {
		return r.reader()
	}
	return Any{fsys}
}

// CgroupFile is a file of a cgroup that each look reads.
type CgroupFile int

const (
	CgroupProcs CgroupFile = iota
	CPUStat
	MemoryNUMAStat
	CPUPressure
	cgroupFiles // how many they are
)

var cgroupFileNames = [cgroupFiles]string{"cgroup.procs", "cpu.stat", "memory.numa_stat", "cpu.pressure"}

// Any reads through an fs.FS.
type Any struct{ fs.FS }

func (a Any) Read(name string, _ []byte) ([]byte, error) { return fs.ReadFile(a.FS, name) }

func (a Any) Record(name string, buf []byte) ([]byte, error) { return a.Read(name, buf) }

func (a Any) ReadOpen(dir string, name CgroupFile, buf []byte) ([]byte, error) {
	return a.Read(dir+"/"+cgroupFileNames[name], buf)
}

func (a Any) CloseUnread() {}

func (a Any) Numbers(dir string, out []int) ([]int, error) {
	entries, err := fs.ReadDir(a.FS, dir)
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 {
			out = append(out, n)
		}
	}
	return out, err
}

func (a Any) Link(name string) (string, error) { return fs.ReadLink(a.FS, name) }

func (a Any) Subdirs(dir string, out []string) (names []string, inode uint64, err error) {
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

func (a Any) Affinity(int) (topology.CPUSet, error) {
	return topology.CPUSet{}, errors.ErrUnsupported
}

func (a Any) Clock(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

// Gone reports whether err means that the process or cgroup has ended since it
// was listed. kernfs answers ENODEV for a removed cgroup, /proc ESRCH.
func Gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENODEV)
}

func Denied(err error) bool { return errors.Is(err, fs.ErrPermission) }
