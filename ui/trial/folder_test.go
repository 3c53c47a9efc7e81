package trial

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/api"
)

// TestFolderOfAnother: what another user can write is neither gone on with nor written to: links there
// would have root make files, and run commands, of that user's choice.
func TestFolderOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives folders away")
	}
	for what, make := range map[string]func(dir string) error{
		"another user's":  func(dir string) error { return os.Chown(dir, 1<<20, 1<<20) },
		"all may write":   func(dir string) error { return os.Chmod(dir, 0o777) },
		"group may write": func(dir string) error { return os.Chmod(dir, 0o770) },
	} {
		dir := filepath.Join(t.TempDir(), "trial")
		if err := errors.Join(os.Mkdir(dir, 0o700), make(dir)); err != nil {
			t.Fatal(err)
		}
		if f, err := Open(dir); !errors.Is(err, ErrOwner) {
			t.Errorf("%s: opened %v, %v", what, f, err)
		}
		if d, err := Read(dir); !errors.Is(err, ErrOwner) {
			t.Errorf("%s: read %v, %v", what, d, err)
		}
	}
}

func TestFolderWithLinks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trial")
	aim := filepath.Join(t.TempDir(), "nologin")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Symlink(aim, filepath.Join(dir, ".lock"))); err != nil {
		t.Fatal(err)
	}
	if f, err := Open(dir); err == nil {
		t.Errorf("a link as the lock: %v", f)
	}
	if _, err := os.Lstat(aim); err == nil {
		t.Errorf("%s was made", aim)
	}
	name := filepath.Join(dir, DocumentFile)
	for what, err := range map[string]func() error{
		"a link":   func() error { return os.Symlink("/etc/hostname", name) },
		"a fifo":   func() error { return unix.Mkfifo(name, 0o600) },
		"a folder": func() error { return os.Mkdir(name, 0o700) },
	} {
		if err := err(); err != nil {
			t.Fatal(err)
		}
		if d, err := Read(dir); err == nil || what != "a link" && !strings.Contains(err.Error(), "is not a file") {
			t.Errorf("%s: read %v, %v", what, d, err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFolderOfAKilledProgram: what a program has left that was killed as it wrote is removed, and no other file.
func TestFolderOfAKilledProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".trial.json-123", ".trial.html-9", "trial.json", "notes.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Write("trial.md", []byte("x")); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	hidden, _ := filepath.Glob(filepath.Join(dir, ".trial*"))
	if err != nil || len(left) != 4 || len(hidden) != 0 {
		t.Errorf("%v: left %q and %q", err, left, hidden)
	}
}

func TestFolderIsOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trial")
	if d, err := Read(dir); d != nil || err != nil {
		t.Errorf("of none: %v, %v", d, err)
	}
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrBusy) {
		t.Errorf("opened twice: %v", err)
	}
	f.Close()
	if f, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// TestNamed: counters are read of what the daemon switches.
func TestNamed(t *testing.T) {
	nested := api.Workload{ID: "/system.slice/a.slice/b.service", Name: "b", Kind: "cgroup", Processes: []int{7}}
	tree := api.Workload{ID: "pid:9", Name: "sh", Kind: "process", Cgroup: "/system.slice/cron.service"}
	for _, c := range []struct {
		pattern string
		of      *api.Workload
		want    bool
	}{
		{"/system.slice/**", &nested, true}, {"/system.slice/*", &nested, false}, {"{b,c}", &nested, true}, {"b.service", &nested, true}, {"7", &nested, true}, {"a", &nested, false},
		{"/system.slice/**", &tree, true}, {"pid:9", &tree, true}, {"9", &tree, false},
	} {
		if got := Named(c.pattern, c.of); got != c.want {
			t.Errorf("%q of %s: %v", c.pattern, c.of.ID, got)
		}
	}
}
