package share

import (
	"fmt"
	"slices"
	"testing"

	"github.com/homenode/homenode/core/workload"
)

// TestBoundUserTakesNoOthersTiers: an ordinary user may make as many cgroups of batch work as he
// likes. They take the tiers neither of the system's work nor of other users'.
func TestBoundUserTakesNoOthersTiers(t *testing.T) {
	c := &SchedulerConfig{}
	add := func(tier workload.Tier, paths ...string) {
		for _, p := range paths {
			c.Groups = append(c.Groups, SchedulerGroup{Cgroup: p, Tier: tier})
		}
	}
	for i := range 100 {
		add(workload.BatchTier, fmt.Sprintf("/user.slice/user-1000.slice/user@1000.service/x/%03d", i))
	}
	others := []string{"/user.slice/user-1001.slice/user@1001.service/x/a", "/user.slice/user-1001.slice/user@1001.service/x/b"}
	add(workload.BatchTier, others...)
	add(workload.OnlineStrict, "/zz/dedicated")
	add(workload.BatchTier, "/zz/batch")
	add(workload.Online, "/zz/web")
	without := c.Bound(10)
	var kept []string
	for _, g := range c.Groups {
		kept = append(kept, g.Cgroup)
	}
	for _, want := range append(others, "/zz/dedicated", "/zz/batch") {
		if !slices.Contains(kept, want) {
			t.Errorf("%s has no tier; kept %v", want, kept)
		}
	}
	if len(kept) != 10 || len(without) != 95 || !slices.IsSorted(kept) || !slices.IsSorted(without) || !slices.Contains(without, "/zz/web") {
		t.Errorf("kept %v, without %d", kept, len(without))
	}
}
