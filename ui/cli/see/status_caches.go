package see

import (
	"fmt"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// cachesLine returns the number of last-level caches, and the state of the kernel's cache-aware scheduling.
func cachesLine(c *api.Caches) string {
	return fmt.Sprintf("%d of up to %s; %s", c.Count, words.Count(c.CPUs, "CPU"), kernelOnCaches(c.Kernel))
}

func kernelOnCaches(state topology.CacheAwareState) string {
	switch state {
	case topology.CacheAwareOn:
		return "cache-aware scheduling of the kernel is on"
	case topology.CacheAwareOff:
		return "cache-aware scheduling of the kernel is off"
	case topology.CacheAwareBuiltIn:
		return "cache-aware scheduling of the kernel is on unless a user switched it off (root can see it)"
	case topology.CacheAwareNone:
		return "the kernel has no cache-aware scheduling"
	}
	return "cache-aware scheduling of the kernel: unknown"
}
