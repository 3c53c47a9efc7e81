package links

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// fake is a tree with what a tree of files cannot show.
type fake struct {
	disk
	devices  map[string][2]string // what lies or is where, by file
	sockets  map[uint64]end
	tcp      map[uint64]end
	unlisted error // why sockets are not listed
	reads    int
	links    int
	hangs    map[int]chan struct{} // the root folder of a process
}

func (f *fake) read(name string) (string, error) { f.reads++; return f.disk.read(name) }

func (f *fake) link(name string) (string, error) { f.links++; return f.disk.link(name) }

func (f *fake) device(name string) (on, is string, err error) {
	d, ok := f.devices[name]
	if !ok {
		return "", "", os.ErrNotExist
	}
	return d[0], d[1], nil
}

func (f *fake) sysOf(pid int) (files, func(), error) {
	if c := f.hangs[pid]; c != nil {
		<-c
		return nil, nil, errOwn
	}
	root := f.path(fmt.Sprintf("proc/%d/root/sys", pid))
	if _, err := os.Stat(root); err != nil {
		return nil, nil, err
	}
	return disk{root}, func() {}, nil
}

func (f *fake) peers() (map[uint64]end, error) {
	if f.unlisted != nil {
		return nil, unlisted("unix", f.unlisted)
	}
	return maps.Clone(f.sockets), nil
}

func (f *fake) route(to netip.Addr) (string, error) {
	if to.IsLoopback() {
		return "lo", nil
	}
	return map[string]string{"10.0.0.5": "br0"}[to.String()], nil
}

func (f *fake) streams() (map[uint64]end, error) { return f.tcp, nil }

// tree makes files and, where the text begins with "→", links.
func tree(t *testing.T, entries map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range entries {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		to, isLink := strings.CutPrefix(text, "→")
		var err error
		if isLink {
			err = os.Symlink(to, name)
		} else {
			err = os.WriteFile(name, []byte(text+"\n"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// host has a card with a virtual function and a drive on node 1, a drive on node 0, a card
// that is handed to a guest on node 0.
func host() *topology.Host {
	return &topology.Host{Devices: []topology.Device{
		{Name: "nvme0n1", Kind: topology.NVMe, PCI: "0000:01:00.0", Node: 0},
		{Name: "0000:02:00.0", Kind: topology.GPU, PCI: "0000:02:00.0", Node: 0},
		{Name: "eth0", Kind: topology.NIC, PCI: "0000:81:00.0", Node: 1},
		{Name: "0000:81:10.1", Kind: topology.NIC, PCI: "0000:81:10.1", Node: 1},
		{Name: "sda", Kind: topology.Storage, PCI: "0000:82:00.0", Node: 1},
	}}
}

// network is the devices of a host: br0 with a VLAN of a bond of eth0, a routed bridge
// virbr0 without a port of the host's, OVS's datapath with bond0.
var onHost = map[string]string{
	"proc/self/ns/net":                                                    "→net:[1]",
	"proc/net/route":                                                      "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\nbr0\t0000000A\t0\t1\t0\t0\t0\t00FFFFFF\nbr0\t00000000\t0\t3\t0\t0\t0\t00000000",
	"sys/class/net/eth0/ifindex":                                          "2",
	"sys/class/net/eth0/iflink":                                           "2",
	"sys/class/net/eth0/master":                                           "→../bond0",
	"sys/class/net/bond0/ifindex":                                         "3",
	"sys/class/net/bond0/iflink":                                          "3",
	"sys/class/net/bond0/lower_eth0":                                      "",
	"sys/class/net/bond0.7/ifindex":                                       "4",
	"sys/class/net/bond0.7/iflink":                                        "3",
	"sys/class/net/bond0.7/lower_bond0":                                   "",
	"sys/class/net/br0/ifindex":                                           "5",
	"sys/class/net/br0/iflink":                                            "5",
	"sys/class/net/br0/lower_bond0.7":                                     "",
	"sys/class/net/br0/lower_aveth":                                       "",
	"sys/class/net/aveth/ifindex":                                         "6",
	"sys/class/net/aveth/iflink":                                          "2",
	"sys/class/net/aveth/master":                                          "→../br0",
	"sys/class/net/vnet3/ifindex":                                         "7",
	"sys/class/net/vnet3/iflink":                                          "7",
	"sys/class/net/vnet3/master":                                          "→../br0",
	"sys/class/net/vnet3/statistics/rx_bytes":                             "1000",
	"sys/class/net/vnet3/statistics/tx_bytes":                             "500",
	"sys/class/net/virbr0/ifindex":                                        "8",
	"sys/class/net/virbr0/lower_vnet4":                                    "",
	"sys/class/net/vnet4/ifindex":                                         "9",
	"sys/class/net/vnet4/master":                                          "→../virbr0",
	"sys/class/net/macvtap0/ifindex":                                      "12",
	"sys/class/net/macvtap0/iflink":                                       "2",
	"sys/class/net/macvtap0/lower_eth0":                                   "",
	"sys/class/net/loop1/lower_loop2":                                     "",
	"sys/class/net/loop1/ifindex":                                         "20",
	"sys/class/net/loop2/lower_loop1":                                     "",
	"sys/class/net/loop2/ifindex":                                         "21",
	"sys/dev/block/259:0":                                                 "→../../devices/pci/0000:01:00.0/nvme/nvme0/nvme0n1",
	"sys/dev/block/259:2":                                                 "→../../devices/pci/0000:01:00.0/nvme/nvme0/nvme0n1/nvme0n1p2",
	"sys/dev/block/253:0":                                                 "→../../devices/virtual/block/dm-0",
	"sys/class/block/nvme0n1p2":                                           "→../../devices/pci/0000:01:00.0/nvme/nvme0/nvme0n1/nvme0n1p2",
	"sys/devices/pci/0000:01:00.0/nvme/nvme0/nvme0n1/nvme0n1p2/partition": "2",
	"sys/class/block/dm-0/slaves/nvme0n1p2":                               "",
	"sys/dev/block/8:0":                                                   "→../../devices/pci/0000:82:00.0/ata1/block/sda",
	"sys/dev/block/9:0":                                                   "→../../devices/virtual/block/md0",
	"sys/class/block/md0/slaves/nvme0n1p2":                                "",
	"sys/class/block/md0/slaves/sda":                                      "",
	"sys/dev/block/9:1":                                                   "→../../devices/virtual/block/md1",
	"sys/class/block/md1/slaves/md1":                                      "",
	"sys/kernel/iommu_groups/31/devices/0000:02:00.0":                     "",
	"sys/kernel/iommu_groups/31/devices/0000:00:01.0":                     "", // a bridge
	"sys/class/vfio-dev/vfio0/device":                                     "→../../../0000:81:10.1",
}

func with(more map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range onHost {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

func work(id string, pids ...int) workload.Observation {
	o := workload.Observation{ID: workload.ID(id), Kind: workload.InCgroup, Cgroup: id}
	for _, p := range pids {
		o.Processes = append(o.Processes, workload.Process{PID: p, Start: 1})
	}
	return o
}

// drawn is links as lines.
func drawn(links []workload.Link) string {
	var out []string
	for _, l := range links {
		line := fmt.Sprintf("%s %s node %s: %s", l.Kind, l.Name, l.Nodes, l.Evidence)
		if l.Counted {
			line += fmt.Sprintf(", %d bytes", l.Bytes)
		}
		if l.Vhost {
			line += ", by vhost"
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func TestLinks(t *testing.T) {
	ns := func(files map[string]string) map[string]string {
		out := map[string]string{"proc/10/ns/net": "→net:[2]", "proc/10/root/sys/class/net/lo/ifindex": "1", "proc/10/root/sys/class/net/lo/iflink": "1"}
		for k, v := range files {
			out["proc/10/root/sys/class/net/"+k] = v
		}
		return out
	}
	tests := []struct {
		name    string
		files   map[string]string
		devices map[string][2]string
		want    string
	}{
		{"nothing", nil, nil, ""},
		{"the host's own network", map[string]string{"proc/10/ns/net": "→net:[1]", "proc/10/root/sys/class/net/eth0/ifindex": "2"}, nil, ""},
		{"veth on a bridge over a VLAN over a bond", ns(map[string]string{"eth0/ifindex": "2", "eth0/iflink": "6",
			"eth0/statistics/rx_bytes": "70", "eth0/statistics/tx_bytes": "7"}), nil,
			"netns eth0 node 1: network namespace → eth0 → aveth → br0 → bond0.7 → bond0 → eth0, 77 bytes"},
		{"a veth whose peer is another's", ns(map[string]string{"eth0/ifindex": "99", "eth0/iflink": "6"}), nil, ""},
		{"macvlan", ns(map[string]string{"net1/ifindex": "2", "net1/iflink": "2", "net2/ifindex": "3", "net2/iflink": "4"}), nil,
			"netns eth0 node 1: network namespace → net2 → bond0.7 → bond0 → eth0, 0 bytes"},
		{"a virtual function", ns(map[string]string{"net1/ifindex": "9", "net1/iflink": "9", "net1/device": "→../../../0000:81:10.1",
			"net1/statistics/rx_bytes": "5"}), nil,
			"netns 0000:81:10.1 node 1: network namespace → net1 → 0000:81:10.1, 5 bytes"},
		{"tap and vhost", map[string]string{"proc/10/fd/20": "→/dev/net/tun", "proc/10/fdinfo/20": "pos:\t0\nflags:\t0104002\niff:\tvnet3",
			"proc/10/fd/21": "→/dev/vhost-net", "proc/10/fd/22": "→/dev/net/tun", "proc/10/fdinfo/22": "iff:\tvnet3"}, nil,
			"tap eth0 node 1: tap vnet3 (vhost) → br0 → bond0.7 → bond0 → eth0, 1500 bytes, by vhost"},
		{"tap on a bridge that is routed", map[string]string{"proc/10/fd/20": "→/dev/net/tun", "proc/10/fdinfo/20": "iff:\tvnet4"}, nil,
			"tap eth0 node 1: tap vnet4 → virbr0 → default route → br0 → bond0.7 → bond0 → eth0, 0 bytes"},
		{"tap that is gone", map[string]string{"proc/10/fd/20": "→/dev/net/tun", "proc/10/fdinfo/20": "pos:\t0"}, nil, ""},
		{"macvtap", map[string]string{"proc/10/fd/20": "→/dev/tap12"}, nil, "tap eth0 node 1: tap macvtap0 → eth0, 0 bytes"},
		{"VFIO group and device", map[string]string{"proc/10/fd/20": "→/dev/vfio/31", "proc/10/fd/21": "→/dev/vfio/vfio", "proc/10/fd/22": "→/dev/vfio/devices/vfio0"}, nil,
			"vfio 0000:02:00.0 node 0: /dev/vfio/31 → 0000:02:00.0\nvfio 0000:81:10.1 node 1: /dev/vfio/devices/vfio0 → 0000:81:10.1"},
		{"an open drive and a file on LVM", map[string]string{"proc/10/fd/3": "→/dev/nvme0n1", "proc/10/fd/4": "→/var/lib/db/1", "proc/10/io": "rchar: 9\nread_bytes: 4096\nwrite_bytes: 1\ncancelled_write_bytes: 7"},
			map[string][2]string{"proc/10/fd/3": {"", "259:0"}, "proc/10/fd/4": {"253:0", ""}},
			"block nvme0n1 node 0: open file on dm-0 → nvme0n1, 4097 bytes"},
		{"an open drive", map[string]string{"proc/10/fd/3": "→/dev/nvme0n1"}, map[string][2]string{"proc/10/fd/3": {"", "259:0"}},
			"block nvme0n1 node 0: open nvme0n1, 0 bytes"},
		{"files on two drives", map[string]string{"proc/10/fd/3": "→/dev/sda", "proc/10/fd/4": "→/a", "proc/10/fd/5": "→/b", "proc/10/io": "read_bytes: 100"},
			map[string][2]string{"proc/10/fd/3": {"", "8:0"}, "proc/10/fd/4": {"253:0", ""}, "proc/10/fd/5": {"259:2", ""}},
			"block nvme0n1 node 0: open file on dm-0 → nvme0n1, 50 bytes\nblock sda node 1: open sda, 50 bytes"},
		{"a file on a mirror of two drives", map[string]string{"proc/10/fd/4": "→/a", "proc/10/io": "write_bytes: 100"}, map[string][2]string{"proc/10/fd/4": {"9:0", ""}},
			"block nvme0n1 node 0: open file on md0 → nvme0n1, 50 bytes\nblock sda node 1: open file on md0 → sda, 50 bytes"},
		{"a drive that lies on itself", map[string]string{"proc/10/fd/4": "→/a"}, map[string][2]string{"proc/10/fd/4": {"9:1", ""}}, ""},
		{"io.stat of the cgroup", map[string]string{"sys/fs/cgroup/w/io.stat": "253:0 rbytes=10 wbytes=20 rios=1 wios=1 dbytes=9 dios=0\n259:0 rbytes=11 wbytes=22 rios=1 wios=1\n7:0"}, nil,
			"block nvme0n1 node 0: io.stat of its cgroup → nvme0n1, 33 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := New("/")
			f.files = &fake{disk: disk{tree(t, with(tt.files))}, devices: tt.devices}
			links, at := f.Links(t.Context(), host(), []workload.Observation{work("/w", 10)})
			if diff := cmp.Diff(tt.want, drawn(links["/w"])); diff != "" {
				t.Error(diff)
			}
			if len(links["/w"]) > 0 && at["/w"].IsZero() {
				t.Error("no time")
			}
		})
	}
}

// A guest at a vhost-user socket is tied to the process that polls it, wherever the
// name of the socket is; control sockets tie nobody.
func TestVhostUser(t *testing.T) {
	f := New("/")
	f.files = &fake{disk: disk{tree(t, with(map[string]string{
		"proc/50/comm": "ovs-vswitchd", "proc/50/fd/3": "→socket:[500]", "proc/50/fd/4": "→socket:[501]", "proc/50/fd/5": "→socket:[502]", "proc/50/fd/6": "→socket:[503]",
		"proc/10/comm": "qemu-kvm", "proc/10/fd/3": "→socket:[100]",
		"proc/11/comm": "qemu-kvm", "proc/11/fd/3": "→socket:[101]",
		"proc/12/comm": "ovsdb-server", "proc/12/fd/3": "→socket:[102]",
		"proc/13/comm": "redis", "proc/13/fd/3": "→socket:[103]",
		"proc/60/comm": "ovs-vswitchd", "proc/60/fd/3": "→socket:[600]",
		"proc/50/fd/7": "→socket:[505]", "proc/70/comm": "spdk_tgt", "proc/70/fd/3": "→socket:[700]",
		"proc/14/comm": "qemu-kvm", "proc/14/fd/3": "→socket:[104]",
	}))}, sockets: map[uint64]end{
		100: {500, ""}, 500: {100, "/run/openvswitch/vhost0"}, // OVS listens
		101: {501, "/run/vm1.sock"}, 501: {101, ""}, // QEMU does
		102: {502, "/run/openvswitch/db.sock"}, 502: {102, ""},
		103: {999, ""},
		104: {600, ""}, 600: {104, "/run/vhost"},
		505: {700, ""}, 700: {505, "/run/spdk0"}, // one helper of another
	}}
	ovs := work("/ovs", 50)
	ovs.CPUUse, ovs.RanOn = 2, []workload.NodeShare{{Node: 0, Share: 0.1}, {Node: 1, Share: 0.9}}
	quiet := work("/quiet", 60) // does not poll
	spdk := work("/spdk", 70)
	spdk.CPUUse = 1
	links, _ := f.Links(t.Context(), host(), []workload.Observation{work("/a", 10), work("/b", 11), work("/db", 12), work("/redis", 13), work("/d", 14), ovs, quiet, spdk})
	var got []string
	for _, id := range []workload.ID{"/a", "/b", "/d", "/db", "/ovs", "/quiet", "/redis", "/spdk"} {
		got = append(got, fmt.Sprintf("%s %s", id, drawn(links[id])))
	}
	want := "/a vhost-user ovs-vswitchd node 1: unix socket /run/openvswitch/vhost0 to ovs-vswitchd, PID 50\n" +
		"/b vhost-user ovs-vswitchd node 1: unix socket /run/vm1.sock to ovs-vswitchd, PID 50\n/d \n/db \n/ovs \n/quiet \n/redis \n/spdk "
	if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
		t.Error(diff)
	}
	if h := links["/a"][0].Helper; h != ovs.Processes[0] {
		t.Errorf("helper %+v", h)
	}
}

// A guest is tied to the daemon that serves its disk, its file system or its TPM, however it is
// connected and however small the daemon is; a process that is not a guest, a program that
// serves nothing and libvirt at its monitor tie nobody.
func TestServers(t *testing.T) {
	stat := func(pid int, comm string) string {
		return fmt.Sprintf("%d (%s) S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0", pid, comm, pid*10)
	}
	tree := tree(t, with(map[string]string{
		"proc/10/comm": "qemu-system-x86", "proc/10/fd/3": "→socket:[100]", "proc/10/fd/4": "→socket:[101]", "proc/10/fd/5": "→socket:[102]", "proc/10/fd/6": "→socket:[103]", "proc/10/fd/7": "→/dev/nbd0",
		"proc/13/comm": "redis", "proc/13/fd/3": "→socket:[130]",
		"proc/50/comm": "qemu-nbd", "proc/50/stat": stat(50, "qemu-nbd"), "proc/50/fd/3": "→socket:[500]", "proc/50/fd/4": "→socket:[530]",
		"proc/51/comm": "ceph-osd", "proc/51/stat": stat(51, "ceph-osd"), "proc/51/fd/9": "→socket:[510]",
		"proc/52/comm": "swtpm", "proc/52/stat": stat(52, "swtpm"), "proc/52/fd/3": "→socket:[520]",
		"proc/53/comm": "virtqemud", "proc/53/stat": stat(53, "virtqemud"), "proc/53/fd/3": "→socket:[531]",
		"proc/54/comm": "qemu-nbd", "proc/54/stat": stat(54, "qemu-nbd"),
		"sys/dev/block/43:0": "→../../devices/virtual/block/nbd0", "sys/class/block/nbd0/pid": "54",
	}))
	f := New("/")
	f.files = &fake{disk: disk{tree}, devices: map[string][2]string{"proc/10/fd/7": {"", "43:0"}},
		sockets: map[uint64]end{100: {500, ""}, 500: {100, "/run/nbd.sock"}, 102: {520, ""}, 520: {102, "/run/tpm.sock"}, 103: {531, "/run/mon.sock"}, 531: {103, ""}, 130: {530, ""}, 530: {130, "/run/x"}},
		tcp:     map[uint64]end{101: {510, "TCP 127.0.0.1:6800"}, 510: {101, "TCP 127.0.0.1:40000"}}}
	ceph := work("/ceph", 51)
	ceph.Processes[0].Start = 510
	ceph.RanOn = []workload.NodeShare{{Node: 1, Share: 1}}
	want := "socket ceph-osd node 1: TCP 127.0.0.1:6800 to ceph-osd, PID 51\nsocket qemu-nbd node : unix socket /run/nbd.sock to qemu-nbd, PID 50\n" +
		"socket qemu-nbd node : /dev/nbd0 to qemu-nbd, PID 54\nsocket swtpm node : unix socket /run/tpm.sock to swtpm, PID 52"
	for round := range 4 {
		links, _ := f.Links(t.Context(), host(), []workload.Observation{work("/a", 10), work("/redis", 13), ceph})
		if diff := cmp.Diff(want, drawn(links["/a"])); diff != "" {
			t.Fatalf("round %d: %s", round, diff)
		}
		if len(links) != 1 || links["/a"][1].Helper != (workload.Process{PID: 50, Start: 500}) {
			t.Errorf("round %d: %+v", round, links)
		}
	}
}

// Whoever starts many processes, under the names of daemons too, neither hides those that serve nor
// has a round take long.
func TestServersAmongMany(t *testing.T) {
	stat := func(pid int) string {
		return fmt.Sprintf("%d (swtpm) S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0", pid, pid*10)
	}
	entries := map[string]string{
		"proc/10/comm": "qemu-system-x86", "proc/10/fd/3": "→socket:[100]",
		"proc/9000/comm": "swtpm", "proc/9000/stat": stat(9000), "proc/9000/fd/3": "→socket:[520]", "proc/9000/status": "Name:\tswtpm\nUid:\t59\t59\t59\t59",
	}
	root := tree(t, with(entries))
	f := New("/")
	k := &fake{disk: disk{root}, sockets: map[uint64]end{100: {520, ""}, 520: {100, "/run/tpm.sock"}}}
	f.files = k
	look := func() string {
		k.links = 0
		links, _ := f.Links(t.Context(), host(), []workload.Observation{work("/a", 10)})
		return drawn(links["/a"])
	}
	want := look()
	if !strings.Contains(want, "swtpm") {
		t.Fatalf("%q", want)
	}
	put := func(name, text string) {
		name = filepath.Join(root, "proc", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for pid := 100; pid < 110; pid++ {
		at := fmt.Sprint(pid)
		put(at+"/comm", "swtpm")
		put(at+"/stat", stat(pid))
		put(at+"/status", "Name:\tswtpm\nUid:\t1000\t1000\t1000\t1000\n")
		for fd := range 300 {
			put(at+"/fd/"+fmt.Sprint(fd), "")
		}
	}
	for range 2 {
		if got := look(); got != want || k.links > mostServed+50 {
			t.Errorf("among many of that name %q, %d links followed", got, k.links)
		}
	}
	for pid := 1000; pid < 1000+mostNamed+100; pid++ {
		put(fmt.Sprint(pid)+"/comm", "x")
	}
	if got := look(); got != want {
		t.Errorf("among many new processes: %q", got)
	}
}

// A round ends with its budget, the next goes on where it ended, and what was found
// stays until it is looked at again or gone.
func TestRoundsAreBounded(t *testing.T) {
	files := map[string]string{}
	var all []workload.Observation
	for i := range 10 {
		files[fmt.Sprintf("proc/%d/fd/3", 100+i)] = "→/dev/tap12"
		all = append(all, work(fmt.Sprintf("/w%d", i), 100+i))
	}
	f := New("/")
	f.files = &fake{disk: disk{tree(t, with(files))}}
	now := time.Unix(0, 0)
	f.now = func() time.Time { now = now.Add(Budget / 6); return now } // two calls a workload
	seen := 0
	for round := range 5 {
		links, _ := f.Links(t.Context(), host(), all)
		if round == 0 && (len(links) == 0 || len(links) > 5) || len(links) < seen {
			t.Fatalf("round %d: %d of 10 found, before %d", round, len(links), seen)
		}
		seen = len(links)
	}
	if seen != 10 {
		t.Errorf("%d found", seen)
	}
	links, _ := f.Links(t.Context(), host(), all[:3])
	if len(links) != 3 || len(f.known) != 3 {
		t.Errorf("%d links, %d known of 3 workloads", len(links), len(f.known))
	}
}

// Work that is given several GPUs is read in every round, however many others there are.
func TestGPUsFirst(t *testing.T) {
	files := map[string]string{}
	all := []workload.Observation{work("/train", 99)}
	all[0].Caps.GPUs = true
	for i := range 10 {
		all = append(all, work(fmt.Sprintf("/w%d", i), 100+i))
	}
	f := New("/")
	now := time.Unix(0, 0)
	f.now = func() time.Time { now = now.Add(2 * Budget / 3); return now } // a workload has spent the budget
	f.files = &fake{disk: disk{tree(t, with(files))}}
	f.Links(t.Context(), host(), all)
	files["proc/99/fd/3"] = "→/dev/tap12" // opened since
	f.files = &fake{disk: disk{tree(t, with(files))}}
	if links, _ := f.Links(t.Context(), host(), all); len(links["/train"]) != 1 {
		t.Errorf("links %v, known %d", links, len(f.known))
	}
	if len(f.known) < 3 {
		t.Errorf("others wait for it: %d of 11 known", len(f.known))
	}
}

// A round ends with its context too: no workload is looked at.
func TestRoundsEndWithContext(t *testing.T) {
	tree := &fake{disk: disk{tree(t, with(map[string]string{"proc/100/fd/3": "→/dev/tap12"}))}}
	f := New("/")
	f.files = tree
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if links, _ := f.Links(ctx, host(), []workload.Observation{work("/w", 100)}); len(links) != 0 || tree.reads != 0 {
		t.Errorf("%+v after %d files", links, tree.reads)
	}
}

// What cannot be read costs its links only.
func TestUnreadable(t *testing.T) {
	f := New(t.TempDir())
	if links, _ := f.Links(t.Context(), host(), []workload.Observation{work("/w", 1, 2, 3)}); len(links) != 0 {
		t.Errorf("%+v", links)
	}
}

// The machine that the test runs on is read without changing anything, and its own
// sysfs is told from one of another network namespace.
func TestThisMachine(t *testing.T) {
	d := disk{"/"}
	if _, _, err := d.sysOf(os.Getpid()); !errors.Is(err, errOwn) {
		t.Skipf("no sysfs at /sys: %v", err)
	}
	f := New("/")
	f.Links(t.Context(), host(), []workload.Observation{work("/self", os.Getpid())})
	if on, is, err := d.device("etc/passwd"); err != nil || on == "" || is != "" {
		t.Errorf("/etc/passwd lies on %q, is %q, %v", on, is, err)
	}
	if peers, err := d.peers(); err != nil {
		t.Logf("unix sockets: %v", err)
	} else if slices.ContainsFunc([]end{peers[0]}, func(e end) bool { return e.peer != 0 }) {
		t.Error("a socket without inode")
	}
}

func FuzzParsers(f *testing.F) {
	f.Add("259:0 rbytes=1 wbytes=2\n", "read_bytes: 1\nwrite_bytes: 2\n", "iff:\tvnet3\n")
	f.Add("7:0", ": ", "iff:")
	f.Fuzz(func(t *testing.T, stat, io, info string) {
		for number := range ioStat(stat) {
			if number == "" || strings.ContainsAny(number, " \n") {
				t.Errorf("device %q", number)
			}
		}
		processIO(io)
		if name := field(info, "iff:"); strings.ContainsAny(name, "\n") {
			t.Errorf("interface %q", name)
		}
	})
}

// BenchmarkLinks takes every process of the machine for a workload, without a budget.
func BenchmarkLinks(b *testing.B) {
	f := New("/")
	f.now = func() time.Time { return time.Unix(0, 0) }
	pids, err := os.ReadDir("/proc")
	if err != nil {
		b.Fatal(err)
	}
	var all []workload.Observation
	for _, e := range pids {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, work("/p"+e.Name(), n))
		}
	}
	found := 0
	for b.Loop() {
		links, _ := f.Links(b.Context(), host(), all)
		found = len(links)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(all)), "ns/workload")
	b.ReportMetric(float64(found), "found")
}

// A workload can mount a file system of its own at /sys that never answers: it is not
// asked anything.
func TestMountType(t *testing.T) {
	const mounts = `600 500 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/a - b
601 600 0:51 / /proc rw - proc proc rw
602 600 0:52 / /sys ro,nosuid shared:7 - sysfs sysfs ro
603 602 0:53 / /sys rw - fuse.trap trap rw,user_id=1000
604 600 0:54 / /srv rw - ext4 /dev/vda1 rw
`
	for _, tt := range []struct{ id, at, want string }{
		{"602", "", "sysfs"}, {"603", "", "fuse.trap"}, {"699", "", ""}, {"60", "", ""},
		{"", "/", "overlay"}, {"", "/sys", "fuse.trap"}, {"", "/srv", "ext4"}, {"", "/none", ""},
	} {
		if got := mountType(mounts, tt.id, tt.at); got != tt.want {
			t.Errorf("%q %q: %q, want %q", tt.id, tt.at, got, tt.want)
		}
	}
	if got := field("pos:\t0\nflags:\t012\nmnt_id:\t603\nino:\t7\n", "mnt_id:"); got != "603" {
		t.Errorf("mount %q", got)
	}
	if got := mountType("short\n1 2 3 4 / - \n", "", "/"); got != "" || field("", "mnt_id:") != "" {
		t.Errorf("of nonsense: %q", got)
	}
}

// A guest that was started anew is another one: what its first process used does not
// count, even before its turn to be looked at comes.
func TestRestartedGuest(t *testing.T) {
	f := New("/")
	f.files = &fake{disk: disk{tree(t, with(map[string]string{"proc/100/fd/3": "→/dev/tap12"}))}}
	vm := work("/vm", 100)
	vm.Kind = "guest"
	if links, _ := f.Links(t.Context(), host(), []workload.Observation{vm}); len(links["/vm"]) != 1 {
		t.Fatalf("%+v", links)
	}
	f.now = func() func() time.Time { // the budget is spent at once
		now := time.Unix(0, 0)
		return func() time.Time { now = now.Add(2 * Budget); return now }
	}()
	vm.Processes = []workload.Process{{PID: 100, Start: vm.Processes[0].Start + 1}}
	if links, _ := f.Links(t.Context(), host(), []workload.Observation{vm}); len(links) != 0 {
		t.Errorf("of the guest before: %+v", links)
	}
}

// A process whose root folder is on a server that does not answer costs one wait, and
// holds up no other workload.
func TestRootThatDoesNotAnswer(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	f := New("")
	f.files = &fake{hangs: map[int]chan struct{}{7: release}, disk: disk{tree(t, map[string]string{
		"proc/self/ns/net": "→net:[1]",
		"proc/7/ns/net":    "→net:[7]",
		"proc/8/ns/net":    "→net:[1]",
		"proc/8/fd/1":      "→/dev/vfio/3",
		"sys/kernel/iommu_groups/3/devices/0000:81:00.1": "",
	})}}
	all := []workload.Observation{
		{ID: "/hostile", UID: 1000, Processes: []workload.Process{{PID: 7, Start: 1}}},
		{ID: "/vm", Processes: []workload.Process{{PID: 8, Start: 1}}},
	}
	h := &topology.Host{Devices: []topology.Device{{PCI: "0000:81:00.1", Node: 1}}}
	done := make(chan map[workload.ID][]workload.Link, 1)
	go func() {
		f.Links(context.Background(), h, all) // ends with the one that took so long
		links, _ := f.Links(context.Background(), h, all)
		done <- links
	}()
	select {
	case links := <-done:
		if len(links["/vm"]) != 1 {
			t.Errorf("%v", links)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the finder hangs")
	}
}

// Disks that servers have lead to the card by which these are reached: files on their file systems,
// sessions of iSCSI, and what the manager of a guest names; a server on this host, one that is
// reached by no card, and memory file systems lead nowhere.
func TestRemoteDisks(t *testing.T) {
	mount := func(dev, point, rest string) string {
		return fmt.Sprintf("36 25 %s / %s rw,relatime shared:1 - %s\n", dev, point, rest)
	}
	const way = "br0 → bond0.7 → bond0 → eth0"
	for name, tt := range map[string]struct {
		mount    string
		on, is   string
		attached []workload.Attachment
		want     string
	}{
		"nfs":               {mount("0:51", "/images", "nfs4 nas:/images rw,vers=4.2,addr=10.0.0.5"), "0:51", "", nil, "net-disk eth0 node 1: file on /images (nfs4) → server 10.0.0.5 → " + way},
		"ceph":              {mount("0:51", "/ceph", "ceph 10.0.0.5:6789,10.0.0.6:6789:/ rw,name=admin"), "0:51", "", nil, "net-disk eth0 node 1: file on /ceph (ceph) → server 10.0.0.5 → " + way},
		"ceph as it is now": {mount("0:51", "/ceph", "ceph admin@f.cephfs=/ rw,mon_addr=10.0.0.5:3300/10.0.0.6:3300"), "0:51", "", nil, "net-disk eth0 node 1: file on /ceph (ceph) → server 10.0.0.5 → " + way},
		"this host":         {mount("0:51", "/local", "nfs4 localhost:/x rw,addr=127.0.0.1"), "0:51", "", nil, ""},
		"no card there":     {mount("0:51", "/far", "nfs far:/x rw,addr=10.7.0.1"), "0:51", "", nil, ""},
		"memory":            {mount("0:51", "/run", "tmpfs tmpfs rw"), "0:51", "", nil, ""},
		"another mount":     {mount("0:52", "/images", "nfs4 nas:/images rw,addr=10.0.0.5"), "0:51", "", nil, ""},
		"iscsi":             {"", "", "65:0", nil, "net-disk eth0 node 1: disk sdz over iscsi → server 10.0.0.5 → " + way},
		"a guest's":         {"", "", "", []workload.Attachment{{Kind: workload.ByNetDisk, Name: "vda", Protocol: "rbd", Servers: []string{"10.0.0.5", "10.0.0.6"}}}, "net-disk eth0 node 1: disk vda over rbd → server 10.0.0.5 → " + way},
		"by name":           {"", "", "", []workload.Attachment{{Kind: workload.ByNetDisk, Name: "vda", Protocol: "rbd", Servers: []string{"mon1"}}}, "net-disk eth0 node 1: disk vda over rbd → server mon1 → default route → " + way},
		"counted": {"", "", "", []workload.Attachment{{Kind: workload.ByNetDisk, Name: "vda", Protocol: "rbd", Servers: []string{"10.0.0.5"}, Bytes: 7, Counted: true},
			{Kind: workload.ByNetDisk, Name: "vdb", Protocol: "rbd", Servers: []string{"10.0.0.5"}, Bytes: 5, Counted: true}}, "net-disk eth0 node 1: disk vda over rbd → server 10.0.0.5 → " + way + ", 12 bytes"},
		"one is not": {"", "", "", []workload.Attachment{{Kind: workload.ByNetDisk, Name: "vda", Protocol: "rbd", Servers: []string{"10.0.0.5"}, Bytes: 7, Counted: true},
			{Kind: workload.ByNetDisk, Name: "vdb", Protocol: "rbd", Servers: []string{"10.0.0.5"}}}, "net-disk eth0 node 1: disk vda over rbd → server 10.0.0.5 → " + way},
		"files there": {mount("0:51", "/images", "nfs4 nas:/images rw,addr=10.0.0.5"), "0:51", "", []workload.Attachment{{Kind: workload.ByBlock, Name: "vda", Path: "/images/a", Bytes: 7, Counted: true},
			{Kind: workload.ByBlock, Name: "vdb", Path: "/images/b", Bytes: 5, Counted: true}, {Kind: workload.ByBlock, Name: "vdc", Path: "/else", Bytes: 9, Counted: true}},
			"net-disk eth0 node 1: file on /images (nfs4) → server 10.0.0.5 → " + way + ", 12 bytes"},
		"a disk of iscsi": {"", "", "65:0", []workload.Attachment{{Kind: workload.ByBlock, Name: "vda", Path: "/dev/disk/by-path/a", Bytes: 7, Counted: true}, {Kind: workload.ByBlock, Name: "vdb", Path: "/nfs/gone/b", Bytes: 9, Counted: true}},
			"net-disk eth0 node 1: disk sdz over iscsi → server 10.0.0.5 → " + way + ", 7 bytes"},
		"files at the root": {mount("0:51", "/", "nfs4 nas:/root rw,addr=10.0.0.5"), "0:51", "", []workload.Attachment{{Kind: workload.ByBlock, Name: "vda", Path: "/images/a", Bytes: 7, Counted: true}},
			"net-disk eth0 node 1: file on / (nfs4) → server 10.0.0.5 → " + way + ", 7 bytes"},
		"served here":        {"", "", "", []workload.Attachment{{Kind: workload.ByNetDisk, Name: "vda", Protocol: "nbd", Servers: []string{"127.0.0.1"}}}, ""},
		"its tap by libvirt": {"", "", "", []workload.Attachment{{Kind: workload.ByTap, Name: "vnet3", Device: "vnet3"}}, "tap eth0 node 1: tap vnet3 → " + way + ", 1500 bytes"},
	} {
		tree := tree(t, with(map[string]string{
			"proc/10/mountinfo": tt.mount, "proc/10/fd/3": "→/images/a", "sys/dev/block/65:0": "→../../devices/platform/host3/session2/target3:0:0/3:0:0:1/block/sdz",
			"sys/class/iscsi_connection/connection2:0/address": "10.0.0.5", "sys/class/iscsi_connection/connection1:0/address": "10.7.0.1",
			"sys/class/net/bond0/lower_another0": "", "sys/class/net/another0/ifindex": "99", "sys/class/net/bond0/bonding/active_slave": "eth0",
		}))
		f := New(tree)
		// The file of a name that is elsewhere may be on a server that is gone: then its lookup never ends.
		f.files = &fake{disk: disk{tree}, devices: map[string][2]string{"proc/10/fd/3": {tt.on, tt.is}, "dev/disk/by-path/a": {"", tt.is}, "nfs/gone/b": {"", tt.is}}}
		f.Attached = func(id workload.ID) []workload.Attachment { return tt.attached }
		links, _ := f.Links(t.Context(), host(), []workload.Observation{work("/a", 10)})
		if diff := cmp.Diff(tt.want, drawn(links["/a"])); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// A kernel that lists no sockets, for it may load no modules: the rest is found, and Lacks says which module is missing.
func TestSocketsUnlisted(t *testing.T) {
	tree := tree(t, map[string]string{
		"proc/10/comm": "qemu-system-x86", "proc/10/fd/3": "→socket:[100]", "proc/10/fd/7": "→/dev/nbd0",
		"proc/54/comm": "qemu-nbd", "proc/54/stat": "54 (qemu-nbd) S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 540 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0",
		"sys/dev/block/43:0": "→../../devices/virtual/block/nbd0", "sys/class/block/nbd0/pid": "54",
	})
	at := &fake{disk: disk{tree}, devices: map[string][2]string{"proc/10/fd/7": {"", "43:0"}}, unlisted: syscall.ENOENT}
	f := New("/")
	f.files = at
	links, _ := f.Links(t.Context(), host(), []workload.Observation{work("/a", 10)})
	if got := drawn(links["/a"]); got != "socket qemu-nbd node : /dev/nbd0 to qemu-nbd, PID 54" {
		t.Errorf("links: %s", got)
	}
	lacks := func() {
		t.Helper()
		if err := f.Lacks(); err == nil || err.Error() != "the kernel does not tell which unix sockets are connected; load the module unix_diag" {
			t.Errorf("lacks: %v", err)
		}
	}
	lacks()
	f.Links(t.Context(), host(), nil) // nobody has a socket: nothing is known anew
	lacks()
	at.unlisted = nil
	f.Links(t.Context(), host(), []workload.Observation{work("/a", 10)})
	if err := f.Lacks(); err != nil {
		t.Errorf("still lacks: %v", err)
	}
}

// TestForgedListeners: the kernel writes the names of sockets as they are, line ends too (net/unix/af_unix.c,
// unix_seq_show), and a mount namespace lets everybody listen at any path: nobody becomes a guest's helper
// by a line that somebody wrote, nor stops being one because others listen at a path of the same name.
func TestForgedListeners(t *testing.T) {
	const line = "0000000000000000: 00000002 00000000 00010000 0001 01 %d %s\n"
	text := fmt.Sprintf(line, 500, "/run/openvswitch/vhost0") + fmt.Sprintf(line, 501, "/run/openvswitch/vhost1") +
		fmt.Sprintf(line, 900, "/tmp/a\n"+strings.TrimSuffix(fmt.Sprintf(line, 501, "/run/vm1.sock"), "\n")) + // line end in a name
		fmt.Sprintf(line, 901, "@\n"+strings.TrimSuffix(fmt.Sprintf(line, 502, "/run/vm2.sock"), "\n")) + // the helper's in another namespace
		fmt.Sprintf(line, 902, "/run/openvswitch/vhost0") // in a mount namespace of its own
	files := map[string]string{
		"proc/net/unix": text, "proc/self/ns/net": "→net:[1]", "proc/50/ns/net": "→net:[1]", "proc/60/ns/net": "→net:[2]",
		"proc/10/comm": "qemu-kvm", "proc/50/comm": "ovs-vswitchd", "proc/50/fd/3": "→socket:[500]", "proc/50/fd/4": "→socket:[501]",
		"proc/60/comm": "ovs-vswitchd", "proc/60/fd/3": "→socket:[502]",
	}
	linked := func(files map[string]string) string {
		tree := tree(t, with(files))
		f := New(tree)
		f.files = &fake{disk: disk{tree}, unlisted: syscall.ENOENT}
		f.Attached = func(id workload.ID) (out []workload.Attachment) {
			for _, path := range []string{"/run/openvswitch/vhost0", "/run/vm1.sock", "/run/vm2.sock", "/run/openvswitch/vh"} {
				out = append(out, workload.Attachment{Kind: workload.BySocket, Path: path})
			}
			return out
		}
		ovs, other := work("/ovs", 50), work("/pod", 60)
		for _, o := range []*workload.Observation{&ovs, &other} {
			o.CPUUse, o.RanOn = 2, []workload.NodeShare{{Node: 1, Share: 1}}
		}
		links, _ := f.Links(t.Context(), host(), []workload.Observation{work("/a", 10), ovs, other})
		return drawn(links["/a"])
	}
	if diff := cmp.Diff("vhost-user ovs-vswitchd node 1: unix socket /run/openvswitch/vhost0 to ovs-vswitchd, PID 50", linked(files)); diff != "" {
		t.Error(diff)
	}
	// Of a list that is cut the lines that would give a forged one away may be missing.
	files["proc/net/unix"] = text + strings.Repeat(fmt.Sprintf(line, 7, "/run/x"), mostUnix/60)
	if got := linked(files); got != "" {
		t.Errorf("of a cut list: %s", got)
	}
}

// What a guest's document names is found by who listens there, on a kernel that lists no sockets, too.
func TestListeners(t *testing.T) {
	stat := "51 (qemu-nbd) S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 510 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0"
	tree := tree(t, with(map[string]string{
		"proc/net/unix": `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 500 /run/openvswitch/vhost0
0000000000000000: 00000003 00000000 00000000 0001 03   501 /run/openvswitch/vhost0
0000000000000000: 00000002 00000000 00010000 0001 01 510 /run/a b/nbd.sock
0000000000000000: 00000002 00000000 00010000 0001 01 100 /run/vm1.sock
0000000000000000: 00000002 00000000 00010000 0001 01 520 @abstract
0000000000000000: 00000003 00000000 00000000 0001 03 530`,
		"proc/10/comm": "qemu-kvm", "proc/10/fd/3": "→socket:[100]", "proc/50/comm": "ovs-vswitchd", "proc/50/fd/3": "→socket:[500]", "proc/50/ns/net": "→net:[1]",
		"proc/51/comm": "qemu-nbd", "proc/51/stat": stat, "proc/51/fd/3": "→socket:[510]", "proc/51/ns/net": "→net:[1]",
	}))
	f := New(tree)
	f.files = &fake{disk: disk{tree}, unlisted: syscall.ENOENT}
	f.Attached = func(id workload.ID) (out []workload.Attachment) {
		for _, path := range []string{"/var/run/openvswitch/vhost0", "/run/a b/nbd.sock", "/run/vm1.sock", "/run/none"} {
			out = append(out, workload.Attachment{Kind: workload.BySocket, Path: path})
		}
		return out
	}
	ovs := work("/ovs", 50)
	ovs.CPUUse, ovs.RanOn = 2, []workload.NodeShare{{Node: 1, Share: 1}}
	links, _ := f.Links(t.Context(), host(), []workload.Observation{work("/a", 10), ovs})
	want := "socket qemu-nbd node : unix socket /run/a b/nbd.sock to qemu-nbd, PID 51\n" +
		"vhost-user ovs-vswitchd node 1: unix socket /var/run/openvswitch/vhost0 to ovs-vswitchd, PID 50"
	if diff := cmp.Diff(want, drawn(links["/a"])); diff != "" {
		t.Error(diff)
	}
	if got := drawn(links["/ovs"]); strings.Contains(got, "ovs-vswitchd") {
		t.Errorf("it serves itself: %s", got)
	}
}
