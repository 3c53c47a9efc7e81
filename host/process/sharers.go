package process

import (
	"context"
	"io"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// sharers knows what memory processes outside the workload have, to tell whether
// a page shared by several processes is shared within the workload only. It is
// read when the first shared page is met; most workloads have none.
type sharers struct {
	read    time.Time
	unknown bool // some process could not be read
	files   map[fileID]bool
	private []span
}

type span struct {
	start, end uintptr
	file       fileID
}

// mostSpans bounds what is kept of strangers, some hundred MB: a host has some hundred
// ranges a process, and a user can make 65,530 with each.
const mostSpans = 4 << 20

// sharersFor bounds the age of what was read: processes come and go, and a move
// can take an hour.
const sharersFor = 10 * time.Second

func (j *job) readSharers(ctx context.Context, now time.Time) (*sharers, error) {
	s := &sharers{read: now, files: map[fileID]bool{}}
	pids, err := j.proc.numbers("proc", 0)
	s.unknown = err != nil
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if m, ok := j.members[pid]; ok && j.proc.check(m) == nil {
			continue
		}
		var ranges []memRange
		err := j.read(workload.Process{PID: pid}, "maps", min(j.wait, strangerIn), func(r io.Reader) (err error) {
			ranges, err = parseMaps(r, nil)
			return err
		})
		if err != nil {
			s.unknown = s.unknown || !isGone(err)
			continue
		}
		if s.unknown = s.unknown || len(s.private)+len(ranges) > mostSpans; s.unknown {
			return s, nil
		}
		for _, r := range ranges {
			if r.shared {
				s.files[r.file] = true
			} else {
				s.private = append(s.private, span{r.start, r.end, r.file})
			}
		}
	}
	return s, nil
}

// outside reports whether a process outside the workload may share pages of r.
// Private pages are shared after fork(2) only, and then at the same address; a
// stranger with a map there by chance costs a page that is not moved.
func (s *sharers) outside(r *memRange) bool {
	if s.unknown {
		return true
	}
	if r.shared {
		return s.files[r.file]
	}
	for _, o := range s.private {
		if o.start < r.end && r.start < o.end && o.file == r.file {
			return true
		}
	}
	return false
}

// pageSet holds pages of files already counted as refused, so that a page that
// several processes map counts once.
type pageSet map[fileID]map[uint64]uint64

// add reports whether the page was new.
func (s pageSet) add(f fileID, page uint64) bool {
	if s[f] == nil {
		s[f] = map[uint64]uint64{}
	}
	word, bit := page/64, uint64(1)<<(page%64)
	if s[f][word]&bit != 0 {
		return false
	}
	s[f][word] |= bit
	return true
}

// survey is where the memory of all processes of a step lies.
type survey struct {
	on      map[topology.NodeID]int64 // movable bytes by node
	off     int64                     // movable bytes off home
	movable int64
}

// add counts the ranges of one process. Memory shared by processes counts once,
// as the process sees it that maps most of it.
func (s *survey) add(ranges []memRange, home topology.NodeSet, seen map[sharedRange]int64) {
	for i := range ranges {
		r := &ranges[i]
		movable, off := r.movable(), r.off(home)
		if movable == 0 {
			continue
		}
		share := 1.0
		if r.shared && r.file != (fileID{}) {
			k := sharedRange{r.file, r.offset}
			before := seen[k]
			if movable <= before {
				continue
			}
			seen[k] = movable
			share = float64(movable-before) / float64(movable)
		}
		s.movable += int64(share * float64(movable))
		s.off += int64(share * float64(off))
		// A private map of a file has page cache too, which is not told apart by
		// node: its own pages are taken to lie as the whole.
		total := r.total()
		for n, b := range r.nodes {
			s.on[n] += int64(share * float64(b) * float64(movable) / float64(total))
		}
	}
}

type sharedRange struct {
	fileID
	offset uint64
}
