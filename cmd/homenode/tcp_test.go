package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTokenFile: a token that others can read, choose or guess is refused, with what would mend it.
func TestTokenFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	for _, x := range []struct {
		name, text string
		mode       os.FileMode
		owner      int
		want       string // of the error; "" is none
	}{
		{"good", "0123456789abcdef\n", 0o600, 0, ""},
		{"for a group", "0123456789abcdef", 0o640, 0, ""},
		{"read by others", "0123456789abcdef", 0o644, 0, "chmod 0600"},
		{"written by a group", "0123456789abcdef", 0o660, 0, "chmod 0600"},
		{"of a user", "0123456789abcdef", 0o600, 12345, "want root"},
		{"short", "secret", 0o600, 0, "6 characters; want at least 16"},
		{"empty", "", 0o600, 0, "0 characters"},
		{"two lines", "0123456789abcdef\n0123456789abcdef", 0o600, 0, "one line"},
	} {
		os.Remove(file)
		if err := os.WriteFile(file, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		os.Chmod(file, x.mode)
		if x.owner != 0 && os.Chown(file, x.owner, -1) != nil {
			continue // by root only
		}
		token, err := readToken(file)
		switch {
		case x.want == "" && (err != nil || token != "0123456789abcdef"):
			t.Errorf("%s: %q, %v", x.name, token, err)
		case x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
			t.Errorf("%s: %v, want %q", x.name, err, x.want)
		}
	}
	if _, err := readToken(dir); err == nil || !strings.Contains(err.Error(), "no ordinary file") {
		t.Errorf("a folder: %v", err)
	}
}
