package topology

import (
	"errors"
	"io/fs"
)

// Plain is a tree of which only regular files and directories are opened, for trees
// that somebody else made: opening a FIFO waits for its writer, for ever, and reading
// a device may never end. It costs a stat for each file.
func Plain(fsys fs.FS) fs.FS {
	return plain{fsys}
}

type plain struct{ tree fs.FS }

var errNotPlain = errors.New("neither a file nor a folder")

func (p plain) Open(name string) (fs.File, error) {
	info, err := fs.Stat(p.tree, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errNotPlain}
	}
	return p.tree.Open(name)
}

func (p plain) Stat(name string) (fs.FileInfo, error)  { return fs.Stat(p.tree, name) }
func (p plain) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(p.tree, name) }
func (p plain) ReadLink(name string) (string, error)   { return fs.ReadLink(p.tree, name) }
