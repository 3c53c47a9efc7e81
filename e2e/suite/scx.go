package suite

import "time"

// Offline work under the scheduler of host/scx.
func init() {
	Tests = append(Tests,
		Test{Name: "scx.load", Shapes: []string{"n2"}, Limit: 60 * time.Second},
		Test{Name: "scx.expel", Shapes: []string{"n2"}, Limit: 90 * time.Second},
		Test{Name: "scx.bursts", Shapes: []string{"n2"}, Limit: 60 * time.Second},
		Test{Name: "scx.guard", Shapes: []string{"n2"}, Limit: 120 * time.Second},
		Test{Name: "scx.bounds", Shapes: []string{"n2"}, Limit: 90 * time.Second},
	)
}
