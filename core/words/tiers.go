package words

// Fast and slower memory, where the kernel demotes.
var (
	FastProtected = says("fast-protected",
		"{} is {size}: it uses {size} at least, and the kernel demotes other work first.")
	FastWithin = says("fast-within",
		"{} of the cgroup above is that of the important work in it, because it bounds the cgroups below.")
	FastReclaim = says("fast-reclaim",
		"{size} of batch work is demoted to make room for important work in the fast memory of node {}.")
	FastWouldReclaim = says("fast-would-reclaim",
		"With tiers.mode: place, {size} would be demoted to make room for important work "+
			"in the fast memory of node {}.")
	FastMoveUp = says("fast-move-up",
		"{size} of its memory are used and lie in slower memory, where {size} are: they move up.")
	FastNoUse = says("fast-no-use",
		"Fast memory: {size} of {size}. Not protected: there is no evidence of use yet.")
	FastWould = says("fast-would",
		"Fast memory: {size} of {size}; it uses {size} at least. With tiers.mode: place, {} would be {size}.")
	FastNoCgroup = says("fast-no-cgroup",
		"Fast memory: {size} of {size}; it uses {size} at least. Not protected: "+
			"it has no cgroup of its own that homenode may change.")
	FastElsewhere = says("fast-elsewhere",
		"Fast memory: {size} of {size}; it uses {size} at least. memory.low follows share.protect_memory.")
	FastBounded = says("fast-bounded",
		"Fast memory: {size} of {size}; it uses {size} at least. {} is {size} and not {size}, "+
			"because at most {%} of a node is protected (tiers.most).")
	FastLow = says("fast-low",
		"Fast memory: {size} of {size}; it uses {size} at least. memory.low is {size}: "+
			"the kernel demotes other work first.")
	FastMin = says("fast-min",
		"Fast memory: {size} of {size}; it uses {size} at least. memory.min is {size}: "+
			"the kernel never takes it, and kills work where only protected memory is left.")

	WeightsOwn = says("weights-own", "The kernel takes the weights that are written, and does not compute its own.")
	WeightOf   = says("weight-of", "Node {} gets {n page} in turn, in proportion to its bandwidth ({}).")
)
