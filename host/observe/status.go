package observe

import (
	"bytes"

	"github.com/homenode/homenode/core/topology"
)

// status is the part of /proc/PID/status that is used here; lists are in the
// parsed buffer.
type status struct {
	cpus, mems []byte       // Cpus_allowed_list, Mems_allowed_list; nil when absent
	huge       topology.KiB // HugetlbPages: what hugetlbfs pages it has mapped
}

// parseStatus reads proc_pid_status(5).
func parseStatus(b []byte) status {
	var s status
	for len(b) > 0 {
		line := b
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			line, b = b[:i], b[i+1:]
		} else {
			b = nil
		}
		if len(line) < 12 || (line[0] != 'C' && line[0] != 'M' && line[0] != 'H') {
			continue
		}
		key, value, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			continue
		}
		switch string(key) {
		case "Cpus_allowed_list":
			s.cpus = bytes.TrimSpace(value)
		case "Mems_allowed_list":
			s.mems = bytes.TrimSpace(value)
		case "HugetlbPages":
			if f := bytes.Fields(value); len(f) > 0 {
				if n, ok := number(f[0]); ok && n < maxKiB {
					s.huge = topology.KiB(n)
				}
			}
		}
	}
	return s
}
