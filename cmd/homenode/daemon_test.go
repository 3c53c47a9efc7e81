package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestStateFolderOfConfiguration: undo looks for the journal where root's daemon keeps it,
// whatever text that is.
func TestStateFolderOfConfiguration(t *testing.T) {
	was := machine
	t.Cleanup(func() { machine = was })
	machine = t.TempDir()
	if err := os.Mkdir(filepath.Join(machine, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/srv/a b", "/srv/'a'", `/srv/"a"`, "/srv/a\nb", "/srv/# a", "/srv/$(a)"} {
		if err := os.WriteFile(filepath.Join(machine, configFile), []byte("state_dir: "+strconv.Quote(dir)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		want := dir
		if os.Geteuid() != 0 {
			want = defaultState()
		}
		if c, err := localConfig(""); err != nil || c.StateDir != want {
			t.Errorf("%q: %q %v", dir, c.StateDir, err)
		}
		if c, err := localConfig("/named"); err != nil || c.StateDir != "/named" {
			t.Errorf("--state-dir: %q %v", c.StateDir, err)
		}
	}
}
