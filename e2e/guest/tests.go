//go:build linux

package main

// tests maps the names of package suite to code.
var tests = map[string]func(*T){
	"kernel.topology":      kernelTopology,
	"kernel.affinity":      kernelAffinity,
	"kernel.cpuset":        kernelCpuset,
	"kernel.move-pages":    kernelMovePages,
	"kernel.migrate-pages": kernelMigratePages,
	"kernel.memory-files":  kernelMemoryFiles,
	"kernel.policy":        kernelPolicy,
	"kernel.cpu-offline":   kernelCPUOffline,
	"kernel.huge-pages":    kernelHugePages,
	"kernel.balancing":     kernelBalancing,

	"homenode.topology":      homenodeTopology,
	"homenode.observe":       homenodeObserve,
	"homenode.enforce":       homenodeEnforce,
	"homenode.who":           homenodeWho,
	"homenode.undo":          homenodeUndo,
	"homenode.stop":          homenodeStop,
	"homenode.kill":          homenodeKill,
	"homenode.kill-run":      homenodeKillRun,
	"homenode.host":          homenodeHost,
	"homenode.orphans":       homenodeOrphans,
	"homenode.exit-in-move":  homenodeExitInMove,
	"homenode.cgroup-gone":   homenodeCgroupGone,
	"homenode.node-full":     homenodeNodeFull,
	"homenode.cpu-offline":   homenodeCPUOffline,
	"homenode.read-only":     homenodeReadOnly,
	"homenode.second-daemon": homenodeSecondDaemon,
	"homenode.unprivileged":  homenodeUnprivileged,
	"homenode.run":           homenodeRun,
	"homenode.numactl":       homenodeNumactl,
	"homenode.load-shift":    homenodeLoadShift,
	"homenode.shield":        homenodeShield,
	"homenode.immovable":     homenodeImmovable,
	"homenode.pressure":      homenodePressure,
	"homenode.move":          homenodeMove,
	"homenode.churn":         homenodeChurn,
	"homenode.eight-nodes":   homenodeEightNodes,

	"systemd.unit":     systemdUnit,
	"systemd.cpusets":  systemdCpusets,
	"systemd.host":     systemdHost,
	"systemd.programs": systemdPrograms,
	"systemd.scope":    systemdScope,
	"systemd.package":  systemdPackage,

	"count.kernel":   countKernel,
	"count.homenode": countHomenode,
}
