package hostprep

// Generations is the file of the kernel's LRU of generations (Linux 6.1,
// Documentation/admin-guide/mm/multigen_lru.rst): its parts that are on, as bits in hex. NoGenerations switches it off,
// so that the older LRU of two lists is used.
const (
	Generations   = "sys/kernel/mm/lru_gen/enabled"
	NoGenerations = "0x0000"
)
