package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/bench/openloop"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/probe/kernel"
)

// own is what this program does for itself: the keeper, and programs that no Debian package has. It is
// the first word of their command line; numbers follow.
func own(args []string) (done bool, err error) {
	if len(args) == 0 {
		return false, nil
	}
	words := map[string]func(io.Writer, []string) error{"ask": askServer, "triad": triad, "transactions": transactions,
		"chase": chase, "matrix": matrix, "probed": probed}
	if args[0] == "keeper" {
		return true, keep()
	}
	f, ok := words[args[0]]
	if !ok {
		return false, nil
	}
	return true, f(os.Stdout, args[1:])
}

// numbers reads the arguments of a program of our own.
func numbers(args []string, names ...string) ([]int, error) {
	if len(args) != len(names) {
		return nil, usage("want %s", strings.Join(names, " "))
	}
	out := make([]int, len(args))
	for i, a := range args {
		n, err := strconv.Atoi(a)
		if err != nil || n < 1 || n > 1<<30 {
			return nil, usage("%s %q: want a whole number, 1 or more", names[i], a)
		}
		out[i] = n
	}
	return out, nil
}

// askServer asks a web server on a unix socket in an open loop (bench/openloop): SOCKET RATE WARM SECONDS CONNECTIONS.
func askServer(out io.Writer, args []string) error {
	if len(args) == 0 {
		return usage("want SOCKET RATE WARM SECONDS CONNECTIONS")
	}
	n, err := numbers(args[1:], "RATE", "WARM", "SECONDS", "CONNECTIONS")
	if err != nil {
		return err
	}
	l := openloop.Load{Rate: float64(n[0]), Warm: time.Duration(n[1]) * time.Second,
		Count: time.Duration(n[2]) * time.Second, Conns: n[3], Until: openloop.SleepTo,
		Dial: func() (net.Conn, error) { return net.Dial("unix", args[0]) }}
	if err := l.Check(); err != nil {
		return errUsage{err}
	}
	got := l.Run()
	if got.Err != nil {
		return got.Err
	}
	ms := func(us int64) float64 { return float64(us) / 1000 }
	fmt.Fprintf(out, "sent %d\nbad %d\np50 %.3f ms\np90 %.3f ms\np99 %.3f ms\nlate p99 %.3f ms\n", got.Sent, got.Bad,
		ms(got.Took.ValueAtQuantile(50)), ms(got.Took.ValueAtQuantile(90)), ms(got.Took.ValueAtQuantile(99)),
		ms(got.Late.ValueAtQuantile(99)))
	if got.Bad > 0 { // such an answer is fast, and no answer
		return fmt.Errorf("%d of %d answers were no success", got.Bad, got.Sent)
	}
	return nil
}

// memoryOf is a mapping of so many MiB, with huge pages or without.
func memoryOf(mib int, advice int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, mib<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("get %d MiB: %w", mib, err)
	}
	unix.Madvise(mem, advice) // a kernel without huge pages refuses: then there are none
	return mem, nil
}

// triad is like STREAM's triad, a = b + s × c: THREADS, each with MIB of its own, for SECONDS. It prints what all
// threads move together in MB/s, counted as STREAM does (24 bytes for each element).
func triad(out io.Writer, args []string) error {
	n, err := numbers(args, "THREADS", "MIB", "SECONDS")
	if err != nil {
		return err
	}
	stream, ok := kernel.StreamFor("triad")
	if !ok {
		return cannot("there is no triad for this CPU")
	}
	runtime.GOMAXPROCS(n[0] + 1)
	var moved atomic.Int64
	var ready, all sync.WaitGroup
	begin := make(chan time.Time)
	ready.Add(n[0])
	for range n[0] {
		buf, err := memoryOf(n[1], unix.MADV_HUGEPAGE)
		if err != nil {
			return err
		}
		all.Go(func() {
			runtime.LockOSThread()
			for step := range stream.Steps(len(buf)) { // the first pass touches each page where the thread runs
				stream.Step(buf, step)
			}
			ready.Done()
			end := (<-begin).Add(time.Duration(n[2]) * time.Second)
			for time.Now().Before(end) {
				for step := range stream.Steps(len(buf)) {
					stream.Step(buf, step)
				}
				moved.Add(int64(len(buf)))
			}
		})
	}
	ready.Wait()
	start := time.Now()
	for range n[0] {
		begin <- start
	}
	all.Wait()
	fmt.Fprintf(out, "triad %.0f MB/s\n", float64(moved.Load())/1e6/time.Since(start).Seconds())
	return nil
}

// transactions is like a transaction server: a heap of MIB that one thread fills, and THREADS that read 64 and
// write 8 random lines of it in each transaction, for SECONDS. It prints transactions a second.
func transactions(out io.Writer, args []string) error {
	n, err := numbers(args, "THREADS", "MIB", "SECONDS")
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(n[0] + 1)
	heap, err := memoryOf(n[1], unix.MADV_HUGEPAGE)
	if err != nil {
		return err
	}
	for i := 0; i < len(heap); i += kernel.Line {
		heap[i] = byte(i)
	}
	var done, sink atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	end := start.Add(time.Duration(n[2]) * time.Second)
	lines := uint64(len(heap) / kernel.Line)
	for k := range n[0] {
		all.Go(func() {
			runtime.LockOSThread()
			r := rand.NewPCG(uint64(k), 27)
			count := int64(0)
			sum := int64(0)
			for ; count%64 != 0 || time.Now().Before(end); count++ {
				for i := range 72 {
					at := r.Uint64() % lines * kernel.Line
					if i < 8 {
						heap[at+8+uint64(k)%32]++
					}
					sum += int64(heap[at])
				}
			}
			done.Add(count)
			sink.Add(sum)
		})
	}
	all.Wait()
	fmt.Fprintf(out, "transactions %.0f a second\n", float64(done.Load())/time.Since(start).Seconds())
	return nil
}

// methods is how latency is measured: like the programs of these names, which are not free or not packaged.
var methods = map[string]struct{ page, advice, mib int }{
	"lat-mem-rd": {4 << 10, unix.MADV_NOHUGEPAGE, 64}, // lat_mem_rd -t of lmbench, 64 MiB as in the article
	"mlc":        {2 << 20, unix.MADV_HUGEPAGE, 200},  // mlc --latency_matrix where it cannot switch prefetchers off
}

// chase measures the latency of one cell: METHOD, where the kernel lets it run and get memory.
func chase(out io.Writer, args []string) error {
	if len(args) != 1 || methods[args[0]].mib == 0 {
		return usage("want lat-mem-rd or mlc")
	}
	m := methods[args[0]]
	mem, err := memoryOf(m.mib, m.advice)
	if err != nil {
		return err
	}
	at := link(mem, m.page)
	// Short runs, so that an interruption is in few of them; the median has none of it.
	var runs []float64
	for range 101 {
		const loads = 1 << 16
		start := time.Now()
		at = kernel.Chase(at, loads)
		runs = append(runs, float64(time.Since(start).Nanoseconds())/loads)
	}
	fmt.Fprintf(out, "%.2f\n", median(runs))
	runtime.KeepAlive(mem)
	return nil
}

// median returns the middle of an odd number of values.
func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// link makes one cycle over all lines of mem: pages in a random order, lines of a page in a random order.
func link(mem []byte, page int) unsafe.Pointer {
	r := rand.New(rand.NewPCG(1, 27))
	first := unsafe.Pointer(&mem[0])
	last := first
	set := func(from, to unsafe.Pointer) { *(*unsafe.Pointer)(from) = to }
	for _, p := range r.Perm(len(mem) / page) {
		for _, l := range r.Perm(page / kernel.Line) {
			at := unsafe.Pointer(&mem[p*page+l*kernel.Line])
			if at != first {
				set(last, at)
				last = at
			}
		}
	}
	set(last, first)
	return first
}

// matrix measures the latency from each node's CPUs to each node's memory by one METHOD.
func matrix(out io.Writer, args []string) error {
	if len(args) != 1 || methods[args[0]].mib == 0 {
		return usage("want lat-mem-rd or mlc")
	}
	host, err := topology.FromSysfs(os.DirFS("/"))
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var cells [][]float64
	for _, from := range host.Nodes {
		if from.CPUs.Empty() {
			continue
		}
		var row []float64
		for _, to := range host.Nodes {
			if to.CPUs.Empty() || to.Memory <= 0 {
				continue
			}
			c := exec.Command("numactl", fmt.Sprintf("--physcpubind=%d", from.CPUs.Min()),
				fmt.Sprintf("--membind=%d", to.ID), self, "chase", args[0])
			c.Stderr = os.Stderr
			text, err := c.Output()
			if err != nil {
				return fmt.Errorf("measure from node %d to node %d: %w", from.ID, to.ID, err)
			}
			ns, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
			if err != nil {
				return err
			}
			row = append(row, ns)
		}
		cells = append(cells, row)
	}
	printMatrix(out, cells)
	return nil
}

// printMatrix prints latencies, and the means of what is local and of what is not.
func printMatrix(out io.Writer, cells [][]float64) {
	var sums, counts [2]float64
	for i, row := range cells {
		for j, ns := range row {
			fmt.Fprintf(out, "%8.1f", ns)
			k := 0
			if i != j {
				k = 1
			}
			sums[k] += ns
			counts[k]++
		}
		fmt.Fprintln(out)
	}
	for k, name := range []string{"local", "remote"} {
		if counts[k] > 0 {
			fmt.Fprintf(out, "%s %.2f ns\n", name, sums[k]/counts[k])
		}
	}
}

// probed prints the matrix that `homenode probe latency --json` has measured; FILE.
func probed(out io.Writer, args []string) error {
	if len(args) != 1 {
		return usage("want FILE")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var d struct {
		Latency struct {
			Best [][]float64
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	if len(d.Latency.Best) == 0 {
		return fmt.Errorf("%s has no latency", args[0])
	}
	printMatrix(out, d.Latency.Best)
	return nil
}
