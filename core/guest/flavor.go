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
	Tier         workload.Tier  // who gives way on one CPU; "" is by the class. Batch: a shared guest that gives way
	VCPUs        int
	Own          VCPUs // mixed: the vCPUs that have a CPU of their own; the others float
	// NUMA nodes that the guest sees, each on a node of the host of its own; nil leaves them to the engine
	Cells        []Cell
	Memory       topology.KiB // whole MiB, and whole huge pages
	HugePage     topology.KiB // page size its memory is backed by; 0 for ordinary pages
	SMT          workload.SMTPolicy
	MaxNodes     int              // most nodes it may be split over; 0 leaves that to the engine
	ExactNodes   int              // nodes it is on, in equal parts; 0 leaves that to MaxNodes
	OnlyNodes    topology.NodeSet // nodes it may use for good, also when it moves; empty is any
	Realtime     VCPUs            // vCPUs that run under SCHED_FIFO; its memory is locked then
	Near         []workload.Near  // devices, processes and services it is to be near to, or has to be
	SLO          string           // latency goal as workload.ParseGoal reads it, without blanks; "" for none
	Importance   int
	Emulator     Emulator
	IOThreads    int          // for its disks; 0 leaves them to the main thread
	Queues       int          // of each virtio NIC
	Network      topology.KiB // a second, each way; 0 is no limit
	NetworkBurst Burst
	Disk         DiskLimit
	NVMe         int // drives handed through whole
}

// DiskLimit is what one volume may do a second; it grows with the size of the
// volume. The zero value is no limit.
type DiskLimit struct {
	IOPS, IOPSPerGiB, MostIOPS int64
	Rate, RatePerGiB, MostRate topology.KiB // a second

	// What a volume may do above that for Seconds, 0 for one second; 0 is no burst.
	BurstIOPS int64
	BurstRate topology.KiB
	Seconds   int64
}

// Burst is what a NIC may do above its limit: Peak a second until it has sent Size.
type Burst struct{ Peak, Size topology.KiB }

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
	maxBurst  = 3600     // seconds: beyond, a limit is what is meant
	maxLimit  = 1 << 40  // operations or KiB a second, also for each GiB, so that sums stay in range
)

func (f *Flavor) validate() error {
	switch {
	case f.Name == "":
		return errors.New("name: empty")
	case f.Class != workload.Dedicated && f.Class != workload.Shared && f.Class != Mixed:
		return fmt.Errorf("class: %q; want dedicated, shared, mixed or batch", f.Class)
	case f.Tier != "" && !slices.Contains(workload.Tiers, f.Tier):
		return fmt.Errorf("tier: %q; want online-strict, online, normal or batch, or 2 to -2", f.Tier)
	case f.Class != workload.Shared && f.Tier == workload.BatchTier:
		return fmt.Errorf("tier: batch does not go with class %s", f.Class)
	case f.VCPUs < 1 || f.VCPUs > maxVCPUs:
		return fmt.Errorf("vcpus: %d; want 1 to %d", f.VCPUs, maxVCPUs)
	case f.Memory < 1 || f.Memory > maxMemory || f.Memory%1024 != 0:
		return fmt.Errorf("memory: %d KiB; want whole MiB, up to 64TiB", f.Memory)
	case f.HugePage > 0 && f.Memory%f.HugePage != 0:
		return fmt.Errorf("huge_pages: %d KiB of memory are no whole number of pages of %d KiB", f.Memory, f.HugePage)
	case f.MaxNodes < 0 || f.MaxNodes > topology.MaxID:
		return fmt.Errorf("max_nodes: %d; want 0 or more", f.MaxNodes)
	case f.ExactNodes < 0 || f.ExactNodes > f.VCPUs:
		return fmt.Errorf("exact_nodes: %d; want 0 to as many as there are vCPUs", f.ExactNodes)
	case f.ExactNodes > 0 && (f.MaxNodes > 0 || len(f.Cells) > 0 || f.Class == Mixed):
		return errors.New("exact_nodes: want no max_nodes, cells or class mixed beside it")
	case !f.Realtime.Empty() && !f.Realtime.SubsetOf(firstVCPUs(f.VCPUs)):
		return fmt.Errorf("realtime: %q; want some of vCPUs %v", f.Realtime, firstVCPUs(f.VCPUs))
	case !f.Realtime.Empty() && f.Class != workload.Dedicated && !f.Realtime.SubsetOf(f.Own):
		return fmt.Errorf("realtime: %q; want vCPUs that have a CPU of their own (class dedicated, or "+
			"dedicated_vcpus): one that shares a CPU would starve others", f.Realtime)
	case f.Realtime.Equal(firstVCPUs(f.VCPUs)) && f.Emulator == Share:
		return errors.New("realtime: all vCPUs, and the emulator shares their CPUs and would starve; want emulator " +
			"isolate or housekeeping, or a vCPU less")
	case f.Tier == workload.BatchTier && len(f.Near) > 0:
		return errors.New("near: a batch guest has no home to be near something")
	case f.Tier == workload.BatchTier && f.SLO != "":
		return errors.New("slo: a batch guest gives way and has no latency goal")
	case f.Importance < 0 || f.Importance > 100:
		return fmt.Errorf("importance: %d; want 0 to 100", f.Importance)
	case f.IOThreads < 0 || f.IOThreads > maxMany:
		return fmt.Errorf("iothreads: %d; want 0 to %d", f.IOThreads, maxMany)
	case f.Queues < 1 || f.Queues > maxMany:
		return fmt.Errorf("nic_queues: %d; want 1 to %d", f.Queues, maxMany)
	case f.NVMe < 0 || f.NVMe > maxMany:
		return fmt.Errorf("nvme: %d; want 0 to %d", f.NVMe, maxMany)
	}
	if f.SLO != "" {
		if _, err := workload.ParseGoal(f.SLO); err != nil {
			return fmt.Errorf("slo: %w", err)
		}
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
	for _, n := range []int64{d.IOPS, d.IOPSPerGiB, d.MostIOPS, int64(d.Rate), int64(d.RatePerGiB), int64(d.MostRate),
		int64(f.Network)} {
		if n < 0 || n > maxLimit {
			return fmt.Errorf("network, disk: %d; want 0 to %d", n, int64(maxLimit))
		}
	}
	if err := f.checkBursts(); err != nil {
		return err
	}
	return nil
}

// checkBursts says what is wrong with what a guest may do above its limits for a while.
func (f *Flavor) checkBursts() error {
	d, n := &f.Disk, &f.NetworkBurst
	switch {
	case d.BurstIOPS < 0 || d.BurstIOPS > maxLimit || d.BurstRate < 0 || d.BurstRate > maxLimit || n.Peak < 0 ||
		n.Peak > maxLimit || n.Size < 0 || n.Size > maxLimit:
		return fmt.Errorf("network_peak, network_burst, disk burst: want 0 to %d", int64(maxLimit))
	case (n.Peak > 0 && n.Peak < f.Network) || ((n.Peak > 0 || n.Size > 0) && f.Network == 0):
		return errors.New("network_peak, network_burst: want a network limit, and a peak above it")
	case (d.BurstIOPS > 0 && d.BurstIOPS < max(d.IOPS, d.MostIOPS)) || (d.BurstIOPS > 0 && d.IOPS+d.IOPSPerGiB == 0):
		return errors.New("disk: burst_iops: want a limit (iops, iops_per_gib), and a burst that is no lower")
	case (d.BurstRate > 0 && d.BurstRate < max(d.Rate, d.MostRate)) || (d.BurstRate > 0 && d.Rate+d.RatePerGiB == 0):
		return errors.New("disk: burst_rate: want a limit (rate, rate_per_gib), and a burst that is no lower")
	case d.Seconds < 0 || d.Seconds > maxBurst || (d.Seconds > 0 && d.BurstIOPS == 0 && d.BurstRate == 0):
		return fmt.Errorf("disk: burst_seconds: %d; want 0 to %d, with burst_iops or burst_rate", d.Seconds, maxBurst)
	}
	return nil
}

// Limits is what a guest that exists may do a second; nil leaves it as it is.
type Limits struct {
	Network *topology.KiB // of each NIC, each way; 0 is no limit
	Burst   Burst         // of each NIC, with Network
	Disk    *DiskLimit    // of each volume
}

// Parameter is one of libvirt's parameters of a disk.
type Parameter struct {
	Name  string
	Value int64
}

// Bursts is what a volume may do above its limits, by libvirt's names, in operations and bytes
// a second, and for how long, in seconds.
func (d DiskLimit) Bursts() (out []Parameter) {
	for _, p := range []Parameter{{"total_bytes_sec_max", int64(d.BurstRate) << 10},
		{"total_iops_sec_max", d.BurstIOPS},
		{"total_bytes_sec_max_length", d.Seconds * min(1, int64(d.BurstRate))},
		{"total_iops_sec_max_length", d.Seconds * min(1, d.BurstIOPS)}} {
		if p.Value > 0 {
			out = append(out, p)
		}
	}
	return out
}
