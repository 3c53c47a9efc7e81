package cli

import (
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// flavorsDocument is the catalogue, in its order.
type flavorsDocument struct {
	Schema  string       `json:"schema"`
	Flavors []flavorJSON `json:"flavors"`
}

// flavorJSON is a flavor with the keys of the catalogue and with units; 0 is no limit,
// no huge pages or left to the engine, as there.
type flavorJSON struct {
	Name       string             `json:"name"`
	Family     string             `json:"family"`
	Class      workload.Class     `json:"class"`
	VCPUs      int                `json:"vcpus"`
	Memory     topology.KiB       `json:"memory_kib"`
	HugePage   topology.KiB       `json:"huge_page_kib"`
	SMT        workload.SMTPolicy `json:"smt"`
	MaxNodes   int                `json:"max_nodes"`
	Importance int                `json:"importance"`
	Emulator   guest.Emulator     `json:"emulator"`
	IOThreads  int                `json:"iothreads"`
	Queues     int                `json:"nic_queues"`
	Network    topology.KiB       `json:"network_kib_per_s"`
	NVMe       int                `json:"nvme"`
	Disk       struct {
		IOPS       int64        `json:"iops"`
		IOPSPerGiB int64        `json:"iops_per_gib"`
		MostIOPS   int64        `json:"most_iops"`
		Rate       topology.KiB `json:"kib_per_s"`
		RatePerGiB topology.KiB `json:"kib_per_s_per_gib"`
		MostRate   topology.KiB `json:"most_kib_per_s"`
	} `json:"disk"`
}

func flavorsJSON(c guest.Catalogue) flavorsDocument {
	doc := flavorsDocument{Schema: "homenode-vm-flavors/1", Flavors: []flavorJSON{}}
	for _, f := range c {
		x := flavorJSON{Name: f.Name, Family: f.Family, Class: f.Class, VCPUs: f.VCPUs, Memory: f.Memory, HugePage: f.HugePage,
			SMT: f.SMT, MaxNodes: f.MaxNodes, Importance: f.Importance, Emulator: f.Emulator, IOThreads: f.IOThreads,
			Queues: f.Queues, Network: f.Network, NVMe: f.NVMe}
		d := &x.Disk
		d.IOPS, d.IOPSPerGiB, d.MostIOPS = f.Disk.IOPS, f.Disk.IOPSPerGiB, f.Disk.MostIOPS
		d.Rate, d.RatePerGiB, d.MostRate = f.Disk.Rate, f.Disk.RatePerGiB, f.Disk.MostRate
		doc.Flavors = append(doc.Flavors, x)
	}
	return doc
}
