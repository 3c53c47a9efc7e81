package words

// The group of resctrl that batch work has, and why.
var (
	CacheSet      = says("cache-set", "Batch work has a part of the last-level caches and of memory bandwidth: {}.")
	CacheOff      = says("cache-off", "Batch work shares caches and memory bandwidth with all (share.cache, share.memory_bandwidth).")
	CacheNoWork   = says("cache-no-work", "There is no batch work now: no part of the caches is set apart.")
	CacheHeld     = says("cache-held", "It was undone: `homenode resume resctrl` lets it be set again.")
	CacheTried    = says("cache-tried", "It is set at the next look.")
	CacheFixed    = says("cache-fixed", "It stays as configured: resctrl does not count memory bandwidth here, and nothing tells what less is worth.")
	CacheHurt     = says("cache-hurt", "Important work is hurt: it is half of what it was, every ten seconds, as long as that is so.")
	CacheGrows    = says("cache-grows", "Nothing important is hurt: five points are given back every ten seconds.")
	CacheWhole    = says("cache-whole", "It is as much as the configuration gives.")
	CacheNoCores  = says("cache-no-cores", "Memory bandwidth is not limited: {} has no whole cores of its own, and a core is slowed down with all its SMT siblings.")
	CacheObserved = says("cache-observed", "Nothing is changed in observe mode.")
)
