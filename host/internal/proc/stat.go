package proc

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// TicksPerSecond is USER_HZ, the unit of times in /proc/PID/stat: 100 on every
// architecture that Linux runs servers on (Documentation/filesystems/proc.rst).
const TicksPerSecond = 100

// KernelThread is PF_KTHREAD of Stat.Flags (include/linux/sched.h).
const KernelThread = 0x00200000

// Stat is the part of /proc/PID/stat, or of a thread's, that is used.
type Stat struct {
	PID      int
	Comm     []byte // lies in the parsed buffer
	State    byte
	Parent   int
	Group    int // process group
	Session  int
	Terminal int // tty_nr, the number of the controlling terminal's device; 0 for none
	Flags    uint64
	Ticks    uint64 // user and system time; a process's is that of all its threads, ended ones too
	Threads  int
	Start    uint64 // ticks since boot
	RSS      int64  // pages; without huge pages of hugetlbfs
	CPU      int    // last seen on; 0 when the file does not tell
}

var errStat = errors.New("not in the format of proc_pid_stat(5)")

// ParseStat reads proc_pid_stat(5). The name in parentheses may hold spaces and
// parentheses: it ends at the last ')'. ESRCH is of a task that the kernel has taken leave of
// since the file was opened: its group and session are -1 then (do_task_stat, fs/proc/array.c).
func ParseStat(b []byte) (Stat, error) {
	var s Stat
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open || end+2 >= len(b) {
		return s, errStat
	}
	pid, ok := Number(bytes.TrimSpace(b[:open]))
	if !ok {
		return s, fmt.Errorf("%w: field 1", errStat)
	}
	s.PID = int(pid & (1<<31 - 1))
	s.Comm = b[open+1 : end]
	rest := b[end+1:]
	for field := 3; field <= 39; field++ {
		for len(rest) > 0 && rest[0] == ' ' {
			rest = rest[1:]
		}
		n := 0
		for n < len(rest) && rest[n] != ' ' && rest[n] != '\n' {
			n++
		}
		if n == 0 {
			return s, fmt.Errorf("%w: ends at field %d", errStat, field-1)
		}
		word := rest[:n]
		rest = rest[n:]
		if field == 3 {
			s.State = word[0]
			continue
		}
		switch field {
		case 4, 5, 6, 7, 9, 14, 15, 20, 22, 24, 39:
		default:
			continue
		}
		if field == 5 && string(word) == "-1" {
			return s, syscall.ESRCH
		}
		v, ok := Number(word)
		if !ok && field != 24 && field != 7 { // rss may be printed negative on old kernels, and tty_nr is signed
			return s, fmt.Errorf("%w: field %d", errStat, field)
		}
		switch field {
		case 4:
			s.Parent = int(v & (1<<31 - 1))
		case 5:
			s.Group = int(v & (1<<31 - 1))
		case 6:
			s.Session = int(v & (1<<31 - 1))
		case 7:
			s.Terminal = int(v & (1<<31 - 1))
		case 9:
			s.Flags = v
		case 14:
			s.Ticks = v & (1<<62 - 1)
		case 15:
			s.Ticks += v & (1<<62 - 1)
		case 20:
			s.Threads = int(v & (1<<31 - 1))
		case 22:
			s.Start = v
		case 24:
			s.RSS = int64(v & (1<<40 - 1))
		case 39:
			s.CPU = int(v & (1<<31 - 1))
		}
	}
	return s, nil
}

// Number reads an unsigned decimal number that fills b.
func Number(b []byte) (uint64, bool) {
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

// Booted is the line btime of /proc/stat, the wall-clock time of boot; false when there
// is none.
func Booted(stat []byte) (time.Time, bool) {
	for line := range bytes.Lines(stat) {
		if rest, ok := bytes.CutPrefix(line, []byte("btime ")); ok {
			n, ok := Number(bytes.TrimSpace(rest))
			return time.Unix(int64(n&(1<<40-1)), 0), ok
		}
	}
	return time.Time{}, false
}

// Uptime is the first number of /proc/uptime, seconds with two decimals; 0 when it is
// not that.
func Uptime(b []byte) time.Duration {
	word, _, _ := bytes.Cut(b, []byte{' '})
	whole, decimals, _ := bytes.Cut(word, []byte{'.'})
	seconds, ok := Number(whole)
	if !ok || seconds >= 1<<32 {
		return 0
	}
	d := time.Duration(seconds) * time.Second
	if hundredths, ok := Number(decimals); ok && len(decimals) == 2 {
		d += time.Duration(hundredths) * (time.Second / 100)
	}
	return d
}
