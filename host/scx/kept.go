package scx

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/words"
)

func versionOf(object []byte) string { return fmt.Sprintf("%x", sha256.Sum256(object))[:12] }

// embedded is the object for this kernel; nil where it takes none.
func (d *Driver) embedded() []byte {
	if d.under != "" {
		return objectBelow
	}
	for _, g := range generations {
		if g.name == d.support.Generation {
			return g.object
		}
	}
	return nil
}

func (d *Driver) kept(version string) string { return filepath.Join(d.o.Folder, version+".o") }

// object is that of a version.
func (d *Driver) object(version string) ([]byte, error) {
	for _, b := range [][]byte{d.embedded(), objectBelow} {
		if b != nil && versionOf(b) == version {
			return b, nil
		}
	}
	b, err := os.ReadFile(d.kept(version))
	if err != nil {
		return nil, fmt.Errorf("version %s: its object is not kept: %w", version, errors.Unwrap(err))
	}
	if versionOf(b) != version {
		return nil, fmt.Errorf("version %s: %s was changed", version, d.kept(version))
	}
	return b, nil
}

const (
	mostObject = 16 << 20 // bytes
	mostKept   = 8        // objects
)

// keep writes an object where a later daemon finds it, and removes the oldest of too many.
func (d *Driver) keep(object []byte) error {
	file := d.kept(versionOf(object))
	if err := os.MkdirAll(d.o.Folder, 0o700); err != nil {
		return err
	}
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, object) {
		now := time.Now()
		return os.Chtimes(file, now, now)
	}
	if err := renameio.WriteFile(file, object, 0o600, renameio.WithTempDir(d.o.Folder)); err != nil {
		return err
	}
	entries, err := os.ReadDir(d.o.Folder)
	if err != nil {
		return err
	}
	age := func(e fs.DirEntry) time.Time {
		if i, err := e.Info(); err == nil {
			return i.ModTime()
		}
		return time.Time{}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return age(b).Compare(age(a)) })
	for _, e := range entries[min(len(entries), mostKept):] {
		if v := strings.TrimSuffix(e.Name(), ".o"); v != d.version && v != d.before {
			os.Remove(filepath.Join(d.o.Folder, e.Name()))
		}
	}
	return nil
}

// Keep keeps the object in a file, so that a step can load it by its version. A dry run only says
// which version it is.
func (d *Driver) Keep(ctx context.Context, file string, dryRun bool) (string, error) {
	object, err := readObject(file) // before mu is taken: the file may be anywhere
	if err != nil {
		return "", err
	}
	if !dryRun {
		d.mu.Lock()
		defer d.mu.Unlock()
		if err := d.keep(object); err != nil {
			return "", fmt.Errorf("keep %s: %w", file, err)
		}
	}
	return versionOf(object), ctx.Err()
}

// readObject reads the object in a file, whatever is in its place meanwhile.
func readObject(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe does not hold it up
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; name a BPF object file", file, errors.Unwrap(err))
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil || !i.Mode().IsRegular() || i.Size() > mostObject {
		return nil, fmt.Errorf("read %s: it is no file of at most %s", file, words.Bytes(int64(mostObject)))
	}
	object, err := io.ReadAll(io.LimitReader(f, mostObject))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, errors.Unwrap(err))
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil || spec.Maps["share"] == nil {
		return nil, fmt.Errorf("read %s: it is no object of homenode's scheduler", file)
	}
	return object, nil
}

func (d *Driver) pin(version string) string { return d.o.Pins + "-" + version }

// pinned is the versions that have pins. Who else may write into bpffs (it is open to all where
// it is mounted without mode=) may make folders and links of any name.
func (d *Driver) pinned() (versions []string) {
	found, _ := filepath.Glob(d.o.Pins + "-*")
	for _, pin := range found {
		if own(pin) == nil {
			versions = append(versions, strings.TrimPrefix(pin, d.o.Pins+"-"))
		}
	}
	return versions
}
