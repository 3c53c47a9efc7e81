package words

// GPUs and the workers of a process tree that use them.
var (
	SplitForGPUs = says("split-for-gpus",
		"Its processes use GPUs on {nodes}: its home is these nodes, and each of them is kept on the node of its "+
			"own GPU.")
	GPUsOnNodes = says("gpus-on-nodes", "its processes use GPUs on {nodes}")
	WorkerAtGPU = says("worker-at-gpu",
		"PID {} uses {}: its threads are kept on node {}, the node of that GPU, so that its memory ends up there.")
	WorkerMemoryOff = says("worker-memory-off",
		"{n worker} with GPUs: {size} of {size} ({%}) lies off the node of the GPU, node {}.")
	GPUOfWorkers   = says("gpu-of-workers", "The process that has it open goes to its node.")
	WorkerNow      = says("worker-now", "PID {}: {} on node {}; {n thread} kept there; {size} of memory, {%} there.")
	WorkerNoMemory = says("worker-no-memory",
		"PID {}: {} on node {}; {n thread} kept there; its memory has not been read.")
	WorkersChanged = says("workers-changed",
		"Measured: {%} of their memory was on the nodes of their GPUs before, {%} is now.{more} The speedup is not "+
			"known: homenode promises no gain.")
	WorkersMeasured = says("workers-measured",
		"Measured: {%} of their memory is on the nodes of their GPUs. There is no figure from before.{more} The "+
			"speedup is not known: homenode promises no gain.")
	WorkersLocal    = says("workers-local", "Local accesses: {%} before, {%} now ({}).")
	WorkersLocalNow = says("workers-local-now", "Local accesses: {%} now ({}).")
	WorkersMore     = says("workers-more", "{n worker} more with GPUs.")
)
