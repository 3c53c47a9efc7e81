package words

// Settings of batch and important work other than CPU sets.
var (
	ShareMemory = says("share-memory",
		"Batch work may hold {size}: an equal part of the memory that online work and the system leave, up to {%} of "+
			"each node.")
	ShareMemoryStalled = says("share-memory-stalled",
		"Its limit stays at {size}: all tasks of the host waited for memory {%} of the time.")
	ShareProtect = says("share-protect", "Its memory is reclaimed last: memory.low is set to its current use.")
	ShareBurst   = says("share-burst",
		"Its cpu.max throttles it {%} of the time while CPUs of its node are idle: it may use unused quota in bursts.")
	ShareNoBurst  = says("share-no-burst", "No CPU of its node is idle: its cpu.max gets no burst.")
	ShareIOWeight = says("share-io-weight", "Batch work has weight {} at block devices; the default is 100.")
	ShareIOMax    = says("share-io-max",
		"The configuration limits all batch work together at block devices; this is an equal part.")
	ShareWeight = says("share-weight",
		"This kernel has no cpu.idle (needs Linux 5.15): batch work has the lowest weight instead.")
	NeverSwaps = says("never-swaps", "Dedicated work does not swap here: memory.swap.max is 0.")
)
