package links

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

const (
	// Budget is the time that one round may take: with a round every 30 s less than a
	// thousandth of a CPU. A round ends with the workload that it is at. Work that is given several GPUs
	// has as much for itself, before the others: until it is known which of its processes opened
	// which GPU, new memory is on the wrong node.
	Budget = 20 * time.Millisecond

	// mostProcesses and mostDescriptors bound one workload: a server's workers have
	// inherited the same descriptors, and the first of them are the devices.
	mostProcesses   = 32
	mostDescriptors = 512
)

// Finder looks at one machine again and again. It belongs to one goroutine.
type Finder struct {
	files files
	now   func() time.Time
	known map[workload.ID]*found
	calls *proc.Calls
	own   string // network namespace of this process

	servers map[int]*server // by PID, see findServers
	// Why it could not tell which sockets are connected to which when it had to last.
	noPeers, noStreams error
	// Attached is what the manager of a workload says that it is plugged into; nil asks nobody.
	Attached func(workload.ID) []workload.Attachment

	named map[int]int // in how many rounds the program of each PID was looked at
}

// found is what was last found of a workload.
type found struct {
	at    time.Time
	start uint64 // of its first process
	links []workload.Link
}

// New returns a Finder on the machine below root ("/" for this one).
func New(root string) *Finder {
	return &Finder{files: disk{root}, now: time.Now, known: map[workload.ID]*found{}, calls: proc.NewCalls(nil),
		servers: map[int]*server{}, named: map[int]int{}}
}

// Links is the devices and helpers that each workload was found to use, by kind and
// name. Counters are as of the returned time of the workload's own look, which may be
// of an earlier round.
func (f *Finder) Links(ctx context.Context, h *topology.Host,
	all []workload.Observation) (map[workload.ID][]workload.Link, map[workload.ID]time.Time) {
	r := &round{Finder: f, host: h, net: newNetwork(f.files, h), all: all}
	if f.own == "" {
		f.own, _ = f.files.link("proc/self/ns/net")
	}
	var first, order []*workload.Observation
	here := map[workload.ID]bool{}
	for i := range all {
		o := &all[i]
		here[o.ID] = true
		if k := f.known[o.ID]; k != nil && k.start != startOf(o) {
			delete(f.known, o.ID)
		}
		if o.Caps.GPUs {
			first = append(first, o)
			continue
		}
		order = append(order, o)
	}
	maps.DeleteFunc(f.known, func(id workload.ID, _ *found) bool { return !here[id] })
	since := func(o *workload.Observation) time.Time {
		if k := f.known[o.ID]; k != nil {
			return k.at
		}
		return time.Time{}
	}
	for _, some := range [][]*workload.Observation{first, order} {
		slices.SortStableFunc(some, func(a, b *workload.Observation) int { return since(a).Compare(since(b)) })
		begun := f.now()
		for _, o := range some {
			if ctx.Err() != nil || f.now().Sub(begun) > Budget {
				break
			}
			f.known[o.ID] = &found{at: f.now(), start: startOf(o), links: r.of(o)}
		}
	}
	links, at := map[workload.ID][]workload.Link{}, map[workload.ID]time.Time{}
	for id, k := range f.known {
		if len(k.links) > 0 {
			links[id], at[id] = k.links, k.at
		}
	}
	return links, at
}

// Lacks is why Links cannot tell which sockets are connected to which; nil if it can, or has had
// no need to. Not every round has: it stays until one that has says otherwise.
func (f *Finder) Lacks() error { return cmp.Or(f.noPeers, f.noStreams) }

// startOf tells a workload from a later one with the same ID.
func startOf(o *workload.Observation) uint64 {
	if o.Kind != workload.InCgroup && len(o.Processes) > 0 {
		return o.Processes[0].Start
	}
	return 0
}

// round is one look at several workloads.
type round struct {
	*Finder
	host    *topology.Host
	net     *network
	all     []workload.Observation
	helpers map[uint64]*helper // by inode of their unix sockets; nil until asked for
	peers   map[uint64]end
	served  map[uint64]*server // by inode of their sockets; nil until asked for
	gpus    *gpus              // nil until asked for

	listening map[string][]uint64 // inodes of unix sockets, by path; nil until asked for
}

// gathered is what the processes of one workload have open.
type gathered struct {
	links  []workload.Link
	namesp map[string]bool // network namespaces seen
	disks  map[string]string
	vhost  bool
	taps   []workload.Link
	io     uint64

	attached []workload.Attachment
}

func (r *round) of(o *workload.Observation) []workload.Link {
	g := &gathered{namesp: map[string]bool{r.own: true, "": true}, disks: map[string]string{}}
	if r.Attached != nil {
		g.attached = r.Attached(o.ID)
	}
	for _, p := range o.Processes[:min(len(o.Processes), mostProcesses)] {
		r.namespace(g, p, o.Responsible())
		r.descriptors(g, p.PID)
		text, _ := r.files.read(fmt.Sprintf("proc/%d/io", p.PID))
		g.io += processIO(text)
	}
	r.gpuFiles(g, o)
	r.attached(g, o)
	for _, t := range g.taps {
		if t.Vhost = g.vhost; t.Vhost {
			t.Evidence = strings.Replace(t.Evidence, " → ", " (vhost) → ", 1)
		}
		g.add(t)
	}
	r.blocks(g, o)
	slices.SortFunc(g.links, func(a, b workload.Link) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Helper.PID, b.Helper.PID))
	})
	return g.links
}

// add puts a link in, or its bytes to those of one to the same: counted where both are.
func (g *gathered) add(l workload.Link) {
	for i := range g.links {
		if x := &g.links[i]; x.Kind == l.Kind && x.Device == l.Device && x.Helper == l.Helper {
			x.Bytes, x.Counted = x.Bytes+l.Bytes, x.Counted && l.Counted
			return
		}
	}
	g.links = append(g.links, l)
}

// link is one to a device of the host.
func (r *round) link(kind workload.LinkKind, device string, evidence ...string) workload.Link {
	l := workload.Link{Kind: kind, Device: device, Name: device, Evidence: strings.Join(evidence, " → ")}
	for _, d := range r.host.Devices {
		if d.Is(device) && d.Node != topology.None {
			l.Nodes = topology.Nodes(d.Node)
		}
	}
	return l
}

func (r *round) namespace(g *gathered, p workload.Process, owner workload.Owner) {
	ns, err := r.files.link(fmt.Sprintf("proc/%d/ns/net", p.PID))
	if err != nil || g.namesp[ns] {
		return
	}
	g.namesp[ns] = true
	var sys files
	var done func()
	// Its /sys may lie below a folder of a server that does not answer, its own for one: in
	// what it has mounted such a root folder does not show.
	lost := r.calls.Do(p, owner, func() { sys, done, err = r.files.sysOf(p.PID) })
	if lost != nil || err != nil {
		return
	}
	defer done()
	for _, p := range r.net.ports(sys) {
		l := r.link(workload.ByNamespace, p.nic, append([]string{"network namespace"}, p.way...)...)
		l.Bytes, l.Counted = p.bytes, true
		g.add(l)
	}
}

func (r *round) descriptors(g *gathered, pid int) {
	dir := fmt.Sprintf("proc/%d/fd", pid)
	guest := r.isGuest(pid)
	names, _ := r.files.list(dir)
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	for _, fd := range names[:min(len(names), mostDescriptors)] {
		to, err := r.files.link(dir + "/" + fd)
		if err != nil {
			continue
		}
		switch {
		case to == "/dev/net/tun":
			text, _ := r.files.read(fmt.Sprintf("proc/%d/fdinfo/%s", pid, fd))
			r.tap(g, field(text, "iff:")) // drivers/net/tun.c, tun_chr_show_fdinfo
		case strings.HasPrefix(to, "/dev/tap"):
			if i, err := strconv.Atoi(to[len("/dev/tap"):]); err == nil {
				r.tap(g, r.net.at(i))
			}
		case to == "/dev/vhost-net":
			g.vhost = true
		case strings.HasPrefix(to, "/dev/vfio/"):
			r.vfio(g, to)
		case strings.HasPrefix(to, "socket:["):
			if inode, err := strconv.ParseUint(strings.TrimSuffix(to[len("socket:["):], "]"), 10, 64); err == nil {
				r.socket(g, pid, inode)
				if guest {
					r.server(g, pid, inode)
				}
			}
		case strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/proc/") && !strings.HasPrefix(to, "/sys/"):
			on, is, err := r.files.device(dir + "/" + fd)
			if number := on + is; err == nil && number != "" && g.disks[number] == "" {
				r.mounted(g, pid, number)
				r.iscsi(g, number)
				g.disks[number] = map[bool]string{true: "open file on", false: "open"}[is == ""]
			}
		}
	}
}

func (r *round) tap(g *gathered, name string) {
	if name == "" ||
		slices.ContainsFunc(g.taps,
			func(l workload.Link) bool { return strings.HasPrefix(l.Evidence, "tap "+name+" ") }) {
		return
	}
	way := r.net.way(name)
	if way == nil {
		return
	}
	l := r.link(workload.ByTap, way[len(way)-1], "tap "+strings.Join(way, " → "))
	l.Bytes, l.Counted = traffic(r.files, netDir+"/"+name), true
	g.taps = append(g.taps, l)
}

// vfio finds the PCI functions behind /dev/vfio/GROUP and /dev/vfio/devices/vfioN.
func (r *round) vfio(g *gathered, to string) {
	var functions []string
	if name, ok := strings.CutPrefix(to, "/dev/vfio/devices/"); ok {
		if target, err := r.files.link("sys/class/vfio-dev/" + name + "/device"); err == nil {
			functions = []string{path.Base(target)}
		}
	} else if _, err := strconv.Atoi(path.Base(to)); err == nil {
		functions, _ = r.files.list("sys/kernel/iommu_groups/" + path.Base(to) + "/devices")
		slices.Sort(functions)
	}
	for _, pci := range functions {
		// bridges of the group are not
		if slices.ContainsFunc(r.host.Devices, func(d topology.Device) bool { return d.PCI == pci }) {
			g.add(r.link(workload.ByVFIO, pci, to, pci))
		}
	}
}

// blocks makes links of what a cgroup counted, else of what is open.
func (r *round) blocks(g *gathered, o *workload.Observation) {
	if o.Kind == workload.InCgroup {
		if text, err := r.files.read("sys/fs/cgroup" + o.Cgroup + "/io.stat"); err == nil {
			counted := ioStat(text)
			// A disk and what lies on it are both counted: only disks are taken.
			for _, number := range slices.Sorted(maps.Keys(counted)) {
				on := disks(r.files, r.host, number)
				if target, err := r.files.link("sys/dev/block/" + number); err == nil && len(on) == 1 &&
					path.Base(target) == on[0] {
					l := r.link(workload.ByBlock, on[0], "io.stat of its cgroup", on[0])
					l.Bytes, l.Counted = counted[number], true
					g.add(l)
				}
			}
			return
		}
	}
	var all []workload.Link
	for _, number := range slices.Sorted(maps.Keys(g.disks)) {
		r.nbd(g, number)
		for _, disk := range disks(r.files, r.host, number) {
			if !slices.ContainsFunc(all, func(l workload.Link) bool { return l.Device == disk }) {
				on := number
				if target, err := r.files.link("sys/dev/block/" + number); err == nil {
					on = path.Base(target)
				}
				way := []string{g.disks[number] + " " + on}
				if on != disk {
					way = append(way, disk)
				}
				all = append(all, r.link(workload.ByBlock, disk, way...))
			}
		}
	}
	for _, l := range all { // who counts by process does not tell the disks apart
		l.Bytes, l.Counted = g.io/uint64(len(all)), true
		g.add(l)
	}
}
