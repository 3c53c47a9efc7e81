package resctrl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/host/internal/kernfile"
)

// files is the machine, or a model of it. Names are below its root.
type files interface {
	read(name string) (string, error)
	write(name, text string) error
	mkdir(name string) error
	rmdir(name string) error
	// threads is those of a cgroup and of all below it, and its inode.
	threads(cgroup string) (tids []int, object string, err error)
}

type tree struct{ root string }

func (t tree) path(name string) string { return filepath.Join("/", t.root, name) }

func (t tree) read(name string) (string, error) {
	b, err := os.ReadFile(t.path(name))
	return string(b), err
}

func (t tree) write(name, text string) error {
	f, err := os.OpenFile(t.path(name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return kernfile.WriteClose(f, text)
}

func (t tree) mkdir(name string) error { return os.Mkdir(t.path(name), 0o755) }

// rmdir is not os.Remove, which would remove a file, too.
func (t tree) rmdir(name string) error {
	if err := unix.Rmdir(t.path(name)); err != nil {
		return &fs.PathError{Op: "rmdir", Path: t.path(name), Err: err}
	}
	return nil
}

func (t tree) threads(cgroup string) (tids []int, object string, err error) {
	dir := t.path("sys/fs/cgroup" + filepath.Clean("/"+cgroup))
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return nil, "", fmt.Errorf("cgroup %s: %w", cgroup, err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			return nil
		}
		var b []byte
		if err == nil {
			b, err = os.ReadFile(filepath.Join(path, "cgroup.threads"))
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			return nil // gone meanwhile
		}
		for f := range strings.FieldsSeq(string(b)) {
			if tid, err := strconv.Atoi(f); err == nil && tid > 0 {
				tids = append(tids, tid)
			}
		}
		return err
	})
	return tids, strconv.FormatUint(st.Ino, 10), err
}
