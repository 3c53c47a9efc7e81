package resctrl

import (
	"errors"
	"fmt"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// unit is what resctrl counts memory bandwidth in (resctrl.rst, "Memory bandwidth Allocation and monitoring").
type unit string

const (
	percent   unit = "percent"
	mebibytes unit = "MiB/s"    // mounted with mba_MBps: the kernel's software controller, which reads the MBM counters
	eighths   unit = "1/8 GB/s" // AMD QoS
)

// unit returns the unit; values is what the default group has. No file names it. AMD's values are above 100 unless the
// operator has set lower ones, and only there is info/MB/delay_linear 0: the kernel supports no other processor whose
// delay is not linear (rdt_get_mb_table).
func (d *Driver) unit(options []string, values map[int]uint64) (unit, error) {
	if slices.Contains(options, "mba_MBps") {
		return mebibytes, nil
	}
	for _, v := range values {
		if v > 100 {
			return eighths, nil
		}
	}
	linear, err := d.number(mount+"/info/MB/delay_linear", 10)
	switch {
	case errors.Is(err, errMissing):
		return percent, nil
	case err != nil:
		return "", err
	case linear == 0:
		return eighths, nil
	}
	return percent, nil
}

// throttle replaces the default group's bandwidth in each domain by that of a limit.
func (d *Driver) throttle(domains map[int]uint64, options []string, limit share.CacheSetting) error {
	counts, err := d.unit(options, domains)
	if err != nil {
		return err
	}
	least, err := d.number(mount+"/info/MB/min_bandwidth", 10)
	step, bad := d.number(mount+"/info/MB/bandwidth_gran", 10)
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	if counts == percent {
		v := 100
		if limit.Bandwidth > 0 {
			v = share.CacheThrottle(int(min(least, 100)), int(min(step, 100)), limit.Bandwidth)
		}
		for domain := range domains {
			domains[domain] = uint64(v)
		}
		return nil
	}
	if counts == mebibytes {
		least = 0 // it is a percentage
	}
	var unknown topology.CacheSet
	for domain, most := range domains {
		v := uint64(share.CacheNoLimit)
		whole, measured := limit.Whole[topology.CacheID(domain)]
		switch {
		case limit.Bandwidth == 0:
		case !measured:
			unknown.Add(topology.CacheID(min(domain, topology.MaxID))) // topology keeps no cache above MaxID
		case counts == mebibytes:
			v = share.CacheMebibytes(whole, limit.Bandwidth)
		default:
			v = share.CacheEighths(whole, limit.Bandwidth)
		}
		domains[domain] = share.CacheRound(v, least, step, most)
	}
	if unknown.Empty() {
		return nil
	}
	return plan.Unsupported(bandwidth, fmt.Sprintf("the measured bandwidth of %s: resctrl counts in %s here, and "+
		"share.memory_bandwidth is a percentage of it; run `homenode probe bandwidth`", words.Caches(unknown), counts))
}
