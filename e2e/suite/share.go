package suite

import "time"

// The daemon and the kernel's scheduler for offline work.
func init() {
	Tests = append(Tests,
		Test{Name: "share.scheduler", Shapes: []string{"n2"}, Limit: 90 * time.Second, Homenode: true},
		Test{Name: "share.ends", Shapes: []string{"n2"}, Limit: 90 * time.Second, Homenode: true},
		Test{Name: "share.other", Shapes: []string{"n2"}, Limit: 90 * time.Second, Slow: true, Homenode: true},
		Test{Name: "share.starved", Shapes: []string{"n2"}, Limit: 180 * time.Second, Slow: true, Homenode: true},
	)
}
