//go:build linux

package lab

import (
	"fmt"
	"os"
	"strings"
)

// ReadText reads a small file of /proc or /sys; "" when it can not.
func ReadText(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Read returns what a small file holds; the test fails if it cannot be read.
func (t *T) Read(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return strings.TrimSpace(string(b))
}

// Write writes to a kernel file; the test fails if that is refused.
func (t *T) Write(name, value string) {
	if err := WriteText(name, value); err != nil {
		t.Fatalf("%v", err)
	}
}

// WriteText writes without creating: a kernel file that is not there is an error.
func WriteText(name, value string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer f.Close()
	if _, err := f.WriteString(value); err != nil {
		return fmt.Errorf("write %q to %s: %w", value, name, err)
	}
	return nil
}

// OneLine replaces every run of white space with one space.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
