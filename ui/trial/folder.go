package trial

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/trial"
)

// Folder keeps a trial and its results.
type Folder struct {
	Path string
	lock *os.File
}

// ErrBusy is returned by Open when another process runs the trial of a folder.
var ErrBusy = errors.New("another homenode runs the trial of this folder")

// DocumentFile is the trial in a folder.
const DocumentFile = "trial.json"

// Open makes the folder, if need be, and keeps other processes out of it. The folder must be the
// caller's: another user could put links in place of its files. Read it after that.
func Open(path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	root, err := own(path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	lock, err := root.OpenFile(".lock", os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("%s: %w", path, ErrBusy)
	}
	left, _ := filepath.Glob(filepath.Join(path, ".trial.*-*")) // by a program that was killed in the midst of Write
	for _, name := range left {
		os.Remove(name)
	}
	return &Folder{path, lock}, nil
}

// own opens a folder of the caller's.
func own(path string) (*os.Root, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err == nil {
		err = trusted(path, info)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// Close lets others in.
func (f *Folder) Close() error { return f.lock.Close() }

// mostDocument bounds a trial's file: a week of readings every second has 100 MB.
const mostDocument = 256 << 20

// Read is the trial that a folder has; nil for none.
func Read(path string) (*trial.Document, error) {
	name := filepath.Join(path, DocumentFile)
	root, err := own(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// a fifo does not wait for its writer
	f, err := root.OpenFile(DocumentFile, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", name)
	}
	if err == nil {
		err = trusted(name, info)
	}
	if err == nil && info.Size() > mostDocument {
		err = fmt.Errorf("%s: longer than %d MiB", name, mostDocument>>20)
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, mostDocument))
	if err != nil {
		return nil, err
	}
	d := new(trial.Document)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if d.Schema != trial.Schema {
		return nil, fmt.Errorf("%s: schema %.40q; want %s", name, d.Schema, trial.Schema)
	}
	if err := d.Plan.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

// ErrOwner is wrapped where a trial is another user's: its commands would run with the rights of
// whoever goes on with it.
var ErrOwner = errors.New("the commands in it would run with your rights")

// trusted reports why a file or folder is not to be gone on with.
func trusted(name string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d: %w", name, stat.Uid, ErrOwner)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s may be written by others: %w", name, ErrOwner)
	}
	return nil
}

// Write puts a file into the folder. It is whole, also when the machine fails in the midst, and stays once Write
// returns.
func (f *Folder) Write(name string, text []byte) error {
	temporary, err := os.CreateTemp(f.Path, "."+name+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(text)
	err = errors.Join(err, temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), filepath.Join(f.Path, name))
	}
	if err != nil {
		return err
	}
	folder, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Save writes the trial.
func (f *Folder) Save(d *trial.Document) error {
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	return f.Write(DocumentFile, append(text, '\n'))
}
