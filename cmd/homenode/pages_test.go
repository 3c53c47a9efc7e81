package main

import (
	"os"
	"regexp"
	"testing"
)

// The kernel makes no huge pages of a daemon's memory (THP_enabled of proc_pid_status(5), Linux 5.0).
func TestSmallPages(t *testing.T) {
	smallPages()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^THP_enabled:\t(\d)$`).FindSubmatch(status)
	if m == nil {
		t.Skip("this kernel has no THP_enabled")
	}
	if string(m[1]) != "0" {
		t.Errorf("THP_enabled is %s", m[1])
	}
}
