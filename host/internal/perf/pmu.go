package perf

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
)

// Devices is where the kernel lists PMUs (Documentation/ABI/testing/sysfs-bus-event_source-devices*).
const Devices = "sys/bus/event_source/devices"

// Controller is the PMU of a memory controller channel, one of each package.
type Controller struct {
	Name   string          // "uncore_imc_0"
	CPUs   topology.CPUSet // one of each package, where it is to be opened
	Events []Event         // reads and writes of DRAM
	MiB    []float64       // what one count of each event is
}

// Controllers reads the memory controllers' PMUs that tell reads and writes (Intel
// servers: uncore_imc_*), rising by name.
func Controllers(fsys fs.FS) []Controller {
	entries, err := fs.ReadDir(fsys, Devices)
	if err != nil {
		return nil
	}
	var out []Controller
	for _, e := range entries {
		dir := path.Join(Devices, e.Name())
		if !strings.HasPrefix(e.Name(), "uncore_imc") {
			continue
		}
		cpus, err := topology.ParseCPUSet(line(fsys, dir+"/cpumask"))
		kind, bad := strconv.ParseUint(line(fsys, dir+"/type"), 10, 32)
		if err != nil || bad != nil || cpus.Empty() {
			continue
		}
		c := Controller{Name: e.Name(), CPUs: cpus}
		for _, name := range []string{"cas_count_read", "cas_count_write"} {
			config, ok := config(fsys, dir, line(fsys, dir+"/events/"+name))
			scale, err := strconv.ParseFloat(line(fsys, dir+"/events/"+name+".scale"), 64)
			if !ok || err != nil || scale <= 0 || line(fsys, dir+"/events/"+name+".unit") != "MiB" {
				continue
			}
			c.Events = append(c.Events, Event{uint32(kind), config})
			c.MiB = append(c.MiB, scale)
		}
		if len(c.Events) == 2 { // reads alone would be taken for all
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Controller) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func line(fsys fs.FS, name string) string {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// config puts together the terms of an event ("event=0x04,umask=0x03") as the
// device's format folder says ("config:0-7"). It is false for terms that lie
// elsewhere than in config.
func config(fsys fs.FS, dir, event string) (uint64, bool) {
	if event == "" {
		return 0, false
	}
	var out uint64
	for term := range strings.SplitSeq(event, ",") {
		name, text, given := strings.Cut(term, "=")
		value := uint64(1)
		if given {
			var err error
			if value, err = strconv.ParseUint(text, 0, 64); err != nil {
				return 0, false
			}
		}
		bits, ok := strings.CutPrefix(line(fsys, dir+"/format/"+name), "config:")
		if !ok {
			return 0, false
		}
		// Parts of the value go to the ranges in order, the lowest bits first.
		for part := range strings.SplitSeq(bits, ",") {
			first, last, isRange := strings.Cut(part, "-")
			if !isRange {
				last = first
			}
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err1 != nil || err2 != nil || from < 0 || to < from || to > 63 {
				return 0, false
			}
			width := to - from + 1
			out |= (value & (1<<width - 1)) << from
			value >>= width
		}
		if value != 0 {
			return 0, false
		}
	}
	return out, true
}
