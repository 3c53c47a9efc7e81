//go:build linux

package count

import "github.com/homenode/homenode/e2e/guest/lab"

// Tests are the tests of this package, by the name that package suite has for them.
var Tests = lab.Tests{
	"bottle.database":     bottleDatabase,
	"bottle.eight-guests": func(t *lab.T) { bottle(t, bareScene(t, "eight-guests", 2, guestsOf(8))) },
	"bottle.full":         func(t *lab.T) { bottle(t, nothingToGain(t, "full", fullMachine())) },
	"bottle.idle":         func(t *lab.T) { bottle(t, idle(t, "idle")) },
	"bottle.idle-local":   func(t *lab.T) { bottle(t, startedLocal(t, idle(t, "idle-local"))) },
	"bottle.interleaved":  func(t *lab.T) { bottle(t, nothingToGain(t, "interleaved", interleaved())) },
	"bottle.pods":         bottlePods,
	"bottle.service-pods": bottleServicePods,
	"bottle.services":     bottleServices,
	"bottle.six-guests":   func(t *lab.T) { bottle(t, bareScene(t, "six-guests", 2, guestsOf(6))) },
	"bottle.ten":          func(t *lab.T) { bottle(t, bareScene(t, "ten", 1, tenPods())) },
	"bottle.two":          func(t *lab.T) { bottle(t, bareScene(t, "two", 1, twoServers())) },
	"bottle.wide":         bottleWide,
	"bottle.wide-start":   bottleWideStart,
	"caches.lines":        cachesLines,
	"containers.count":    containersCount,
	"containers.gpus":     gpuPods,
	"count.homenode":      countHomenode,
	"count.kernel":        countKernel,
	"count.wide":          countWide,
	"probe.fake":          probeFake,
	"probe.flat":          probeFlat,
	"probe.full":          probeFull,
	"probe.hidden":        probeHidden,
	"probe.matrix":        probeMatrix,
	"probe.start":         probeStart,
	"probe.tables":        probeTables,
	"probe.tier":          probeTier,
	"seeds.pods":          seedsPods,
}
