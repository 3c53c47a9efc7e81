package place_test

import (
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
)

func init() {
	place.Arranged = func(st plan.State, subjects []*place.Subject) plan.Plan {
		return arrange.Arrange(st, subjects, arrange.Options{MinMemory: 64 << 10, MinCPU: 0.2, MoveBandwidth: 256 << 20})
	}
}
