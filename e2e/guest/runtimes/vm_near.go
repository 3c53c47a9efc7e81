//go:build linux

package runtimes

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const nearFlavors = `flavors:
  - {name: six, class: dedicated, vcpus: 6, memory: 64MiB, max_nodes: 1, emulator: share}
  - {name: four, class: dedicated, vcpus: 4, memory: 64MiB, max_nodes: 1, emulator: share}
`

// libvirtRequired: a guest that has to be near the card of node 1 is refused while that node is
// full, with the reason, and not placed elsewhere; with room there it starts there and stays.
func libvirtRequired(t *lab.T) {
	card := t.Card()
	t.Do(os.WriteFile(flavorsPath, []byte(nearFlavors), 0o644))
	near, home := "device="+card.Name, lab.SetOf(t.Shape.NIC)
	names := []string{"filler", "close"}
	for _, n := range names {
		remove(n)
		t.Defer(func() { remove(n) })
	}
	lab.FreshState()
	define := func(flavor, name string, more ...string) lab.Result {
		return vmCommand(append([]string{"define", "--emulated", "--flavor", flavor, "--name", name, "--disk",
			image(t, name) + ",format=raw"}, more...)...)
	}
	t.Must(define("six", "filler", "--nodes", home.String()), lab.ExitOK)
	refused := define("four", "close", "--near", near+",policy=required")
	saysWhy(t, refused, lab.ExitNo)
	if !strings.Contains(refused.Err, "It has to be on node "+home.String()+", where "+card.Name+" is") ||
		virsh("domstate", "close").Exit == lab.ExitOK {
		t.Fatalf("%s", refused)
	}
	saysWhy(t, define("four", "close", "--near", "device=none0,policy=required"), lab.ExitNo)
	// A wish alone is no ground to refuse.
	v := &vm{name: "close", flavor: "four", vcpus: 4, mib: 64, nodes: 1, emulator: "share"}
	t.Must(define("four", "close", "--near", near), lab.ExitOK)
	startVMs(t, []*vm{v})
	if at := t.NodesOf(union(vcpus(t, v))); at == home {
		t.Fatalf("with a wish it is on node %s, which had no room", at)
	}
	for _, n := range names {
		remove(n)
	}
	t.Must(define("four", "close", "--near", near+",policy=required"), lab.ExitOK)
	startVMs(t, []*vm{v})
	dedicatedAtHome(t, v, 0)
	if at := t.NodesOf(union(vcpus(t, v))); at != home {
		t.Fatalf("it has to be on node %s, is on %s", home, at)
	}
	moved := vmCommand("move", "close", "--nodes", "0")
	saysWhy(t, moved, lab.ExitNo)
	d := overGuests(t, "marked", true)
	seen(t, d, []*vm{v})
	ordered := lab.Homenode("move", "vm:close", "--to", "0")
	saysWhy(t, ordered, lab.ExitNo)
	if at := t.NodesOf(union(vcpus(t, v))); at != home {
		t.Fatalf("it has to be on node %s, went to %s", home, at)
	}
	t.Alive(d)
	t.Stop(d)
	t.Textf("%s", strings.TrimSpace(refused.Err))
}

// guestTap is the name of the tap of the guest that sends.
const guestTap = "vnet0"

// bridged makes a bridge of which the card is a port.
func bridged(t *lab.T, card lab.NIC) (bridge int) {
	t.Do(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
	br, err := netlink.LinkByName("br0")
	t.Do(err)
	t.Defer(func() { netlink.LinkDel(br) })
	port, err := netlink.LinkByName(card.Name)
	t.Do(err)
	t.Do(netlink.LinkSetMasterByIndex(port, br.Attrs().Index))
	t.Do(netlink.LinkSetUp(port))
	t.Do(netlink.LinkSetUp(br))
	return br.Attrs().Index
}

// plug gives a guest a virtio card with a tap in a bridge and vhost, as libvirt gives it to guests under KVM. To
// one that is emulated libvirt never gives vhost (qemuInterfaceOpenVhostNet), so QEMU is told by its monitor.
// vhostforce is for a driver without MSI-X, as the sender's is.
func plug(t *lab.T, v *vm, bridge int) {
	tap, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	t.Do(err)
	defer tap.Close()
	request, err := unix.NewIfreq(guestTap)
	t.Do(err)
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	t.Do(unix.IoctlIfreq(int(tap.Fd()), unix.TUNSETIFF, request))
	link, err := netlink.LinkByName(guestTap)
	t.Do(err)
	t.Do(netlink.LinkSetMasterByIndex(link, bridge))
	t.Do(netlink.LinkSetUp(link))
	vhost, err := os.OpenFile("/dev/vhost-net", os.O_RDWR, 0)
	t.Do(err)
	defer vhost.Close()
	ask := func(request string, with ...*os.File) {
		argv := []string{"-q", "-c", "qemu:///system", "qemu-monitor-command", v.name}
		if len(with) > 0 {
			argv = append(argv, "--pass-fds", "3")
		}
		ctx, cancel := context.WithTimeout(context.Background(), vmLimit)
		defer cancel()
		c := exec.CommandContext(ctx, "virsh", append(argv, request)...)
		c.ExtraFiles = with
		if b, err := c.CombinedOutput(); err != nil || strings.Contains(string(b), `"error"`) {
			t.Fatalf("QEMU is asked %s: %v, %s", request, err, b)
		}
	}
	ask(`{"execute":"getfd","arguments":{"fdname":"tap"}}`, tap)
	ask(`{"execute":"getfd","arguments":{"fdname":"vhost"}}`, vhost)
	ask(`{"execute":"netdev_add","arguments":{"type":"tap","id":"net0","fd":"tap","vhost":true,"vhostforce":true,"vhostfd":"vhost"}}`)
	ask(`{"execute":"device_add","arguments":{"driver":"virtio-net-pci","id":"nic0","netdev":"net0","romfile":""}}`)
}

// vhostThread is the thread of the kernel that serves a guest's card; 0 when it has none.
func (v *vm) vhostThread() int {
	pid := v.pid()
	for _, tid := range lab.ThreadsOf(pid) {
		if lab.ReadText(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid)) == fmt.Sprintf("vhost-%d", pid) {
			return tid
		}
	}
	return 0
}

// usedLink is what status says of a guest's link to a device.
type usedLink struct {
	Name, Nodes, Evidence string
	MiBs                  *float64 `json:"mib_s"`
	Weight                float64
}

// linkOf waits until a guest's link to a device is found and counted.
func linkOf(t *lab.T, v *vm, name string) (found usedLink) {
	t.Poll(vmLimit, time.Second, "the link is found and counted", func() (bool, string) {
		var s struct {
			Workloads []struct {
				ID    string
				Links []usedLink
			}
		}
		r := lab.Homenode("status", "--json")
		if r.Exit != lab.ExitOK {
			return false, r.Err
		}
		t.Do(json.Unmarshal([]byte(r.Out), &s))
		for _, w := range s.Workloads {
			for _, l := range w.Links {
				if w.ID == "vm:"+v.name && l.Name == name && l.MiBs != nil {
					found = l
					return true, ""
				}
			}
		}
		return false, fmt.Sprintf("%+v", s)
	})
	return found
}

// libvirtNear: a guest with a tap on the card of another node stays where it is while it is silent,
// and comes to the card, its memory and its vhost thread with it, when it sends.
func libvirtNear(t *lab.T) {
	card := t.Card()
	v := &vm{name: "sender", vcpus: 1, mib: 48, nodes: 1}
	t.Do(os.WriteFile(flavorsPath, []byte(flavors), 0o644))
	remove(v.name)
	t.Defer(func() { remove(v.name) })
	lab.FreshState()
	bridge := bridged(t, card)
	xml := strings.Replace(plainXML(v.name, ""), "/e2e/pacer", "/e2e/sender", 1)
	t.Must(virsh("define", xmlFile(t, v.name, xml)), lab.ExitOK)
	t.Must(vmCommand("adopt", v.name), lab.ExitOK)
	t.Must(vmCommand("move", v.name, "--nodes", "0"), lab.ExitOK)
	t.Must(virsh("start", v.name, "--paused"), lab.ExitOK)
	plug(t, v, bridge)
	t.Must(virsh("resume", v.name), lab.ExitOK)
	startVMs(t, []*vm{v})
	first, home := lab.SetOf(0), lab.SetOf(t.Shape.NIC)
	at := func() string {
		return fmt.Sprintf("vCPU on CPUs %s, vhost thread on %s, memory %+v", union(vcpus(t, v)),
			lab.Allowed(v.pid())[v.vhostThread()], whereIs(v).nodes)
	}
	if w := whereIs(v); w.nodes != first || t.NodesOf(union(vcpus(t, v))) != first || v.vhostThread() == 0 {
		t.Fatalf("it was to start on node %s, with a vhost thread: %s", first, at())
	}
	d := overGuests(t, "marked", true)
	seen(t, d, []*vm{v})
	way := "tap " + guestTap + " (vhost) → br0 → " + card.Name

	// Links are looked at every 30 s, and what pulls must have lasted for two such times.
	l := linkOf(t, v, card.Name)
	if l.Nodes != home.String() || !strings.Contains(l.Evidence, way) {
		t.Fatalf("the link is %+v; wanted %q, node %s", l, way, home)
	}
	lab.Warm(75 * time.Second)
	if l = linkOf(t, v, card.Name); l.Weight != 0 || *l.MiBs >= 1 || t.NodesOf(union(vcpus(t, v))) != first ||
		whereIs(v).nodes != first {
		t.Fatalf("it is silent, and its link is %+v; %s", l, at())
	}
	for _, e := range t.History() {
		if e.Workload == "vm:"+v.name && e.Code == "balance-doing" {
			t.Fatalf("it is silent, and %q", e.Text)
		}
	}

	pid := v.pid()
	t.Must(virsh("send-key", v.name, "KEY_A"), lab.ExitOK)
	begun, explained := time.Now(), ""
	t.Poll(vmLimit, time.Second, "it comes to its card", func() (bool, string) {
		said := lab.Homenode("explain", "vm:"+v.name).Out
		if strings.Contains(said, way+"; ") && strings.Contains(said, "; weight ") {
			explained = said
		}
		came := whereIs(v).nodes == home && t.NodesOf(union(vcpus(t, v))) == home &&
			t.NodesOf(lab.Allowed(pid)[v.vhostThread()]) == home
		return came && explained != "", at() + "\n" + said
	})
	took := time.Since(begun)
	if v.pid() != pid {
		t.Fatalf("it was started anew")
	}
	for _, want := range []string{way, "It weighs as ", " vhost threads "} {
		if !strings.Contains(explained, want) {
			t.Fatalf("explain does not say %q:\n%s", want, explained)
		}
	}
	history := t.History()
	i := slices.IndexFunc(history, func(e lab.Event) bool {
		return e.Workload == "vm:"+v.name &&
			e.Code == "balance-doing"
	})
	if i < 0 || !strings.Contains(history[i].Text, card.Name) {
		t.Fatalf("the history does not tell why: %v", history)
	}
	anon, _ := lab.AnonByNode(pid)
	t.Alive(d)
	t.Stop(d)
	_, weighs, _ := strings.Cut(explained, way+"; ")
	weighs, _, _ = strings.Cut(weighs, "\n  vhost ")
	t.Textf("from node %s to %s %.0f s after it began to send, %.1f %% of its memory there. %s %s",
		first, home, took.Seconds(), 100*lab.Share(anon, home),
		strings.Join(strings.Fields(strings.Replace(weighs, ")", ".", 1)), " "), history[i].Text)
}
