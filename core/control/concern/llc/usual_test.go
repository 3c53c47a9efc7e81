package llc

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
)

// TestUsualOfABusyNode: what work waits on a node without an idle CPU says nothing of what it waits in a cache.
func TestUsualOfABusyNode(t *testing.T) {
	h := on(t, plan.CachesPlace, 4, 12)
	h.uses(0, 1, 0.5)
	h.uses(1, 15, 0.5)
	for range 60 {
		h.scan(time.Second)
	}
	h.uses(0, 1, 0)
	h.uses(1, 0, 0)
	for range 120 {
		h.scan(time.Second)
	}
	h.uses(0, 2, 0.34) // 12 CPUs idle
	code(t, h.scan(2*time.Second), "a", words.CacheWidened)
}
