package words

// Batch work's group of resctrl.
var (
	CacheSet = says("cache-set",
		"Batch work is limited to a part of the last-level caches and of memory bandwidth: {}.")
	CacheOff = says("cache-off",
		"Batch work shares caches and memory bandwidth with all other work (share.cache, share.memory_bandwidth).")
	CacheNoWork = says("cache-no-work", "No batch work runs now: no part of the caches is set apart.")
	CacheHeld   = says("cache-held", "Undone by the user: `homenode resume resctrl` allows it again.")
	CacheTried  = says("cache-tried", "It is set at the next scan.")
	CacheFixed  = says("cache-fixed",
		"It stays at the configured value: resctrl does not count memory bandwidth here, so the effect of a lower "+
			"one cannot be measured.")
	CacheHurt    = says("cache-hurt", "Important work is hurt: the part is halved every ten seconds until it is not.")
	CacheGrows   = says("cache-grows", "Important work is not hurt: the part grows by five points every ten seconds.")
	CacheWhole   = says("cache-whole", "It is at the configured maximum.")
	CacheNoCores = says("cache-no-cores",
		"Memory bandwidth is not limited: {} has no whole cores, and a limit slows a core with all its SMT siblings.")
	CacheBandwidth = says("cache-bandwidth",
		"Memory bandwidth (MB) is limited to {gbs} GB/s in each last-level cache, {%} of its measured bandwidth.")
	CacheBandwidths = says("cache-bandwidths",
		"Memory bandwidth (MB) is limited to {gbs} to {gbs} GB/s by last-level cache, {%} of the measured bandwidth.")
	CacheObserved = says("cache-observed", "Nothing is changed in observe mode.")
)

// Last-level caches that shared work is kept in.
var (
	CacheFewest = says("cache-fewest", "It is kept in {caches}: the fewest with room for {n CPU}.")
	CacheKept   = says("cache-kept", "It is kept in {caches} ({n CPU}), where it does not wait.")
	CacheChosen = says("cache-chosen",
		"It is kept in {caches} ({n CPU}) from now on: it was calm, and these are the fewest caches with room for "+
			"{n CPU}.")
	CacheBeside = says("cache-beside", "It is kept in {caches} ({n CPU}) from now on, with its pod or a partner.")
	CacheWould  = says("cache-would",
		"With caches: place it would be kept in {caches} ({n CPU}): the fewest with room for {n CPU}.")
	CacheWidened = says("cache-widened",
		"It was kept in {caches} and waited {%} of its time, with {.2f} of {n CPU} busy, while {.1f} CPUs idled "+
			"elsewhere on the node. It may use the whole node again.")
	CacheCrowded  = says("cache-crowded", "It left {caches}: all work there wants {.1f} CPUs at times, of {n CPU}.")
	CacheNodeBusy = says("cache-node-busy",
		"It is kept in {caches} and waits {%} of its time; only {.1f} CPUs idle elsewhere on the node, so a wider "+
			"CPU set would not help.")
	CacheSoon   = says("cache-soon", "It may use all caches of its node until it has been calm for {for}.")
	CacheBursts = says("cache-bursts",
		"It may use all caches of its node: it was widened {times} within {for}, so it bursts too often for fewer.")
	CacheKernel = says("cache-kernel",
		"It may use all caches of its node: it is one process, and the kernel keeps its threads in one cache ({}).")
	CacheNoRoom = says("cache-no-room", "It may use all caches of its node: no part of them has room for {n CPU}.")
)
