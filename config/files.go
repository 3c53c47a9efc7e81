package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Files reads the configuration file and its drop-ins: of homenode.yaml those are homenode.d/*.yaml beside it, by
// name. named: the user has named the file, so it must be there.
func Files(file string, named bool) ([]Layer, error) {
	var layers []Layer
	read := func(file string, flags int, check func(*os.File) error) error {
		f, err := os.OpenFile(file, os.O_RDONLY|flags, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		err = check(f)
		if err != nil {
			return err
		}
		l, err := ReadLayer(f, file)
		layers = append(layers, l)
		return err
	}
	err := read(file, 0, func(*os.File) error { return nil })
	if err != nil && (named || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	folder := strings.TrimSuffix(file, filepath.Ext(file)) + ".d"
	entries, err := os.ReadDir(folder) // sorted
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return layers, nil
	}
	if err != nil {
		return nil, err
	}
	// a hidden one is what an editor keeps beside a file
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		return strings.HasPrefix(e.Name(), ".") || filepath.Ext(e.Name()) != ".yaml"
	})
	if len(entries) == 0 {
		return layers, nil
	}
	d, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	err = trusted(d)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		// Not a pipe, for which a daemon would wait at each start and reload.
		err = read(filepath.Join(folder, e.Name()), unix.O_NONBLOCK, trustedFile)
		if err != nil {
			return nil, err
		}
	}
	return layers, nil
}

// trustedFile refuses what trusted does, and what is not a file.
func trustedFile(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file; drop-ins are files", f.Name())
	}
	return trusted(f)
}

// trusted refuses a drop-in, or the folder of them, that a user other than root and the one who runs this may have
// written.
func trusted(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: its owner is not known", f.Name())
	}
	if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d: drop-ins and their folder must belong to root or to who runs "+
			"homenode; chown it", f.Name(), st.Uid)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s can be written by others (mode %#o): chmod go-w %s", f.Name(), info.Mode().Perm(),
			f.Name())
	}
	return nil
}
