package kernel

import (
	"fmt"
	"testing"
	"unsafe"
)

func aligned(n int) []byte {
	b := make([]byte, n+PageSize)
	off := int(-uintptr(unsafe.Pointer(&b[0])) % PageSize)
	return b[off : off+n]
}

// The ring is one cycle over every line, stays in a page for its share of links,
// and keeps neighbouring lines half a cycle apart.
func TestRingIsOneCycle(t *testing.T) {
	mem := aligned(4 * PageSize)
	r := BuildRing(mem, 1)
	if r.Links() != len(mem)/Line {
		t.Fatalf("%d links over %d lines", r.Links(), len(mem)/Line)
	}
	base := uintptr(unsafe.Pointer(&mem[0]))
	seen := make([]int, len(mem)/Line)
	p, first := r.Segment(0)
	start := p
	for i := range r.Links() {
		at := uintptr(p) - base
		if at%Line != 0 || at >= uintptr(len(mem)) || seen[at/Line] != 0 {
			t.Fatalf("link %d at %#x: outside, unaligned or twice", i, at)
		}
		seen[at/Line] = i + 1
		seg, page := r.Segment(i / r.SegmentLinks())
		if int(at)/PageSize != page {
			t.Fatalf("link %d in page %d, want %d", i, int(at)/PageSize, page)
		}
		if i%r.SegmentLinks() == 0 && seg != p {
			t.Fatalf("segment %d begins at %p, want %p", i/r.SegmentLinks(), p, seg)
		}
		p = *(*unsafe.Pointer)(p)
	}
	if p != start {
		t.Error("the cycle does not close")
	}
	for l := 0; l < len(seen); l += 2 {
		if d := seen[l+1] - seen[l]; d < r.SegmentLinks() {
			t.Fatalf("lines %d and %d are visited %d links apart", l, l+1, d)
		}
	}
	if _, again := BuildRing(aligned(4*PageSize), 1).Segment(0); again != first {
		t.Error("another order from the same seed")
	}
}

func TestChaseCounts(t *testing.T) {
	r := BuildSmallRing(aligned(PageSize)[:8<<10], 3)
	p, _ := r.Segment(0)
	if r.Links() != 128 || Chase(p, 128) != p || Chase(p, 96) == p || Chase(Chase(p, 96), 32) != p || Chase(p, 31) != p {
		t.Error("128 links are not the cycle")
	}
}

// sets gives each set of kernels a name.
func sets() map[string][]Stream {
	out := map[string][]Stream{}
	for i, set := range Sets() {
		out[fmt.Sprint(i, " ", set[1].Name)] = set
	}
	return out
}

// Each kernel writes all of its written stream, what it should, and nothing else.
func TestStreamsTouchWhatTheySay(t *testing.T) {
	for set, streams := range sets() {
		for _, s := range streams {
			t.Run(fmt.Sprint(set, " ", s.Mix, " ", s.Name), func(t *testing.T) {
				buf := aligned(8 * stepBytes)
				words := unsafe.Slice((*float64)(unsafe.Pointer(&buf[0])), len(buf)/8)
				for i := range words {
					words[i] = float64(i%1000) + 1
				}
				before := append([]float64(nil), words...)
				if s.Steps(len(buf)) != 8/(s.Reads+s.Writes) {
					t.Fatalf("%d steps", s.Steps(len(buf)))
				}
				s.Step(buf, 1)
				part := len(words) / (s.Reads + s.Writes) / (stepBytes / 8) * (stepBytes / 8)
				from, to := s.Reads*part+stepBytes/8, s.Reads*part+2*stepBytes/8
				changed := 0
				for i := range words {
					inside := s.Writes > 0 && i >= from && i < to
					if words[i] != before[i] {
						changed++
						if !inside {
							t.Fatalf("word %d changed, outside %d to %d", i, from, to)
						}
					}
					if off := i - from; inside && (s.Mix == "triad" || s.Mix == "nt-triad") {
						if want := before[stepBytes/8+off] + 3*before[part+stepBytes/8+off]; words[i] != want {
							t.Fatalf("word %d is %v, want %v", i, words[i], want)
						}
					}
				}
				if s.Writes > 0 && changed < (to-from)*9/10 {
					t.Errorf("%d of %d words written", changed, to-from)
				}
				traffic := s.Program()
				if !s.NT {
					traffic += s.Writes * stepBytes
				}
				if s.Traffic() != traffic || s.Program() != (s.Reads+s.Writes)*stepBytes {
					t.Errorf("program %d, traffic %d", s.Program(), s.Traffic())
				}
			})
		}
	}
	if s, all := Streams(), Sets(); s[0].Name != all[len(all)-1][0].Name {
		t.Errorf("the set used reads with %s, the best there is with %s", s[0].Name, all[len(all)-1][0].Name)
	}
	for _, mix := range []string{"r", "3:1", "2:1", "1:1", "w", "triad"} {
		if s, ok := StreamFor(mix); !ok || s.Mix != mix {
			t.Errorf("no kernel for %s", mix)
		}
	}
	if _, ok := StreamFor("9:9"); ok {
		t.Error("a kernel for 9:9")
	}
}

func BenchmarkBuildRing(b *testing.B) {
	mem := aligned(32 << 20)
	b.SetBytes(int64(len(mem)))
	for b.Loop() {
		BuildRing(mem, 1)
	}
}

func BenchmarkStream(b *testing.B) {
	buf := aligned(96 << 20)
	for i := range buf {
		buf[i] = 1
	}
	for set, streams := range sets() {
		for _, s := range streams {
			b.Run(set+"/"+s.Mix, func(b *testing.B) {
				b.SetBytes(int64(s.Program()))
				steps, i := s.Steps(len(buf)), 0
				for b.Loop() {
					s.Step(buf, i)
					if i++; i == steps {
						i = 0
					}
				}
			})
		}
	}
}
