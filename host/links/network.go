package links

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
)

// network is the network devices of the host, read as far as is needed.
type network struct {
	files
	host    *topology.Host
	byIndex map[int]string // nil until it is asked for
	route   string         // device of the default route; "?" until it is asked for
}

func newNetwork(f files, h *topology.Host) *network { return &network{files: f, host: h, route: "?"} }

const netDir = "sys/class/net"

// at is the device with an index.
func (n *network) at(index int) string {
	if n.byIndex == nil {
		n.byIndex = map[int]string{}
		names, _ := n.list(netDir)
		for _, name := range names {
			if i, ok := n.number(netDir + "/" + name + "/ifindex"); ok {
				n.byIndex[i] = name
			}
		}
	}
	return n.byIndex[index]
}

func (n *network) number(name string) (int, bool) { return number(n.files, name) }

func number(f files, name string) (int, bool) {
	text, err := f.read(name)
	i, bad := strconv.Atoi(text)
	return i, err == nil && bad == nil
}

// isNIC finds a device of the host by its name or PCI address.
func (n *network) isNIC(name string) bool {
	return slices.ContainsFunc(n.host.Devices, func(d topology.Device) bool {
		return d.Kind == topology.NIC && (d.Name == name || d.PCI == name)
	})
}

// way leads from a virtual device to a physical one: the names passed, the last being
// the NIC's; nil when there is none.
func (n *network) way(from string) []string {
	seen := map[string]bool{}
	if w := n.down(from, seen); w != nil {
		return w
	}
	if target, err := n.link(netDir + "/" + from + "/master"); err == nil {
		if w := n.down(path.Base(target), seen); w != nil {
			return append([]string{from}, w...)
		}
		from = from + " → " + path.Base(target)
	}
	if to := n.defaultRoute(); to != "" {
		if w := n.down(to, map[string]bool{}); w != nil {
			return append([]string{from, "default route"}, w...)
		}
	}
	return nil
}

// mostPorts bounds the ports of a bridge that are tried.
const mostPorts = 256

// down follows what a device lies on: lower_NAME links (net/core/dev.c,
// netdev_adjacent_sysfs_add).
func (n *network) down(name string, seen map[string]bool) []string {
	if seen[name] || len(seen) > mostPorts {
		return nil
	}
	seen[name] = true
	if n.isNIC(name) {
		return []string{name}
	}
	entries, err := n.list(netDir + "/" + name)
	if err != nil {
		return nil
	}
	slices.Sort(entries)
	// the others of a bond rest
	if active, err := n.read(netDir + "/" + name + "/bonding/active_slave"); err == nil && active != "" {
		if w := n.down(active, seen); w != nil {
			return append([]string{name}, w...)
		}
	}
	for _, e := range entries {
		if lower, ok := strings.CutPrefix(e, "lower_"); ok {
			if w := n.down(lower, seen); w != nil {
				return append([]string{name}, w...)
			}
		}
	}
	return nil
}

// defaultRoute is the device of the first default route of IPv4 (/proc/net/route:
// Iface Destination Gateway Flags …, hexadecimal).
func (n *network) defaultRoute() string {
	if n.route == "?" {
		n.route = ""
		text, _ := n.read("proc/net/route")
		for line := range strings.Lines(text) {
			if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
				n.route = f[0]
				break
			}
		}
	}
	return n.route
}

// port is a physical device that a network namespace reaches, with the bytes that
// went through the namespace's own device.
type port struct {
	nic   string
	way   []string
	bytes uint64
}

// ports is the physical devices behind those of another namespace.
func (n *network) ports(sys files) []port {
	var out []port
	names, _ := sys.list("class/net")
	slices.Sort(names)
	for _, name := range names {
		dir := "class/net/" + name
		if name == "lo" || strings.ContainsAny(name, "/ ") {
			continue
		}
		var way []string
		index, ok := number(sys, dir+"/ifindex")
		link, linked := number(sys, dir+"/iflink")
		target, err := sys.link(dir + "/device")
		switch pci := path.Base(target); {
		case err == nil && n.isNIC(pci): // handed over whole; the host sees its PCI function only
			way = []string{name, pci}
		case !ok || !linked || link == index:
			continue
		default:
			peer := n.at(link)
			if peer == "" {
				continue
			}
			// A veth's peer points back; else it is the parent of a macvlan or ipvlan. What
			// is neither has its other end in a third namespace.
			if back, ok := n.number(netDir + "/" + peer + "/iflink"); ok && back == index {
				way = n.way(peer)
			} else {
				way = n.down(peer, map[string]bool{})
			}
			if way == nil {
				continue
			}
			way = append([]string{name}, way...)
		}
		out = append(out, port{way[len(way)-1], way, traffic(sys, dir)})
	}
	return out
}

// traffic is the bytes that a network device has received and sent.
func traffic(f files, dir string) uint64 {
	sum := uint64(0)
	for _, name := range []string{"rx_bytes", "tx_bytes"} {
		text, _ := f.read(dir + "/statistics/" + name)
		n, _ := strconv.ParseUint(text, 10, 64)
		sum += n
	}
	return sum
}
