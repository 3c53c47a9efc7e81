package perf

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// CPU is what /proc/cpuinfo says of a processor.
type CPU struct {
	Vendor        string // as the file has it; "ARM" for an implementer line
	Family, Model int
}

// ParseCPU reads the first processor of /proc/cpuinfo.
func ParseCPU(cpuinfo string) CPU {
	var c CPU
	for line := range strings.Lines(cpuinfo) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			break // the blank line after the first processor
		}
		value = strings.TrimSpace(value)
		n, err := strconv.ParseInt(value, 0, 32)
		switch strings.TrimSpace(key) {
		case "vendor_id":
			c.Vendor = value
		case "cpu family":
			if err == nil {
				c.Family = int(n)
			}
		case "model":
			if err == nil {
				c.Model = int(n)
			}
		case "CPU implementer":
			c.Vendor = "ARM"
		}
	}
	return c
}

// nodeReads are the kernel's own names for the two (perf: node-loads and
// node-load-misses), a generalized cache event each.
var nodeReads = Pair{
	Name:   "node-loads, node-load-misses",
	First:  cacheEvent(unix.PERF_COUNT_HW_CACHE_RESULT_ACCESS),
	Second: cacheEvent(unix.PERF_COUNT_HW_CACHE_RESULT_MISS),
}

// cacheEvent is a read of the node "cache" (perf_event_open(2), PERF_TYPE_HW_CACHE).
func cacheEvent(result uint64) Event {
	return Event{unix.PERF_TYPE_HW_CACHE,
		unix.PERF_COUNT_HW_CACHE_NODE | unix.PERF_COUNT_HW_CACHE_OP_READ<<8 | result<<16}
}

// x86 is a raw event of x86 processors: event in bits 0 to 7, unit mask in 8 to 15.
func x86(event, umask uint64) Event { return Event{unix.PERF_TYPE_RAW, umask<<8 | event} }

// row is the pairs of some processors, best first.
type row struct {
	vendor   string
	families [2]int // from, to
	models   []int  // nil: any
	pairs    []Pair
}

// What the generalized events count differs: from Haswell on node-loads is what local
// memory answered, before that (and on old AMD) what any memory did. On Zen they do
// not exist, and on Arm the kernel gives them bus accesses, which say nothing of nodes.
var (
	localNodeReads = with(nodeReads, false, "Linux arch/x86/events/intel/core.c: hsw, skl and glc_hw_cache_extra_regs")
	allNodeReads   = with(nodeReads, true, "Linux arch/x86/events/intel/core.c: nehalem and snb_hw_cache_extra_regs")
)

func with(p Pair, whole bool, source string) Pair {
	p.Whole, p.Source = whole, source
	return p
}

var table = []row{
	{
		vendor: "GenuineIntel", families: [2]int{6, 6},
		// Skylake-SP, Cascade Lake, Ice Lake-SP and -D, Sapphire, Emerald and Granite Rapids
		models: []int{0x55, 0x6a, 0x6c, 0x8f, 0xcf, 0xad, 0xae},
		pairs: []Pair{localNodeReads, {
			Name: "mem_load_l3_miss_retired.local_dram, .remote_dram", First: x86(0xd3, 0x01), Second: x86(0xd3, 0x02),
			Source: "Intel perfmon event files, MEM_LOAD_L3_MISS_RETIRED",
		}},
	},
	{
		vendor: "GenuineIntel", families: [2]int{6, 6},
		models: []int{0x3f, 0x4f, 0x56}, // Haswell-EP, Broadwell-EP and -DE
		pairs: []Pair{localNodeReads, {
			Name: "mem_load_uops_l3_miss_retired.local_dram, .remote_dram", First: x86(0xd3, 0x01),
			Second: x86(0xd3, 0x04),
			Source: "Intel perfmon event files, MEM_LOAD_UOPS_L3_MISS_RETIRED",
		}},
	},
	{
		vendor: "GenuineIntel", families: [2]int{6, 6},
		models: []int{0x1a, 0x2e, 0x2c, 0x2f, 0x2d, 0x3e}, // Nehalem, Westmere, Sandy and Ivy Bridge, EP and EX
		pairs:  []Pair{allNodeReads},
	},
	{
		vendor: "AuthenticAMD", families: [2]int{0x19, 0x1a}, // Zen 3 to Zen 5
		pairs: []Pair{{
			Name: "ls_any_fills_from_sys.dram_io_near, .dram_io_far", First: x86(0x44, 0x08), Second: x86(0x44, 0x40),
			Source: "AMD PPR for family 19h and 1Ah, PMCx044",
		}, zenDemand},
	},
	{vendor: "AuthenticAMD", families: [2]int{0x17, 0x17}, pairs: []Pair{zenDemand}}, // Zen, Zen 2
	{vendor: "HygonGenuine", families: [2]int{0x18, 0x18}, pairs: []Pair{zenDemand}},
	{
		vendor: "AuthenticAMD", families: [2]int{0x0f, 0x16},
		pairs: []Pair{with(nodeReads, true, "Linux arch/x86/events/amd/core.c: amd_hw_cache_event_ids")},
	},
	{
		vendor: "ARM",
		pairs: []Pair{{ // the remote ones are those to another socket; nodes within one are not told apart
			Name: "ll_cache_miss_rd, remote_access", First: Event{unix.PERF_TYPE_RAW, 0x37},
			Second: Event{unix.PERF_TYPE_RAW, 0x31}, Whole: true,
			Source: "Arm Architecture Reference Manual (DDI 0487), common events 0x31 and 0x37",
		}},
	},
}

var zenDemand = Pair{
	Name: "ls_dmnd_fills_from_sys, local and remote DRAM", First: x86(0x43, 0x08), Second: x86(0x43, 0x40),
	Source: "AMD PPR for family 17h and 19h, PMCx043",
}

// Pairs is what may tell local from remote reads on a processor, best first; none
// when that is not documented for it.
func Pairs(c CPU) []Pair {
	for _, r := range table {
		if r.vendor == c.Vendor && (r.vendor == "ARM" || (c.Family >= r.families[0] && c.Family <= r.families[1])) &&
			(r.models == nil || slices.Contains(r.models, c.Model)) {
			return r.pairs
		}
	}
	return nil
}
