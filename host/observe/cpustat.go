package observe

import (
	"bytes"
	"errors"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
	"github.com/homenode/homenode/host/observe/files"
)

// parseCPUStat reads usage_usec of a cgroup's cpu.stat: CPU time of the cgroup and
// everything below it since it was made. The kernel writes it whether or not the
// cpu controller is on.
func parseCPUStat(b []byte) (time.Duration, bool) {
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		value, ok := bytes.CutPrefix(line, []byte("usage_usec "))
		if !ok {
			continue
		}
		n, ok := proc.Number(value)
		return time.Duration(n) * time.Microsecond, ok && n < 1<<53
	}
	return 0, false
}

// parseThrottled reads nr_periods and nr_throttled of a cgroup's cpu.stat: how many periods
// its cpu.max has had since it was made, and in how many it was held back. Neither is there
// where the cpu controller is off.
func parseThrottled(b []byte) (periods, throttled uint64) {
	for line := range bytes.Lines(b) {
		line = bytes.TrimSpace(line)
		if value, ok := bytes.CutPrefix(line, []byte("nr_periods ")); ok {
			periods, _ = proc.Number(value)
		} else if value, ok := bytes.CutPrefix(line, []byte("nr_throttled ")); ok {
			throttled, _ = proc.Number(value)
		}
	}
	return periods, throttled
}

// waited reads how much of the last ten seconds some task of a leaf waited for a CPU, 0 to 1
// (PSI), and in what share of its periods its own cpu.max held it back. What that holds back
// waits for nobody else: then it is 0. Of whom nobody watches nothing is read.
func (o *Observer) waited(l *leaf, stat []byte) {
	l.waited = 0
	l.waitedFrom = ""
	l.throttledShare = 0
	if !o.signals.waits(workload.ID(l.path)) {
		return
	}
	periods, throttled := parseThrottled(stat)
	held := throttled != l.throttled
	if held && throttled > l.throttled && periods > l.periods {
		l.throttledShare = min(1, float64(throttled-l.throttled)/float64(periods-l.periods))
	}
	l.periods, l.throttled = periods, throttled
	b, err := o.files.ReadOpen(l.dir, files.CPUPressure, o.buf)
	switch {
	case err == nil:
		l.waitedFrom, o.signals.psi = workload.PSI, true
		if !held {
			some, _, _ := proc.Pressure(b)
			l.waited = some / 100
		}
	case o.signals.whyPSI == "":
		if o.signals.whyPSI = err.Error(); files.Gone(err) || errors.Is(err, syscall.EOPNOTSUPP) {
			o.signals.whyPSI = "the kernel keeps none (CONFIG_PSI; psi=1 where it is off by default)"
		}
	}
}
