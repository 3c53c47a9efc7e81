package files

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/host/internal/fault"
)

// openFilesRig is three cgroups on disk and a reader of them.
func openFilesRig(t *testing.T) (dir string, r *rootReader, look func(groups ...string) map[string]string) {
	dir = t.TempDir()
	for _, g := range []string{"a", "b", "c"} {
		writeFile(t, filepath.Join(dir, g, "cgroup.procs"), "1\n")
		writeFile(t, filepath.Join(dir, g, "cpu.stat"), "usage_usec 1\n")
	}
	r = Root(dir).(root).reader().(*rootReader)
	return dir, r, func(groups ...string) map[string]string {
		t.Helper()
		got := map[string]string{}
		for _, g := range groups {
			for _, name := range []CgroupFile{CgroupProcs, CPUStat} {
				if b, err := r.ReadOpen(g, name, make([]byte, 8)); err == nil {
					got[g] += string(b)
				}
			}
		}
		r.CloseUnread()
		open := 0
		for _, f := range r.openFiles.folders {
			for _, fd := range f.fds {
				if fd >= 0 {
					open++
				}
			}
		}
		if open != r.openFiles.n || open > r.openFiles.most {
			t.Fatalf("%d open, counted %d, most %d", open, r.openFiles.n, r.openFiles.most)
		}
		return got
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestHeld: files are held from the second reading on, give what they hold now, however
// its length changes, and are closed when their cgroup is no longer read.
func TestHeld(t *testing.T) {
	dir, r, look := openFilesRig(t)
	for i, want := range []int{0, 6, 6} {
		if look("a", "b", "c"); r.openFiles.n != want {
			t.Errorf("look %d: %d held, want %d", i+1, r.openFiles.n, want)
		}
	}
	long := ""
	for i := range 2000 { // over a page, and over the buffer
		long += fmt.Sprintf("%d\n", i)
	}
	for _, text := range []string{long, "", "7\n"} {
		writeFile(t, filepath.Join(dir, "a/cgroup.procs"), text)
		if got := look("a", "b", "c")["a"]; got != text+"usage_usec 1\n" {
			t.Errorf("read %q, want %q", got, text)
		}
	}
	look("a")
	if look("a", "b"); r.openFiles.n != 2 || len(r.openFiles.folders) != 2 {
		t.Errorf("%d held of %d cgroups after b was gone and back", r.openFiles.n, len(r.openFiles.folders))
	}
	if look(); r.openFiles.n != 0 || len(r.openFiles.folders) != 0 {
		t.Errorf("%d held of nothing", r.openFiles.n)
	}
}

// TestHeldFails: what a held file no longer gives is read anew by its name, as after a
// cgroup was removed and made again, and a removed one is gone.
func TestHeldFails(t *testing.T) {
	dir, r, look := openFilesRig(t)
	look("a", "b")
	look("a", "b")
	// As ENODEV from a removed cgroup: a descriptor that cannot be read.
	spoil := func() {
		for name := range cgroupFiles {
			if fd := r.openFiles.folders["a"].fds[name]; fd >= 0 {
				null, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
				if err != nil {
					t.Fatal(err)
				}
				if err := unix.Dup3(null, fd, unix.O_CLOEXEC); err != nil {
					t.Fatal(err)
				}
				unix.Close(null)
			}
		}
	}
	spoil()
	if got := look("a", "b"); got["a"] != "1\nusage_usec 1\n" || r.openFiles.n != 4 {
		t.Errorf("read %q, %d held", got, r.openFiles.n)
	}
	spoil()
	if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadOpen("a", CPUStat, nil); !Gone(err) {
		t.Errorf("error %v", err)
	}
	if got := look("a", "b"); got["a"] != "" || r.openFiles.n != 2 {
		t.Errorf("read %q of what is gone, %d held", got, r.openFiles.n)
	}
}

// TestHeldBounded: no more are held than allowed, and fewer once the process had none left.
func TestHeldBounded(t *testing.T) {
	_, r, look := openFilesRig(t)
	r.openFiles.most = 5
	for range 3 {
		if got := look("a", "b", "c"); len(got) != 3 {
			t.Fatal(got)
		}
	}
	if r.openFiles.n != 5 {
		t.Errorf("%d held, want 5", r.openFiles.n)
	}
	r.openFiles.giveBack()
	if got := look("a", "b", "c"); len(got) != 3 || r.openFiles.n != 2 {
		t.Errorf("%d held, want 2; read %v", r.openFiles.n, got)
	}
}

// Whichever call fails: what is read is whole or an error, no descriptor is lost, and the
// reading after is whole.
func TestHeldEverySystemCallFails(t *testing.T) {
	errnos := []unix.Errno{unix.ENODEV, unix.ENOENT, unix.EIO, unix.EMFILE, unix.EINTR}
	fault.Each(t, errnos, func(t *testing.T, watched func(func())) {
		_, r, look := openFilesRig(t)
		look("a", "b")
		look("a", "b")
		var text []byte
		var err error
		watched(func() {
			text, err = r.ReadOpen("a", CPUStat, make([]byte, 8))
			r.CloseUnread()
			_, _ = r.ReadOpen("c", CPUStat, make([]byte, 8))
		})
		if err == nil && string(text) != "usage_usec 1\n" {
			t.Errorf("read %q", text)
		}
		for range 3 {
			if got := look("a", "b", "c"); got["a"] != "1\nusage_usec 1\n" || len(got) != 3 {
				t.Errorf("afterwards %q", got)
			}
		}
	})
}
