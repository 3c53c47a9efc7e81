package words

// Results of balancing.
var (
	BalanceOff      = says("balance-off", "Balancing is turned off (balance.enabled).")
	BalanceLearning = says("balance-learning", "Balancing needs {for} of samples and has {} so far.")
	Balanced        = says("balanced",
		"Balanced. CPU demand is {.1f} of {} on node {} (busiest) and {.1f} of {} on node {}. Peak memory bandwidth "+
			"is {%}.")
	BalancedOne = says("balanced-one",
		"Balanced. CPU demand is {.1f} of {} on node {}. Peak memory bandwidth is {%}.")
	NoSharedCPUs = says("no-shared-cpus", "No node has CPUs for shared workloads.")
	NothingHelps = says("nothing-helps", "{} No change of homes would help ({} considered).")
	BestRejected = says("best-rejected", "{} The best of {n change} considered, {}, is rejected: {}")
	Balancing    = says("balancing", "Balancing: {}.")

	Change      = says("change", "{} {and}")
	ChangeHome  = says("change-home", "{} from {nodes} to {nodes}")
	MemoryHome  = says("memory-home", "memory of {} to its home, {nodes}")
	Doing       = says("balance-doing", "{}. {} {}")
	WouldDo     = says("balance-would", "would {}. {} {}")
	ChangeSaves = says("change-saves",
		"It saves {.2f} CPUs now lost to waiting: {seconds} of thread time within {for}, at a cost of {seconds} "+
			"({size} to move in {for}).")
)

// Problems that balancing finds.
var (
	ShortOfCPU = says("short-of-cpu",
		"Node {} is short of CPU: shared workloads demand {.1f} CPUs; it has {} ({n core}).{more}")
	KeptIdle         = says("kept-idle", "Important workloads keep {.1f} more idle.")
	LeastBusy        = says("least-busy", "Node {} is least busy: {.1f} of {} CPUs.")
	ShortOfBandwidth = says("short-of-bandwidth",
		"Node {} is short of memory bandwidth: {gbs} of {gbs} GB/s in use ({%}, {}).")
	ShortOfMemory = says("short-of-memory",
		"Node {} is short of memory: {size} of {size} are free or reclaimable, less than {%}.")
	FarFromMemory  = says("far-from-memory", "{}: {%} of its accesses are local; the others cost it {.2f} CPUs.")
	FarFromPartner = says("far-from-partner", "{}: being far from {and} costs it {.2f} CPUs.")

	// Sources of traffic, parts of ShortOfBandwidth.
	CountedAtNode = says("counted-at-node", "counted at the node")
	Counted       = says("counted", "counted per workload")
	Estimated     = says("estimated", "estimated from CPU use")
	PartlyCounted = says("partly-counted", "partly counted, partly estimated from CPU use")
	OnNodes       = says("on-nodes", "{nodes}")
)

// Reasons against a change.
var (
	NotPlaced      = says("not-placed", "Homenode does not place it.")
	MovesByOrder   = says("moves-by-order", "It moves only when ordered to.")
	DedicatedStays = says("dedicated-stays", "Dedicated workloads move only when ordered to.")
	BatchHomeless  = says("batch-homeless", "Batch work has no home of its own.")
	Held           = says("held", "Held: the user undid it or cancelled its move.")
	OwnAffinities  = says("own-affinities", "Another program, or the workload itself, set its CPU affinities.")
	OwnPolicy      = says("own-policy", "It has its own memory policy ({}), which new memory would follow.")
	MovePending    = says("move-pending", "Its memory is not yet at its home: that move is planned or in progress.")
	MoveUnfinished = says("move-unfinished", "Part of its memory did not follow its last change of home: {}")
	PutOff         = says("put-off", "Postponed: {}")
	SeenTooLittle  = says("seen-too-little", "It is in only {} of the {n sample} of the window.")
	Resting        = says("resting", "It moved {times} within the hour and stays where it is for another {for}.")
	NodesOnly      = says("nodes-only", "It may use only {nodes}.")
	MemsOnly       = says("mems-only", "It may have memory only on {nodes} (cpuset.mems).")
	MaxNodes       = says("max-nodes", "It may be on at most {n node} (max_nodes).")
	MinNodes       = says("min-nodes", "It must be on {n node}, as ordered.")
	CameFrom       = says("came-from", "It came from {nodes} {for} ago and may not go back for another {for}.")
	Settling       = says("settling",
		"Workloads moved to or from node {} within the last {for}; older measurements no longer apply.")
	PairBusy      = says("pair-busy", "Memory of {} is moving between nodes {} and {}.")
	WouldFill     = says("would-fill", "Node {} would have {size} of {size} free.")
	AffinityLimit = says("affinity-limit",
		"Not moved: demand on node {} would reach {.1f} of {n core}, above the {%} limit for affinity moves.")
	ServesLittle = says("serves-little", "It would save {.3f} CPUs; a helper moves only for {.3f} or more.")
	SavesLittle  = says("saves-little", "It would save {.2f} CPUs; less than {.2f} is noise.")
	DoesNotPay   = says("does-not-pay",
		"It would gain {seconds} of thread time within {for} at a cost of {seconds}; the gain must be more than "+
			"{.3g} times the cost.")
	ImportantLast = says("important-last", "It is important: others move first.")
	GainsLess     = says("gains-less", "Another change gains more.")
	NotTried      = says("not-tried", "Not tried: too many changes with more gain did not fit.")
	NoRoomBooked  = says("no-room-booked", "By the bookings, {nodes} have no room for it.")
	FitsWhole     = says("fits-whole", "It is not split: it wants {.1f} CPUs, and node {} has {.1f} idle.")
	OthersLose    = says("others-lose", "Other workloads would lose their homes.")
	OtherLoses    = says("other-loses", "{} would lose its home.")
)

// Answers to an order to move a workload.
var (
	Ordered        = says("ordered", "It was ordered to move from {nodes} to {nodes}.")
	OrderedTo      = says("ordered-to", "It was ordered to move to {nodes}.")
	NoSuchWorkload = says("no-such-workload", "No such workload.")
	NoSuchNode     = says("no-such-node", "No node {}.")
	PolicyKeeps    = says("policy-keeps",
		"It has its own memory policy ({}): memory that it allocates later follows that policy, not its home.")
)
