package observe

import (
	"bytes"
	"time"

	"github.com/homenode/homenode/host/internal/proc"
)

// parseCPUStat reads usage_usec of a cgroup's cpu.stat: CPU time of the cgroup and
// everything below it since it was made. The kernel writes it whether or not the
// cpu controller is on.
func parseCPUStat(b []byte) (time.Duration, bool) {
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte{'\n'})
		b = rest
		value, ok := bytes.CutPrefix(line, []byte("usage_usec "))
		if !ok {
			continue
		}
		n, ok := proc.Number(value)
		return time.Duration(n) * time.Microsecond, ok && n < 1<<53
	}
	return 0, false
}
