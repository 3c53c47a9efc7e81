package words

// Batch work's group of resctrl.
var (
	CacheSet      = says("cache-set", "Batch work is limited to a part of the last-level caches and of memory bandwidth: {}.")
	CacheOff      = says("cache-off", "Batch work shares caches and memory bandwidth with all other work (share.cache, share.memory_bandwidth).")
	CacheNoWork   = says("cache-no-work", "No batch work runs now: no part of the caches is set apart.")
	CacheHeld     = says("cache-held", "Undone by the user: `homenode resume resctrl` allows it again.")
	CacheTried    = says("cache-tried", "It is set at the next scan.")
	CacheFixed    = says("cache-fixed", "It stays at the configured value: resctrl does not count memory bandwidth here, so the effect of a lower one cannot be measured.")
	CacheHurt     = says("cache-hurt", "Important work is hurt: the part is halved every ten seconds until it is not.")
	CacheGrows    = says("cache-grows", "Important work is not hurt: the part grows by five points every ten seconds.")
	CacheWhole    = says("cache-whole", "It is at the configured maximum.")
	CacheNoCores  = says("cache-no-cores", "Memory bandwidth is not limited: {} has no whole cores, and a limit slows a core with all its SMT siblings.")
	CacheObserved = says("cache-observed", "Nothing is changed in observe mode.")
)
