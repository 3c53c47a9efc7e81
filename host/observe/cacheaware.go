package observe

import (
	"time"

	"github.com/homenode/homenode/core/topology"
)

// cacheAwareEvery is the time between two reads of the switch of the kernel's cache-aware scheduling. A
// user or a trial may turn it; decisions on it take longer.
const cacheAwareEvery = 10 * time.Second

// cacheAware is the newest state of the kernel's cache-aware scheduling.
type cacheAware struct {
	at    time.Time
	now   topology.CacheAware
	built topology.CacheAware // read once: the kernel's configuration does not change
}

// readCacheAware returns the state of the kernel's cache-aware scheduling, at most 10 s old. It is not
// read on a host where no caches divide a node: nothing depends on it there.
func (o *Observer) readCacheAware() topology.CacheAware {
	a := &o.aware
	if !a.at.IsZero() && o.now.Sub(a.at) < cacheAwareEvery {
		return a.now
	}
	a.at = o.now
	a.now = topology.CacheAware{}
	if !o.host.SplitCaches() {
		return a.now
	}
	a.now = topology.CacheAwareNow(o.fsys)
	if a.now.State != topology.CacheAwareUnknown {
		return a.now
	}
	if a.built.State == "" {
		a.built = topology.CacheAwareBuilt(o.fsys)
	}
	a.now = a.built
	return a.now
}
