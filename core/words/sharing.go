package words

// Batch work's part of the host, and its reasons.
var (
	ShareOff = says("share-off",
		"Batch work may use every CPU that no dedicated work holds (`homenode share on` or share.enabled in the "+
			"configuration turns sharing on).")
	ShareSoon = says("share-soon",
		"Sharing was just turned on: the next scan computes how much batch work may have.")
	ShareNone    = says("share-none", "No workload is batch work: sharing has nothing to do.")
	ShareAllLeft = says("share-all-left", "All batch work is left alone: sharing changes none of its settings.")
	ShareLeft    = says("share-left", "Batch work, but left alone: sharing changes none of its settings.")
	ShareBudget  = says("share-budget",
		"Of {n CPU}, online work uses {.1f} and the rest of the system {.1f}; {n CPU} {stays|stay} idle. The target "+
			"is {%} of the CPUs busy: that leaves {.1f} for batch work.")
	ShareBuffer  = says("share-buffer", "That is less than the target allows, because some CPUs are kept idle first.")
	ShareUnknown = says("share-unknown", "The CPU use of this host is unknown, so batch work gets no more.")
	ShareNoCPUs  = says("share-no-cpus", "It has no CPU that batch work may use.")
	ShareNoCore  = says("share-no-core",
		"Dedicated work holds part of every core: batch work has one CPU on a core that it shares with dedicated work.")
	ShareShrunk   = says("share-shrunk", "{.2f} CPUs were just taken from batch work.")
	ShareGrown    = says("share-grown", "{.2f} CPUs were just added; one scan adds at most a tenth of the CPUs.")
	ShareSettling = says("share-settling", "Batch work gets more in {for} if the CPUs stay free until then.")
	ShareFloor    = says("share-floor", "Batch work is at its guaranteed minimum: {.2f} CPUs.")
	ShareCrumb    = says("share-crumb", "Of {.2f} CPUs batch work gets {.2f}: a small part of a CPU costs the "+
		"slowest answers of online work as much as a whole one.")
	ShareWaits = says("share-waits",
		"{} waited for a CPU {%} of the time (limit {%}): batch work loses cores until the wait is below the limit.")
	ShareSet = says("share-set", "Batch work runs on {cpus} of {nodes}: the target of {%} busy CPUs minus "+
		"online work, the system and the CPUs kept idle.")
	ShareSetGoals = says("share-set-goals", "Batch work runs on {cpus} of {nodes}: the use at which latency goals "+
		"hold, minus online work, the system and the CPUs kept idle.")
	ShareSetMax = says("share-set-max",
		"Batch work runs on {cpus} of {nodes}, in whole cores, but may not keep all of them busy: a workload that "+
			"wants more than its part may use up to {.1f} CPUs.")
	ShareIdle = says("share-idle", "Batch work runs only when nothing else in its parent cgroup wants the CPU.")
	ShareMax  = says("share-max",
		"Batch work has whole cores but may not keep all of them busy: a workload that wants more than its part may "+
			"use up to {.2f} CPUs.")
	ShareNoMax  = says("share-no-max", "Batch work may use all of its CPUs.")
	ShareFreeze = says("share-freeze",
		"{} is still short of CPU with batch work at its minimum. Batch workloads are being frozen, least important "+
			"first (then by memory traffic and CPU use).")
	ShareTraffic = says("share-traffic",
		"Its memory traffic is {gbs} GB/s: among equally important workloads, the one with most traffic is "+
			"squeezed first.")
	ShareThaw       = says("share-thaw", "No important workload waits for a CPU any more.")
	ShareFrozenLong = says("share-frozen-long",
		"frozen for {for}, because {} needs its CPUs: stop it or move it to another host")
	ShareEvict = says("share-evict",
		"{} is still short of CPU after {for} of squeezing: the program that runs this workload is asked to stop it "+
			"or to move it. Homenode does not kill it.")
	ShareFound = says("share-found",
		"hurts {}: correlation {.2f} over {n sample}. It is limited to one core of each node for {for}.")
	ShareCut      = says("share-cut", "Limited to one core of each node for {for}, because it hurts {}.")
	ShareNoSignal = says("share-no-signal",
		"Harm cannot be measured here: this host counts no cycles, and the time it waits for CPUs is unknown.")
	ShareNoCPI = says("share-no-cpi",
		"Its cycles per instruction are unknown now: it used less than {} CPUs, or its own limit held it back.")
	ShareNoWait   = says("share-no-wait", "The time it waits for CPUs is unknown now, or its own limit held it back.")
	ShareCPI      = says("share-cpi", "It takes {.2f} cycles per instruction.")
	ShareWait     = says("share-wait", "It waited for a CPU {%} of the time (source: {}); cycles are not counted.")
	ShareLearns   = says("share-learns", "Learning its baseline: {} of {n sample}.")
	ShareUsualCPI = says("share-usual-cpi",
		"Baseline: {.2f} ± {.2f}, from {n sample}; above {.2f} it counts as hurt.")
	ShareUsualWait = says("share-usual-wait", "Baseline: {%}, from {n sample}; above {%} it counts as hurt.")
	ShareHurt      = says("share-hurt", "Hurt: at least {} of the last {} samples are above.")
	ShareUnhurt    = says("share-unhurt", "Not hurt now.")
	ShareOffender  = says("share-offender",
		"Most likely cause: {}, whose CPU time rises and falls with the harm (correlation {.2f} over {n sample}; "+
			"homenode acts above {.2f}).")
	ShareNotBatch = says("share-not-batch", "{} is not batch work and is left alone.")
	ShareNobody   = says("share-nobody", "No other workload's CPU time rises and falls with the harm.")
	ShareIsCut    = says("share-is-cut", "{} is limited to one core of each node for another {for}.")
	ShareWasCut   = says("share-was-cut", "{} was limited to one core of each node for it until {for} ago.")
	ShareHadCut   = says("share-had-cut", "It was limited to one core of each node for {} until {for} ago.")
	ShareCleared  = says("share-cleared",
		"Limiting {} did not help {}: homenode does not limit it for that again for {for}.")
	ShareHurts     = says("share-hurts", "It hurts {}: correlation {.2f} over {n sample}.")
	ShareProcesses = says("share-processes",
		"Workloads are processes here, because cgroup v2 is not in use: batch work gets CPU sets by affinity alone, "+
			"without cpu.idle, limits and freezing. Start the kernel with systemd.unified_cgroup_hierarchy=1 for "+
			"those (it needs Linux 4.15 and systemd 239; CentOS 7 has neither).")
	ShareOrdered = says("share-ordered", "{} turned sharing {}")
)
