package guest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Order asks for one guest.
type Order struct {
	Flavor   Flavor
	Name     string
	UUID     string // "" lets libvirt choose
	Disks    []Disk
	NICs     []NIC
	MaxNodes int              // instead of the flavor's; 0 keeps that
	Nodes    topology.NodeSet // nodes it may use; empty means any
	Only     topology.NodeSet // nodes it may use for good, also when it moves; empty keeps the flavor's
	Exact    int              // nodes it is on, instead of the flavor's; 0 keeps that
	Near     []workload.Near  // beside the flavor's
	CPU      string           // CPU model that the guest sees; "" is the host's
	Graphics string           // vnc or spice; "" for none
}

// Disk is one volume of a guest, a virtio disk.
type Disk struct {
	Source string       // path of an image file, or of a block device under /dev
	Format string       // raw or qcow2
	Size   topology.KiB // of the volume, for its limits; 0 counts as empty
}

// Block reports whether the disk is a block device.
func (d Disk) Block() bool { return strings.HasPrefix(d.Source, "/dev/") }

// NICKind says what a NIC is plugged into.
type NICKind string

// Kinds of NIC.
const (
	Bridge  NICKind = "bridge"  // a bridge of the host
	Network NICKind = "network" // a libvirt network
	Direct  NICKind = "direct"  // macvtap on a NIC of the host
)

// NIC is one virtio NIC of a guest.
type NIC struct {
	Kind   NICKind
	Source string // name of the bridge, network or NIC
	MAC    string // "" lets libvirt choose
}

// ID names a guest among workloads. libvirt keeps names unique on a host.
func ID(name string) workload.ID { return workload.ID("vm:" + name) }

// NameOf is the name of the guest that ID names; "" for what is no guest.
func NameOf(id workload.ID) string {
	name, ok := strings.CutPrefix(string(id), "vm:")
	if !ok || strings.Contains(name, "/") {
		return ""
	}
	return name
}

// EmulatorID names the emulator of a guest where that is placed by itself. No
// guest can have that name: libvirt forbids slashes.
func EmulatorID(name string) workload.ID { return workload.ID("vm:" + name + "/emulator") }

// PinnedID names the CPUs of a guest that others pinned single vCPUs to.
func PinnedID(name string) workload.ID { return workload.ID("vm:" + name + "/pinned") }

// PagesID names the memory of a guest in pages of one size, where it has several.
func PagesID(name string, page topology.KiB) workload.ID {
	return workload.ID(fmt.Sprintf("vm:%s/pages-%d", name, page))
}

// maxName is the longest name of a guest: the name becomes part of file names
// (NAME_MAX is 255) and, escaped, of a cgroup.
const maxName = 128

// CheckName says what is wrong with a name of a guest.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("name: empty")
	case len(name) > maxName:
		return fmt.Errorf("name: %d bytes; want %d at most", len(name), maxName)
	case strings.ContainsFunc(name, func(r rune) bool {
		return r == '/' || r == unicode.ReplacementChar ||
			!unicode.IsPrint(r)
	}):
		return fmt.Errorf("name: %q; want printable characters without /", name)
	case strings.TrimSpace(name) != name || name[0] == '-' || name == "." || name == "..":
		return fmt.Errorf("name: %q; want no blank or dash at its ends, and not a folder's name", name)
	}
	return nil
}

// Spec is what the order asks of the placing engine.
func (o *Order) Spec() workload.Spec {
	f := &o.Flavor
	s := workload.Spec{
		ID: ID(o.Name), Name: o.Name, Class: f.Class, Tier: f.Tier, Importance: f.Importance, CPUs: f.VCPUs,
		Memory:   f.Memory,
		HugePage: f.HugePage, SMT: f.SMT, Nodes: o.Nodes, MaxNodes: f.MaxNodes, Even: true, Given: true,
	}
	if only := o.OnlyNodes(); !only.Empty() {
		if s.Nodes.Empty() {
			s.Nodes = only
		}
		s.Nodes = s.Nodes.Intersect(only)
	}
	if n := o.ExactNodes(); n > 0 {
		s.MinNodes, s.MaxNodes = n, n
	}
	if o.MaxNodes > 0 {
		s.MaxNodes = o.MaxNodes
	}
	if f.Class == Mixed { // to the engine
		s.Class = workload.Shared
	}
	s.Near = o.WishesNear()
	for _, n := range o.NICs {
		if n.Kind == Direct {
			s.Near = append(s.Near, workload.Near{Device: n.Source})
		}
	}
	return s
}

// WishesNear is what it is to be near to for good.
func (o *Order) WishesNear() []workload.Near { return slices.Concat(o.Flavor.Near, o.Near) }

// OnlyNodes is the nodes it may use for good.
func (o *Order) OnlyNodes() topology.NodeSet {
	if o.Only.Empty() {
		return o.Flavor.OnlyNodes
	}
	return o.Only
}

// ExactNodes is how many nodes it is on; 0 is as many as it takes.
func (o *Order) ExactNodes() int { return cmp.Or(o.Exact, o.Flavor.ExactNodes) }

// ParseDisk reads PATH[,format=raw|qcow2][,size=SIZE]. The format of a block
// device is raw, of a file what its name ends in, or else raw.
func ParseDisk(text string) (Disk, error) {
	path, options, _ := strings.Cut(text, ",")
	d := Disk{Source: path, Format: "raw"}
	if !strings.HasPrefix(path, "/") || strings.ContainsFunc(path, unicode.IsControl) {
		return d, fmt.Errorf("disk %q: want an absolute path first", text)
	}
	if strings.HasSuffix(path, ".qcow2") && !d.Block() {
		d.Format = "qcow2"
	}
	for option := range strings.FieldsFuncSeq(options, func(r rune) bool { return r == ',' }) {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "format":
			if value != "raw" && value != "qcow2" {
				return d, fmt.Errorf("disk %q: format %q; want raw or qcow2", text, value)
			}
			d.Format = value
		case "size":
			n, err := workload.ParseSize(value)
			if err != nil {
				return d, fmt.Errorf("disk %q: size: %w", text, err)
			}
			d.Size = n
		default:
			return d, fmt.Errorf("disk %q: no option %q; there are format and size", text, key)
		}
	}
	return d, nil
}

// ParseNIC reads bridge=NAME, network=NAME or direct=NAME, and after it
// optionally ,mac=ADDRESS.
func ParseNIC(text string) (NIC, error) {
	first, options, more := strings.Cut(text, ",")
	kind, source, _ := strings.Cut(first, "=")
	n := NIC{Kind: NICKind(kind), Source: source}
	switch n.Kind {
	case Bridge, Network, Direct:
	default:
		return n, fmt.Errorf("nic %q: want bridge=NAME, network=NAME or direct=NAME first", text)
	}
	if source == "" ||
		strings.ContainsFunc(source, func(r rune) bool {
			return r == '/' || unicode.IsSpace(r) ||
				!unicode.IsPrint(r)
		}) {
		return n, fmt.Errorf("nic %q: %s %q is no name", text, kind, source)
	}
	if more {
		mac, ok := strings.CutPrefix(options, "mac=")
		if !ok || !isMAC(mac) {
			return n, fmt.Errorf("nic %q: want mac=ADDRESS, such as mac=52:54:00:12:34:56, and nothing else", text)
		}
		n.MAC = strings.ToLower(mac)
	}
	return n, nil
}

// ParseUUID reads a UUID in the form of RFC 9562, section 4; "" stays "".
func ParseUUID(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	const form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	ok := len(s) == len(form)
	for i := 0; ok && i < len(form); i++ {
		ok = (form[i] == '-' && s[i] == '-') || (form[i] == 'x' && isHex(s[i]))
	}
	if !ok {
		return "", fmt.Errorf("%q; want the form %s", s, form)
	}
	return strings.ToLower(s), nil
}

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

// isMAC tells a unicast address of six bytes.
func isMAC(s string) bool {
	if len(s) != 17 {
		return false
	}
	for i, c := range []byte(s) {
		if i%3 == 2 {
			if c != ':' {
				return false
			}
		} else if !isHex(c) {
			return false
		}
	}
	return strings.IndexByte("02468aceACE", s[1]) >= 0
}
