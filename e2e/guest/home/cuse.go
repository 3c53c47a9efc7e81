//go:build linux

package home

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/homenode/homenode/e2e/guest/lab"
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
		answer := []uint32{cuseVersion, cuseMinor, 0, 0, 4096, 4096, uint32(major), uint32(minor), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		var b bytes.Buffer
		binary.Write(&b, binary.LittleEndian, answer)
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

// madeUpGPU is a GPU that the guest only seems to have.
type madeUpGPU struct {
	pci   string
	path  string // of its folder below /sys/devices
	node  int
	minor int
	uuid  string
	model string
	*charDevice
}

// sysDevices is a folder of sysfs below which the made-up cards are; nothing reads what it hides.
const sysDevices = "/sys/devices/breakpoint"

// makeUpGPUs gives the guest GPUs: character devices with the numbers of NVIDIA's, a PCI bus
// with them below a switch of each node, and the driver's information files. The guest's own PCI
// devices are hidden meanwhile.
func makeUpGPUs(t *lab.T, perNode int) (all []*madeUpGPU) {
	for _, dir := range []string{sysDevices, "/sys/bus/pci/devices", "/proc/driver"} {
		t.Do(unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
		t.Defer(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	}
	for node := range t.Shape.Nodes {
		bus := 0x10 + 0x70*node
		root := fmt.Sprintf("pci0000:%02x/0000:%02x:01.0/0000:%02x:00.0", bus, bus, bus+1)
		for k := range perNode {
			g := &madeUpGPU{node: node, minor: len(all), pci: fmt.Sprintf("0000:%02x:00.0", bus+3+k), model: "NVIDIA H100 80GB HBM3"}
			g.uuid = fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", g.minor)
			g.path = fmt.Sprintf("%s/0000:%02x:%02x.0/%s", root, bus+2, 4*k, g.pci)
			g.plug(t)
			d, err := newCharDevice(fmt.Sprintf("nvidia%d", g.minor), 195, g.minor)
			t.Do(err)
			g.charDevice = d
			t.Defer(d.remove)
			all = append(all, g)
		}
		nic := fmt.Sprintf("0000:%02x:00.0", bus+3+perNode)
		sysfsFunction(t, fmt.Sprintf("%s/0000:%02x:%02x.0/%s", root, bus+2, 4*perNode, nic), nic, "0x020000", node)
	}
	return all
}

func sysfsFunction(t *lab.T, path, pci, class string, node int) {
	dir := filepath.Join(sysDevices, path)
	t.Do(os.MkdirAll(dir, 0o755))
	t.Do(os.WriteFile(dir+"/class", []byte(class), 0o644))
	t.Do(os.WriteFile(dir+"/numa_node", []byte(fmt.Sprint(node)), 0o644))
	link := "../../../devices/" + strings.TrimPrefix(dir, "/sys/devices/")
	t.Do(os.Symlink(link, "/sys/bus/pci/devices/"+pci))
}

// plug shows the card in sysfs and in the files of the driver.
func (g *madeUpGPU) plug(t *lab.T) {
	sysfsFunction(t, g.path, g.pci, "0x030200", g.node)
	dir := "/proc/driver/nvidia/gpus/" + g.pci
	t.Do(os.MkdirAll(dir, 0o755))
	t.Do(os.WriteFile(dir+"/information", []byte(fmt.Sprintf("Model: \t\t %s\nIRQ:   \t\t 16\nGPU UUID: \t %s\nBus Location: \t %s\nDevice Minor: \t %d\n", g.model, g.uuid, g.pci, g.minor)), 0o644))
}

// unplug takes the card out of both, and its device file away.
func (g *madeUpGPU) unplug(t *lab.T) {
	t.Do(os.Remove("/sys/bus/pci/devices/" + g.pci))
	t.Do(os.RemoveAll("/proc/driver/nvidia/gpus/" + g.pci))
	g.remove()
}
