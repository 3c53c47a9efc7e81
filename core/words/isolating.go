package words

// Isolated work.
var (
	IsolatedPartition        = says("isolated-partition", "It is isolated: its cgroup is a partition of {cpus} without other tasks and without load balancing.")
	IsolatedExclusive        = says("isolated-exclusive", "It is isolated: {cpus} {is|are} for its partition alone.")
	IsolatedWithin           = says("isolated-within", "Isolated work below has {cpus} for itself.")
	IsolatedIdle             = says("isolated-idle", "CPU {} runs isolated work: it uses no idle state that takes more than {} µs to leave.")
	IsolatedSpeed            = says("isolated-speed", "CPU {} runs isolated work: it prefers performance to saving power.")
	IsolatedWorkqueues       = says("isolated-workqueues", "Unbound work of the kernel keeps off {cpus}, which {runs|run} isolated work.")
	IsolatedInterruptsToCome = says("isolated-interrupts-to-come", "New interrupts keep off {cpus}, which {runs|run} isolated work.")
	IsolatedInterrupt        = says("isolated-interrupt", "Interrupt {} ({}) keeps off {cpus}, which {runs|run} isolated work.")
)
