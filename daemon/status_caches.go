package daemon

import (
	"cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
)

// caches returns the last-level caches of a host on which some node has several; nil on others.
func (v *View) caches() *api.Caches {
	h := v.Snapshot.Host
	if h == nil || !h.SplitCaches() {
		return nil
	}
	kernel := v.Snapshot.CacheAware
	out := &api.Caches{Count: len(h.LLCs), Kernel: cmp.Or(kernel.State, topology.CacheAwareUnknown), From: kernel.From}
	for i := range h.LLCs {
		out.CPUs = max(out.CPUs, h.LLCs[i].CPUs.Len())
	}
	return out
}
