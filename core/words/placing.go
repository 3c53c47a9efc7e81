package words

// Amounts, as parts of sentences.
var (
	SharedVCPUs     = says("shared-vcpus", "{n shared vCPU}")
	FreeCPUs        = says("free-cpus", "{n free CPU}")
	FreeCores       = says("free-cores", "{n free whole core}")
	CPUsOnFreeCores = says("cpus-on-free-cores", "{n CPU on free whole cores}")
	Memory          = says("memory", "{size}")
	HugePages       = says("huge-pages", "{n huge page} of {size}")

	MoreSharedVCPUs     = says("more-shared-vcpus", "{n more shared vCPU}")
	MoreFreeCPUs        = says("more-free-cpus", "{n more free CPU}")
	MoreFreeCores       = says("more-free-cores", "{n more free whole core}")
	MoreCPUsOnFreeCores = says("more-cpus-on-free-cores", "{n more CPU on free whole cores}")
	MoreMemory          = says("more-memory", "{size} more memory")
	MoreHugePages       = says("more-huge-pages", "{n more huge page} of {size}")

	VCPUs     = says("vcpus", "{n vCPU}")
	Number    = says("number", "{}")
	NoneFree  = says("none-free", "none free")
	Amounts   = says("amounts", "{and}")
	NodeShare = says("node-share", "node {} ({list})")
	NodeLacks = says("node-lacks", "node {} lacks {and}")
	MoreNodes = says("more-nodes", "{n more node}")
)

// Reasons for a node or a split.
var (
	OnlyNode        = says("only-node", "Node {} is the host's only node and has room.")
	OnlyNodeFits    = says("only-node-fits", "Only node {} has {}: {list}.")
	OnlyNodeAllowed = says("only-node-allowed", "Node {} is the only node that it may use, and has room.")
	BestNode        = says("best-node", "Node {} is the best of {} nodes that have room for all of it: {}.")

	// The main reason for the best node, a part of BestNode.
	BestUnrivalled = says("best-unrivalled", "no other node scores better")
	BestEqual      = says("best-equal", "node {} scores the same; the first one is taken")
	BestContention = says("best-contention", "it has {.1f} shared vCPUs on {n CPU}; node {} has {.1f} on {}")
	BestSiblings   = says("best-siblings",
		"no core there would be shared with another tenant; node {} has only {n whole free core}")
	BestBandwidth = says("best-bandwidth",
		"{gbs} GB/s of its memory bandwidth are booked; node {} has {gbs} GB/s booked")
	BestNear    = says("best-near", "it is nearer to {and} than node {}")
	BestMove    = says("best-move", "{%} of the workload's memory is already there; node {} has {%}")
	BestDevices = says("best-devices", "node {} has devices and is kept for workloads that need them")
	BestBalance = says("best-balance",
		"it has the lower load, {.1f} shared vCPUs on {n core}; node {} has {.1f} on {}")
	BestSpread = says("best-spread", "it has more room, {n free CPU}, and the policy is to spread")
	BestFit    = says("best-fit",
		"it is the tightest fit ({n free CPU}, {size} free), which keeps larger gaps free on other nodes")
	BestScore = says("best-score", "its score is {.3f}; node {} has {.3f}")

	SplitOrdered  = says("split-ordered", "The order asks for {n node}.")
	SplitTooLarge = says("split-too-large", "No node of this host can ever hold {}, so it is split.")
	SplitWaits    = says("split-waits",
		"Split over {nodes}: it waits {%} of its time for a CPU on {nodes}, and no node has {n CPU} free.")
	SplitWider = says("split-wider",
		"Split over {nodes}: it has {n vCPU}, and one node has at most {n CPU} for shared workloads.")
	SplitMemory = says("split-memory",
		"Split over {nodes}: its {size} do not fit on one node; node {} has the most free, {size}.")
	SplitNoNode = says("split-no-node", "No single node has {}: {list}.")
	// SlowShort and SlowNamed say why a node without CPUs is in a home.
	SlowShort = says("slow-short",
		"Memory without CPUs on {nodes} ({and}) is in the home because DRAM has not enough room.")
	SlowNamed = says("slow-named",
		"Memory without CPUs on {nodes} ({and}) is in the home because the workload's nodes name it.")
	SplitAs        = says("split-as", "Split as {and}, an access costs {.2f} times a local one on average.")
	SplitAsAndNext = says("split-as-and-next",
		"Split as {and}, an access costs {.2f} times a local one on average; the next best split, over {nodes}, "+
			"comes to {.2f}.")

	PinnedCores = says("pinned-cores", "Its vCPUs are pinned to {cpus}: {n whole core} under {n last-level cache}.")
	PinnedMixed = says("pinned-mixed",
		"Its vCPUs are pinned to {cpus}: {n whole core} and part of {n more|more}, under {n last-level cache}.")
	PinnedParts = says("pinned-parts",
		"Its vCPUs are pinned to {cpus}: part of {n core} under {n last-level cache}.")
	IdleSiblings   = says("idle-siblings", "The SMT siblings, {cpus}, stay idle.")
	Floats         = says("floats", "Its threads may run on any of {cpus}.")
	UnknownDevice  = says("unknown-device", "Affinity to {and} ignored: this host has no such device.")
	UnknownPartner = says("unknown-partner", "Affinity to {and} ignored: this host has no such workload.")
	RequiredOn     = says("required-on", "It must be on {nodes}, where {} is (near, policy: required).")
	UnknownNodes   = says("unknown-nodes", "The rule allows {nodes}, which this host does not have.")
	SearchCut      = says("search-cut", "The search stopped after {n step}; a better node set may exist.")
	OthersFloat    = says("others-float", "The shared CPUs of {n other workload} change with it.")
	BatchCPUs      = says("batch-cpus", "Batch work runs on the CPUs that no dedicated workload holds: {cpus}.")
	BatchMemory    = says("batch-memory", "Its memory goes where most is free: {and}.")

	ScoresMore  = says("scores-more", "scores {.3f} more")
	ScoresEqual = says("scores-equal", "scores the same")
	SplitTooFar = says("split-too-far", "does not pay: an access would cost {.2f} times a local one")
)

// Refusals, and remedies.
var (
	MemoryPromised = says("memory-promised",
		"{size} of memory are promised on {nodes}, which {has|have} {size} (memory_overcommit): if guests use all of "+
			"it, the host swaps, or the kernel kills guests.")
	NoSMT = says("no-smt", "It requires SMT siblings (smt: require); no core of this host has any.")
	// Required neighbours (near, policy: required).
	RequiredNoDevice = says("required-no-device",
		"It must be near {}, but this host has no such device (near, policy: required).")
	RequiredNotRunning = says("required-not-running",
		"It must be near {}, but nothing of that name runs or has a home here (near, policy: required).")
	RequiredNowhere = says("required-nowhere",
		"It must be near {}, but the host does not report its node (near, policy: required).")
	RequiredElsewhere = says("required-elsewhere",
		"It may use only {nodes}, but must be near {}, which is on {nodes} (near, policy: required).")
	RequiredApart = says("required-apart",
		"It must be near {and} (near, policy: required), which are on different nodes, {nodes}: a workload that fits "+
			"on one node is not split for that.")
	WithPreferred = says("with-preferred", "With policy: preferred it would be admitted now, on {nodes}.")

	NodesAbsent    = says("nodes-absent", "It may use only {nodes}, which this host does not have.")
	HostTooSmall   = says("host-too-small", "Needs {}; the host has {}.")
	NodesTooSmall  = says("nodes-too-small", "Needs {}; {nodes}, which it may use, {has|have} {}.")
	MustFitOne     = says("must-fit-one", "Must fit on one node (max_nodes: 1); no node has {}.")
	MustFitSet     = says("must-fit-set", "Must fit on {n node} (max_nodes); no such set has {}.")
	MustFitExactly = says("must-fit-exactly", "Must be on exactly {n node}, in equal parts; no such set has {}.")
	NoNodeSet      = says("no-node-set", "No set of nodes has {}.")
	ReserveThere   = says("reserve-there", "{cpus} of these nodes are reserved (reserve.cpus, --reserve).")
	ByNode         = says("by-node", "By node: {list}.")
	OnlySplit      = says("only-split",
		"It fits only when split, as {and}; an access then costs {.2f} times a local one (limit {.2f}).")
	AllowSplit   = says("allow-split", "To split it anyway, set max_nodes: {}.")
	StarvesBatch = says("starves-batch", "It would leave batch workload {} no CPU at all.")
	OneCPUMore   = says("one-cpu-more", "It would be admitted with one more free CPU on {nodes}.")

	WithMore      = says("with-more", "It would be admitted with {and} on node {}.")
	WithMoreOn    = says("with-more-on", "It must be split, which takes {and} on {nodes} together.")
	EmptyTooSmall = says("empty-too-small", "It would not fit on an empty host either: at most {and}.")
	MaxNodesShort = says("max-nodes-short",
		"Freeing room does not help with max_nodes: {}. With max_nodes: {} it needs {and} on {nodes} together. "+
			"Otherwise at most {and} would fit.")
	WithMaxNodes = says("with-max-nodes", "With max_nodes: {} it would be admitted now, as {and}.")
	WithAnyNode  = says("with-any-node", "Without its restriction to nodes it would be admitted now, on {nodes}.")
)

// Running workloads.
var (
	HomeKept       = says("home-kept", "Its home is {nodes} and still has room for it.")
	HomeLost       = says("home-lost", "Its home, {nodes}, no longer fits: {}.")
	RestKept       = says("rest-kept", "It keeps {cpus} until there is room for all of it.")
	RunsOn         = says("runs-on", "It keeps running on its current CPUs.")
	FixedHome      = says("fixed-home", "It is on {nodes} and moves only when ordered to.")
	FixedHomeless  = says("fixed-homeless", "It moves only when ordered to, and has no home.")
	HoldsLost      = says("holds-lost", "Its CPUs and memory cannot be booked: {}.")
	MemoryUnbooked = says("memory-unbooked", "Its memory is not booked: {}.")
	// the one sentence for this state, on every screen
	SingleNode = says("single-node", "One NUMA node: all memory is local.")
	SplitNode  = says("split-node", "One NUMA node with {} last-level caches: "+
		"all memory is local, and CPUs of one cache are nearer to each other.")
	OwnAffinity = says("own-affinity",
		"Another program, or the workload itself, set its CPU affinities ({}); homenode leaves them alone.")
	NeedsUnknown = says("needs-unknown", "Its needs are unknown: it used no CPU, and its memory could not be read.")
	TooSmall     = says("too-small",
		"It is small: {size} resident, {.2f} CPUs in use. Homenode places workloads from {size} or {.2f} CPUs.")
	TooSmallUnread = says("too-small-unread",
		"It is small: {.2f} CPUs in use, and its memory could not be read. Homenode places workloads from {size} or "+
			"{.2f} CPUs.")
	TooYoung = says("too-young",
		"It started less than {for} ago. It gets a home when it is older and still large enough (manage.min_age).")
	TerminalShell = says("terminal-shell",
		"Login shell, or a process that starts login shells: not placed, because every command typed in it would "+
			"inherit its CPUs. Large children are placed by themselves.")
	WhenChosen      = says("when-chosen", "When its home was chosen: {}")
	PartitionCPUs   = says("partition-cpus", "{} has {cpus}, which would be for shared workloads")
	PartitionNoRoom = says("partition-no-room",
		"{} has its home on {nodes}, which would have too few CPUs for shared workloads")

	// Reasons why a home no longer fits, parts of HomeLost, HoldsLost and MemoryUnbooked.
	ClassChanged  = says("class-changed", "it was {} and is {} now")
	NodeGone      = says("node-gone", "node {} is gone")
	NodeForbidden = says("node-forbidden", "it may no longer use node {}")
	RequiredThere = says("required-there", "it must be on {nodes}, where {} is (near, policy: required)")
	RequiredLost  = says("required-lost", "the target that it must be near has no place: {}")
	NodesTooFew   = says("nodes-too-few", "it must be on {n node}")
	NodesTooMany  = says("nodes-too-many", "it may be on at most {n node}")
	NothingLeft   = says("nothing-left", "no CPU or no memory is left for it")
	CPUsChanged   = says("cpus-changed", "it has {n CPU} and needs {}")
	CPUOffline    = says("cpu-offline", "CPU {} is offline or reserved")
	CPUOfShared   = says("cpu-of-shared", "CPU {} is for shared workloads")
	CPUTaken      = says("cpu-taken", "CPU {} belongs to another workload")
	CPUElsewhere  = says("cpu-elsewhere", "CPU {} is on another node")
	PinnedThere   = says("pinned-there", "There would be room without these pinned processes: {}.")
	MemoryNotFree = says("memory-not-free", "Needs {size} on {nodes}; {size} are free there in pages of that size.")
	HeldStill     = says("held-still", "It is already held for this workload.")
	HeldLost      = says("held-lost",
		"{cpus} held for it went offline; still held: {cpus}. It gets the same CPUs again when they are online, or "+
			"others with the next request for its home.")
	HomeCrowded = says("home-crowded", "The home is crowded: shared work wants {.0f} vCPUs; the home has {n CPU}.")
	NodeCrowded = says("node-crowded", "node {} has {n CPU} for shared workloads, and it needs {.1f}")
	NoCPUOnline = says("no-cpu-online", "none of its CPUs is online")
	MemoryShort = says("memory-short", "there is room for {size} there, and it needs {size}")
)

// Reasons for steps.
var (
	DedicatedCPUs = says("dedicated-cpus", "It is dedicated and has {n CPU} of its home, {nodes}, to itself.")
	SharedCPUs    = says("shared-cpus",
		"Its home is {nodes}: its threads run there, and its new memory is allocated there.")
	LeftoverCPUs = says("leftover-cpus", "Batch work: it runs on the CPUs that no dedicated workload holds.")
	AllowMemory  = says("allow-memory",
		"Its memory can move to its home, {nodes}, only after memory is allowed there.")
	MemoryOnBoth   = says("memory-on-both", "Its memory may be on {nodes} while it moves.")
	MemoryFollows  = says("memory-follows", "Its home is {nodes}, and its memory moves there with it.")
	MemoryOffHome  = says("memory-off-home", "{size} of its {size} ({%}) lies off its home, {nodes}.")
	ThreadsDivided = says("threads-divided",
		"It is wider than a node: each thread is kept on one node of its home ({and}), so that its memory ends up on "+
			"that node.")
	ThreadsOnNode = says("threads-on-node", "{n thread} on node {}")
	SamplingOn    = says("sampling-on",
		"The threads of {} have nodes of their own now; for at most {for} the kernel samples their accesses and "+
			"moves pages to them (threads.sample).")
	SamplingHarms = says("sampling-harms",
		"NUMA balancing is not switched on to sample the threads of {}: {} (threads.sample).")
	PassedThrough = says("passed-through",
		"{} has the passed-through device {}, so its memory is pinned, and each sample would unmap memory that "+
			"cannot move")
	GuestWider = says("guest-wider",
		"the guest {} ({n vCPU}, {size}) is larger than a node ({n CPU}, {size}), and each sample would unmap its "+
			"memory for all vCPUs")
	BindMemory = says("bind-memory",
		"It is dedicated and has no memory policy of its own, so new pages are bound to its home, {nodes}.")
)

// Plans of moves that make room, or bring workloads nearer to their memory.
var (
	MovesAdmit     = says("moves-admit", "{n move} of {size} in all {makes|make} room for it.")
	NoneFewer      = says("none-fewer", "No plan has fewer moves.")
	FewerUnproven  = says("fewer-unproven", "A plan with fewer moves may exist.")
	AtLeast        = says("at-least", "Any plan has at least {n move}.")
	AtLeastChecked = says("at-least-checked",
		"Any plan has at least {n move}. All plans that keep each moved workload on one node were checked; none has "+
			"fewer than this one.")
	NoMovesFound = says("no-moves-found", "No plan of up to {n move} makes room.")
	AllChecked   = says("all-checked", "All plans that keep each moved workload on one node were checked.")
	NotMovable   = says("not-movable", "{n running workload} may not move.")
	MovesCut     = says("moves-cut", "The search stopped after {n step}; a better plan may exist.")
	FitsNow      = says("fits-now", "It fits now: nothing needs to move.")
	BatchNoMoves = says("batch-no-moves", "No workload is moved for batch work: it gets the CPUs that others leave.")
	MovesNoRoom  = says("moves-no-room", "No moves make room: it needs {}, and the host has {}.")
	MovesNoNode  = says("moves-no-node",
		"No moves make room: no node would have {}, even without all movable workloads.")

	StepsAside = says("steps-aside",
		"It moves away temporarily: others need its place on {nodes}, and it needs theirs.")
	MakesRoom   = says("makes-room", "It makes room on {nodes} for {and}.")
	Newcomer    = says("newcomer", "{} ({})")
	OtherCPUs   = says("other-cpus", "It takes other CPUs of {nodes}, so that whole cores become free.")
	ComesNearer = says("comes-nearer", "It moves nearer to its memory.")
	Returns     = says("returns", "It returns to {nodes}.")
	RoomThere   = says("room-there", "Free there without it: {and}.")
	NodeHas     = says("node-has", "node {} has {n CPU} and {size}")
	NoMemory    = says("no-memory-moves",
		"No memory changes node; an access costs {.2f} times a local one before and {.2f} after.")
	MemoryMoves = says("memory-moves",
		"{size} of its memory changes node; an access costs {.2f} times a local one before and {.2f} after.")
	AllNear    = says("all-near", "Every running workload is as near to its memory as this host allows.")
	NoneNearer = says("none-nearer",
		"{n workload} {is|are} farther from {its|their} memory than necessary, and no moves were found that "+
			"change that.")
	MovesSave = says("moves-save",
		"{n move} of {size} in all {saves|save} remote accesses worth {.2f} vCPUs; no plan gains more than {.2f}.")
	NearerCut = says("nearer-cut", "The search stopped after {n step}; better moves may exist.")
)

// The numbers behind the terms of a score.
var (
	TermDistance  = says("term-distance", "mean access {.2f} × local")
	TermNear      = says("term-near", "{and}")
	TermBandwidth = says("term-bandwidth", "{gbs} of {gbs} GB/s booked")
	TermHoles     = says("term-holes", "{} of {n CPU} free")
	TermLoad      = says("term-load", "{.1f} shared vCPUs on {n CPU}")
)
