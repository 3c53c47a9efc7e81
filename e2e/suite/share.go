package suite

import "time"

// The daemon and the kernel's scheduler for offline work.
func init() {
	Tests = append(Tests,
		Test{Name: "share.scheduler", Shapes: []string{"scx"}, Limit: 90 * time.Second, Homenode: true},
		Test{Name: "share.ends", Shapes: []string{"scx"}, Limit: 90 * time.Second, Homenode: true},
		Test{Name: "share.other", Shapes: []string{"scx"}, Limit: 90 * time.Second, Slow: true, Homenode: true},
		Test{Name: "share.starved", Shapes: []string{"scx"}, Limit: 180 * time.Second, Slow: true, Homenode: true},
	)
}
