package words

// Reasons of steps that prepare the host for guests.
var (
	HostPrograms    = says("host-programs", "Programs in {} belong to the host; they may use {cpus} now.")
	HostProgramsAny = says("host-programs-any", "Programs in {} belong to the host; they may use any CPU now.")
	HostAgent       = says("host-agent", "{} (PID {}) is an agent of the host.")
	UnboundWork     = says("unbound-work", "Unbound work of the kernel may run on any CPU of this mask.")
	WritebackWork   = says("writeback-work", "Writing back dirty pages is unbound work of the kernel.")
	NewInterrupts   = says("new-interrupts", "New interrupts are delivered to these CPUs.")
	GuestInterrupt  = says("guest-interrupt", "Interrupt {} ({}) may be delivered to guest CPUs.")
	PoolWanted      = says("pool-wanted", "Node {} should have {n huge page} of {size}.")
	THPWanted       = says("thp-wanted", "The user asked for this setting of transparent huge pages.")
	KSMWanted       = says("ksm-wanted", "The user asked for this setting of page merging (KSM).")
)

// Parts that preparing leaves alone, and reasons against it.
var (
	NodeAllReserved = says("node-all-reserved",
		"node {} has no CPU left for guests: its memory is remote for all of them")
	NoCgroupV2   = says("no-cgroup-v2", "cgroup v2 is not mounted on /sys/fs/cgroup: services stay where they are")
	DeviceLeft   = says("device-left", "{}: {}")
	ReserveTaken = says("reserve-taken", "{cpus} {is|are} dedicated to {}")
	GuestInSlice = says("guest-in-slice", "{} holds guests ({}), and would be confined to {cpus}")
	HomeInSlice  = says("home-in-slice", "{} has its own home on {cpus}, and {} would be confined to {cpus}")
)

// Findings on a host of guests. Each is shown after its subject.
var (
	ReserveNoCore = says("reserve-no-core", "none, and no node has a core to spare")
	ReserveNone   = says("reserve-none",
		"none: services, interrupts and emulators share the CPUs of guests; the rest of this report assumes {cpus}, "+
			"a whole core of each node")
	ReserveBad  = says("reserve-bad", "{}")
	ReserveHalf = says("reserve-half",
		"{cpus} {shares|share} a core with reserved ones and {is|are} left to guests: programs of the host on that "+
			"core slow them")
	ReserveBare = says("reserve-bare",
		"none on {nodes}: emulators and interrupts of guests and devices there run on guest CPUs or on another node")
	ReserveGood    = says("reserve-good", "whole cores on every node")
	SlicesUnknown  = says("slices-unknown", "unknown: cgroup v2 is not mounted")
	SliceUnknown   = says("slice-unknown", "its CPUs are unknown: the cpuset controller is off")
	KeptOn         = says("kept-on", "on {cpus}")
	SliceOnGuests  = says("slice-on-guests", "the host's own programs may run on {} of {n guest CPU} ({})")
	AgentOnGuests  = says("agent-on-guests", "may run on guest {cpus}")
	KernelOnGuests = says("kernel-on-guests", "work of the kernel may run on guest {cpus}")
	IRQsUnknown    = says("irqs-unknown", "their CPUs are unknown")
	IRQsOnGuests   = says("irqs-on-guests", "{} of {} may be delivered to guest CPUs: {}")
	IRQsKept       = says("irqs-kept", "{} that can be moved {is|are} kept off guest CPUs")
	IRQsManaged    = says("irqs-managed",
		"{} managed by the kernel: each goes to the CPU that made the request, guest CPUs included")
	IRQsNew     = says("irqs-new", "new ones may be delivered to guest CPUs")
	PoolMissing = says("pool-missing", "no pool of pages of {size}")
	PoolShort   = says("pool-short", "{} (wanted: {})")
	PoolEnough  = says("pool-enough", "{} (wanted: {})")
	PoolUneven  = says("pool-uneven",
		"unevenly spread ({list}): guests that ask for huge pages fit on some nodes only")
	CmdlineUnknown  = says("cmdline-unknown", "unknown")
	NUMAOff         = says("numa-off", "the kernel shows one node, whatever the hardware has")
	ACPIOff         = says("acpi-off", "the kernel does not read the NUMA nodes that the firmware describes")
	IsolatedReserve = says("isolated-reserve",
		"reserved {cpus} {is|are} isolated: the scheduler does not spread the host's own programs over them")
	IsolatedGuests = says("isolated-guests",
		"the scheduler does not balance {cpus}: shared guests pile up on one of them")
	NohzReserve   = says("nohz-reserve", "covers reserved {cpus}, which the kernel's housekeeping needs")
	NohzGuests    = says("nohz-guests", "guest {cpus} {is|are} interrupted by the kernel's timer tick and callbacks")
	HugePagesLate = says("huge-pages-late",
		"none are reserved at boot: later, memory may be too fragmented for them")
	MitigationsOff = says("mitigations-off", "guests may read each other's data through the CPU")
	CStatesLimited = says("c-states-limited", "{}: idle CPUs wake faster, and leave less power for busy ones")
	SetAtBoot      = says("set-at-boot", "{} at boot")
	IOMMUOff       = says("iommu-off", "off: no drive or NIC can be passed through to a guest")
	THPNever       = says("thp-never",
		"never: guests without huge pages of their own spend more time on page table walks")
	KSMAcross   = says("ksm-across", "equal pages of guests are merged across nodes: local memory becomes remote")
	KSMOn       = says("ksm-on", "on: equal pages of guests are merged, at the cost of CPU time")
	ZoneReclaim = says("zone-reclaim",
		"{}: a full node reclaims its page cache before it takes memory of another, and guests stall")
	Swappy           = says("swappiness", "{}: memory of idle guests is swapped out for page cache")
	OvercommitStrict = says("overcommit-strict", "2: a guest may fail to start although memory is free")
	NUMABalancingOn  = says("numa-balancing-on", "on: its page faults slow guests")
	GovernorSlow     = says("governor-slow", "{}: a guest that wakes up runs slowly until the clock has risen")
	IdleFirmware     = says("idle-firmware", "intel_idle is off: idle states are the firmware's")
	IrqbalanceRuns   = says("irqbalance-runs", "runs: it spreads interrupts over guest CPUs")
	ManagerRuns      = says("manager-runs", "runs: it {}")
	ManagerDoes      = says("manager-does", "{}")
	NestedOn         = says("nested-on", "on: guests may run guests")
	NodesHidden      = says("nodes-hidden", "the firmware describes {n node}, the kernel shows {}")
	NodesInterleaved = says("nodes-interleaved",
		"several packages and one node: the place of memory cannot be seen or chosen")
)
