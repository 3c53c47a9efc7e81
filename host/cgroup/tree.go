package cgroup

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// files is the cgroup file system, or a model of it.
type files interface {
	read(cgroup, file string) (string, error)
	write(cgroup, file, text string) error
	children(cgroup string) ([]string, error) // paths below the mount, rising
}

// tree is a mounted cgroup file system. Paths come out of plans and journals, and
// cgroups are made by others: openat2 keeps every path below the mount and
// follows no symbolic link.
type tree struct{ mount string }

func (t tree) open(cgroup, file string, flags uint64) (*os.File, error) {
	name := strings.TrimPrefix(path.Join(cgroup, file), "/")
	if name == "" {
		name = "."
	}
	root, err := unix.Open(t.mount, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		// The mount itself: never to be taken for a cgroup that is gone.
		return nil, &MountError{t.mount, err.Error()}
	}
	defer unix.Close(root)
	for {
		fd, err := unix.Openat2(root, name, &unix.OpenHow{
			Flags:   flags | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), path.Join(t.mount, name)), nil
		case unix.EINTR, unix.EAGAIN:
			continue
		}
		return nil, &fs.PathError{Op: "open", Path: path.Join(t.mount, name), Err: err}
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

// write hands the kernel the whole text in one call, as cgroup files want it.
func (t tree) write(cgroup, file, text string) error {
	f, err := t.open(cgroup, file, unix.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
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

// checkPath refuses what is no path of a cgroup below the root. openat2 would
// stop an escape too; this gives the reason, and stops "..".
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
