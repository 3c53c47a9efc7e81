package cli

import (
	"errors"
	"io/fs"
	"os"
)

// tree is a folder that the user named, as os.DirFS gives it, but for what is
// neither a file nor a folder: opening a pipe would wait for ever, and reading a
// device never end.
type tree struct{ fs.FS }

var errSpecial = errors.New("neither a file nor a folder")

func openTree(dir string) fs.FS { return tree{os.DirFS(dir)} }

func (t tree) Open(name string) (fs.File, error) {
	there, err := fs.Stat(t.FS, name)
	if err != nil {
		return nil, err
	}
	if !there.Mode().IsRegular() && !there.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errSpecial}
	}
	return t.FS.Open(name)
}

// The methods of os.DirFS that embedding an fs.FS hides. ReadFile is not among
// them, for it would pass Open by.

func (t tree) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(t.FS, name) }
func (t tree) Stat(name string) (fs.FileInfo, error)      { return fs.Stat(t.FS, name) }
func (t tree) ReadLink(name string) (string, error)       { return fs.ReadLink(t.FS, name) }
func (t tree) Lstat(name string) (fs.FileInfo, error)     { return fs.Lstat(t.FS, name) }
