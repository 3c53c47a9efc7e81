package workload

import (
	"fmt"

	"github.com/homenode/homenode/core/topology"
)

// ID names a workload on its host for as long as it lives: a cgroup by its path
// below the cgroup root ("/system.slice/redis.service"), a process tree by its
// root process ("pid:1234").
type ID string

// Class is how a workload shares CPUs and memory with others.
type Class string

// The three classes, strongest first. See docs/glossary.md.
const (
	// Dedicated: one vCPU is one CPU of its own, never overcommitted; memory is
	// bound to its home nodes.
	Dedicated Class = "dedicated"
	// Shared floats over the shared CPUs of its home; memory is preferred there.
	Shared Class = "shared"
	// Batch takes the CPU that the online classes leave idle.
	Batch Class = "batch"
)

// Classes lists the classes, strongest first.
var Classes = []Class{Dedicated, Shared, Batch}

// offline is what class and tier batch were called before version 0.2. Input takes it for
// batch, for good: configuration, command lines, annotations, and what was stored.
const offline = "offline"

// UnmarshalText reads a class. A word that is no class stays as it is, for whoever checks it.
func (c *Class) UnmarshalText(text []byte) error {
	if *c = Class(text); *c == offline {
		*c = Batch
	}
	return nil
}

// ParseClass reads a class name.
func ParseClass(s string) (Class, error) {
	if s == offline {
		return Batch, nil
	}
	for _, c := range Classes {
		if s == string(c) {
			return c, nil
		}
	}
	return "", fmt.Errorf("class %q: want dedicated, shared or batch", s)
}

// SMTPolicy says how a workload meets SMT siblings.
type SMTPolicy string

// SMT policies; the names are Nova's hw:cpu_thread_policy, known to the field.
const (
	SMTPrefer  SMTPolicy = "prefer"  // take whole cores, use their siblings
	SMTIsolate SMTPolicy = "isolate" // one vCPU a core, the sibling stays idle
	SMTRequire SMTPolicy = "require" // whole cores or nothing
)

// DefaultImportance orders a workload in the middle of its class (0 to 100).
const DefaultImportance = 50

// Spec is what a workload wants.
type Spec struct {
	ID         ID
	Name       string // for people
	Class      Class
	Importance int              // 0 to 100; higher is placed first and moved last
	CPUs       int              // vCPUs, or threads that want to run at once; at least 1
	Memory     topology.KiB     // resident when it runs; 0 when it does not matter
	HugePage   topology.KiB     // page size its memory is backed by; 0 for ordinary pages
	SMT        SMTPolicy        // "" means prefer
	Near       []Near           // devices and workloads it talks to
	Nodes      topology.NodeSet // nodes it may use; empty means any
	MaxNodes   int              // most nodes it may be split over; 0 means no limit
	// fewest nodes it may be on, of a split with Even or of floating work; 0 and 1 mean any number
	MinNodes int `json:",omitzero"`
	// a split gives every node the same part, for guests that see their nodes; else by what the nodes have
	Even      bool
	Bandwidth int64 // memory bandwidth it needs, MiB/s; 0 when unknown
	Tier      Tier  `json:",omitzero"` // "": by its class
	// Nodes and MinNodes are the nodes of the GPUs that its processes were found to use
	ForGPUs  bool   `json:",omitzero"`
	Isolated bool   `json:",omitzero"`  // dedicated work: what the kernel can move goes off its CPUs
	Goals    []Goal `json:",omitempty"` // what batch work must not make it miss
	Given    bool   // size and class come from a person or an orchestrator, not from what was seen
}

// LinkKind is how a workload is tied to a device or a helper.
type LinkKind string

// Kinds of link.
const (
	ByNamespace LinkKind = "netns"      // a network device of its network namespace
	ByTap       LinkKind = "tap"        // a tap or macvtap that it holds open
	ByVhostUser LinkKind = "vhost-user" // a unix socket to a process that polls
	ByBlock     LinkKind = "block"      // an open block device, or files on one
	ByVFIO      LinkKind = "vfio"       // a device handed to it whole
	ByNetDisk   LinkKind = "net-disk"   // a disk that a server has: Ceph, iSCSI, NBD, NFS
	ByGPU       LinkKind = "gpu"        // a GPU or accelerator whose device file it has open
	// a connection to a process of this host that serves its storage, network or TPM
	BySocket LinkKind = "socket"
)

// Link is a device or a helper process that a workload was found to use.
type Link struct {
	Kind     LinkKind
	Device   string           // of the host, by name or PCI address; "" for a helper
	Helper   Process          // a process that works for it; zero for a device
	Name     string           // of the device or the helper, for people
	Nodes    topology.NodeSet // where it is; empty when unknown
	Evidence string           // how it is known: "tap vnet3 → br0 → eth0"
	Vhost    bool             `json:",omitzero"`  // of a tap: vhost threads serve it
	Holders  []Holder         `json:",omitempty"` // of a GPU: the processes that have it open, rising by PID
	// Bytes is what has gone through it so far, when Counted is true.
	Bytes   uint64
	Counted bool
}

// Holder is a process that has the device file of a GPU open.
type Holder struct {
	Process
	Files int // descriptors of that device
}

// Attachment is what a workload is plugged into, as its manager says: a NIC or disk of a guest.
type Attachment struct {
	Kind     LinkKind // ByTap, ByNetDisk, ByBlock or BySocket
	Name     string   // what the manager calls it: vnet3, vda
	Device   string   // of a NIC: its tap
	Protocol string   // of a network disk: rbd, iscsi, nbd
	Servers  []string // of a network disk: addresses or host names, without a port
	Path     string   // of a socket: where who serves it listens; of any other disk: its file or block device
	// Bytes is what a disk has read and written so far, when Counted is true.
	Bytes   uint64
	Counted bool
}
