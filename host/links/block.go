package links

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
)

// disks is the disks of the host that a block device "MAJ:MIN" lies on: partitions
// lead to their disk, device mapper and md to what they are made of.
func disks(f files, h *topology.Host, number string) []string {
	target, err := f.link("sys/dev/block/" + number)
	if err != nil {
		return nil
	}
	return under(f, h, path.Base(target), 0)
}

func under(f files, h *topology.Host, name string, depth int) []string {
	if depth > 8 {
		return nil
	}
	if slices.ContainsFunc(h.Devices, func(d topology.Device) bool {
		return d.Name == name && (d.Kind == topology.NVMe || d.Kind == topology.Storage)
	}) {
		return []string{name}
	}
	if _, err := f.read("sys/class/block/" + name + "/partition"); err == nil {
		if target, err := f.link("sys/class/block/" + name); err == nil {
			return under(f, h, path.Base(path.Dir(target)), depth+1)
		}
	}
	slaves, _ := f.list("sys/class/block/" + name + "/slaves")
	slices.Sort(slaves)
	var out []string
	for _, s := range slaves {
		for _, d := range under(f, h, s, depth+1) {
			if !slices.Contains(out, d) {
				out = append(out, d)
			}
		}
	}
	return out
}

// ioStat reads what a cgroup has read and written, by device: lines "259:0 rbytes=1
// wbytes=2 rios=…" (Documentation/admin-guide/cgroup-v2.rst).
func ioStat(text string) map[string]uint64 {
	out := map[string]uint64{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		for i := 1; i < len(f); i++ {
			key, value, _ := strings.Cut(f[i], "=")
			if n, err := strconv.ParseUint(value, 10, 64); err == nil && (key == "rbytes" || key == "wbytes") {
				out[f[0]] += n
			}
		}
	}
	return out
}

// processIO reads what a process has had fetched from and sent to storage (proc(5),
// /proc/PID/io).
func processIO(text string) uint64 {
	sum := uint64(0)
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil && (key == "read_bytes" || key == "write_bytes") {
			sum += n
		}
	}
	return sum
}
