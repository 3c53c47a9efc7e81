package links

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

// serving is programs that serve storage, a network or a TPM to guests over a socket and need
// not poll, by their name in /proc/PID/comm, which has 15 bytes.
var serving = []string{
	// storage
	"qemu-nbd", "nbdkit", "nbd-server", "qemu-storage-da", "virtiofsd", "vhost-device-bl", "vhost-device-sc",
	"vhost-user-blk",
	"ceph-osd", "glusterfsd", "tgtd", // storage that goes over a network, and may be on this host
	"passt", "passt.avx2", "vhost-device-vs", // network
	"swtpm",
}

// guests is the programs that run guests.
var guests = []string{"qemu-system-", "qemu-kvm", "kvm", "cloud-hyperviso", "firecracker", "crosvm"}

// mostNamed is how many processes are asked what they run in one round, 10 µs each.
const mostNamed = 1000

// mostServed is how many open files of servers that ordinary users run are gone through in one
// round, 2 µs each: what a program is called is its user's to choose.
const mostServed = 2048

// server is a process of serving.
type server struct {
	process workload.Process
	name    string
}

func (r *round) isGuest(pid int) bool {
	name, err := r.files.read(fmt.Sprintf("proc/%d/comm", pid))
	return err == nil && slices.ContainsFunc(guests, func(g string) bool { return strings.HasPrefix(name, g) })
}

// server makes a link when the other end of a guest's socket is a server's.
func (r *round) server(g *gathered, pid int, inode uint64) {
	if r.served == nil {
		r.findServers()
	}
	own := r.peers[inode]
	s := r.served[own.peer]
	at := cmp.Or(own.path, r.peers[own.peer].path)
	if s == nil || s.process.PID == pid || isControl(at) || r.helpers[own.peer] != nil {
		return
	}
	if !strings.HasPrefix(at, "TCP ") {
		at = "unix socket " + cmp.Or(at, "without a name")
	}
	r.serves(g, s, at)
}

func (r *round) serves(g *gathered, s *server, by string) {
	g.add(workload.Link{Kind: workload.BySocket, Helper: s.process, Name: s.name, Nodes: r.ranOn(s.process),
		Evidence: fmt.Sprintf("%s to %s, PID %d", by, s.name, s.process.PID)})
}

// listener makes a link when who listens at a socket is a helper or a server in this network
// namespace: of others no line in /proc/net/unix is their own.
func (r *round) listener(g *gathered, o *workload.Observation, at string) {
	if r.listening == nil {
		r.listening = r.files.listening()
	}
	found := r.listening[underRun(at)]
	if len(found) > 0 && r.served == nil {
		r.findServers()
	}
	by := "unix socket " + at
	for _, inode := range found {
		h, s := r.helpers[inode], r.served[inode]
		switch {
		case h != nil && r.isHere(h.process) && !slices.Contains(o.Processes, h.process):
			r.works(g, h, by)
		case h == nil && s != nil && r.isHere(s.process) && !slices.Contains(o.Processes, s.process):
			r.serves(g, s, by)
		}
	}
}

// isHere reports whether a process is in the network namespace of this one.
func (r *round) isHere(p workload.Process) bool {
	ns, _ := r.files.link(fmt.Sprintf("proc/%d/ns/net", p.PID))
	return ns == r.own
}

// underRun is a path with /run for its other name.
func underRun(name string) string {
	if rest, ok := strings.CutPrefix(path.Clean(name), "/var/run/"); ok {
		return "/run/" + rest
	}
	return path.Clean(name)
}

// nbd makes a link when a block device is one that a process of this host serves: the kernel
// tells its PID (drivers/block/nbd.c, pid_show).
func (r *round) nbd(g *gathered, number string) {
	target, err := r.files.link("sys/dev/block/" + number)
	name := path.Base(target)
	if err != nil || !strings.HasPrefix(name, "nbd") {
		return
	}
	name, _, _ = strings.Cut(name, "p") // a partition is of its disk
	text, err := r.files.read("sys/class/block/" + name + "/pid")
	if err != nil {
		return
	}
	pid, _ := strconv.Atoi(text)
	if s := r.serverAt(pid); s != nil {
		r.serves(g, s, "/dev/"+name)
	}
}

// serverAt is a process as a server.
func (r *round) serverAt(pid int) *server {
	text, err := r.files.read(fmt.Sprintf("proc/%d/stat", pid))
	if err != nil || pid <= 0 {
		return nil
	}
	stat, err := proc.ParseStat([]byte(text))
	if err != nil {
		return nil
	}
	return &server{workload.Process{PID: pid, Start: stat.Start}, string(stat.Comm)}
}

// findServers finds the processes that serve and their sockets. Each process is asked what it
// runs when it is new and once more a round later, for it may begin as another program.
func (r *round) findServers() {
	r.served = map[uint64]*server{}
	if r.helpers == nil {
		r.findHelpers()
	}
	names, err := r.files.list("proc")
	if err != nil {
		return
	}
	here := map[int]bool{}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			here[pid] = true
		}
	}
	maps.DeleteFunc(r.named, func(pid, _ int) bool { return !here[pid] })
	maps.DeleteFunc(r.servers, func(pid int, _ *server) bool { return !here[pid] })
	// Those that served before are asked first, whatever else has begun since.
	order := append(slices.Sorted(maps.Keys(r.servers)), slices.Sorted(maps.Keys(here))...)
	asked, theirs := map[int]bool{}, 0
	for _, pid := range order {
		if asked[pid] || (r.named[pid] > 1 && r.servers[pid] == nil) {
			continue
		}
		if asked[pid] = true; len(asked) > mostNamed+len(r.servers) {
			break
		}
		r.named[pid]++
		name, err := r.files.read(fmt.Sprintf("proc/%d/comm", pid))
		delete(r.servers, pid)
		if err != nil || !slices.Contains(serving, name) {
			continue
		}
		s := r.serverAt(pid)
		if s == nil {
			continue
		}
		r.servers[pid] = s
		status, err := r.files.read(fmt.Sprintf("proc/%d/status", pid))
		ordinary, most := err == nil && workload.Ordinary(proc.ParseStatus([]byte(status)).UID), mostEntries
		if ordinary {
			most = min(mostDescriptors, mostServed-theirs)
		}
		own, looked := r.sockets(pid, most)
		if ordinary {
			theirs += looked
		}
		for inode := range own {
			r.served[inode] = s
		}
	}
	if len(r.servers) == 0 {
		return
	}
	if r.peers == nil {
		r.listPeers()
	}
	streams, err := r.files.streams()
	r.noStreams = err
	maps.Copy(r.peers, streams)
}

// listPeers finds the other ends of unix sockets.
func (r *round) listPeers() {
	if r.peers, r.noPeers = r.files.peers(); r.peers == nil {
		r.peers = map[uint64]end{}
	}
}

// sockets is the inodes of the sockets among the first of the files that a process has open, and how
// many of those were looked at.
func (r *round) sockets(pid, most int) (map[uint64]bool, int) {
	out := map[uint64]bool{}
	dir := fmt.Sprintf("proc/%d/fd", pid)
	names, _ := r.files.list(dir)
	names = names[:min(len(names), most)]
	for _, fd := range names {
		to, err := r.files.link(dir + "/" + fd)
		if inode, ok := strings.CutPrefix(to, "socket:["); err == nil && ok {
			if n, err := strconv.ParseUint(strings.TrimSuffix(inode, "]"), 10, 64); err == nil {
				out[n] = true
			}
		}
	}
	return out, len(names)
}

// ranOn is the nodes on which the workload of a process spends its time; empty when it is none.
func (r *round) ranOn(p workload.Process) topology.NodeSet {
	for i := range r.all {
		if slices.Contains(r.all[i].Processes, p) {
			return workload.RunsOn(r.all[i].RanOn)
		}
	}
	return topology.NodeSet{}
}
