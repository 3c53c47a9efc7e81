package observe

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/observe/files"
)

// clocked is files of a machine whose processes have CPU clocks. It counts readings.
type clocked struct {
	files.Reader
	clocks       map[int]time.Duration
	stat, status map[int]int // readings by PID
}

func (c *clocked) Clock(pid int) (time.Duration, error) {
	ran, ok := c.clocks[pid]
	if !ok {
		return 0, syscall.EINVAL // as the kernel answers for a PID that is not in use
	}
	return ran, nil
}

func (c *clocked) Record(name string, buf []byte) ([]byte, error) {
	pid := 0
	if _, err := fmt.Sscanf(name, "proc/%d/", &pid); err == nil && strings.Count(name, "/") == 2 {
		switch {
		case strings.HasSuffix(name, "/stat"):
			c.stat[pid]++
		case strings.HasSuffix(name, "/status"):
			c.status[pid]++
		}
	}
	return c.Reader.Record(name, buf)
}

// taken returns how many stat files were read since the last call.
func (c *clocked) taken() (n int) {
	for _, k := range c.stat {
		n += k
	}
	clear(c.stat)
	return n
}

// newClocked is a machine in process mode with n small processes from PID 1000 on.
func newClocked(t *testing.T, n int) (*rig, *clocked) {
	m := newFake()
	m.top, m.mounts, m.groups = "", "", nil
	c := &clocked{clocks: map[int]time.Duration{}, stat: map[int]int{}, status: map[int]int{}}
	for i := range n {
		m.proc(1000+i, 1, "worker", "/", 1<<10)
		c.clocks[1000+i] = time.Millisecond
	}
	r := newRig(t, m, Options{})
	c.Reader = r.o.files
	r.o.files = c
	return r, c
}

// scan is a scan a period later that does not make the files anew: nothing has changed.
func (r *rig) scan() workload.Snapshot {
	r.now, r.uptime = r.now.Add(2*time.Second), r.uptime+2*time.Second
	s, err := r.o.Look(r.t.(*testing.T).Context(), control.Attention{})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// Of processes that sleep only the clocks are asked for; each is read once in a minute.
func TestAsleep(t *testing.T) {
	const all = 3000
	r, c := newClocked(t, all)
	r.look()
	if n := c.taken(); n < all {
		t.Fatalf("%d read at first", n)
	}
	var reads []int
	for range 30 {
		s := r.scan()
		reads = append(reads, c.taken())
		if s.Small != all {
			t.Fatalf("%d seen", s.Small)
		}
	}
	sum := 0
	for i, n := range reads {
		sum += n
		// initAt and the kernel threads are read in between.
		if i < 14 && n > 10 {
			t.Errorf("scan %d read %d processes that sleep", i+1, n)
		}
	}
	if sum < all || sum > all+100 {
		t.Errorf("%d read in a minute, want each once: %v", sum, reads)
	}
	clear(c.clocks) // as on a host that has none
	if r.scan(); c.taken() < all {
		t.Error("without clocks not all are read")
	}
}

// A process that runs is read by the next scan, whatever it did.
func TestAsleepWakes(t *testing.T) {
	const pid = workload.ID("pid:1000")
	for name, x := range map[string]struct {
		ran  time.Duration
		does func(*rig, *fakeProc)
		seen func(workload.Snapshot) bool
	}{
		"uses a CPU": {time.Second, func(_ *rig, p *fakeProc) { p.threads[0].ticks += 100 }, func(s workload.Snapshot) bool {
			return len(s.Observations) == 1 && s.Observations[0].ID == pid && s.Observations[0].CPUUse == 0.5
		}},
		"takes memory": {20 * time.Millisecond, func(_ *rig, p *fakeProc) { p.rss = 1 << 20 }, func(s workload.Snapshot) bool {
			return len(s.Observations) == 1 && s.Observations[0].ID == pid
		}},
		"takes memory within a moment": {time.Microsecond, func(_ *rig, p *fakeProc) { p.rss = 1 << 20 }, func(s workload.Snapshot) bool {
			return len(s.Observations) == 1 && s.Observations[0].ID == pid
		}},
		"runs another program": {time.Microsecond, func(_ *rig, p *fakeProc) { p.comm = "other" }, func(s workload.Snapshot) bool {
			return strings.Contains(fmt.Sprint(s.Smaller), "other")
		}},
		"ends":                 {time.Microsecond, func(r *rig, _ *fakeProc) { delete(r.procs, 1000) }, func(s workload.Snapshot) bool { return s.Small == 1 }},
		"waits for its parent": {time.Microsecond, func(_ *rig, p *fakeProc) { p.state = "Z" }, func(s workload.Snapshot) bool { return s.Small == 1 }},
		"forks":                {time.Microsecond, func(r *rig, _ *fakeProc) { r.proc(1002, 1, "child", "/", 1<<10) }, func(s workload.Snapshot) bool { return s.Small == 3 }},
	} {
		t.Run(name, func(t *testing.T) {
			r, c := newClocked(t, 2)
			r.look()
			r.after(2 * time.Second)
			x.does(r, r.procs[1000])
			c.clocks[1000] += x.ran
			c.clocks[1002] = time.Microsecond
			if s := r.after(2 * time.Second); !x.seen(s) {
				t.Errorf("not seen: %v, smaller %v", s.Observations, s.Smaller)
			}
		})
	}
}

// What a process that sleeps undergoes is seen within a minute, and who has it now at once.
func TestAsleepUndergoes(t *testing.T) {
	r, _ := newClocked(t, 4)
	r.procs[1001].ppid = 1000
	r.procs[1000].rss = 1 << 20
	r.procs[1003].rss = 1 << 20
	if s := r.look(); len(find(t, s, "pid:1000").Processes) != 2 {
		t.Fatal("no tree")
	}
	r.after(2 * time.Second)
	delete(r.procs, 1000)
	r.procs[1001].ppid = 1003 // which is a subreaper (prctl(2))
	if s := r.after(2 * time.Second); len(find(t, s, "pid:1003").Processes) != 2 {
		t.Errorf("the child that lost its parent is not in its new tree: %v", s.Observations)
	}
	r.procs[1002].rss = 1 << 20 // written to by another process (process_vm_writev(2))
	took := time.Duration(0)
	for !strings.Contains(ids(r.after(2*time.Second)), "pid:1002") {
		if took += 2 * time.Second; took > sleeperEvery {
			t.Fatal("memory that others have given to it is not seen")
		}
	}
}

// The PID of a process that has ended may be that of another, whatever its clock says.
func TestAsleepAnother(t *testing.T) {
	r, c := newClocked(t, 1)
	r.look()
	r.after(2 * time.Second)
	r.procs[1000].start, r.procs[1000].comm = 77777, "another"
	c.clocks[1000] -= time.Microsecond
	if s := r.after(2 * time.Second); !strings.Contains(fmt.Sprint(s.Smaller), "another") {
		t.Errorf("%v", s.Smaller)
	}
}

// Many processes that wake for a moment each scan are read 300 a scan, and each within 10 s.
func TestAsleepDozes(t *testing.T) {
	const all = 3000
	r, c := newClocked(t, all)
	r.look()
	c.taken()
	last := map[int]int{}
	for scan := 1; scan <= 20; scan++ {
		for pid := range c.clocks {
			c.clocks[pid] += 10 * time.Microsecond
		}
		r.scan()
		for pid := range c.stat {
			if pid >= 1000 {
				last[pid] = scan
			}
		}
		if n := c.taken(); scan < 5 && n > dozerBudget+10 {
			t.Errorf("scan %d read %d", scan, n)
		}
		for pid := range c.clocks {
			if scan-last[pid] > int(dozerEvery/(2*time.Second)) {
				t.Fatalf("scan %d: process %d last read by scan %d", scan, pid, last[pid])
			}
		}
	}
}

// What has ended and waits for its parent is read once.
func TestAsleepEnded(t *testing.T) {
	r, c := newClocked(t, 2)
	r.procs[1001].state = "Z"
	r.look()
	c.taken()
	for range 4 {
		r.scan()
	}
	if c.stat[1001] != 0 {
		t.Errorf("read %d times", c.stat[1001])
	}
}

// The status and numa_maps of what sleeps are read more seldom, too, and at once when
// homenode has changed its CPUs.
func TestAsleepReported(t *testing.T) {
	m := newFake()
	m.top, m.mounts, m.groups = "", "", nil
	m.proc(1000, 1, "big", "/", 1<<20)
	r := newRig(t, m, Options{})
	c := &clocked{Reader: r.o.files, clocks: map[int]time.Duration{1000: time.Second}, stat: map[int]int{}, status: map[int]int{}}
	r.o.files = c
	maps := 0
	r.fs.fail = func(name string) error {
		if name == "proc/1000/numa_maps" {
			maps++
		}
		return nil
	}
	r.look()
	clear(c.status)
	maps = 0
	for range 14 {
		r.after(2 * time.Second)
	}
	if n := c.status[1000]; n > 0 || maps > 0 {
		t.Errorf("status read %d times, numa_maps %d times in 28 s", n, maps)
	}
	r.expecting("pid:1000", mustCPUs("0-3"))
	r.after(2 * time.Second)
	if n := c.status[1000]; n != 1 {
		t.Errorf("status read %d times after its CPUs were changed", n)
	}
	c.clocks[1000] += 5 * time.Millisecond
	r.after(12 * time.Second)
	if n := c.status[1000]; n != 2 || maps != 1 {
		t.Errorf("once it had run: status read %d times, numa_maps %d times", n, maps)
	}
}

// A process that sleeps keeps its children as it loses its parent.
func TestAsleepKeepsChildren(t *testing.T) {
	r, _ := newClocked(t, 3)
	r.procs[1001].ppid, r.procs[1002].ppid = 1000, 1001
	r.procs[1001].rss = 1 << 20
	r.look()
	r.after(2 * time.Second)
	delete(r.procs, 1000)
	r.procs[1001].ppid = 1
	if s := r.after(2 * time.Second); len(find(t, s, "pid:1001").Processes) != 2 {
		t.Errorf("%v", s.Observations)
	}
}

// A process that sleeps may have for its parent, as last read, a PID that one of its descendants has by now.
func TestAsleepParentReplaced(t *testing.T) {
	r, c := newClocked(t, 3)
	r.procs[1001].ppid, r.procs[1002].ppid = 1000, 1001
	r.procs[1001].rss = 1 << 20
	if s := r.look(); len(find(t, s, "pid:1001").Processes) != 2 {
		t.Fatal("no tree")
	}
	r.after(2 * time.Second)
	r.procs[1001].ppid = 1 // 1000 has ended
	r.proc(1000, 1002, "descendant", "/", 1<<10).start = 77777
	c.clocks[1000] = time.Microsecond
	c.clocks[1002] += time.Microsecond
	if s := r.after(2 * time.Second); len(find(t, s, "pid:1001").Processes) != 3 {
		t.Errorf("%v", s.Observations)
	}
}
