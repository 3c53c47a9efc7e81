package words

// GPUs and the workers of a process tree that use them.
var (
	SplitForGPUs    = says("split-for-gpus", "Its processes use GPUs on {nodes}: its home is these nodes, and each of them is kept on the node of its own GPU.")
	WorkerAtGPU     = says("worker-at-gpu", "PID {} uses {}: its threads are kept on node {}, where that is, so that its memory ends up there.")
	WorkerMemoryOff = says("worker-memory-off", "{n process} with GPUs: {size} of {size} ({%}) lies off the node of the GPU, node {}.")
	WorkerNow       = says("worker-now", "PID {}: {} on node {}; {n thread} kept there; {size} of memory, {%} of it there.")
	WorkerNoMemory  = says("worker-no-memory", "PID {}: {} on node {}; {n thread} kept there; its memory has not been read.")
	WorkersChanged  = says("workers-changed", "Measured since its processes were given the nodes of their GPUs: {%} of its accesses local before, {%} now ({}). Homenode promises no gain.")
	WorkersMeasured = says("workers-measured", "Measured now: {%} of its accesses are local ({}). There is no figure from before its processes were given the nodes of their GPUs.")
	GPUPeers        = says("gpu-peers", "Nearest to {}: {and}.")
	GPUPeer         = says("gpu-peer", "{} ({})")
)
