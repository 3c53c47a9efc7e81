package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The key of a host is made once, secret, and read again; one that others could have read or cut short is replaced.
func TestHostKey(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, keyName)
	read := func() []byte {
		t.Helper()
		key, err := HostKey(dir)
		if err != nil || len(key) != keySize || bytes.Equal(key, make([]byte, keySize)) {
			t.Fatalf("%x, %v", key, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v", info.Mode(), err)
		}
		return key
	}
	first := read()
	if again := read(); !bytes.Equal(first, again) {
		t.Error("it is another one the second time")
	}
	if err := os.WriteFile(path+".new", []byte("of a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, harm := range map[string]func() error{
		"cut short":          func() error { return os.Truncate(path, 5) },
		"too long":           func() error { return os.WriteFile(path, make([]byte, keySize+1), 0o600) },
		"readable by others": func() error { return os.Chmod(path, 0o640) },
		"gone":               func() error { return os.Remove(path) },
	} {
		before := read()
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(before, read()) {
			t.Errorf("%s: it is believed still", name)
		}
	}
	if left, _ := filepath.Glob(path + ".new"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A link in the place of the key is not followed, and is an error.
func TestHostKeyIsNoLink(t *testing.T) {
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, make([]byte, keySize), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, keyName)); err != nil {
		t.Fatal(err)
	}
	key, err := HostKey(dir)
	var foreign *ForeignError
	if !errors.As(err, &foreign) || key != nil {
		t.Errorf("%x, %v", key, err)
	}
}
