package suite

import "time"

// Batch work beside online work, by cgroups alone.
func init() {
	Tests = append(Tests,
		Test{Name: "share.base", Shapes: []string{"n2"}, Limit: 3 * time.Minute, Homenode: true},
		Test{Name: "share.run", Shapes: []string{"n2"}, Limit: 3 * time.Minute, Homenode: true},
		Test{Name: "share.goals", Shapes: []string{"n2"}, Limit: 5 * time.Minute, Slow: true, Homenode: true},
		Test{
			Name: "share.goals-query", Shapes: []string{"n2"},
			Limit: 8 * time.Minute, Slow: true, Homenode: true,
		},
		Test{Name: "share.freeze", Shapes: []string{"n2"}, Limit: 3 * time.Minute, Slow: true, Homenode: true},
		Test{Name: "share.cores", Shapes: []string{"virtual"}, Limit: 3 * time.Minute, Slow: true, Homenode: true},
		Test{Name: "share.controller", Shapes: []string{"virtual"}, Limit: 3 * time.Minute, Slow: true, Homenode: true},
		Test{Name: "share.lacks", Shapes: []string{"scx"}, Limit: 5 * time.Minute, Slow: true, Homenode: true},
		Test{Name: "share.delegated", Shapes: []string{"n2"}, Limit: 3 * time.Minute, Slow: true, Homenode: true})
}
