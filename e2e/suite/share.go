package suite

import "time"

// The daemon and the kernel's scheduler for batch work.
func init() {
	Tests = append(Tests,
		Test{Name: "share.scheduler", Shapes: []string{"scx"}, Limit: 90 * time.Second, Homenode: true},
		Test{Name: "share.ends", Shapes: []string{"scx"}, Limit: 90 * time.Second, Homenode: true},
		Test{Name: "share.below", Shapes: []string{"scx"}, Limit: 3 * time.Minute, Homenode: true},
		Test{Name: "share.other", Shapes: []string{"scx"}, Limit: 90 * time.Second, Slow: true, Homenode: true},
		Test{Name: "share.starved", Shapes: []string{"scx"}, Limit: 180 * time.Second, Slow: true, Homenode: true},
		Test{Name: "share.sysrq", Shapes: []string{"scx"}, Limit: 20 * time.Minute, Slow: true, Homenode: true},
		Test{Name: "share.watchdog", Shapes: []string{"scx"}, Limit: 40 * time.Minute, Slow: true, Homenode: true},
		Test{Name: "share.smt-off", Shapes: []string{"scx"}, Limit: 3 * time.Minute, Slow: true, Homenode: true},
		Test{Name: "share.kernel", Shapes: []string{"scx-6.12"}, Limit: 3 * time.Minute, Slow: true, Homenode: true},
	)
}
