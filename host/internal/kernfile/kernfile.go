package kernfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Tree is the files below a folder; "/" is the machine's own.
type Tree string

// Path is where a file of the tree is.
func (t Tree) Path(name string) string { return filepath.Join(string(t), name) }

// Read is the text of a file without the line end.
func (t Tree) Read(name string) (string, error) {
	b, err := os.ReadFile(t.Path(name))
	return strings.TrimRight(string(b), "\n"), err
}

// Write gives a file that exists its text.
func (t Tree) Write(name, text string) error {
	f, err := os.OpenFile(t.Path(name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	return WriteClose(f, text)
}

// List is the names in a folder, rising.
func (t Tree) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(t.Path(dir))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// Link is where a symbolic link leads.
func (t Tree) Link(name string) (string, error) { return os.Readlink(t.Path(name)) }

// WriteClose hands the kernel the whole text in one call, as its files want it, and
// closes the file. Some files tell of a failure only then.
func WriteClose(f *os.File, text string) error {
	_, err := f.WriteString(text)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

// Why is the words that follow a write that was refused, for the causes that all these
// files have in common; "" for others.
func Why(err error) string {
	switch {
	case errors.Is(err, unix.EROFS):
		return "; it is mounted read-only, as in a container"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "; writing needs root"
	}
	return ""
}

// Fixed reports whether err is the kernel's answer to a write to the CPUs of an interrupt
// that it manages itself (kernel/irq/proc.c, write_irq_affinity).
func Fixed(err error) bool {
	var at *fs.PathError
	return errors.As(err, &at) && at.Op == "write" && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EIO))
}

// Gone reports whether err says that what a file is of is no longer there.
func Gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}
