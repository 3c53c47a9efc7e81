package links

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/workload"
)

// attached makes links of what the manager of a workload says of it and its open files do not: the
// servers of network disks, which QEMU reaches by itself, the taps of NICs, and who listens at
// sockets, also where the kernel does not tell which are connected.
func (r *round) attached(g *gathered, o *workload.Observation) {
	for _, a := range g.attached {
		switch a.Kind {
		case workload.ByTap:
			r.tap(g, a.Device)
		case workload.ByNetDisk:
			r.remote(g, fmt.Sprintf("disk %s over %s", a.Name, a.Protocol), a.Servers, a)
		case workload.BySocket:
			r.listener(g, o, a.Path)
		}
	}
}

// remote makes a link to the NIC by which servers are reached, with what disks there have read and
// written: counted where that of all of them is. One of this host is no matter of a
// NIC (see server). Names are not asked of anybody: they are taken to lie beyond the default route.
func (r *round) remote(g *gathered, what string, servers []string, disks ...workload.Attachment) {
	for _, server := range servers {
		way := []string{what, "server " + server}
		device := ""
		if address, err := netip.ParseAddr(server); err == nil {
			if device, err = r.files.route(address.Unmap()); err != nil || device == "" || device == "lo" {
				continue
			}
		} else {
			device = r.net.defaultRoute()
			way = append(way, "default route")
		}
		if to := r.net.way(device); to != nil {
			l := r.link(workload.ByNetDisk, to[len(to)-1], append(way, to...)...)
			l.Counted = len(disks) > 0
			for _, d := range disks {
				l.Bytes, l.Counted = l.Bytes+d.Bytes, l.Counted && d.Counted
			}
			g.add(l)
			return // the servers of a disk are the same cluster
		}
	}
}

// mounted makes a link when a file lies on a file system that a server has: its device has no
// number of a disk.
func (r *round) mounted(g *gathered, pid int, number string) {
	if !strings.HasPrefix(number, "0:") {
		return
	}
	text, _ := r.files.read(fmt.Sprintf("proc/%d/mountinfo", pid))
	for line := range strings.Lines(text) {
		left, right, _ := strings.Cut(line, " - ")
		mount, fs := strings.Fields(left), strings.Fields(right)
		if len(mount) < 5 || len(fs) < 3 || mount[2] != number {
			continue
		}
		if servers := serversOf(fs[0], fs[1], fs[2]); servers != nil {
			r.remote(g, fmt.Sprintf("file on %s (%s)", mount[4], fs[0]), servers,
				g.disksAt(func(path string) bool {
					return strings.HasPrefix(path, strings.TrimSuffix(mount[4], "/")+
						"/")
				})...)
		}
		return
	}
}

// disksAt is the disks of a guest, files and block devices, that are where is says.
func (g *gathered) disksAt(is func(path string) bool) (out []workload.Attachment) {
	for _, a := range g.attached {
		if a.Kind == workload.ByBlock && is(a.Path) {
			out = append(out, a)
		}
	}
	return out
}

// serversOf is the servers of a mounted file system: nfs(5) and mount.cifs(8) have them in
// addr=, ceph(8) before the folder, as MON[:PORT],MON…:/FOLDER or in mon_addr=.
func serversOf(kind, source, options string) (out []string) {
	option := func(key string) string {
		for o := range strings.SplitSeq(options, ",") {
			if value, ok := strings.CutPrefix(o, key+"="); ok {
				return value
			}
		}
		return ""
	}
	switch kind {
	case "nfs", "nfs4", "cifs", "smb3":
		if a := option("addr"); a != "" {
			return []string{a}
		}
	case "ceph":
		monitors := strings.ReplaceAll(option("mon_addr"), "/", ",")
		if monitors == "" {
			monitors, _, _ = strings.Cut(source, ":/")
		}
		for m := range strings.SplitSeq(monitors, ",") {
			if at, err := netip.ParseAddrPort(m); err == nil {
				m = at.Addr().String()
			}
			out = append(out, m)
		}
	}
	return out
}

// iscsi makes a link when a disk is a session of iSCSI: its device lies below that, and the
// connection has the address (drivers/scsi/scsi_transport_iscsi.c).
func (r *round) iscsi(g *gathered, number string) {
	target, err := r.files.link("sys/dev/block/" + number)
	if err != nil {
		return
	}
	for part := range strings.SplitSeq(target, "/") {
		session, ok := strings.CutPrefix(part, "session")
		if !ok {
			continue
		}
		all, _ := r.files.list("sys/class/iscsi_connection")
		slices.Sort(all)
		for _, c := range all {
			if strings.HasPrefix(c, "connection"+session+":") {
				if address, err := r.files.read("sys/class/iscsi_connection/" + c + "/address"); err == nil {
					same := g.disksAt(func(path string) bool {
						if !strings.HasPrefix(path, "/dev/") { // finding another name may ask a server that is gone
							return false
						}
						_, is, err := r.files.device(strings.TrimPrefix(path, "/"))
						return err == nil && is == number
					})
					r.remote(g, "disk "+path.Base(target)+" over iscsi", []string{address}, same...)
				}
			}
		}
	}
}
