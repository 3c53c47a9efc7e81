package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSegmentFileElsewhere: what is refused leaves no file behind.
func TestSegmentFileElsewhere(t *testing.T) {
	dir, err := os.MkdirTemp(".", "segment") // the folder for temporary files may be in tmpfs
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var at unix.Statfs_t
	if err := unix.Statfs(dir, &at); err != nil || at.Type == unix.TMPFS_MAGIC {
		t.Skip("the source is in tmpfs")
	}
	file := filepath.Join(dir, "x")
	if _, err := OpenSegment(SegmentOptions{File: file, Length: 4096}); err == nil || !strings.Contains(err.Error(), "neither in tmpfs nor in hugetlbfs") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Lstat(file); err == nil {
		t.Error("the file was made")
	}
}
