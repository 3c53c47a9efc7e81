package guest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Emulator says where the threads of a guest that are no vCPU run: QEMU's main
// thread, its workers, and its IOThreads. The names follow Nova's
// hw:emulator_threads_policy, with housekeeping for its `share` by
// [compute]cpu_shared_set.
type Emulator string

// Emulator policies. A shared guest always has Share: all its threads float.
const (
	Share        Emulator = "share"        // on the CPUs of the guest's own vCPUs
	Isolate      Emulator = "isolate"      // on one more CPU of the same node, which nobody else gets
	Housekeeping Emulator = "housekeeping" // on the CPUs reserved for the host
)

// MaxQueues is the most queues that a NIC gets by default. Each queue costs a
// vhost thread on the host and a vector in the guest; beyond eight a NIC of
// 25 Gbit/s is no longer what limits a guest.
const MaxQueues = 8

// Flavor is one size of guest.
type Flavor struct {
	Name, Family string
	Class        workload.Class // dedicated, shared or mixed
	Tier         workload.Tier  // who gives way on one CPU; "" is by the class. Offline: a shared guest that gives way
	VCPUs        int
	Own          VCPUs        // mixed: the vCPUs that have a CPU of their own; the others float
	Cells        []Cell       // NUMA nodes that the guest sees, each on a node of the host of its own; nil leaves them to the engine
	Memory       topology.KiB // whole MiB, and whole huge pages
	HugePage     topology.KiB // page size its memory is backed by; 0 for ordinary pages
	SMT          workload.SMTPolicy
	MaxNodes     int // most nodes it may be split over; 0 leaves that to the engine
	Importance   int
	Emulator     Emulator
	IOThreads    int          // for its disks; 0 leaves them to the main thread
	Queues       int          // of each virtio NIC
	Network      topology.KiB // a second, each way; 0 is no limit
	Disk         DiskLimit
	NVMe         int // drives handed through whole
}

// DiskLimit is what one volume may do a second; it grows with the size of the
// volume. The zero value is no limit.
type DiskLimit struct {
	IOPS, IOPSPerGiB, MostIOPS int64
	Rate, RatePerGiB, MostRate topology.KiB // a second
}

// For is the limit of a volume: operations and KiB a second, 0 for none.
func (d DiskLimit) For(volume topology.KiB) (iops int64, rate topology.KiB) {
	gib := int64(volume) >> 20
	iops, rate = d.IOPS+d.IOPSPerGiB*gib, d.Rate+d.RatePerGiB*topology.KiB(gib)
	if d.MostIOPS > 0 {
		iops = min(iops, d.MostIOPS)
	}
	if d.MostRate > 0 {
		rate = min(rate, d.MostRate)
	}
	return iops, rate
}

const (
	maxVCPUs  = 4096     // what QEMU's q35 takes (hw/i386/pc_q35.c)
	maxMemory = 64 << 30 // KiB, 64 TiB: 46 bits of address
	maxMany   = 256      // queues, IOThreads, drives: beyond, a typing error
	maxLimit  = 1 << 40  // operations or KiB a second, also for each GiB, so that sums stay in range
)

func (f *Flavor) validate() error {
	switch {
	case f.Name == "":
		return errors.New("name: empty")
	case f.Class != workload.Dedicated && f.Class != workload.Shared && f.Class != Mixed:
		return fmt.Errorf("class: %q; want dedicated, shared, mixed or offline", f.Class)
	case f.Tier != "" && !slices.Contains(workload.Tiers, f.Tier):
		return fmt.Errorf("tier: %q; want online-strict, online, normal or offline, or 2 to -2", f.Tier)
	case f.Class != workload.Shared && f.Tier == workload.OfflineTier:
		return fmt.Errorf("tier: offline does not go with class %s", f.Class)
	case f.VCPUs < 1 || f.VCPUs > maxVCPUs:
		return fmt.Errorf("vcpus: %d; want 1 to %d", f.VCPUs, maxVCPUs)
	case f.Memory < 1 || f.Memory > maxMemory || f.Memory%1024 != 0:
		return fmt.Errorf("memory: %d KiB; want whole MiB, up to 64TiB", f.Memory)
	case f.HugePage > 0 && f.Memory%f.HugePage != 0:
		return fmt.Errorf("huge_pages: %d KiB of memory are no whole number of pages of %d KiB", f.Memory, f.HugePage)
	case f.MaxNodes < 0 || f.MaxNodes > topology.MaxID:
		return fmt.Errorf("max_nodes: %d; want 0 or more", f.MaxNodes)
	case f.Importance < 0 || f.Importance > 100:
		return fmt.Errorf("importance: %d; want 0 to 100", f.Importance)
	case f.IOThreads < 0 || f.IOThreads > maxMany:
		return fmt.Errorf("iothreads: %d; want 0 to %d", f.IOThreads, maxMany)
	case f.Queues < 1 || f.Queues > maxMany:
		return fmt.Errorf("nic_queues: %d; want 1 to %d", f.Queues, maxMany)
	case f.NVMe < 0 || f.NVMe > maxMany:
		return fmt.Errorf("nvme: %d; want 0 to %d", f.NVMe, maxMany)
	}
	switch f.SMT {
	case workload.SMTPrefer, workload.SMTIsolate, workload.SMTRequire:
	default:
		return fmt.Errorf("smt: %q; want prefer, isolate or require", f.SMT)
	}
	switch f.Emulator {
	case Share, Isolate, Housekeeping:
	default:
		return fmt.Errorf("emulator: %q; want share, isolate or housekeeping", f.Emulator)
	}
	if f.Class == workload.Shared && f.Emulator != Share {
		return fmt.Errorf("emulator: %q; a shared guest floats with all its threads: want share", f.Emulator)
	}
	if err := f.checkCells(); err != nil {
		return err
	}
	d := &f.Disk
	for _, n := range []int64{d.IOPS, d.IOPSPerGiB, d.MostIOPS, int64(d.Rate), int64(d.RatePerGiB), int64(d.MostRate), int64(f.Network)} {
		if n < 0 || n > maxLimit {
			return fmt.Errorf("network, disk: %d; want 0 to %d", n, int64(maxLimit))
		}
	}
	return nil
}

// Limits is what a guest that exists may do a second; nil leaves it as it is.
type Limits struct {
	Network *topology.KiB // of each NIC, each way; 0 is no limit
	Disk    *DiskLimit    // of each volume
}
