package observe

import (
	"context"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/observe/files"
)

// TestNoFigureIsInvented: whichever file cannot be read, at its opening or after, no
// workload is said to have more than it has, what is lacking is said in one line
// unless it ended, and the look after the next is as if nothing had been.
func TestNoFigureIsInvented(t *testing.T) {
	errnos := []syscall.Errno{syscall.EACCES, syscall.ENOENT, syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.EPERM, syscall.EINTR, syscall.ESRCH, syscall.EINVAL}
	for _, process := range []bool{false, true} {
		for n, ended := 1, false; !ended; n++ {
			for range 1 {
				errno := errnos[n%len(errnos)]
				truth, r := newRig(t, working(process), Options{}), newRig(t, working(process), Options{})
				seen, failed := 0, ""
				r.fs.fail = func(name string) error {
					if seen++; seen == n {
						failed = name
						return errno
					}
					return nil
				}
				lacks := false // since the failure
				for look := range 8 {
					toil(truth.fakeMachine)
					toil(r.fakeMachine)
					was := failed
					want := truth.after(11 * time.Second)
					r.now, r.uptime = r.now.Add(11*time.Second), r.uptime+11*time.Second
					r.fs.refresh()
					s, err := r.o.Look(context.Background(), control.Attention{})
					what := fmt.Sprintf("process %v: %s fails with %v, look %d", process, failed, errno, look)
					if err != nil {
						if strings.Contains(err.Error(), "\n") || failed == was {
							t.Fatalf("%s: %v", what, err)
						}
						lacks = true
						continue
					}
					check(t, s)
					for _, p := range s.Problems {
						if strings.Contains(p.Subject+p.Text, "\n") || p.Text == "" {
							t.Errorf("%s: problem %q", what, p)
						}
					}
					if a, b := figuresOf(s), figuresOf(want); a.cpus > b.cpus*1.01+1e-9 || a.memory > b.memory || a.threads > b.threads || a.processes > b.processes {
						t.Errorf("%s: %+v, have %+v", what, a, b)
					}
					if failed != "" && was == "" && look == 4 { // what a look reads has failed by then
						ended = true
						break
					}
					if failed != "" && was == "" {
						lacks = lacks || figuresOf(s) != figuresOf(want)
						if lacks && len(s.Problems) == 0 && !files.Gone(errno) {
							t.Errorf("%s: lacks something and does not say so:\n%+v\n%+v", what, s, want)
						}
					}
					if a, b := figuresOf(s), figuresOf(want); look == 7 && a != b {
						t.Errorf("%s: in the end %+v, want %+v", what, a, b)
					}
				}
				if t.Failed() {
					return
				}
			}
		}
	}
}

// working is a machine with something of everything; in process mode without cgroups.
func working(process bool) *fakeMachine {
	m := oneOfEach()
	for path, kib := range map[string]topology.KiB{"/system.slice/a.service": 110 * mib, "/system.slice/b.service": 200 * mib, "/session-1.scope": 601 * mib} {
		m.groups[path].anon = byNode{kib, 0} // as its processes have together
	}
	if process {
		m.mounts, m.top = "", ""
	}
	return m
}

// toil is half a CPU for each process.
func toil(m *fakeMachine) {
	for _, p := range m.procs {
		p.threads[0].ticks += 550
		if g := m.groups[p.cgroup]; g != nil {
			g.usage += 5500 * time.Millisecond
		}
	}
}

// figures is what all workloads have together: a process whose parent could not be
// seen for once is a workload of its own from then on.
type figures struct {
	cpus               float64 // rounded to 1/1000
	memory             topology.KiB
	threads, processes int
}

func figuresOf(s workload.Snapshot) (f figures) {
	for _, o := range s.Observations {
		f.cpus += o.CPUUse
		f.memory += workload.Total(o.Memory)
		f.threads += o.Threads
		f.processes += len(o.Processes)
	}
	f.cpus = math.Round(1000*f.cpus) / 1000
	return f
}
