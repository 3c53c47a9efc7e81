package kernfile

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTree(t *testing.T) {
	root := Tree(t.TempDir())
	if err := root.Write("x", "1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
	if err := os.WriteFile(root.Path("x"), []byte("long text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := root.Write("x", "1\n"); err != nil {
		t.Error(err)
	}
	if got, err := root.Read("x"); got != "1" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.Symlink("x", root.Path("link")); err != nil {
		t.Fatal(err)
	}
	if got, err := root.Link("link"); got != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := root.List("."); !slices.Equal(got, []string{"link", "x"}) || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := root.List("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A write that the kernel refuses is an error.
func TestWriteRefused(t *testing.T) {
	if err := Tree("/dev").Write("full", "1"); !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
}
