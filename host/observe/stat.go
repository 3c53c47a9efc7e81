package observe

import (
	"bytes"
	"errors"
	"fmt"
)

// ticksPerSecond is USER_HZ, the unit of times in /proc/PID/stat: 100 on every
// architecture that Linux runs servers on (Documentation/filesystems/proc.rst).
const ticksPerSecond = 100

// kernelThread is PF_KTHREAD (include/linux/sched.h), in field 9.
const kernelThread = 0x00200000

// stat is the part of /proc/PID/stat, or of a thread's, that is used here.
type stat struct {
	comm    []byte // lies in the parsed buffer
	state   byte
	ppid    int
	flags   uint64
	ticks   uint64 // user and system time; a process's is that of all its threads, ended ones too
	threads int
	start   uint64 // ticks since boot
	rss     int64  // pages; without huge pages of hugetlbfs
	cpu     int    // last seen on
}

var errStat = errors.New("not in the format of proc_pid_stat(5)")

// parseStat reads proc_pid_stat(5). The name in parentheses may hold spaces and
// parentheses: it ends at the last ')'.
func parseStat(b []byte) (stat, error) {
	var s stat
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open || end+2 >= len(b) {
		return s, errStat
	}
	s.comm = b[open+1 : end]
	rest := b[end+1:]
	field := 2
	for field < 39 {
		for len(rest) > 0 && rest[0] == ' ' {
			rest = rest[1:]
		}
		n := 0
		for n < len(rest) && rest[n] != ' ' && rest[n] != '\n' {
			n++
		}
		if n == 0 {
			return s, fmt.Errorf("%w: ends at field %d", errStat, field)
		}
		field++
		word := rest[:n]
		rest = rest[n:]
		if field == 3 {
			s.state = word[0]
			continue
		}
		switch field {
		case 4, 9, 14, 15, 20, 22, 24, 39:
		default:
			continue
		}
		v, ok := number(word)
		if !ok && field != 24 { // rss may be printed negative on old kernels
			return s, fmt.Errorf("%w: field %d", errStat, field)
		}
		switch field {
		case 4:
			s.ppid = int(v & (1<<31 - 1))
		case 9:
			s.flags = v
		case 14:
			s.ticks = v & (1<<62 - 1)
		case 15:
			s.ticks += v & (1<<62 - 1)
		case 20:
			s.threads = int(v & (1<<31 - 1))
		case 22:
			s.start = v
		case 24:
			s.rss = int64(v & (1<<40 - 1))
		case 39:
			s.cpu = int(v & (1<<31 - 1))
		}
	}
	return s, nil
}

// number reads an unsigned decimal number that fills b.
func number(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
