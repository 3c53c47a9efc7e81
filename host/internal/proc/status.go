package proc

import (
	"bytes"

	"github.com/homenode/homenode/core/topology"
)

// MaxKiB bounds an amount of memory in a file (4 PiB), so that sums of garbage do
// not overflow.
const MaxKiB = 1 << 42

// Status is the part of /proc/PID/status that is used. Lists lie in the parsed buffer,
// nil when absent.
type Status struct {
	CPUs, Mems []byte       // Cpus_allowed_list, Mems_allowed_list
	Huge       topology.KiB // HugetlbPages: pages of hugetlbfs that it has mapped
	Pinned     topology.KiB // VmPin: held for devices
	Locked     topology.KiB // VmLck
	UID, EUID  int          // real and effective user; 0 when absent
	// First: it is the first process of its PID namespace, and of no outer one.
	First bool
}

// ParseStatus reads proc_pid_status(5).
func ParseStatus(b []byte) Status {
	var s Status
	for line := range bytes.Lines(b) { // for each process of a scan: bytes.SplitSeq takes half as long again
		switch line[0] {
		case 'C', 'M', 'H', 'V', 'U', 'N':
		default:
			continue
		}
		key, value, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			continue
		}
		switch string(key) {
		case "Cpus_allowed_list":
			s.CPUs = bytes.TrimSpace(value)
		case "Mems_allowed_list":
			s.Mems = bytes.TrimSpace(value)
		case "HugetlbPages":
			s.Huge = firstKiB(value)
		case "VmPin":
			s.Pinned = firstKiB(value)
		case "VmLck":
			s.Locked = firstKiB(value)
		case "Uid":
			real := firstWord(value)
			if n, ok := Number(real); ok && n < 1<<32 {
				s.UID = int(n)
			}
			_, rest, _ := bytes.Cut(value, real)
			if n, ok := Number(firstWord(rest)); ok && n < 1<<32 {
				s.EUID = int(n)
			}
		case "NSpid":
			f := bytes.Fields(value)
			s.First = len(f) > 1 && string(f[len(f)-1]) == "1"
		}
	}
	return s
}

func firstWord(b []byte) []byte {
	b = bytes.TrimLeft(b, " \t")
	if i := bytes.IndexAny(b, " \t\n"); i >= 0 {
		return b[:i]
	}
	return b
}

// firstKiB reads "     12 kB"; 0 when it is not that.
func firstKiB(b []byte) topology.KiB {
	if n, ok := Number(firstWord(b)); ok && n < MaxKiB {
		return topology.KiB(n)
	}
	return 0
}

// Cgroup is the cgroup v2 path in /proc/PID/cgroup, "" when there is none.
func Cgroup(b []byte) string {
	for line := range bytes.Lines(b) {
		if path, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte{'\n'}), []byte("0::")); ok {
			return string(path)
		}
	}
	return ""
}
