package words

// Interrupts and queues of devices.
var (
	IRQOfQueue     = says("irq-of-queue", "Interrupt {} belongs to a queue of {}, which is on node {}.")
	IRQOfDevice    = says("irq-of-device", "Interrupt {} belongs to {}, which is on node {}.")
	QueuesForNode  = says("queues-for-node", "{} has up to {n queue}, and its interrupts may go to {n CPU} of node {}.")
	ReceiveQueues  = says("receive-queues", "{} has {n receive queue} for {n CPU} of node {}.")
	TransmitQueues = says("transmit-queues", "{} has {n transmit queue} for {n CPU} of node {}.")
	QueuesKept     = says("queues-kept", "Its number of queues is left as it is: {}.")
	NodeNoCPU      = says("node-no-cpu", "Node {} has no CPU online.")
	NoneForIRQs    = says("none-for-irqs", "Every CPU of node {} is dedicated; none is left for interrupts.")
	QueuePerCPU    = says("queue-per-cpu", "It has queues for all CPUs of the machine; requests complete on the CPU that made them.")
)
