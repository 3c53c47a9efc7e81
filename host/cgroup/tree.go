package cgroup

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/host/internal/kernfile"
)

// files is the cgroup file system, or a model of it.
type files interface {
	read(cgroup, file string) (string, error)
	write(cgroup, file, text string) error
	children(cgroup string) ([]string, error)  // paths below the mount, rising
	object(cgroup string) (string, error)      // tells it from a later one of the same path
	private(cgroup, file string) (bool, error) // root alone can write it
	make(cgroup string) error
	remove(cgroup string) error // one that is empty
	mark(cgroup, name string) error
	marked(cgroup, name string) bool
}

// tree is a mounted cgroup file system. Paths come out of plans and journals, and
// cgroups are made by others: every path is walked from the mount, one name at a time,
// and no symbolic link is followed. openat2(2) would do it in one call, but systemd
// denies it to services with RestrictSUIDSGID=, and so do older container runtimes.
type tree struct{ mount string }

func (t tree) open(cgroup, file string, flags int) (*os.File, error) {
	at, err := openAt(unix.AT_FDCWD, t.mount, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		// The mount itself: never to be taken for a cgroup that is gone.
		return nil, &MountError{t.mount, err.Error()}
	}
	name := path.Join("/", cgroup, file)[1:] // has no ".." left
	names := strings.Split(cmp.Or(name, "."), "/")
	for i, n := range names {
		how := unix.O_PATH | unix.O_DIRECTORY
		if i == len(names)-1 {
			how = flags
		}
		next, err := openAt(at, n, how|unix.O_NOFOLLOW)
		unix.Close(at)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path.Join(t.mount, name), Err: err}
		}
		at = next
	}
	return os.NewFile(uintptr(at), path.Join(t.mount, name)), nil
}

func openAt(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func (t tree) read(cgroup, file string) (string, error) {
	f, err := t.open(cgroup, file, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	return strings.TrimSpace(string(text)), err
}

func (t tree) write(cgroup, file, text string) error {
	f, err := t.open(cgroup, file, unix.O_WRONLY)
	if err != nil {
		return err
	}
	return kernfile.WriteClose(f, text)
}

func (t tree) children(cgroup string) ([]string, error) {
	d, err := t.open(cgroup, "", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var below []string
	for _, e := range entries {
		if e.IsDir() {
			below = append(below, path.Join(cgroup, e.Name()))
		}
	}
	sort.Strings(below)
	return below, nil
}

func (t tree) make(cgroup string) error {
	return t.inParent(cgroup, func(dir int, name string) error { return unix.Mkdirat(dir, name, 0o755) })
}

func (t tree) remove(cgroup string) error {
	return t.inParent(cgroup, func(dir int, name string) error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
}

func (t tree) inParent(cgroup string, do func(dir int, name string) error) error {
	d, err := t.open(path.Dir(cgroup), "", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer d.Close()
	return do(int(d.Fd()), path.Base(cgroup))
}

// mark gives a cgroup an extended attribute, which goes with it (kernfs_iop_setxattr, Linux 5.7).
func (t tree) mark(cgroup, name string) error {
	d, err := t.open(cgroup, "", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Fsetxattr(int(d.Fd()), name, []byte("1"), 0)
}

func (t tree) marked(cgroup, name string) bool {
	d, err := t.open(cgroup, "", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer d.Close()
	_, err = unix.Fgetxattr(int(d.Fd()), name, nil)
	return err == nil
}

// object is the inode, which in a cgroup file system is never used again: it holds the
// ID that the kernel counts up (kernfs_ino, include/linux/kernfs.h).
func (t tree) object(cgroup string) (string, error) {
	d, err := t.open(cgroup, "", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return "", err
	}
	defer d.Close()
	var s unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &s); err != nil {
		return "", &fs.PathError{Op: "stat", Path: d.Name(), Err: err}
	}
	return strconv.FormatUint(s.Ino, 10), nil
}

// checkPath refuses what is no path of a cgroup below the root, with the reason.
func checkPath(cgroup string) error {
	switch {
	case cgroup == "/":
		return nil
	case !strings.HasPrefix(cgroup, "/"), path.Clean(cgroup) != cgroup, strings.ContainsRune(cgroup, 0),
		strings.HasPrefix(cgroup, "/../"), cgroup == "/..":
		return fmt.Errorf("%q is not the path of a cgroup", cgroup)
	}
	return nil
}
