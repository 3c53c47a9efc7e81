package scx

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// tasks plays the kernel: threads by ID.
type tasks map[int]*unix.SchedAttr

func (k tasks) calls() calls {
	return calls{
		get: func(tid int) (*unix.SchedAttr, error) {
			a, ok := k[tid]
			if !ok {
				return nil, unix.ESRCH
			}
			c := *a
			return &c, nil
		},
		set: func(tid int, a *unix.SchedAttr) error {
			if k[tid] == nil {
				return unix.ESRCH
			}
			c := *a
			k[tid] = &c
			return nil
		},
		start: func(tid int) (uint64, error) { return uint64(tid) * 10, nil },
	}
}

func (k tasks) threads() ([]int, error) { return slices.Sorted(maps.Keys(k)), nil }

// TestSwitchFindsThoseBornMeanwhile: a thread that forks before its own turn has children that
// are not switched; they are found and switched as well.
func TestSwitchFindsThoseBornMeanwhile(t *testing.T) {
	k := tasks{1: {Policy: 0, Nice: 5}, 2: {Policy: 3}, 3: {Policy: 1, Priority: 10}, 4: {Policy: 5}}
	c := k.calls()
	set, births := c.set, 0
	c.set = func(tid int, a *unix.SchedAttr) error {
		if births < 3 {
			births++
			k[100+births] = &unix.SchedAttr{Policy: 0, Nice: 7}
		}
		return set(tid, a)
	}
	if n, err := c.switchTo(context.Background(), k.threads); err != nil || n != 6 {
		t.Fatalf("%d switched: %v", n, err)
	}
	for tid, a := range k {
		if want := uint32(policyExt); a.Policy != want && tid != 3 || tid == 3 && a.Policy != 1 {
			t.Errorf("thread %d has policy %d", tid, a.Policy)
		}
	}
	k[200] = &unix.SchedAttr{Policy: policyExt, Nice: 3} // began since
	if n, err := k.calls().switchBack(context.Background(), k.threads); err != nil || n != 7 {
		t.Fatalf("%d back: %v", n, err)
	}
	for tid, want := range map[int]unix.SchedAttr{1: {Nice: 5}, 2: {}, 3: {Policy: 1, Priority: 10}, 4: {}, 101: {Nice: 7}, 200: {Nice: 3}} {
		if *k[tid] != want {
			t.Errorf("thread %d: %+v, want %+v", tid, *k[tid], want)
		}
	}
}

// TestSwitchEnds: threads that set their policy back themselves, and a process that never stops
// making others, hold nobody up.
func TestSwitchEnds(t *testing.T) {
	k := tasks{1: {}, 2: {}}
	c := k.calls()
	looks := 0
	c.set = func(tid int, a *unix.SchedAttr) error { return nil } // it sets it back each time
	again := func() ([]int, error) { looks++; return k.threads() }
	if n, err := c.switchTo(context.Background(), again); err != nil || n != 2 || looks != 2 {
		t.Errorf("%d switched in %d looks: %v", n, looks, err)
	}
	born := 2
	bomb := func() ([]int, error) { born++; k[born] = &unix.SchedAttr{}; return k.threads() }
	if _, err := c.switchTo(context.Background(), bomb); err == nil || born > 2+maxPasses {
		t.Errorf("%d born: %v", born, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	asked := 0
	get := c.get
	c.get = func(tid int) (*unix.SchedAttr, error) { asked++; cancel(); return get(tid) }
	if _, err := c.switchTo(ctx, k.threads); !errors.Is(err, context.Canceled) || asked != 1 {
		t.Errorf("%d asked after the end of time: %v", asked, err)
	}
	refuse := k.calls()
	refuse.set = func(int, *unix.SchedAttr) error { return unix.EPERM }
	if n, err := refuse.switchTo(context.Background(), k.threads); !errors.Is(err, unix.EPERM) || n != 0 {
		t.Errorf("%d: %v", n, err)
	}
}

// TestSwitchLeavesOthersAlone: a thread ends before its turn, and its ID is another's by then.
func TestSwitchLeavesOthersAlone(t *testing.T) {
	k := tasks{1: {}, 2: {Nice: 19}}
	c := k.calls()
	start, set, other := c.start, c.set, false
	c.start = func(tid int) (uint64, error) {
		if tid == 2 && other {
			return 12345, nil
		}
		return start(tid)
	}
	c.set = func(tid int, a *unix.SchedAttr) error {
		if tid == 1 {
			k[2], other = &unix.SchedAttr{Policy: 1, Priority: 50}, true // somebody's realtime thread
		}
		return set(tid, a)
	}
	if n, err := c.switchTo(context.Background(), k.threads); err != nil || n != 1 || *k[2] != (unix.SchedAttr{Policy: 1, Priority: 50}) {
		t.Errorf("%d switched, the other has %+v: %v", n, *k[2], err)
	}
}

func TestCgroupThreads(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{dir: "1\n2\n", filepath.Dir(inner): "", inner: "7\n"} {
		if err := os.WriteFile(filepath.Join(name, "cgroup.threads"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := CgroupThreads(dir)(); err != nil || !slices.Equal(got, []int{1, 2, 7}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := CgroupThreads(filepath.Join(dir, "gone"))(); err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestProcessThreads(t *testing.T) {
	if got, err := ProcessThreads([]int{os.Getpid(), 1 << 30})(); err != nil || !slices.Contains(got, os.Getpid()) || slices.Contains(got, 1<<30) {
		t.Errorf("%v, %v", got, err)
	}
}
