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

// parseThrottled reads nr_throttled of a cgroup's cpu.stat: how often its cpu.max held it
// back since it was made. It is not there where the cpu controller is off.
func parseThrottled(b []byte) uint64 {
	for line := range bytes.Lines(b) {
		if value, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("nr_throttled ")); ok {
			n, _ := proc.Number(value)
			return uint64(n)
		}
	}
	return 0
}

// waited reads how much of the last ten seconds some task of a leaf waited for a CPU, 0 to 1
// (PSI). What its own cpu.max holds back waits for nobody else: then it is 0.
func (o *Observer) waited(l *leaf, stat []byte) {
	if !o.opts.Waits {
		return
	}
	throttled := parseThrottled(stat)
	held := throttled != l.throttled
	l.throttled, l.waited = throttled, 0
	if b, err := o.files.readOpen(l.dir, cpuPressure, o.buf); err == nil && !held {
		some, _, _ := proc.Pressure(b)
		l.waited = some / 100
	}
}
