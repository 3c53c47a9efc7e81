package words

// What offline work may have, and why.
var (
	ShareOff        = says("share-off", "Sharing is turned off (share.enabled): offline work may use every CPU that no dedicated work holds.")
	ShareNone       = says("share-none", "No workload is offline: there is nothing to share CPUs with.")
	ShareBudget     = says("share-budget", "Of {n CPU} online work uses {.1f} and the rest of the system {.1f}; {n CPU} {stays|stay} idle. Up to {%} of the CPUs, offline work may use {.1f}.")
	ShareBuffer     = says("share-buffer", "The CPUs that stay idle bound it.")
	ShareUnknown    = says("share-unknown", "How busy its CPUs are is not known: nothing more is given.")
	ShareNoCPUs     = says("share-no-cpus", "It has no CPU that offline work may use.")
	ShareNoCore     = says("share-no-core", "No whole core is free of dedicated work: offline work has one CPU beside it.")
	ShareShrunk     = says("share-shrunk", "Taken back at once: {n CPU}.")
	ShareGrown      = says("share-grown", "Given more, at most a tenth of the CPUs in one round: {n CPU}.")
	ShareSettling   = says("share-settling", "More is given when there has been room for {for}.")
	ShareFloor      = says("share-floor", "One core is the least that offline work has.")
	ShareWaits      = says("share-waits", "{} waited for a CPU {%} of the time, more than {%}: cores are taken back until it does not.")
	ShareSet        = says("share-set", "Offline work has {cpus} of {nodes} now: what online work, the system and the CPUs kept idle leave up to the target.")
	ShareIdle       = says("share-idle", "Offline work runs when nothing else in its parent cgroup wants the CPU.")
	ShareFreeze     = says("share-freeze", "{} waits for a CPU though offline work is down to one core: what matters least and uses most is frozen first.")
	ShareThaw       = says("share-thaw", "Nothing important waits for a CPU any more.")
	ShareFrozenLong = says("share-frozen-long", "frozen for {for}, because {} needs its CPUs: have its manager stop it or move it to another host")
	ShareOrdered    = says("share-ordered", "{} turned sharing {}")
)
