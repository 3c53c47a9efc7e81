package share

import (
	"math/bits"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestCacheMask: masks are contiguous, within the ways that there are, never fewer than the least,
// never more than the part, and on the low side, off what devices fill where that can be.
func TestCacheMask(t *testing.T) {
	for _, tt := range []struct {
		all, shared uint64
		least, part int
		want        uint64
	}{
		{0xfffff, 0xc0000, 1, 30, 0x3f}, {0x7ff, 0x600, 1, 30, 0x7}, {0x7ff, 0x600, 2, 5, 0x3}, {0x7ff, 0x3, 1, 30, 0x1c},
		{0x7ff, 0x7ff, 1, 30, 0x7}, {0xff0, 0, 1, 50, 0xf0}, {0xffff, 0, 1, 95, 0x7fff}, {0, 0, 1, 30, 0}, {0x5, 0, 2, 50, 0}, {^uint64(0), 0, 1, 100, ^uint64(0)},
	} {
		if got := CacheMask(tt.all, tt.shared, tt.least, tt.part); got != tt.want {
			t.Errorf("%d %% of %x, %x shared, %d at least: %x, want %x", tt.part, tt.all, tt.shared, tt.least, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		ways := rapid.IntRange(1, 32).Draw(t, "ways")
		all := (uint64(1)<<ways - 1) << rapid.IntRange(0, 3).Draw(t, "from")
		shared := rapid.Uint64().Draw(t, "shared") & all
		least, part := rapid.IntRange(0, ways).Draw(t, "least"), rapid.IntRange(1, 100).Draw(t, "part")
		m := CacheMask(all, shared, least, part)
		n := bits.OnesCount64(m)
		if m&^all != 0 || n == 0 || n < least || n > max(1, least, ways*part/100) || m>>bits.TrailingZeros64(m) != 1<<n-1 {
			t.Fatalf("%b of %b", m, all)
		}
		for lower := m >> 1; lower&^all == 0 && bits.OnesCount64(lower) == n; lower >>= 1 {
			if bits.OnesCount64(lower&shared) == 0 || m&shared != 0 {
				t.Fatalf("%b of %b is not the lowest, %b is shared", m, all, shared)
			}
		}
	})
}

// TestCacheThrottle: steps of the processor, rounded up as the kernel does.
func TestCacheThrottle(t *testing.T) {
	for _, tt := range [][4]int{{10, 10, 25, 30}, {10, 10, 5, 10}, {10, 10, 90, 90}, {1, 1, 33, 33}, {0, 0, 0, 1}, {10, 30, 95, 100}} {
		if got := CacheThrottle(tt[0], tt[1], tt[2]); got != tt[3] {
			t.Errorf("%v: %d", tt, got)
		}
	}
}

// TestCacheState: half is taken at once and again each round while somebody is hurt, 5 points are
// given back a round, and never more than is configured.
func TestCacheState(t *testing.T) {
	most := CacheLimit{30, 50}
	at := time.Unix(1000, 0)
	var s CacheState
	look := func(after time.Duration, hurt bool, want CacheLimit) {
		t.Helper()
		at = at.Add(after)
		if s = s.Next(at, most, hurt, true); s.Now != want {
			t.Errorf("at %v: %v, want %v", at.Unix(), s.Now, want)
		}
	}
	look(0, false, most)
	look(2*time.Second, true, CacheLimit{15, 25}) // at once
	look(2*time.Second, true, CacheLimit{15, 25})
	look(8*time.Second, true, CacheLimit{7, 12})
	look(10*time.Second, true, CacheLimit{5, 10})
	look(10*time.Second, true, CacheLimit{5, 10})
	look(10*time.Second, false, CacheLimit{10, 15})
	look(2*time.Second, false, CacheLimit{10, 15})
	look(time.Second, true, CacheLimit{5, 10})
	for range 20 {
		at = at.Add(10 * time.Second)
		was := s.Now
		if s = s.Next(at, most, false, true); s.Now.Cache > was.Cache+cacheStep || s.Now.Bandwidth > was.Bandwidth+cacheStep {
			t.Errorf("%v after %v", s.Now, was)
		}
	}
	look(0, false, most)
	if s = s.Next(at.Add(time.Second), most, true, false); s.Now != most {
		t.Errorf("it changes though nothing is counted: %v", s.Now)
	}
}

func FuzzParseCacheLimit(f *testing.F) {
	f.Add("cache=30% bandwidth=0%")
	f.Add("cache=-1% bandwidth=0%")
	f.Fuzz(func(t *testing.T, text string) {
		if l, err := ParseCacheLimit(text); err == nil && l.String() != text {
			t.Errorf("%q is %q", text, l)
		}
	})
}
