//go:build !(linux && amd64)

package fault

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Each skips: the tracer knows the registers of amd64 only.
func Each(t *testing.T, _ []unix.Errno, _ func(t *testing.T, watched func(do func()))) {
	t.Helper()
	t.Skip("tracing of system calls is written for amd64")
}
