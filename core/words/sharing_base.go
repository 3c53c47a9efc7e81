package words

// What beside CPUs is set of batch and of important work, and why.
var (
	ShareMemory        = says("share-memory", "Batch work may hold {size}: an equal part of what online work and the system leave up to {%} of each node's memory.")
	ShareMemoryStalled = says("share-memory-stalled", "It may hold {size} as before: all tasks of the host waited for memory {%} of the time.")
	ShareProtect       = says("share-protect", "Its memory is reclaimed last: memory.low is what it holds.")
	ShareBurst         = says("share-burst", "Its cpu.max holds it back {%} of the time though CPUs of its node are idle: what it did not use of it is added for bursts.")
	ShareNoBurst       = says("share-no-burst", "No CPU of its node is idle: nothing is added to its cpu.max.")
	ShareIOWeight      = says("share-io-weight", "Batch work has the weight {} at block devices; others have 100 where nobody has chosen.")
	ShareIOMax         = says("share-io-max", "The configuration limits what all batch work together may do at block devices; this is an equal part of that.")
	ShareWeight        = says("share-weight", "This kernel has no cpu.idle (Linux 5.15): batch work has the least weight.")
	NeverSwaps         = says("never-swaps", "Dedicated work does not swap here: memory.swap.max is 0.")
)
