package pressure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// mostTriggers bounds the triggers that stand at a time: for each cgroup the kernel keeps a thread, psimon.
const mostTriggers = 64

// rest is the least time between two triggers that count: the window of a trigger. Each fires once in its window at
// most, but 64 of them fire at different times, and a workload that its own cpu.max holds back waits in each window.
const rest = 500 * time.Millisecond

// again is how long after a trigger the daemon is woken a second time. The first scan has the CPU use since the scan
// before, mostly from before the load rose; the second one has the use since then alone.
const again = 200 * time.Millisecond

// mostRest bounds what rest grows to where triggers follow each other: a scan takes CPU time itself, and must not call
// for the next one. It is the default of the daemon's period.
const mostRest = 2 * time.Second

// kernel sets triggers and waits for them. A trigger is named by its file descriptor.
type kernel interface {
	// set sets a trigger on the file of a cgroup, a path below the cgroup root. The error is fs.ErrNotExist
	// where the cgroup, or its cpu.pressure, is missing, and ENODEV where it is being removed.
	set(file string) (trigger int, err error)
	remove(trigger int)
	// wait blocks until some triggers fired, or their cgroups were removed.
	wait() (fired, gone []int, err error)
	// stop ends wait, and removes all triggers.
	stop()
}

// Source sets the triggers. Its methods may be called from several goroutines.
type Source struct {
	kernel kernel
	wake   chan struct{}
	pause  func(time.Duration) // returns then, or when the source ends
	now    func() time.Time

	mu     sync.Mutex // guards the two fields below, while triggers are set and removed
	daemon control.Standing
	on     map[string]int // cgroup → trigger

	trouble atomic.Value // string: why the newest trigger was refused; "" when none was
}

// New returns a source that sets its triggers below the root of cgroup v2, "/sys/fs/cgroup" on any usual host.
// Refresh sets them. ctx ends it.
func New(ctx context.Context, cgroupRoot string) (*Source, error) {
	k, err := newEpoll(cgroupRoot)
	if err != nil {
		return nil, err
	}
	pause := func(d time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	return newSource(ctx, k, pause, time.Now), nil
}

func newSource(ctx context.Context, k kernel, pause func(time.Duration), now func() time.Time) *Source {
	s := &Source{kernel: k, wake: make(chan struct{}, 1), pause: pause, now: now, on: map[string]int{}}
	context.AfterFunc(ctx, k.stop)
	go s.follow()
	return s
}

// Name returns the name of the source.
func (s *Source) Name() string { return "cpu.pressure" }

// Wake returns the channel that receives when important work waits for a CPU.
func (s *Source) Wake() <-chan struct{} { return s.wake }

// Processes returns nothing: the source has no workloads.
func (s *Source) Processes() []workload.Process { return nil }

// Claims returns no workloads, and one problem while the kernel refuses triggers.
func (s *Source) Claims(*topology.Host) ([]workload.Claim, []workload.Problem) {
	trouble, _ := s.trouble.Load().(string)
	if trouble == "" {
		return nil, nil
	}
	text := "batch work gives way at scans only: the kernel refuses a trigger: " + trouble
	return nil, []workload.Problem{{Subject: "cpu.pressure", Text: text}}
}

// Join keeps the daemon, which knows the important work.
func (s *Source) Join(d control.Standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.daemon = d
}

// Refresh sets triggers on the cgroups of important work, and removes all others.
func (s *Source) Refresh(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.daemon == nil {
		return nil
	}
	want := wanted(s.daemon.Attention())
	for cgroup, trigger := range s.on {
		if _, stays := slices.BinarySearch(want, cgroup); !stays {
			s.kernel.remove(trigger)
			delete(s.on, cgroup)
		}
	}
	trouble := ""
	for _, cgroup := range want {
		trouble = cmp.Or(s.set(cgroup), trouble)
	}
	s.trouble.Store(trouble)
	return nil
}

// set sets the trigger of one cgroup, if it has none, and returns why the kernel refused it; "" where it did not.
func (s *Source) set(cgroup string) (trouble string) {
	if _, stands := s.on[cgroup]; stands {
		return ""
	}
	trigger, err := s.kernel.set(path.Join(cgroup, "cpu.pressure"))
	switch {
	case err == nil:
		s.on[cgroup] = trigger
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENODEV): // it ended since the scan
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EINVAL): // without it, since Linux 6.5
		return fmt.Sprintf("%s: %v; the daemon needs CAP_SYS_RESOURCE", cgroup, err)
	default:
		return fmt.Sprintf("%s: %v", cgroup, err)
	}
	return ""
}

// wanted returns the cgroups that are to have a trigger, rising.
func wanted(now control.Attention) (out []string) {
	if !now.Waits {
		return nil
	}
	for id, watched := range now.Watched {
		// A workload with a cgroup of its own is called by its path. The root has no file of its own.
		name := string(id)
		if watched && strings.HasPrefix(name, "/") && len(name) > 1 && path.Clean(name) == name {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), mostTriggers)]
}

// follow wakes the daemon until the source ends.
func (s *Source) follow() {
	var ended time.Time // the newest pause
	quiet := rest
	for {
		fired, gone, err := s.kernel.wait()
		if err != nil {
			return
		}
		s.forget(gone)
		if len(fired) == 0 {
			continue
		}
		if s.now().Sub(ended) < quiet {
			quiet = min(2*quiet, mostRest)
		} else {
			quiet = rest
		}
		s.rouse()
		s.pause(again)
		s.rouse()
		s.pause(quiet - again) // the kernel keeps what fires meanwhile
		ended = s.now()
	}
}

func (s *Source) rouse() {
	select {
	case s.wake <- struct{}{}:
	default: // the daemon is being woken already
	}
}

// forget removes the triggers of cgroups that the kernel has removed.
func (s *Source) forget(gone []int) {
	if len(gone) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for cgroup, trigger := range s.on {
		if slices.Contains(gone, trigger) {
			s.kernel.remove(trigger)
			delete(s.on, cgroup)
		}
	}
}
