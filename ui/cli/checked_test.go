package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A failed write takes the half-made file away, but never a device or a pipe.
func TestFailedWriteRemovesOnlyFiles(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken on purpose")
	for name, want := range map[string]error{file: os.ErrNotExist, pipe: nil} {
		if err := WriteFile(name, func(io.Writer) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(name); !errors.Is(err, want) {
			t.Errorf("%s after a failed write: %v, want %v", name, err, want)
		}
	}
	err := WriteFile("/dev/full", func(w io.Writer) error { _, err := w.Write(make([]byte, 1<<16)); return err })
	if err == nil || strings.Count(err.Error(), "no space left") != 1 {
		t.Errorf("a full disk: %q, want it told once", err)
	}
}
