package words

// Isolated work.
var (
	IsolatedPartition  = says("isolated-partition", "Its cgroup is an isolated partition of {cpus}.")
	IsolatedExclusive  = says("isolated-exclusive", "{cpus} {is|are} for its partition alone.")
	IsolatedWithin     = says("isolated-within", "Isolated work below has {cpus} for itself.")
	IsolatedIdle       = says("isolated-idle", "Idle states of isolated CPU {} take {} µs at most to leave.")
	IsolatedSpeed      = says("isolated-speed", "Isolated work on CPU {} prefers performance to saving power.")
	IsolatedWorkqueues = says("isolated-workqueues", "Unbound work of the kernel keeps off isolated {cpus}.")
	IsolatedNewIRQs    = says("isolated-new-irqs", "New interrupts keep off isolated {cpus}.")
	IsolatedInterrupt  = says("isolated-interrupt", "Interrupt {} ({}) keeps off isolated {cpus}.")
)
