//go:build linux

package home

import (
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// Tests are the tests of this package, by the name that package suite has for them.
var Tests = lab.Tests{
	"homenode.caches":        homenodeCaches,
	"homenode.caches-place":  homenodeCachesPlace,
	"homenode.caches-undo":   homenodeCachesUndo,
	"homenode.cgroup-gone":   homenodeCgroupGone,
	"homenode.churn":         homenodeChurn,
	"homenode.cpu-offline":   homenodeCPUOffline,
	"homenode.cpu-taken":     homenodeCPUTaken,
	"homenode.cpuset-locked": homenodeCpusetLocked,
	"homenode.eight-nodes":   homenodeEightNodes,
	"homenode.enforce":       homenodeEnforce,
	"homenode.exit-in-move":  homenodeExitInMove,
	"homenode.frozen":        homenodeFrozen,
	"homenode.gpus":          homenodeGPUs,
	"homenode.host":          homenodeHost,
	"homenode.immovable":     homenodeImmovable,
	"homenode.irq":           homenodeIRQ,
	"homenode.isolated":      homenodeIsolated,
	"homenode.kill":          homenodeKill,
	"homenode.kill-run":      homenodeKillRun,
	"homenode.load-shift":    homenodeLoadShift,
	"homenode.locked":        homenodeLocked,
	"homenode.move":          homenodeMove,
	"homenode.names":         homenodeNames,
	"homenode.near":          homenodeNear,
	"homenode.node-full":     homenodeNodeFull,
	"homenode.numactl":       homenodeNumactl,
	"homenode.observe":       homenodeObserve,
	"homenode.orphans":       homenodeOrphans,
	"homenode.other-writer":  homenodeOtherWriter,
	"homenode.pressure":      homenodePressure,
	"homenode.read-only":     homenodeReadOnly,
	"homenode.run":           homenodeRun,
	"homenode.same-name":     homenodeSameName,
	"homenode.second-daemon": homenodeSecondDaemon,
	"homenode.shared-memory": homenodeSharedMemory,
	"homenode.shield":        homenodeShield,
	"homenode.stop":          homenodeStop,
	"homenode.threads":       homenodeThreads,
	"homenode.topology":      homenodeTopology,
	"homenode.torn":          homenodeTorn,
	"homenode.trial":         homenodeTrial,
	"homenode.undo":          homenodeUndo,
	"homenode.unprivileged":  homenodeUnprivileged,
	"homenode.who":           homenodeWho,
	"tiers.demotion":         func(t *lab.T) { tiersDemotion(t, 30*time.Second) },
	"tiers.demotion-long":    func(t *lab.T) { tiersDemotion(t, 10*time.Minute) },
	"tiers.page-tables":      tiersPageTables,
	"tiers.share":            tiersShare,
}
