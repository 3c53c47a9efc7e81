package words

// Refusals of guests.
var (
	GuestExists   = says("guest-exists", "There is a guest named {q} already.")
	MemoryCounted = says("memory-counted",
		"Memory is counted {.4g} times (memory_overcommit): if guests use all of theirs, the host swaps, or the "+
			"kernel kills some.")
	NodesApart   = says("nodes-apart", "It was ordered onto {nodes}, but may use only {nodes}.")
	NoFreeDrives = says("no-free-drives",
		"None of its nodes has {n free NVMe drive} for guests; this host has {} free.")
	NothingReserved = says("nothing-reserved",
		"Its emulator belongs on CPUs reserved for the host, but none are reserved (reserve.cpus, --reserve).")
	CellHome     = says("cell-home", "Its cell {} (vCPUs {}, {size}) is on node {}.")
	CellNowhere  = says("cell-nowhere", "Its cell {} (vCPUs {}, {size}) fits on no node: {}")
	CellsNowhere = says("cells-nowhere",
		"Each of its {} cells fits on some node, but they do not fit on different nodes.")
	CellsOfItself = says("cells-of-itself",
		"It sees {} NUMA nodes, one for each of nodes {}, and the vCPUs of each float over the node that has its "+
			"memory.")
	CellsUneven = says("cells-uneven",
		"It spans nodes {} and sees no NUMA nodes, because it does not fit there in equal parts: {}")
	CellsTooFew = says("cells-too-few",
		"It spans nodes {} and sees no NUMA nodes: it has too few vCPUs, or too little memory, for one on each.")
	CellPinned = says("cell-pinned", "Each on its own CPU: vCPUs {}, on {cpus}.")
	CellFloats = says("cell-floats",
		"Floating: vCPUs {}, the vCPUs of each cell over the shared CPUs of its node, {cpus}.")
	EmulatorNoCPU = says("emulator-no-cpu", "It fits on {nodes}, but no CPU is left there for its emulator.")
)

// Guests and cells with special places.
var (
	GuestInCells = says("guest-in-cells",
		"It sees {} NUMA nodes, each placed by itself ({} and so on); this is the rest: its emulator and the "+
			"emulator's memory.")
	GuestWide = says("guest-wide",
		"It sees no NUMA nodes: its vCPUs float over all of nodes {} and its memory is on all of them, now and after "+
			"its next start. To change that: homenode vm release, then homenode vm adopt --cells {}; it sees them "+
			"from its next start.")
	GuestWideNext = says("guest-wide-next",
		"It sees no NUMA nodes now: its vCPUs float over all of nodes {} and its memory is on all of them. From its "+
			"next start it sees {}, each with its own vCPUs and memory.")
	CellBound = says("cell-bound",
		"libvirt binds its memory while it runs (numatune mode {}): it stays where it is until its next start.")
	CellHugePages = says("cell-huge-pages", "Its memory is in huge pages of {size}, which cannot move while it runs.")
	CellUnknown   = says("cell-unknown",
		"Its memory and that of cell {} were both requested on node {} and cannot be told apart: it stays where it "+
			"is until its next start.")
)

// Reasons to leave a guest, or its definition, alone.
var (
	GuestForeignCgroup = says("guest-cgroup",
		"libvirt runs this guest and would overwrite its CPUs and memory nodes; homenode places guests through "+
			"libvirt (docs/vm.md).")
	GuestSilent    = says("guest-silent", "libvirt does not answer ({}).")
	GuestUnread    = says("guest-unread", "homenode cannot interpret its domain XML: {}.")
	GuestNoProcess = says("guest-no-process", "Its process is unknown.")
	GuestBound     = says("guest-bound", "Another program or the user has bound it: {}.")
	GuestUnmarked  = says("guest-unmarked",
		"homenode did not define it and places only guests with its mark (libvirt.manage); homenode vm adopt {} adds "+
			"the mark.")
	GuestReleased = says("guest-released",
		"It was released (homenode vm release): its current bindings end when it stops.")
	GuestNoCPUs = says("guest-no-own-cpus",
		"It is dedicated, but its vCPUs are not pinned to their own CPUs; homenode vm move {} pins them.")
	GuestDedicated = says("guest-dedicated",
		"It is dedicated and keeps its CPUs; homenode vm move {} chooses others for its next start.")
	GuestMemoryMode = says("guest-memory-mode",
		"Its memory is bound in mode {}, which libvirt does not change while it runs.")
	ProxmoxNoConfig = says("proxmox-no-config",
		"Proxmox VE has no configuration for it on this node: it is arriving from another node, or was removed.")
	ProxmoxOff      = says("proxmox-off", "It has the tag homenode-off.")
	ProxmoxUnmarked = says("proxmox-unmarked",
		"homenode places only guests with its tag or note (proxmox.manage); add the tag homenode-shared.")
	ProxmoxMigrates = says("proxmox-migrates", "Proxmox VE is moving it to another host.")
	ProxmoxAffinity = says("proxmox-affinity", "Proxmox VE keeps it on {cpus} (its setting affinity).")
	ProxmoxNodes    = says("proxmox-nodes", "Its memory is bound to nodes of this host by its configuration ({}).")
	ProxmoxPinned   = says("proxmox-pinned",
		"Another program, such as its hookscript, pinned its vCPU threads ({cpus}).")
	GuestDevices = says("guest-devices", "It has passed-through devices ({}), which pin its memory.")
)

// Instances of Incus and LXD.
var (
	IncusOff      = says("incus-off", "Its configuration has user.homenode.off.")
	IncusUnmarked = says("incus-unmarked", "It has no user.homenode key (incus.manage: marked).")
	IncusNodes    = says("incus-nodes", "Incus chooses its nodes (limits.cpu.nodes: {}).")
	IncusPinned   = says("incus-pinned", "Incus pins its vCPUs (limits.cpu: {}). A number instead would be placed.")
	IncusLimits   = says("incus-limits", "Incus chooses its CPUs (limits.cpu: {}). Use user.homenode.cpus instead.")
)
