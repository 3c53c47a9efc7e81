package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
)

// R17: a link that another user left in a folder of state that anybody could make is not
// followed, neither to write nor to read.
func TestLinksAreNotFollowed(t *testing.T) {
	for _, name := range []string{lockName, fileName, fileName + ".new"} {
		dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
		if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		for _, open := range []func(string) (*Store, error){Open, OpenReadOnly, OpenForUndo} {
			s, err := open(dir)
			var foreign *ForeignError
			switch {
			case err == nil:
				s.Close()
				if name != fileName+".new" { // which is removed
					t.Errorf("%s: opened", name)
				}
			case !errors.As(err, &foreign) && !errors.Is(err, os.ErrNotExist):
				t.Errorf("%s: %v", name, err)
			}
		}
		if text, _ := os.ReadFile(target); string(text) != "precious" {
			t.Errorf("%s: the target now holds %q", name, text)
		}
	}
}

func TestFolderOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make one")
	}
	base := t.TempDir()
	dir, link := filepath.Join(base, "dir"), filepath.Join(base, "link")
	opened(t, dir).Close()
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	try := func(what, path, want string) {
		t.Helper()
		for _, open := range []func(string) (*Store, error){Open, OpenReadOnly, OpenForUndo} {
			s, err := open(path)
			if err == nil {
				s.Close()
			}
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", what, err, want)
			}
		}
	}
	try("own link", link, "")
	if err := os.Lchown(link, 65533, 65533); err != nil {
		t.Fatal(err)
	}
	try("link of another user", link, "is a link made by user 65533")
	if err := os.Chown(filepath.Join(dir, fileName), 65533, 65533); err != nil {
		t.Fatal(err)
	}
	try("file of another user", dir, "belongs to user 65533")
	if err := os.Chown(dir, 65533, 65533); err != nil {
		t.Fatal(err)
	}
	try("folder of another user", dir, "belongs to user 65533")
}

// R14: what the journal says can be put back where nothing can be written, and it is
// known that this was not written down.
func TestOpenForUndo(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenForUndo(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a store: %v", err)
	}
	s := opened(t, dir)
	commit(t, s, plan.Batch{Entries: []plan.Entry{{Seq: 1, Path: "/a", Old: "0-3", State: plan.Applied}}})
	if _, err := OpenForUndo(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("while a daemon runs: %v", err)
	}
	s.Close()
	for range 2 { // it stays as it is
		c, lines := child(t, "undo on a full disk", dir)
		if !lines.Scan() || lines.Text() != "0-3, write to the store: store is open for reading only" {
			t.Errorf("%q", lines.Text())
		}
		c.Wait()
	}
	s, err := OpenForUndo(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	commit(t, s, plan.Batch{Entries: []plan.Entry{{Seq: 1, State: plan.Restored}}})
}
