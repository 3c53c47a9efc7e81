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

// Helpers and links: who goes to whom.
var (
	WeighsByVhost      = says("weighs-by-vhost", "It weighs as {.0f} MiB/s: its vhost threads keep {.2f} CPUs busy with it, of {.2f} in all, and nothing counts its memory traffic.")
	HelperFollows      = says("helper-follows", "It works for {and} and follows: it holds {size}, they hold {size}.")
	HelperFollowsBound = says("helper-follows-bound", "It works for {and} and follows: {}")
	HelperStays        = says("helper-stays", "It works for {and} and does not follow: {}")
	HelperServesMany   = says("helper-serves-many", "It works for {and}, which are on {nodes} and on no node together, so it stays.")
	HelperIsLarger     = says("helper-is-larger", "It works for {and} and holds {size}, they hold {size}: they are pulled to it, it stays.")
	ClientStays        = says("client-stays", "{} cannot come to it. {}")
	ClientNear         = says("client-near", "It is near {and} where it is.")
	HelpersStay        = says("helpers-stay", "The configuration says near.follow: false.")
	ClassMovesNot      = says("class-moves-not", "Of class {}, it is not moved.")
)
