//go:build linux

package lab

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What the kernel speaks with a character device in user space (include/uapi/linux/fuse.h).
const (
	cuseInit    = 4096
	cuseOpen    = 14
	cuseRelease = 18
	cuseVersion = 7
	cuseMinor   = 31

	cuseInHeader = 40
	cuseBuffer   = 64 << 10
)

// charDevice is a character device that answers nothing but open and close.
type charDevice struct {
	name string
	file *os.File
}

// newCharDevice makes /dev/NAME with the given numbers. A process can open it as it would a GPU.
func newCharDevice(name string, major, minor int) (*charDevice, error) {
	f, err := os.OpenFile("/dev/cuse", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	d := &charDevice{name, f}
	unique, op, err := d.request()
	if err == nil && op != cuseInit {
		err = fmt.Errorf("first request is %d, wanted CUSE_INIT", op)
	}
	if err == nil {
		answer := []uint32{cuseVersion, cuseMinor, 0, 0, 4096, 4096, uint32(major), uint32(minor)}
		var b bytes.Buffer
		binary.Write(&b, binary.LittleEndian, append(answer, make([]uint32, 10)...))
		b.WriteString("DEVNAME=" + name + "\x00")
		err = d.answer(unique, 0, b.Bytes())
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("make /dev/%s: %w", name, err)
	}
	go d.serve()
	return d, nil
}

// request waits for what the kernel asks next.
func (d *charDevice) request() (unique uint64, op uint32, err error) {
	b := make([]byte, cuseBuffer)
	n, err := d.file.Read(b)
	if err != nil {
		return 0, 0, err
	}
	if n < cuseInHeader {
		return 0, 0, fmt.Errorf("%d bytes", n)
	}
	return binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint32(b[4:]), nil
}

func (d *charDevice) answer(unique uint64, failed int32, with []byte) error {
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, uint32(16+len(with)))
	binary.Write(&b, binary.LittleEndian, failed)
	binary.Write(&b, binary.LittleEndian, unique)
	b.Write(with)
	_, err := d.file.Write(b.Bytes())
	return err
}

func (d *charDevice) serve() {
	for {
		unique, op, err := d.request()
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT):
		case err != nil:
			return
		case op == cuseOpen:
			d.answer(unique, 0, make([]byte, 16))
		case op == cuseRelease:
			d.answer(unique, 0, nil)
		default:
			d.answer(unique, -int32(unix.ENOSYS), nil)
		}
	}
}

// remove takes the device away, as when a card is unplugged. Who has it open keeps the descriptor.
func (d *charDevice) remove() { d.file.Close() }

// GPU is one that the guest only seems to have.
type GPU struct {
	PCI    string
	Node   int
	Minor  int
	UUID   string
	Model  string
	path   string // of its folder below /sys/devices
	device *charDevice
}

// Name returns the name of its device file.
func (g *GPU) Name() string { return g.device.name }

// GPUControl is a device file of no GPU. Every container with a GPU gets it, too.
const GPUControl = "nvidiactl"

const (
	gpuMajor     = 195
	controlMinor = 255

	// sysDevices is a folder of sysfs below which the made-up cards are; nothing reads what it hides.
	sysDevices = "/sys/devices/breakpoint"
)

// MakeUpGPUs gives the guest GPUs: character devices with the numbers of NVIDIA's, a PCI bus
// with them below a switch of each node, and the driver's information files. The guest's own PCI
// devices are hidden meanwhile.
func (t *T) MakeUpGPUs(perNode int) (all []*GPU) {
	for _, dir := range []string{sysDevices, "/sys/bus/pci/devices", "/proc/driver"} {
		t.Do(unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
		t.Defer(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	}
	t.charDevice(GPUControl, controlMinor)
	for node := range t.Shape.Nodes {
		bus := 0x10 + 0x70*node
		root := fmt.Sprintf("pci0000:%02x/0000:%02x:01.0/0000:%02x:00.0", bus, bus, bus+1)
		for k := range perNode {
			g := &GPU{Node: node, Minor: len(all), Model: "NVIDIA H100 80GB HBM3"}
			g.PCI = fmt.Sprintf("0000:%02x:00.0", bus+3+k)
			g.UUID = fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", g.Minor)
			g.path = fmt.Sprintf("%s/0000:%02x:%02x.0/%s", root, bus+2, 4*k, g.PCI)
			g.plug(t)
			g.device = t.charDevice(fmt.Sprintf("nvidia%d", g.Minor), g.Minor)
			all = append(all, g)
		}
		nic := fmt.Sprintf("0000:%02x:00.0", bus+3+perNode)
		t.sysfsFunction(fmt.Sprintf("%s/0000:%02x:%02x.0/%s", root, bus+2, 4*perNode, nic), nic, "0x020000", node)
	}
	return all
}

// charDevice makes a device file of NVIDIA's for as long as the test runs.
func (t *T) charDevice(name string, minor int) *charDevice {
	d, err := newCharDevice(name, gpuMajor, minor)
	t.Do(err)
	t.Defer(d.remove)
	return d
}

func (t *T) sysfsFunction(path, pci, class string, node int) {
	dir := filepath.Join(sysDevices, path)
	t.Do(os.MkdirAll(dir, 0o755))
	t.Do(os.WriteFile(dir+"/class", []byte(class), 0o644))
	t.Do(os.WriteFile(dir+"/numa_node", []byte(fmt.Sprint(node)), 0o644))
	link := "../../../devices/" + strings.TrimPrefix(dir, "/sys/devices/")
	t.Do(os.Symlink(link, "/sys/bus/pci/devices/"+pci))
}

// plug shows the card in sysfs and in the files of the driver.
func (g *GPU) plug(t *T) {
	t.sysfsFunction(g.path, g.PCI, "0x030200", g.Node)
	dir := "/proc/driver/nvidia/gpus/" + g.PCI
	t.Do(os.MkdirAll(dir, 0o755))
	text := fmt.Sprintf("Model: \t\t %s\nIRQ:   \t\t 16\nGPU UUID: \t %s\n", g.Model, g.UUID) +
		fmt.Sprintf("Bus Location: \t %s\nDevice Minor: \t %d\n", g.PCI, g.Minor)
	t.Do(os.WriteFile(dir+"/information", []byte(text), 0o644))
}

// Unplug takes the card out of both, and its device file away.
func (g *GPU) Unplug(t *T) {
	t.Do(os.Remove("/sys/bus/pci/devices/" + g.PCI))
	t.Do(os.RemoveAll("/proc/driver/nvidia/gpus/" + g.PCI))
	g.device.remove()
}

// DescribeGPUs has a container runtime know GPUs by names of the Container Device Interface.
func (t *T) DescribeGPUs(gpus []*GPU) {
	const folder = "/run/cdi" // /var/run/cdi
	var devices []any
	for _, g := range gpus {
		nodes := []any{map[string]any{"path": "/dev/" + g.Name()}, map[string]any{"path": "/dev/" + GPUControl}}
		edits := map[string]any{"deviceNodes": nodes}
		devices = append(devices, map[string]any{"name": strconv.Itoa(g.Minor), "containerEdits": edits})
	}
	spec, err := json.Marshal(map[string]any{"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": devices})
	t.Do(err)
	t.Do(os.MkdirAll(folder, 0o755))
	t.Do(os.WriteFile(folder+"/e2e.json", spec, 0o644))
	t.Defer(func() { os.RemoveAll(folder) })
}

// TakeGPUs has each walker open a GPU, the nth the nth, and returns the GPU of each.
func (t *T) TakeGPUs(ws []*Walker, gpus []*GPU) []*GPU {
	for i, w := range ws {
		fmt.Fprintf(w.In, "open /dev/%s\n", gpus[i].Name())
		t.Expect(w, "opened")
	}
	return gpus[:len(ws)]
}

// RecordGPUs records for the host the node of each walker's GPU.
func (t *T) RecordGPUs(ws []*Walker, of []*GPU) {
	for i, w := range ws {
		t.Record("HOME %d %d", w.Slot, of[i].Node)
	}
}

// gpuLimit is a survey of links (30 s), several scans and page moves, on an emulated machine.
const gpuLimit = 120 * time.Second

// AwaitAtGPUs waits until all threads of each walker are on the node of its GPU, and 99 % of its buffer.
func (t *T) AwaitAtGPUs(ws []*Walker, of []*GPU) {
	t.Poll(gpuLimit, time.Second, "each worker is at its GPU", func() (bool, string) {
		for i, w := range ws {
			for tid, cpus := range Allowed(w.PID) {
				if !cpus.Within(NodeCPUs(of[i].Node)) {
					const off = "thread %d of %s has CPUs %s, its GPU is on node %d"
					return false, fmt.Sprintf(off, tid, w.Name, cpus, of[i].Node)
				}
			}
			b := t.Buffer(w)
			if part := Share(b.Nodes, SetOf(of[i].Node)); part < 0.99 {
				return false, fmt.Sprintf("%.1f %% of the buffer of %s are on node %d", 100*part, w.Name, of[i].Node)
			}
		}
		return true, ""
	})
}
