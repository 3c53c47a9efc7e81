package words

// Why a guest has no room.
var (
	GuestExists     = says("guest-exists", "There is a guest named {q} already.")
	MemoryCounted   = says("memory-counted", "Memory is counted {.4g} times (memory_overcommit): when guests use all of theirs, the host swaps, or the kernel ends some.")
	NodesApart      = says("nodes-apart", "It was to be on {nodes}, and is for {nodes} only.")
	NoFreeDrives    = says("no-free-drives", "No node that it may use has {n free NVMe drive} for guests; this host has {} free.")
	NothingReserved = says("nothing-reserved", "Its emulator belongs on CPUs reserved for the host, and none are reserved (reserve.cpus, --reserve).")
	CellHome        = says("cell-home", "Its cell {} (vCPUs {}, {size}) is on node {}.")
	CellNowhere     = says("cell-nowhere", "Its cell {} (vCPUs {}, {size}) fits on no node: {}")
	CellsNowhere    = says("cells-nowhere", "Each of its {} cells fits on some node, but not each on a node of its own.")
	CellsOfItself   = says("cells-of-itself", "It sees {} NUMA nodes, one for each of nodes {}, and the vCPUs of each float there, over its memory.")
	CellsUneven     = says("cells-uneven", "It spans nodes {} and sees none of them, for it does not fit there in equal parts: {}")
	CellsTooFew     = says("cells-too-few", "It spans nodes {} and sees none of them: it has too few vCPUs, or too little memory, for a NUMA node on each.")
	CellPinned      = says("cell-pinned", "With a CPU of its own each: vCPUs {}, on {cpus}.")
	CellFloats      = says("cell-floats", "Floating: vCPUs {}, those of each cell over the shared CPUs of its node, {cpus}.")
	EmulatorNoCPU   = says("emulator-no-cpu", "It fits on {nodes}, but no CPU is left there for its emulator.")
)

// Why a guest, or a cell of it, is not placed as others are.
var (
	GuestInCells  = says("guest-in-cells", "It sees {} NUMA nodes, each placed by itself ({} and so on); this is the rest: its emulator and what that holds.")
	GuestWide     = says("guest-wide", "It sees no NUMA nodes: as it runs its vCPUs float over all of nodes {} and its memory lies on all of them, and so at its next start. After homenode vm release, homenode vm adopt --cells {} lets it see them from its next start.")
	GuestWideNext = says("guest-wide-next", "As it runs it sees no NUMA nodes: its vCPUs float over all of nodes {} and its memory lies on all of them. From its next start it sees {}, each with vCPUs and memory of its own.")
	CellBound     = says("cell-bound", "libvirt binds its memory as long as it runs (numatune mode {}): it stays where it is until its next start.")
	CellHugePages = says("cell-huge-pages", "Its memory is in huge pages of {size}, which stay where they are as long as it runs.")
	CellUnknown   = says("cell-unknown", "Its memory and that of cell {} were both asked for on node {} and cannot be told apart: it stays where it is until its next start.")
)

// Why a guest is left alone, or its definition is not written anew.
var (
	GuestForeignCgroup = says("guest-cgroup", "libvirt runs this guest and would set its CPUs and memory nodes again; homenode places guests through libvirt (docs/vm.md).")
	GuestSilent        = says("guest-silent", "libvirt does not answer ({}).")
	GuestUnread        = says("guest-unread", "Its domain XML is not understood: {}.")
	GuestNoProcess     = says("guest-no-process", "The process that runs it is not known.")
	GuestBound         = says("guest-bound", "Another program or person has bound it: {}.")
	GuestUnmarked      = says("guest-unmarked", "homenode did not define it, and places only guests with its mark (libvirt.manage); homenode vm adopt {} gives it one.")
	GuestReleased      = says("guest-released", "It was released (homenode vm release): its present bindings end when it stops.")
	GuestNoCPUs        = says("guest-no-own-cpus", "It is dedicated, and its vCPUs are not pinned to CPUs of their own; homenode vm move {} gives it some.")
	GuestDedicated     = says("guest-dedicated", "It is dedicated and keeps its CPUs; homenode vm move {} gives it others for its next start.")
	GuestMemoryMode    = says("guest-memory-mode", "Its memory is bound in mode {}, which libvirt does not change while it runs.")
	ProxmoxNoConfig    = says("proxmox-no-config", "Proxmox VE has no configuration of it on this node: it is coming from another one, or was removed.")
	ProxmoxOff         = says("proxmox-off", "Its tag homenode-off says so.")
	ProxmoxUnmarked    = says("proxmox-unmarked", "homenode places only guests with a tag or a note for it (proxmox.manage); the tag homenode-shared makes it one.")
	ProxmoxMigrates    = says("proxmox-migrates", "Proxmox VE is moving it to another host.")
	ProxmoxAffinity    = says("proxmox-affinity", "Proxmox VE keeps it on {cpus} (its setting affinity).")
	ProxmoxNodes       = says("proxmox-nodes", "Its memory is bound to nodes of this host by its configuration ({}).")
	ProxmoxPinned      = says("proxmox-pinned", "Somebody, such as its hookscript, has pinned its vCPU threads ({cpus}).")
	GuestDevices       = says("guest-devices", "It has devices of its own ({}), and with them its memory is pinned.")
)
