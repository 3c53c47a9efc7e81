package topology

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	nvidiaDir = "proc/driver/nvidia/gpus"

	// mostModel is the length of a model name, in runes; NVIDIA's longest has 45.
	mostModel = 64
	// mostUUID is the length of a UUID, in bytes: "GPU-" and 36 characters.
	mostUUID = 64
)

// gpuDrivers are the drivers of GPUs and accelerators whose functions also have the class of a
// display, 0x0300 or 0x0380. Management controllers (ast, mgag200) have the same class, and
// no work runs on them.
var gpuDrivers = []string{
	"nvidia", "nouveau", "nova_core", "amdgpu", "i915", "xe",
	"habanalabs", "intel_vpu", "qaic", "amdxdna", "virtio_gpu",
}

// gpu is what is read of a PCI function that is a GPU or an accelerator.
type gpu struct {
	model string // as the driver writes it, else the PCI IDs
	uuid  string // "" unknown
	chars []string
}

// nvidiaMajor is the major number of /dev/nvidiaN (NV_MAJOR_DEVICE_NUMBER in NVIDIA's open kernel
// modules, kernel-open/common/inc/nv-chardev-numbers.h).
const nvidiaMajor = 195

// charDevices returns the character devices of DRM and of accelerators by PCI function, as
// "major:minor". The kernel has them in the files dev.
func (t *tree) charDevices() map[string][]string {
	out := map[string][]string{}
	for _, class := range []struct{ dir, prefix string }{
		{"sys/class/drm", "renderD"}, {"sys/class/drm", "card"}, {"sys/class/accel", "accel"},
	} {
		for _, name := range t.links(class.dir) {
			if _, ok := cutNumber(name, class.prefix); !ok {
				continue
			}
			pci := t.lastFunction(class.dir + "/" + name)
			number, ok := t.quiet(class.dir + "/" + name + "/dev")
			if ok && pci != "" && isCharNumber(number) {
				out[pci] = append(out[pci], number)
			}
		}
	}
	return out
}

// isCharNumber reports whether a text is "major:minor" of a device: 12 and 20 bits (dev_t).
func isCharNumber(s string) bool {
	major, minor, _ := strings.Cut(s, ":")
	a, err := strconv.ParseUint(major, 10, 12)
	b, err2 := strconv.ParseUint(minor, 10, 20)
	return err == nil && err2 == nil && fmt.Sprintf("%d:%d", a, b) == s
}

// nameGPUs gives GPUs and accelerators their names, gpu0 and up in the order of their PCI
// addresses, as nvidia-smi and rocm-smi count them. Virtual functions get none: the
// physical function is the GPU that a person means.
func (t *tree) nameGPUs(h *Host) {
	chars := t.charDevices()
	next := 0
	last := ""
	for i := range h.Devices {
		d := &h.Devices[i]
		first := d.PCI != last
		last = d.PCI
		if !first || !t.isGPU(d.PCI) {
			continue
		}
		// Of several kernel names that a function has, that of a GPU comes before that of its audio or network part.
		at := i
		for k := i; k < len(h.Devices) && h.Devices[k].PCI == d.PCI; k++ {
			if h.Devices[k].Kind == GPU {
				at = k
				break
			}
		}
		found := t.readGPU(d.PCI)
		h.Devices[at].GPU = "gpu" + strconv.Itoa(next)
		h.Devices[at].Model = found.model
		h.Devices[at].UUID = found.uuid
		h.Devices[at].Chars = strings.Join(append(found.chars, chars[d.PCI]...), " ")
		next++
	}
}

// isGPU reports whether work can run on a PCI function: a 3D controller without a screen (class
// 0x0302), a processing accelerator (0x12), or a display that has the driver of a GPU.
func (t *tree) isGPU(pci string) bool {
	dir := pciDir + "/" + pci
	if _, err := fs.ReadLink(t.fsys, dir+"/physfn"); err == nil {
		return false
	}
	text, ok := t.optional("devices", dir+"/class")
	class, err := strconv.ParseUint(text, 0, 32)
	if !ok || err != nil {
		return false
	}
	switch {
	case class>>8 == 0x0302, class>>16 == 0x12:
		return true
	case class>>16 == 0x03:
		return slices.Contains(gpuDrivers, t.driver(pci))
	}
	return false
}

// driver returns the name of the driver of a PCI function, "" without one.
func (t *tree) driver(pci string) string {
	target, err := fs.ReadLink(t.fsys, pciDir+"/"+pci+"/driver")
	if err != nil {
		return ""
	}
	return path.Base(target)
}

// readGPU reads the model and the UUID of a GPU: of NVIDIA's from the driver's information
// file, of AMD's from product_name and unique_id (drivers/gpu/drm/amd/amdgpu/amdgpu_device.c).
func (t *tree) readGPU(pci string) (g gpu) {
	text, ok := t.optional("devices", nvidiaDir+"/"+pci+"/information")
	if ok {
		model, uuid, minor := ParseNVIDIA(text)
		g.uuid = uuid
		if minor >= 0 {
			g.chars = []string{fmt.Sprintf("%d:%d", nvidiaMajor, minor)}
		}
		if g.model = model; model != "" {
			return g
		}
	}
	dir := pciDir + "/" + pci
	if name, ok := t.quiet(dir + "/product_name"); ok {
		g.model = cleanModel(name)
	}
	if id, ok := t.quiet(dir + "/unique_id"); ok && isHex(id) && len(id) > 0 && len(id) <= mostUUID {
		g.uuid = "GPU-" + strings.ToLower(id) // as rocm-smi and HIP_VISIBLE_DEVICES write it
	}
	if g.model != "" {
		return g
	}
	vendor, okV := t.quiet(dir + "/vendor")
	device, okD := t.quiet(dir + "/device")
	if okV && okD {
		g.model = cleanModel(strings.TrimPrefix(vendor, "0x") + ":" + strings.TrimPrefix(device, "0x"))
	}
	return g
}

// quiet reads a file whose loss costs a name only.
func (t *tree) quiet(name string) (string, bool) {
	text, ok, err := t.read(name)
	return text, ok && err == nil
}

// ParseNVIDIA reads /proc/driver/nvidia/gpus/PCI/information, lines of "key: value": the model,
// the UUID, "" where it is not one, and the N of /dev/nvidiaN, None where it is unknown.
func ParseNVIDIA(text string) (model, uuid string, minor int) {
	minor = None
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "Model":
			model = cleanModel(value)
		case "GPU UUID":
			if isUUID(value) {
				uuid = value
			}
		case "Device Minor":
			n, err := strconv.Atoi(value)
			if err == nil && n >= 0 && n <= MaxID {
				minor = n
			}
		}
	}
	return model, uuid, minor
}

// isUUID reports whether a text can be a GPU's UUID. A driver that is not initialised writes
// question marks.
func isUUID(s string) bool {
	if s == "" || len(s) > mostUUID {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		letter := (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9')
		return !letter && r != '-'
	}) < 0
}

// cleanModel keeps what can be printed of a model name on one line.
func cleanModel(s string) string {
	var out []rune
	for _, r := range s {
		if len(out) == mostModel {
			break
		}
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			r = '?'
		}
		out = append(out, r)
	}
	return strings.TrimSpace(string(out))
}

// HasChar reports whether a character device, "major:minor", is this device.
func (d *Device) HasChar(number string) bool {
	return slices.Contains(strings.Fields(d.Chars), number)
}

// Is reports whether a name means this device: its kernel name, its PCI address with or without
// the domain 0000, and of a GPU gpuN, its UUID or the numbers of its character device (195:0).
func (d *Device) Is(name string) bool {
	switch name {
	case "":
		return false
	case d.Name, d.PCI, d.GPU, d.UUID:
		return true
	}
	if d.HasChar(name) {
		return true
	}
	short, ok := strings.CutPrefix(d.PCI, "0000:")
	return ok && name == short
}

// Device returns the device that a name means, or nil.
func (h *Host) Device(name string) *Device {
	for i := range h.Devices {
		if h.Devices[i].Is(name) {
			return &h.Devices[i]
		}
	}
	return nil
}

// GPUs returns the GPUs and accelerators, by number.
func (h *Host) GPUs() []Device {
	var out []Device
	for i := range h.Devices {
		if h.Devices[i].GPU != "" {
			out = append(out, h.Devices[i])
		}
	}
	return out
}

// Title returns a device as people call it: "gpu0 (NVIDIA H100, 0000:3b:00.0)", or its kernel name.
func (d *Device) Title() string {
	if d.GPU == "" {
		return d.Name
	}
	if d.Model == "" {
		return fmt.Sprintf("%s (%s)", d.GPU, d.PCI)
	}
	return fmt.Sprintf("%s (%s, %s)", d.GPU, d.Model, d.PCI)
}
