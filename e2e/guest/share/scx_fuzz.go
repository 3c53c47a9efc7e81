//go:build linux

package share

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/homenode/homenode/bench/openloop"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/host/scx"
)

// restlessEvery divides the moments at which restless threads wake: many wake at once.
const restlessEvery = 500 * time.Microsecond

// Restless runs threads for ever that follow a seed: they sleep until a moment at which others wake, too, wait
// for each other, wake each other, and compute for up to 2 ms in between. One thread in four stays on one CPU.
func Restless(seed, threads string) error {
	from, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(threads)
	if err != nil {
		return err
	}
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(n + 1)
	pipes := make([][2]int, n)
	for i := range pipes {
		if err := syscall.Pipe2(pipes[i][:], syscall.O_NONBLOCK); err != nil {
			return err
		}
	}
	life := func(i int) {
		runtime.LockOSThread()
		random := rand.New(rand.NewPCG(from, uint64(i)))
		if i%4 == 3 {
			lab.SetAffinity(0, lab.SetOf(random.IntN(runtime.NumCPU())))
		}
		for {
			switch random.IntN(3) {
			case 0:
				openloop.SleepUntil((lab.Monotonic()/int64(restlessEvery)+1+random.Int64N(8))*int64(restlessEvery) +
					random.Int64N(3)*10_000)
			case 1:
				waitFor(pipes[i][0], time.Duration(1+random.Int64N(5))*time.Millisecond)
			case 2:
				syscall.Write(pipes[random.IntN(n)][1], []byte{0})
			}
			for until := lab.Monotonic() + 5_000<<random.IntN(9); lab.Monotonic() < until; {
			}
		}
	}
	for i := range n - 1 {
		go life(i)
	}
	life(n - 1)
	return nil
}

// waitFor waits for what is written into a pipe, and empties it.
func waitFor(pipe int, most time.Duration) {
	type pollfd struct {
		fd              int32
		events, revents int16
	}
	p, limit := pollfd{fd: int32(pipe), events: 1}, syscall.NsecToTimespec(int64(most))
	syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	var buf [64]byte
	syscall.RawSyscall(syscall.SYS_READ, uintptr(pipe), uintptr(unsafe.Pointer(&buf)), uintptr(len(buf)))
}

// scxRestless: whatever wakes whom and when, no batch thread waits for a millisecond while a CPU is idle on
// which it may run. Each round has another seed.
func scxRestless(t *lab.T) {
	s := scheduler(t, machine(t))
	rounds := uint64(6)
	if n, err := strconv.ParseUint(lab.BootParam("rounds"), 10, 64); err == nil {
		rounds = n
	}
	first := lab.Seed() * 1000
	var all, lost int
	var most time.Duration
	for round := range rounds {
		from := first + round
		on := t.NewGroup(lab.CgroupRoot, fmt.Sprintf("on-%d", from))
		off := t.NewGroup(lab.CgroupRoot, fmt.Sprintf("off-%d", from))
		t.Do(s.SetTiers([]scx.Cgroup{tiered(t, off, workload.BatchTier), tiered(t, on, workload.Online)}))
		startIn(t, off, "restless", strconv.FormatUint(2*from, 10), strconv.Itoa(t.Shape.CPUs()+2))
		startIn(t, on, "restless", strconv.FormatUint(2*from+1, 10), strconv.Itoa(t.Shape.CPUs()/2))
		time.Sleep(50 * time.Millisecond)
		switched(t, off)
		tr := t.Trace(func() { time.Sleep(400 * time.Millisecond) })
		var idle [][]lab.Span
		for cpu := range t.Shape.CPUs() {
			idle = append(idle, tr.Runs(cpu, func(tid int) bool { return tid == 0 }))
		}
		for _, f := range strings.Fields(lab.ReadText(off.File("cgroup.threads"))) {
			tid := lab.Leading(f)
			may, err := lab.ParseSet(lab.StatusField(tid, "Cpus_allowed_list"))
			t.Do(err)
			for _, w := range tr.Waits(tid) {
				all++
				for cpu, free := range idle {
					if may>>cpu&1 == 0 {
						continue
					}
					long := lab.Longest(lab.Meet([]lab.Span{w}, free))
					most = max(most, long)
					if long > time.Millisecond {
						lost++
						t.Logf("seed %d: CPU %d was idle for %v while %d waited for %v;%s", from, cpu, long, tid,
							w.Long(), tr.Around(w))
						break
					}
				}
			}
		}
		t.Write(on.File("cgroup.kill"), "1")
		t.Write(off.File("cgroup.kill"), "1")
		time.Sleep(20 * time.Millisecond)
	}
	stillEnabled(t, s)
	if all < 100*int(rounds) {
		t.Fatalf("%d waits only", all)
	}
	t.Logf("%d waits in %d rounds", all, rounds)
	if lost > 0 {
		t.Fatalf("%d of %d times a batch thread waited while a CPU that it may run on was idle, up to %v", lost, all,
			most)
	}
	atMost(t, "a batch thread waited while a CPU that it may run on was idle", most, time.Millisecond)
}
