package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// folder is an open state folder. Its files are opened by its descriptor and no link is
// followed: the folder may lie in one that others write to, as /tmp.
type folder struct {
	path string
	dir  *os.File
}

// ForeignError says that a state folder, or a file in it, is not the caller's own:
// whoever made it could have this process overwrite, or believe, a file of their choice.
type ForeignError struct {
	Path string
	Why  string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s %s: name a state folder of your own", e.Path, e.Why)
}

// openFolder opens a folder that belongs to this user, if need be over a link that this
// user or root made.
func openFolder(path string) (*folder, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	if info.Mode()&fs.ModeSymlink == 0 {
		flags |= unix.O_NOFOLLOW
	} else if uid := owner(info); uid != uint32(os.Geteuid()) && uid != 0 {
		return nil, &ForeignError{path, fmt.Sprintf("is a link made by user %d", uid)}
	}
	fd, err := openAgain(func() (int, error) { return unix.Open(path, flags, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := &folder{path: path, dir: os.NewFile(uintptr(fd), path)}
	if err := f.checkOwn(f.dir, fs.ModeDir); err != nil {
		return nil, errors.Join(err, f.dir.Close())
	}
	return f, nil
}

// open opens a file of the folder, an own regular one.
func (f *folder) open(name string, flags int, mode fs.FileMode) (*os.File, error) {
	path := filepath.Join(f.path, name)
	fd, err := openAgain(func() (int, error) {
		return unix.Openat(int(f.dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC,
			uint32(mode.Perm()))
	})
	if err == unix.ELOOP {
		return nil, &ForeignError{path, "is a link"}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	if err := f.checkOwn(file, 0); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (f *folder) checkOwn(file *os.File, kind fs.FileMode) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Mode().Type() != kind {
		return &ForeignError{file.Name(), "is " + info.Mode().Type().String()}
	}
	if uid := owner(info); uid != uint32(os.Geteuid()) {
		return &ForeignError{file.Name(), fmt.Sprintf("belongs to user %d", uid)}
	}
	return nil
}

// remove removes a file; one that is not there is no error.
func (f *folder) remove(name string) error {
	if err := unix.Unlinkat(int(f.dir.Fd()), name, 0); err != nil && err != unix.ENOENT {
		return &fs.PathError{Op: "remove", Path: filepath.Join(f.path, name), Err: err}
	}
	return nil
}

// rename gives a file another name, which is on disk when it returns.
func (f *folder) rename(from, to string) error {
	fd := int(f.dir.Fd())
	if err := unix.Renameat(fd, from, fd, to); err != nil {
		return &os.LinkError{Op: "rename", Old: filepath.Join(f.path, from), New: filepath.Join(f.path, to), Err: err}
	}
	return f.dir.Sync()
}

func (f *folder) close() error { return f.dir.Close() }

func owner(info fs.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }

// openAgain tries anew when a signal came between.
func openAgain(open func() (int, error)) (fd int, err error) {
	for {
		if fd, err = open(); err != unix.EINTR {
			return fd, err
		}
	}
}
