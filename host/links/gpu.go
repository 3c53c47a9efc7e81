package links

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

const (
	// mostHolders and mostOpen bound what is read of one workload on a host with GPUs: its first
	// 256 processes, and 20,000 descriptors of all of them. A link costs about a µs to read. A
	// data loader has some ten thousand files open, and the GPU can be behind all of them.
	mostHolders = 256
	mostOpen    = 20_000

	// mostInfos bounds the fdinfo that is read of one workload. A driver of a GPU goes through all buffers of a
	// descriptor for it, under the lock of its work (drm_show_memory_stats). Descriptors after these count without it.
	mostInfos = 256

	// mostHoldersNamed is how many processes the evidence names.
	mostHoldersNamed = 4

	// opath is O_PATH, in octal: such a descriptor needs no permission for the device, and uses
	// nothing of it (open(2)).
	opath = 0o10000000
)

// gpuFiles are the names of device files of GPUs and accelerators. The device number identifies the GPU; the
// name only saves a stat of every other file. /dev/kfd is one file for all GPUs of AMD, so that it is no
// evidence for any of them.
var gpuFiles = []string{"/dev/nvidia", "/dev/dri/", "/dev/accel", "/dev/hl"}

// gpus is the character devices of a host that are GPUs.
type gpus struct {
	byChar map[string]*topology.Device
}

// newGPUs returns the character devices of GPUs: those that the host has, and of NVIDIA the
// partitions of a GPU (MIG), /dev/nvidia-caps/nvidia-capN.
func newGPUs(f files, h *topology.Host) *gpus {
	g := &gpus{byChar: map[string]*topology.Device{}}
	byMinor := map[int]*topology.Device{}
	for i := range h.Devices {
		d := &h.Devices[i]
		for number := range strings.FieldsSeq(d.Chars) {
			g.byChar[number] = d
			if minor, ok := strings.CutPrefix(number, "195:"); ok {
				n, _ := strconv.Atoi(minor)
				byMinor[n] = d
			}
		}
	}
	if len(byMinor) == 0 {
		return g
	}
	devices, err := f.read("proc/devices")
	if err != nil {
		return g
	}
	major := majorOf(devices, "nvidia-caps")
	if major < 0 {
		return g
	}
	text, err := f.read("proc/driver/nvidia-caps/mig-minors")
	if err != nil {
		return g
	}
	for capability, gpu := range migMinors(text) {
		if d := byMinor[gpu]; d != nil {
			g.byChar[fmt.Sprintf("%d:%d", major, capability)] = d
		}
	}
	return g
}

// majorOf returns the major number of a driver's character devices by /proc/devices, lines of "195
// nvidia" below "Character devices:"; -1 when it has none.
func majorOf(devices, driver string) int {
	characters, _, _ := strings.Cut(devices, "Block devices:")
	for line := range strings.Lines(characters) {
		f := strings.Fields(line)
		if len(f) != 2 || f[1] != driver {
			continue
		}
		n, err := strconv.Atoi(f[0])
		if err == nil && n > 0 && n < 1<<12 {
			return n
		}
	}
	return -1
}

// migMinors reads /proc/driver/nvidia-caps/mig-minors, lines such as "gpu0/gi1/ci0/access 12" and
// "config 1": the GPU, by its minor number, of each capability that belongs to one.
func migMinors(text string) map[int]int {
	out := map[int]int{}
	for line := range strings.Lines(text) {
		name, minor, _ := strings.Cut(strings.TrimSpace(line), " ")
		gpu, ofOne := strings.CutPrefix(name, "gpu")
		if !ofOne {
			continue
		}
		gpu, _, _ = strings.Cut(gpu, "/")
		n, err := strconv.Atoi(gpu)
		capability, bad := strconv.Atoi(minor)
		if err == nil && bad == nil && n >= 0 && capability >= 0 {
			out[capability] = n
		}
	}
	return out
}

// gpuFiles finds the GPUs whose device files processes of a workload have open. A process that
// ends meanwhile is passed over.
func (r *round) gpuFiles(g *gathered, o *workload.Observation) {
	if r.gpus == nil {
		r.gpus = newGPUs(r.files, r.host)
	}
	if len(r.gpus.byChar) == 0 {
		return
	}
	holders := map[*topology.Device][]workload.Holder{}
	file := map[*topology.Device]string{}
	left := allowance{descriptors: mostOpen, infos: mostInfos}
	for _, p := range o.Processes[:min(len(o.Processes), mostHolders)] {
		open := r.openGPUs(p.PID, &left, file)
		for _, d := range open.order {
			holders[d] = append(holders[d], workload.Holder{Process: p, Files: open.files[d]})
		}
		if left.descriptors <= 0 {
			break
		}
	}
	for i := range r.host.Devices {
		d := &r.host.Devices[i]
		if len(holders[d]) == 0 {
			continue
		}
		l := r.link(workload.ByGPU, d.PCI, file[d]+" open in "+pidsOf(holders[d]))
		l.Device, l.Name = d.GPU, d.Title()
		l.Holders = holders[d]
		g.add(l)
	}
}

// allowance bounds the reading of one workload: descriptors and fdinfo that are left.
type allowance struct{ descriptors, infos int }

// opened is the GPUs that one process has open.
type opened struct {
	files map[*topology.Device]int
	order []*topology.Device
}

// openGPUs counts the descriptors of each GPU of a process. file gets the name of one.
func (r *round) openGPUs(pid int, left *allowance, file map[*topology.Device]string) opened {
	out := opened{files: map[*topology.Device]int{}}
	dir := fmt.Sprintf("proc/%d/fd", pid)
	names, _ := r.files.many(dir, left.descriptors)
	for _, fd := range names {
		left.descriptors--
		if left.descriptors < 0 {
			return out
		}
		to, err := r.files.link(dir + "/" + fd)
		if err != nil || !mayBeGPU(to) {
			continue
		}
		number, err := r.files.char(dir + "/" + fd)
		if err != nil {
			continue
		}
		d := r.gpus.byChar[number]
		if d == nil {
			continue
		}
		left.infos--
		if left.infos >= 0 && r.onlyPath(pid, fd) {
			continue
		}
		if out.files[d] == 0 {
			out.order = append(out.order, d)
		}
		out.files[d]++
		if file[d] == "" {
			file[d] = short(to)
		}
	}
	return out
}

// mayBeGPU reports whether a file has the name of a GPU's.
func mayBeGPU(name string) bool {
	return slices.ContainsFunc(gpuFiles, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// onlyPath reports whether a descriptor was opened with O_PATH, by "flags:" of its fdinfo, in octal.
func (r *round) onlyPath(pid int, fd string) bool {
	text, err := r.files.read(fmt.Sprintf("proc/%d/fdinfo/%s", pid, fd))
	if err != nil {
		return false
	}
	flags, err := strconv.ParseUint(field(text, "flags:"), 8, 64)
	return err == nil && flags&opath != 0
}

// short keeps the name of a device file to what fits in a line. The folder that it lies in is
// the workload's to choose.
func short(name string) string {
	const most = 64
	out := strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
	runes := []rune(out)
	if len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return out
}

// pidsOf names processes: "PID 10, 11 and 3 more".
func pidsOf(all []workload.Holder) string {
	var b strings.Builder
	b.WriteString("PID ")
	for i, h := range all[:min(len(all), mostHoldersNamed)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(h.PID))
	}
	if more := len(all) - mostHoldersNamed; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}
