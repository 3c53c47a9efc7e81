package words

// Isolated work.
var (
	IsolatedPartition  = says("isolated-partition", "Its cgroup is an isolated partition of {cpus}.")
	IsolatedExclusive  = says("isolated-exclusive", "{cpus} {is|are} reserved for its partition.")
	IsolatedWithin     = says("isolated-within", "Isolated work in a cgroup below has {cpus} to itself.")
	IsolatedTick       = says("isolated-tick", "The kernel's timer interrupts {cpus} while {it is|they are} busy, because the kernel was started without nohz_full= for {it|them}.")
	IsolatedIdle       = says("isolated-idle", "Isolated CPU {} uses only idle states that it leaves within {} µs.")
	IsolatedSpeed      = says("isolated-speed", "Isolated work on CPU {} prefers performance to saving power.")
	IsolatedWorkqueues = says("isolated-workqueues", "The kernel's unbound workqueues keep off isolated {cpus}.")
	IsolatedNewIRQs    = says("isolated-new-irqs", "New interrupts keep off isolated {cpus}.")
	IsolatedInterrupt  = says("isolated-interrupt", "Interrupt {} ({}) keeps off isolated {cpus}.")
)
