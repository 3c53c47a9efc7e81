package files

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
)

// Root is the file system below dir, as os.DirFS(dir) gives it. An Observer
// reads it with bare system calls: thousands of tiny files a look would otherwise
// cost an os.File, two calls to the poller and a fresh buffer each.
// For dir "/" the affinity of a thread is asked for by sched_getaffinity(2), a
// twentieth of the cost of /proc/PID/status.
func Root(dir string) fs.FS {
	return root{os.DirFS(dir), dir}
}

type root struct {
	fs.FS
	dir string
}

func (r root) reader() Reader {
	return &rootReader{
		prefix:    strings.TrimSuffix(r.dir, "/") + "/",
		live:      r.dir == "/",
		masks:     map[string]topology.CPUSet{},
		openFiles: newOpenFiles(),
	}
}

// rootReader reads with system calls. The machine's files change in place, as the kernel's do. It belongs to one
// Observer, whose looks are serial.
type rootReader struct {
	prefix    string
	live      bool
	dirents   []byte
	mask      [topology.MaxID/8 + 1]byte
	masks     map[string]topology.CPUSet // by raw mask: a host has few different ones
	openFiles openFiles
}

// The methods of os.DirFS that embedding an fs.FS hides.

func (r root) ReadFile(name string) ([]byte, error)       { return fs.ReadFile(r.FS, name) }
func (r root) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(r.FS, name) }
func (r root) Stat(name string) (fs.FileInfo, error)      { return fs.Stat(r.FS, name) }
func (r root) ReadLink(name string) (string, error)       { return fs.ReadLink(r.FS, name) }
func (r root) Lstat(name string) (fs.FileInfo, error)     { return fs.Lstat(r.FS, name) }

// OwnerOf returns the user ID of a file's owner, -1 when it is not known.
func (r root) OwnerOf(name string) int {
	var st unix.Stat_t
	if err := unix.Lstat(r.dir+"/"+name, &st); err != nil {
		return -1
	}
	return int(st.Uid)
}

func (r *rootReader) open(name string, flags int) (int, error) {
	at, rest, err := r.near(name)
	if err != nil {
		return -1, err
	}
	if at != unix.AT_FDCWD {
		defer unix.Close(at)
	}
	return openAt(at, rest, flags)
}

func openAt(at int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(at, name, flags|unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// near opens a folder on the way to a file whose path is longer than system calls take, as
// that of a cgroup may be, and returns the rest of the way; AT_FDCWD for any other.
func (r *rootReader) near(name string) (at int, rest string, err error) {
	at, rest = unix.AT_FDCWD, r.prefix+name
	for len(rest) >= unix.PathMax {
		cut := strings.LastIndexByte(rest[:unix.PathMax-1], '/')
		if cut <= 0 {
			return -1, "", unix.ENAMETOOLONG
		}
		next, err := openAt(at, rest[:cut], unix.O_PATH|unix.O_DIRECTORY)
		if at != unix.AT_FDCWD {
			unix.Close(at)
		}
		if err != nil {
			return -1, "", err
		}
		at, rest = next, rest[cut+1:]
	}
	return at, rest, nil
}

func (r *rootReader) stat(name string, st *unix.Stat_t) error {
	at, rest, err := r.near(name)
	if err != nil {
		return err
	}
	if at != unix.AT_FDCWD {
		defer unix.Close(at)
	}
	return unix.Fstatat(at, rest, st, 0)
}

func (r *rootReader) Link(name string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlink(r.prefix+name, buf[:])
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buf[:n]), nil
}

func (r *rootReader) Read(name string, buf []byte) ([]byte, error) {
	return r.readOpened(name, buf, false)
}

func (r *rootReader) Record(name string, buf []byte) ([]byte, error) {
	return r.readOpened(name, buf, true)
}

func (r *rootReader) readOpened(name string, buf []byte, record bool) ([]byte, error) {
	fd, err := r.open(name, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	if buf, err = readAll(fd, buf, record); err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return buf, nil
}

// recordsEnd is how long a reading of a file of records of less than 64 bytes may be to
// be whole for sure: seq_file gives a page at a time, less the record that did not
// fit (seq_read_iter, fs/seq_file.c).
const recordsEnd = 4096 - 64

// readAll reads a file from its beginning, whatever was read of it before.
func readAll(fd int, buf []byte, record bool) ([]byte, error) {
	buf = buf[:cap(buf)]
	if len(buf) == 0 {
		buf = make([]byte, 4096)
	}
	// seq_file may give less than was asked for in the middle of a file: only 0 is the end.
	for have := 0; ; {
		if have == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		n, err := unix.Pread(fd, buf[have:], int64(have))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case n <= 0:
			return buf[:have], nil
		case record && have == 0 && n < min(len(buf), recordsEnd):
			return buf[:n], nil
		default:
			have += n
		}
	}
}

func (r *rootReader) Numbers(dir string, out []int) ([]int, error) {
	err := r.entries(dir, func(name []byte, _ byte) {
		n := 0
		for _, c := range name {
			if c < '0' || c > '9' || n > 1<<30 {
				return
			}
			n = n*10 + int(c-'0')
		}
		if n > 0 {
			out = append(out, n)
		}
	})
	return out, err
}

func (r *rootReader) Subdirs(dir string, out []string) (names []string, inode uint64, err error) {
	// A directory's link count is 2 plus its subdirectories on every file system
	// that counts them (kernfs does, fs/kernfs/inode.c; the others say 1): listing
	// the sixty files of each leaf cgroup is not needed.
	var st unix.Stat_t
	if err := r.stat(dir, &st); err != nil {
		return out, 0, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	if st.Nlink == 2 {
		return out, st.Ino, nil
	}
	err = r.entries(dir, func(name []byte, kind byte) {
		if kind == unix.DT_DIR && string(name) != "." && string(name) != ".." {
			out = append(out, string(name))
		}
	})
	return out, st.Ino, err
}

// entries calls each for every entry of dir; name is valid during the call only.
func (r *rootReader) entries(dir string, each func(name []byte, kind byte)) error {
	fd, err := r.open(dir, unix.O_DIRECTORY)
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	if r.dirents == nil {
		r.dirents = make([]byte, 32<<10)
	}
	for {
		n, err := unix.Getdents(fd, r.dirents)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "getdents", Path: dir, Err: err}
		}
		if n <= 0 {
			return nil
		}
		// struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name to a NUL (getdents(2)).
		for rest := r.dirents[:n]; len(rest) > 19; {
			size := int(binary.NativeEndian.Uint16(rest[16:]))
			if size < 19 || size > len(rest) {
				break
			}
			name := rest[19:size]
			for i, c := range name {
				if c == 0 {
					name = name[:i]
					break
				}
			}
			each(name, rest[18])
			rest = rest[size:]
		}
	}
}

// Clock asks for the process's CPU clock: clock_getcpuclockid(3) makes the clock's number of
// the PID, and the kernel adds up the threads (kernel/time/posix-cpu-timers.c). It costs
// a thirtieth of reading /proc/PID/stat.
func (r *rootReader) Clock(pid int) (time.Duration, error) {
	if !r.live {
		return 0, errors.ErrUnsupported
	}
	const scheduled = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	id := int32(^pid)<<3 | scheduled
	if _, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(id), uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0, os.NewSyscallError("clock_gettime", errno)
	}
	return time.Duration(t.Nano()), nil
}

func (r *rootReader) Affinity(tid int) (topology.CPUSet, error) {
	if !r.live {
		return topology.CPUSet{}, errors.ErrUnsupported
	}
	// Raw, because unix.CPUSet ends at CPU 1,023.
	n, _, errno := unix.RawSyscall(
		unix.SYS_SCHED_GETAFFINITY, uintptr(tid), uintptr(len(r.mask)), uintptr(unsafe.Pointer(&r.mask)))
	if errno != 0 {
		return topology.CPUSet{}, os.NewSyscallError("sched_getaffinity", errno)
	}
	raw := r.mask[:n]
	if s, ok := r.masks[string(raw)]; ok {
		return s, nil
	}
	var s topology.CPUSet
	for i := 0; i+8 <= len(raw); i += 8 { // the kernel writes unsigned longs
		word := binary.NativeEndian.Uint64(raw[i:])
		for bit := range 64 {
			if word&(1<<bit) != 0 {
				s.Add(topology.CPUID(i*8 + bit))
			}
		}
	}
	if len(r.masks) > 4096 {
		clear(r.masks)
	}
	r.masks[string(raw)] = s
	return s, nil
}
