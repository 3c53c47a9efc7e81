package words

// Interrupts and queues of devices.
var (
	IRQOfQueue     = says("irq-of-queue", "Interrupt {} belongs to a queue of {}, which is on node {}.")
	IRQOfDevice    = says("irq-of-device", "Interrupt {} belongs to {}, which is on node {}.")
	QueuesForNode  = says("queues-for-node", "{} has up to {n queue}, and its interrupts may go to {n CPU} of node {}.")
	ReceiveQueues  = says("receive-queues", "{} has {n receive queue} for {n CPU} of node {}.")
	TransmitQueues = says("transmit-queues", "{} has {n transmit queue} for {n CPU} of node {}.")
	QueuesKept     = says("queues-kept", "Its number of queues is not changed: {}.")
	NodeNoCPU      = says("node-no-cpu", "Node {} has no CPU online.")
	NoneForIRQs    = says("none-for-irqs", "Every CPU of node {} is dedicated; none is left for interrupts.")
	QueuePerCPU    = says("queue-per-cpu",
		"It has queues for all CPUs of the machine; requests complete on the CPU that made them.")
)

// Helpers and links.
var (
	WeighsByVhost = says("weighs-by-vhost",
		"It weighs as {.0f} MiB/s: its vhost threads use {.2f} CPUs for it, of {.2f} in all; its memory traffic is "+
			"not counted.")
	HelperFollows      = says("helper-follows", "It works for {and} and follows: it holds {size}, they hold {size}.")
	HelperFollowsBound = says("helper-follows-bound", "It works for {and} and follows: {}")
	HelperStays        = says("helper-stays", "It works for {and} and does not follow: {}")
	HelperServesMany   = says("helper-serves-many",
		"It works for {and}, which are on {nodes} but share no node, so it stays.")
	HelperIsLarger = says("helper-is-larger",
		"It works for {and} and holds {size}, they hold {size}: they move to it, and it stays.")
	ClientStays   = says("client-stays", "{} cannot come to it. {}")
	ClientNear    = says("client-near", "It is already near {and}.")
	HelpersStay   = says("helpers-stay", "The configuration has near.follow: false.")
	ClassMovesNot = says("class-moves-not", "Class {} does not move.")
)
