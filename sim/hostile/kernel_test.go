package hostile

import (
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/words"
)

// theScheduler is the kernel's for batch work.
var theScheduler = key{plan.Scheduler, string(share.SchedulerID)}

// theCache is the group of resctrl that batch work has.
var theCache = key{plan.CacheGroup, share.CacheGroup}

// anotherGroup is the group of resctrl that another program has made. The driver reads threads in it as in
// none, and leaves them there.
const anotherGroup = "another"

// cached: without its group, the threads of it are in the default one.
func (h *host) cached() {
	if h.cells[theCache].value != "" {
		return
	}
	for k, c := range h.cells {
		if k.kind == plan.CacheTasks && c.value == share.CacheGroup {
			c.value = ""
		}
	}
}

// kernel is what of it is not in cells.
type kernel struct {
	takes  bool   // it has sched_ext
	newest string // version that homenode brings
	other  string // somebody else's that runs
	under  string // the same, of one that lets homenode's run below it
	end    *share.SchedulerEnd
}

// look is a look at it. Threads are made all the time.
func (h *host) look(orders *share.SchedulerOrders) *share.SchedulerSeen {
	if !h.kernel.takes {
		return &share.SchedulerSeen{Unable: words.Because(words.SchedulerNoKernel)}
	}
	seen := &share.SchedulerSeen{Newest: h.kernel.newest, Loaded: h.cells[theScheduler].value, Other: h.kernel.other, Under: h.kernel.under}
	if h.kernel.under != "" {
		seen.Newest = "below"
	}
	if seen.Loaded == "" {
		seen.End = h.kernel.end
	}
	for _, cgroup := range orders.Cgroups {
		if c := h.cells[key{plan.TaskPolicy, cgroup}]; c != nil && (c.value == "other" || h.random.IntN(20) == 0) {
			if seen.Left == nil {
				seen.Left = map[string]int{}
			}
			seen.Left[cgroup] = 1 + h.random.IntN(9)
			if h.kernel.under != "" && seen.Loaded != "" && h.random.IntN(4) == 0 {
				seen.Ended = map[string]share.SchedulerEnd{cgroup: {Kind: share.EndStalled, Text: "runnable task stall"}}
			}
		}
	}
	return seen
}

// turn is what happens to the kernel by itself.
func (h *host) turn() string {
	c := h.cells[theScheduler]
	switch n := h.random.IntN(4); {
	case h.kernel.under != "" && c.value != "" && n < 2:
		h.kernel.under = ""
		*c = cell{}
		h.kernel.end = &share.SchedulerEnd{Kind: share.EndAbove}
		return "somebody's scheduler goes, and with it what is below"
	case n == 0:
		h.kernel.newest = []string{"v1", "v2"}[h.random.IntN(2)]
		return "homenode brings " + h.kernel.newest
	case c.value != "":
		*c = cell{}
		h.kernel.end = &share.SchedulerEnd{Kind: []share.EndKind{share.EndStalled, share.EndSysRq, share.EndError, share.EndHotplug, share.EndUnknown}[h.random.IntN(5)]}
		return "the kernel ends the scheduler: " + string(h.kernel.end.Kind)
	case h.kernel.other == "" && h.kernel.under == "":
		if h.random.IntN(2) == 0 {
			h.kernel.under = "flow"
			return "somebody loads a scheduler that lets others run below it"
		}
		h.kernel.other = "lavd"
		return "somebody loads a scheduler"
	}
	h.kernel.other, h.kernel.under = "", ""
	return "somebody's scheduler goes"
}
