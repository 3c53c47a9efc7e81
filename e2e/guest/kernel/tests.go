//go:build linux

package kernel

import "github.com/homenode/homenode/e2e/guest/lab"

// Tests are the tests of this package, by the name that package suite has for them.
var Tests = lab.Tests{
	"kernel.affinity":      kernelAffinity,
	"kernel.balancing":     kernelBalancing,
	"kernel.caches":        kernelCaches,
	"kernel.cpu-offline":   kernelCPUOffline,
	"kernel.cpuset":        kernelCpuset,
	"kernel.huge-pages":    kernelHugePages,
	"kernel.memory-files":  kernelMemoryFiles,
	"kernel.migrate-pages": kernelMigratePages,
	"kernel.move-pages":    kernelMovePages,
	"kernel.policy":        kernelPolicy,
	"kernel.topology":      kernelTopology,
}
