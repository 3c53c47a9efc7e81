package vm

import (
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// flavorsDocument is the catalogue of flavors.
type flavorsDocument struct {
	Schema  string       `json:"schema"`
	Flavors []flavorJSON `json:"flavors"` // flavors, in the order of the catalogue
}

// flavorJSON is a flavor with the keys of the catalogue and with units; 0 is no limit,
// no huge pages or left to the engine, as there.
type flavorJSON struct {
	Name   string      `json:"name"`   // name of the flavor
	Family string      `json:"family"` // family that it belongs to
	Class  guest.Class `json:"class"`  // class: what its guests are promised
	// who gives way on one CPU; absent: by the class
	Tier  workload.Tier `json:"tier,omitempty"`
	VCPUs int           `json:"vcpus"` // vCPUs of a guest
	// of class mixed: vCPUs that have a CPU of their own
	Own guest.VCPUs `json:"dedicated_vcpus,omitzero"`
	// NUMA nodes that the guest sees; missing where the engine chooses them
	Cells  []flavorCell `json:"cells,omitempty"`
	Memory topology.KiB `json:"memory_kib"` // memory of a guest, KiB
	// size of its huge pages, KiB; 0 ordinary pages
	HugePage topology.KiB       `json:"huge_page_kib"`
	SMT      workload.SMTPolicy `json:"smt"` // SMT policy: which cores it may share
	// most nodes that a guest may span; 0 no limit
	MaxNodes int `json:"max_nodes"`
	// nodes that a guest is on; absent: as many as it takes
	ExactNodes int `json:"exact_nodes,omitempty"`
	// nodes that it may use, also when it moves; absent: any
	OnlyNodes topology.NodeSet `json:"only_nodes,omitzero"`
	// vCPUs that run under SCHED_FIFO; absent: none
	Realtime guest.VCPUs `json:"realtime,omitzero"`
	// latency goal (most=5%,window=30s); absent: none
	SLO        string         `json:"slo,omitempty"`
	Importance int            `json:"importance"` // importance, 0 to 100
	Emulator   guest.Emulator `json:"emulator"`   // where QEMU's own threads run
	IOThreads  int            `json:"iothreads"`  // number of IOThreads
	// queues of its network card; 0 is chosen by homenode
	Queues  int          `json:"nic_queues"`
	Network topology.KiB `json:"network_kib_per_s"` // network limit, KiB/s; 0 no limit
	// peak of its network, KiB/s; absent: none above the limit
	Peak topology.KiB `json:"network_peak_kib_per_s,omitempty"`
	// what may be sent at that peak, KiB; absent: none
	Burst topology.KiB `json:"network_burst_kib,omitempty"`
	NVMe  int          `json:"nvme"` // number of NVMe drives passed through
	Disk  flavorDisk   `json:"disk"` // limits of the system disk
}

// flavorCell is a NUMA node that a guest sees.
type flavorCell struct {
	VCPUs    guest.VCPUs  `json:"vcpus"`         // vCPUs of it
	Memory   topology.KiB `json:"memory_kib"`    // memory of it, KiB
	HugePage topology.KiB `json:"huge_page_kib"` // size of its huge pages, KiB; 0 ordinary pages
}

// flavorDisk is the limits of a system disk; 0 is none.
type flavorDisk struct {
	IOPS       int64        `json:"iops"`              // operations a second; 0 no limit
	IOPSPerGiB int64        `json:"iops_per_gib"`      // operations a second more for each GiB of the disk
	MostIOPS   int64        `json:"most_iops"`         // most operations a second; 0 no limit
	Rate       topology.KiB `json:"kib_per_s"`         // KiB a second; 0 no limit
	RatePerGiB topology.KiB `json:"kib_per_s_per_gib"` // KiB a second more for each GiB of the disk
	// operations a second for a while; absent: none above the limit
	BurstIOPS int64        `json:"burst_iops,omitempty"`
	BurstRate topology.KiB `json:"burst_kib_per_s,omitempty"` // KiB a second for a while; absent: none above the limit
	Seconds   int64        `json:"burst_seconds,omitempty"`   // how long that may last, s; absent: one second
	MostRate  topology.KiB `json:"most_kib_per_s"`            // most KiB a second; 0 no limit
}

func flavorsJSON(c guest.Catalogue) flavorsDocument {
	doc := flavorsDocument{Schema: "homenode-vm-flavors/2", Flavors: []flavorJSON{}}
	for _, f := range c {
		x := flavorJSON{Name: f.Name, Family: f.Family, Class: guest.Class(f.Class), Tier: f.Tier, VCPUs: f.VCPUs,
			Memory: f.Memory, HugePage: f.HugePage,
			SMT: f.SMT, MaxNodes: f.MaxNodes, Importance: f.Importance, Emulator: f.Emulator, IOThreads: f.IOThreads,
			Queues: f.Queues, Network: f.Network, NVMe: f.NVMe}
		x.ExactNodes = f.ExactNodes
		x.OnlyNodes = f.OnlyNodes
		x.Realtime = f.Realtime
		x.Peak, x.Burst = f.NetworkBurst.Peak, f.NetworkBurst.Size
		x.Own, x.SLO = f.Own, f.SLO
		for _, c := range f.Cells {
			x.Cells = append(x.Cells, flavorCell(c))
		}
		d := &x.Disk
		d.IOPS = f.Disk.IOPS
		d.IOPSPerGiB = f.Disk.IOPSPerGiB
		d.MostIOPS = f.Disk.MostIOPS
		d.Rate = f.Disk.Rate
		d.RatePerGiB = f.Disk.RatePerGiB
		d.MostRate = f.Disk.MostRate
		d.BurstIOPS = f.Disk.BurstIOPS
		d.BurstRate = f.Disk.BurstRate
		d.Seconds = f.Disk.Seconds
		doc.Flavors = append(doc.Flavors, x)
	}
	return doc
}
