package words

// States and events of the kernel's scheduler for batch work.
var (
	SchedulerRuns  = says("scheduler-runs", "It runs batch work in the time that online work leaves.")
	SchedulerBelow = says("scheduler-below",
		"It runs batch work below the scheduler {}, which decides when a CPU may run it.")
	SchedulerOff       = says("scheduler-off", "Turned off in the configuration (share.sched_ext).")
	SchedulerNotShared = says("scheduler-not-shared", "Sharing is off.")
	SchedulerObserve   = says("scheduler-observe", "In observe mode no scheduler is loaded; the kernel supports one.")
	SchedulerHeld      = says("scheduler-held", "Undone by the user: left alone until `homenode resume`.")
	SchedulerNoWork    = says("scheduler-no-work", "No batch workload has a cgroup of its own.")
	SchedulerOther     = says("scheduler-other",
		"Another sched_ext scheduler is loaded ({}). It lets no other run below it; homenode leaves it alone.")
	SchedulerWaits    = says("scheduler-waits", "It is not loaded again for {for}: {}")
	SchedulerAgain    = says("scheduler-again", "It is being loaded again. The last one: {}")
	SchedulerTooOften = says("scheduler-too-often",
		"It was loaded {times} within an hour; it is not loaded again for {for}.")
	SchedulerUnknown = says("scheduler-unknown", "The kernel has not been checked yet.")
	SchedulerSilent  = says("scheduler-silent", "The kernel could not be checked: {}")
	SchedulerNeeded  = says("scheduler-needed",
		"Batch work runs in the time that online work leaves, and off the SMT siblings of online-strict work.")
	SchedulerUpgraded  = says("scheduler-upgraded", "The user asked for another version.")
	SchedulerBack      = says("scheduler-back", "The new version failed its probation: {}")
	SchedulerNeedless  = says("scheduler-needless", "No batch work has run for {for}.")
	SchedulerNotLoaded = says("scheduler-not-loaded", "it could not be loaded: {}")
	SchedulerEnded     = says("scheduler-ended",
		"the kernel ended the scheduler for batch work ({}); batch work runs with cpu.idle in the kernel's own "+
			"scheduler; next try in {for}")
	SchedulerEndedIn = says("scheduler-ended-in",
		"the kernel ended the scheduler of the batch work in {} ({}); the scheduler above runs it; next try in {for}")
	SchedulerAdopted = says("scheduler-adopted",
		"the scheduler for batch work, version {}, was already loaded and continues")
	SchedulerOrdered = says("scheduler-ordered", "{} asked for version {} of the scheduler for batch work")
	SchedulerSwapped = says("scheduler-swapped",
		"the scheduler for batch work is now version {} (was {}); none ran for {.1f} ms. It is on probation for {for}")
	SchedulerHeldOut = says("scheduler-held-out",
		"version {} of the scheduler for batch work has passed its probation of {for}: important work waited at most "+
			"{%} of the time ({%} before)")
	SchedulerWentBack = says("scheduler-went-back",
		"version {} of the scheduler for batch work failed its probation: {} Version {} runs again")
	SchedulerMoreWaits  = says("scheduler-more-waits", "Important work waited {%} of the time ({%} before).")
	SchedulerDidEnd     = says("scheduler-did-end", "The kernel ended it ({}).")
	SchedulerNotRunning = says("scheduler-not-running", "no scheduler for batch work is loaded: {}")
	SchedulerStays      = says("scheduler-stays",
		"sharing is off, but the scheduler for batch work, version {}, is still loaded: `homenode undo --all` "+
			"removes it")
	SchedulerUntiered = says("scheduler-untiered",
		"the scheduler for batch work does not hold {} of {} cgroups with a tier (limit {}): those run as tier normal")
	SchedulerBusy   = says("scheduler-busy", "another change of the scheduler for batch work is under way")
	SchedulerNoBack = says("scheduler-no-back", "version {} could not be loaded again either: {}")
)

// Reasons why a kernel has no scheduler for batch work.
var (
	SchedulerNoKernel = says("scheduler-no-kernel",
		"This kernel has no sched_ext: it needs Linux 6.13 with CONFIG_SCHED_CLASS_EXT. Sharing works with cgroup "+
			"settings alone.")
	SchedulerNoBTF = says("scheduler-no-btf",
		"This kernel does not describe its types (no /sys/kernel/btf/vmlinux): it needs CONFIG_DEBUG_INFO_BTF. "+
			"Sharing works with cgroup settings alone.")
	SchedulerNoCapability = says("scheduler-no-capability",
		"This process may not load BPF programs: it needs CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN. Sharing works "+
			"with cgroup settings alone.")
	SchedulerNoBPFFS = says("scheduler-no-bpffs",
		"No BPF file system is mounted at {}: `mount -t bpf bpf {}` mounts it. Sharing works with cgroup "+
			"settings alone.")
	SchedulerRefused = says("scheduler-refused",
		"The kernel refuses it: {}. Sharing works with cgroup settings alone.")
)
