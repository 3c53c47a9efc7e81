//go:build linux && amd64

package main

// #cgo CFLAGS: -O3 -Wall
// #include "ref.h"
import "C"

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/host/probe/kernel"
)

// contest is one quantity, measured by both sides.
type contest struct {
	name   string
	unit   string
	target float64 // the ratio may be off 1 by so much
	setUp  func()
	// work does one sample's work, in C or in Go; X of it is returned by rate.
	work func(inC bool)
	rate func(took time.Duration) float64
}

func main() {
	rows := flag.Int("rows", 41, "good pairs to take of each quantity")
	limit := flag.Duration("limit", 12*time.Second, "time for each quantity")
	flag.Parse()
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	buf := mapped(256 << 20)
	for i := 0; i < len(buf); i += 4096 {
		buf[i] = 1
	}
	fmt.Printf("%s; Linux %s; %s against gcc -O3; buffer %d MiB; load average %s\n\n",
		word("/proc/cpuinfo", "model name"), line("/proc/sys/kernel/osrelease"), runtime.Version(), len(buf)>>20,
		line("/proc/loadavg"))
	fmt.Println("| quantity | Go | C | unit | Go / C | 95 % interval | pairs | thrown out | target | " +
		"|\n|---|---|---|---|---|---|---|---|---|---|")
	misses := 0
	for i, c := range contests(buf) {
		if !compare(c, *rows, *limit, uint64(i)) {
			misses++
		}
	}
	fmt.Printf("\nA quantity misses its target when the median ratio is outside and the interval does not reach into "+
		"it. Missed: %d.\n", misses)
	if misses > 0 {
		os.Exit(1)
	}
}

func mapped(n int) []byte {
	whole, err := unix.Mmap(-1, 0, n+kernel.PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	off := int(-uintptr(unsafe.Pointer(&whole[0])) % kernel.PageSize)
	_ = unix.Madvise(whole[off:off+n], unix.MADV_HUGEPAGE)
	return whole[off : off+n]
}

const loads = measure.SampleLoads

func contests(buf []byte) []contest {
	var at unsafe.Pointer
	chase := func(name string, build func() *kernel.Ring) contest {
		return contest{
			name: name, unit: "ns", target: 0.02,
			setUp: func() { at, _ = build().Segment(0) },
			work: func(inC bool) {
				if inC {
					at = C.ref_chase(at, loads)
				} else {
					at = kernel.Chase(at, loads)
				}
			},
			rate: func(took time.Duration) float64 { return float64(took.Nanoseconds()) / loads },
		}
	}
	out := []contest{
		chase("latency, 256 MiB, no line twice", func() *kernel.Ring { return kernel.BuildRing(buf, 1) }),
		chase("latency, 16 KiB", func() *kernel.Ring { return kernel.BuildSmallRing(buf[:16<<10], 2) }),
		chase("latency, 512 KiB", func() *kernel.Ring { return kernel.BuildSmallRing(buf[:512<<10], 3) }),
	}
	kinds := map[string]C.int{"r": C.REF_R, "w": C.REF_W, "nt": C.REF_NT, "1:1": C.REF_1, "2:1": C.REF_2,
		"3:1": C.REF_3, "triad": C.REF_TRIAD, "nt-triad": C.REF_NTTRIAD}
	stream := func(s kernel.Stream, label string) contest {
		steps, next := s.Steps(len(buf)), 0
		// About 4 ms of work a sample.
		count := max(1, (40<<20)/s.Program())
		part := len(buf) / (s.Reads + s.Writes) >> 16 << 16
		return contest{
			name: label, unit: "GB/s", target: 0.05,
			setUp: func() { next = 0 },
			work: func(inC bool) {
				if next+count > steps {
					next = 0
				}
				if inC {
					C.ref_steps(width(s), kinds[s.Mix], (*C.char)(unsafe.Pointer(&buf[0])), C.size_t(part),
						C.long(next), C.long(next+count))
				} else {
					for i := next; i < next+count; i++ {
						s.Step(buf, i)
					}
				}
				next += count
			},
			rate: func(took time.Duration) float64 { return float64(count*s.Program()) / took.Seconds() / 1e9 },
		}
	}
	used := map[string]string{}
	for _, s := range kernel.Streams() {
		used[s.Mix] = s.Name
		out = append(out, stream(s, fmt.Sprintf("%s, %s", s.Mix, s.Name)))
	}
	// What other CPUs would use: their reads, and all that has SSE2 alone.
	for i, set := range kernel.Sets() {
		for _, s := range set {
			if s.Name != used[s.Mix] && (s.Mix == "r" || i == 1) {
				out = append(out, stream(s, fmt.Sprintf("(not used here) %s, %s", s.Mix, s.Name)))
			}
		}
	}
	return out
}

// width is the vectors that C is to use, in bits: those of the Go side, or AVX2
// where the Go side reads one word of each line.
func width(s kernel.Stream) C.int {
	switch {
	case strings.HasPrefix(s.Name, "sse2") && s.Mix != "r":
		return 128
	case strings.HasPrefix(s.Name, "avx512"):
		return 512
	}
	return 256
}

// compare takes pairs of samples, the two of a pair one after the other in
// random order, until there are enough.
func compare(c contest, rows int, limit time.Duration, seed uint64) bool {
	c.setUp()
	r := measure.NewRandom(seed)
	var inGo, inC, ratios []float64
	thrown := 0
	c.work(true)
	c.work(false)
	for start := time.Now(); len(ratios) < rows && time.Since(start) < limit; {
		order := []bool{true, false}
		measure.Shuffle(r, order)
		if thrown > 0 {
			time.Sleep(time.Millisecond) // come back with a whole turn ahead
		}
		var x [2]float64
		good := true
		for _, isC := range order {
			var before, after unix.Rusage
			_ = unix.Getrusage(unix.RUSAGE_THREAD, &before)
			t := time.Now()
			c.work(isC)
			took := time.Since(t)
			_ = unix.Getrusage(unix.RUSAGE_THREAD, &after)
			good = good && before.Nivcsw == after.Nivcsw
			if isC {
				x[1] = c.rate(took)
			} else {
				x[0] = c.rate(took)
			}
		}
		if !good {
			thrown++
			continue
		}
		inGo = append(inGo, x[0])
		inC = append(inC, x[1])
		ratios = append(ratios, x[0]/x[1])
	}
	m, ci := measure.Median(ratios), measure.MedianInterval(ratios)
	word := "holds"
	missed := (m > 1+c.target && float64(ci[0]) > 1+c.target) || (m < 1-c.target && float64(ci[1]) < 1-c.target)
	switch {
	case len(ratios) < measure.MinUseful:
		word = "too busy"
	case missed:
		word = "**missed**"
	case m > 1+c.target || m < 1-c.target:
		word = "undecided"
	}
	fmt.Printf("| %s | %.2f | %.2f | %s | **%.3f** | %.3f to %.3f | %d | %d | %.0f %% | %s |\n",
		c.name, measure.Median(inGo), measure.Median(inC), c.unit, m, float64(ci[0]), float64(ci[1]), len(ratios),
		thrown, 100*c.target, word)
	return !missed
}

func line(name string) string {
	b, _ := os.ReadFile(name)
	text, _, _ := strings.Cut(string(b), "\n")
	return text
}

func word(name, key string) string {
	b, _ := os.ReadFile(name)
	for l := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return "unknown CPU"
}
