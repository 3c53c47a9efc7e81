//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
)

// readText reads a small file of /proc or /sys; "" when it can not.
func readText(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (t *T) read(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return strings.TrimSpace(string(b))
}

func (t *T) write(name, value string) {
	if err := writeText(name, value); err != nil {
		t.Fatalf("%v", err)
	}
}

// writeText writes without creating: a kernel file that is not there is an error.
func writeText(name, value string) error {
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

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
