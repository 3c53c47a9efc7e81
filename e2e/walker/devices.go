//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// devices is the files that a walker opened on request.
type devices struct{ files []*os.File }

// open closes the open files and opens each word: a file, or N for N times /dev/null.
// "-" opens nothing.
func (d *devices) open(words string) error {
	for _, f := range d.files {
		f.Close()
	}
	d.files = nil
	for _, word := range strings.Fields(words) {
		if word == "-" {
			continue
		}
		name, times := word, 1
		n, err := strconv.Atoi(word)
		if err == nil {
			name, times = os.DevNull, n
			limit := syscall.Rlimit{Cur: uint64(n + 64), Max: uint64(n + 64)}
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
				return fmt.Errorf("allow %d open files: %w", n, err)
			}
		}
		for range times {
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			d.files = append(d.files, f)
		}
	}
	return nil
}
