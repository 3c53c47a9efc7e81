package links

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/host/internal/proc"
)

// files is what is read of the machine. Names are below its root.
type files interface {
	read(name string) (string, error)
	list(dir string) ([]string, error)
	// many lists at most so many names of a folder, in no order.
	many(dir string, most int) ([]string, error)
	link(name string) (string, error)
	// char is the character device that a file is, "MAJ:MIN"; "" when it is none.
	char(name string) (string, error)
	// device is the device that a file lies on, and for a block device the device it
	// is, "MAJ:MIN"; "" when it is neither on nor one.
	device(name string) (on, is string, err error)
	// sysOf is the sysfs that a process has at /sys, errOwn when it shows the
	// network namespace of this process. close ends it.
	sysOf(pid int) (sys files, close func(), err error)
	// peers is the connected unix sockets, by inode.
	peers() (map[uint64]end, error)
	// listening is the unix sockets of this network namespace at which somebody listens: their
	// inodes by path. Several have one path: each in a mount namespace of its own.
	listening() map[string][]uint64
	// streams is the TCP connections whose both ends are on this host, by inode.
	streams() (map[uint64]end, error)
	// route is the device by which the host reaches an address.
	route(netip.Addr) (string, error)
}

// end is one end of a connection.
type end struct {
	peer uint64 // inode of the other
	path string // it is bound to; "" for the end that connected
}

var errOwn = fmt.Errorf("its /sys does not show its network namespace")

// most is how much of a file is read: the largest, /proc/PID/fdinfo and io.stat, are
// far smaller.
const most = 64 << 10

// disk is the tree below a folder.
type disk struct{ root string }

func (d disk) path(name string) string { return filepath.Join(d.root, name) }

func (d disk) read(name string) (string, error) {
	f, err := os.OpenFile(d.path(name), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	return readAll(f)
}

func readAll(f *os.File) (string, error) {
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most))
	return strings.TrimSpace(string(b)), err
}

// mostEntries bounds a folder: a proxy has a million descriptors, which the kernel
// lists from the lowest on.
const mostEntries = 4096

// list is in no order.
func (d disk) list(dir string) ([]string, error) { return d.many(dir, mostEntries) }

func (d disk) many(dir string, most int) ([]string, error) {
	f, err := os.Open(d.path(dir))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return entries(f, most)
}

func entries(f *os.File, most int) ([]string, error) {
	names, err := f.Readdirnames(max(1, most))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

func (d disk) link(name string) (string, error) { return os.Readlink(d.path(name)) }

// statx returns the type of a file. It asks no server that may be gone: a plain stat of a file on a dead NFS server
// never returns.
func (d disk) statx(name string) (st unix.Statx_t, err error) {
	const flags = unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT
	err = unix.Statx(unix.AT_FDCWD, d.path(name), flags, unix.STATX_TYPE, &st)
	return st, err
}

func (d disk) device(name string) (on, is string, err error) {
	st, err := d.statx(name)
	if err != nil {
		return "", "", err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFBLK:
		return "", fmt.Sprintf("%d:%d", st.Rdev_major, st.Rdev_minor), nil
	case unix.S_IFREG:
		return fmt.Sprintf("%d:%d", st.Dev_major, st.Dev_minor), "", nil
	}
	return "", "", nil
}

func (d disk) char(name string) (string, error) {
	st, err := d.statx(name)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return "", err
	}
	return fmt.Sprintf("%d:%d", st.Rdev_major, st.Rdev_minor), nil
}

func (d disk) sysOf(pid int) (files, func(), error) {
	mounts, err := d.read(fmt.Sprintf("proc/%d/mountinfo", pid))
	if err != nil {
		return nil, nil, err
	}
	if strings.HasPrefix(mountType(mounts, "", "/"), "fuse") { // looking for /sys in it would ask
		return nil, nil, errOwn
	}
	// With O_PATH the kernel does not ask the file system that is mounted there: one of
	// a process's own (FUSE) need never answer.
	at, err := unix.Open(d.path(fmt.Sprintf("proc/%d/root/sys", pid)), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(at)
	self, err := d.read(fmt.Sprintf("proc/self/fdinfo/%d", at))
	if err != nil {
		return nil, nil, err
	}
	if mountType(mounts, field(self, "mnt_id:"), "") != "sysfs" {
		return nil, nil, errOwn
	}
	r, err := os.OpenRoot(d.path(fmt.Sprintf("proc/self/fd/%d", at)))
	if err != nil {
		return nil, nil, err
	}
	// The folder is the workload's to make: it counts only when it is a sysfs. There is
	// one for each network namespace.
	if err := sysfs(r, d.path("sys")); err != nil {
		r.Close()
		return nil, nil, err
	}
	return within{r}, func() { r.Close() }, nil
}

// field returns a value that the kernel gives of a descriptor (proc(5), /proc/PID/fdinfo); "" when it gives none.
func field(fdinfo, key string) string {
	for line := range strings.Lines(fdinfo) {
		if value, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// mountType is the type of the mount with an ID, or else of the one at a place, FUSE if
// one of several there is; "" for none.
func mountType(mountinfo, id, at string) string {
	found := ""
	for _, m := range proc.Mountinfo([]byte(mountinfo)) {
		if (id != "" && m.ID != id) || (id == "" && m.Point != at) {
			continue
		}
		if found == "" || strings.HasPrefix(m.Type, "fuse") {
			found = m.Type
		}
	}
	return found
}

func sysfs(r *os.Root, own string) error {
	f, err := r.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	var fs unix.Statfs_t
	var st, mine unix.Stat_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return err
	}
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if err := unix.Stat(own, &mine); err != nil {
		return err
	}
	if fs.Type != unix.SYSFS_MAGIC || st.Dev == mine.Dev {
		return errOwn
	}
	return nil
}

func (d disk) route(to netip.Addr) (string, error) {
	routes, err := netlink.RouteGet(to.AsSlice())
	if err != nil || len(routes) == 0 {
		return "", fmt.Errorf("route to %s: %w", to, err)
	}
	l, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return "", fmt.Errorf("route to %s: %w", to, err)
	}
	return l.Attrs().Name, nil
}

// unlisted is the error of sock_diag(7) for a kind of sockets. The kernel loads its module by itself,
// unless it may not (kernel.modules_disabled) or there is none; then it says ENOENT (net/core/sock_diag.c).
func unlisted(kind string, err error) error {
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("the kernel does not tell which %[1]s sockets are connected; load the module %[1]s_diag",
			kind)
	}
	return fmt.Errorf("list %s sockets: %w", kind, err)
}

func (d disk) peers() (map[uint64]end, error) {
	all, err := netlink.UnixSocketDiagInfo()
	if err != nil {
		return nil, unlisted("unix", err)
	}
	out := make(map[uint64]end, len(all))
	for _, s := range all {
		if s.Peer == nil || s.DiagMsg == nil {
			continue
		}
		e := end{peer: uint64(*s.Peer)}
		if s.Name != nil {
			e.path, _, _ = strings.Cut(strings.TrimLeft(*s.Name, "\x00"), "\x00") // what follows is of the message
		}
		out[uint64(s.DiagMsg.INode)] = e
	}
	return out, nil
}

// mostUnix bounds /proc/net/unix, a line of 60 bytes and a path for each socket.
const mostUnix = 8 << 20

func (d disk) listening() map[string][]uint64 {
	f, err := os.Open(d.path("proc/net/unix"))
	if err != nil {
		return map[string][]uint64{}
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostUnix))
	if err != nil || len(b) == mostUnix { // what would give a forged line away may be missing
		return map[string][]uint64{}
	}
	return listeners(string(b))
}

// acceptsConnections is __SO_ACCEPTCON, in the flags of a socket that listens.
const acceptsConnections = 0x10000

// listeners reads /proc/net/unix (net/unix/af_unix.c, unix_seq_show): lines "Num: RefCount
// Protocol Flags Type St Inode Path", hexadecimal but for the inode. The kernel writes a path as it
// is, line ends too: what follows one can be a line that a user made up. The socket that such a line is
// about has one of its own, so of an inode with several none counts.
func listeners(text string) map[string][]uint64 {
	paths, lines := map[uint64]string{}, map[uint64]int{}
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.Join(strings.Fields(line), " "), " ", 8)
		if len(f) < 7 {
			continue
		}
		flags, err := strconv.ParseUint(f[3], 16, 64)
		inode, bad := strconv.ParseUint(f[6], 10, 64)
		if bad != nil {
			continue
		}
		lines[inode]++
		if len(f) == 8 && strings.HasPrefix(f[7], "/") && err == nil && flags&acceptsConnections != 0 {
			paths[inode] = underRun(f[7])
		}
	}
	out := map[string][]uint64{}
	for _, inode := range slices.Sorted(maps.Keys(paths)) {
		if path := paths[inode]; lines[inode] == 1 {
			out[path] = append(out[path], inode)
		}
	}
	return out
}

// mostStreams bounds the TCP sockets that are gone through: listing them takes about a µs each.
const mostStreams = 20000

func (d disk) streams() (map[uint64]end, error) {
	text, err := d.read("proc/net/sockstat") // "TCP: inuse 12 orphan 0 tw 3 …"
	if err != nil {
		return nil, err
	}
	_, tcp, _ := strings.Cut(text, "TCP: inuse ")
	if n, _ := strconv.Atoi(strings.Fields(tcp + " 0")[0]); n > mostStreams {
		return nil, fmt.Errorf("%d TCP sockets: more than %d are not gone through", n, mostStreams)
	}
	type pair struct{ from, to netip.AddrPort }
	inodes := map[pair]uint64{}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		all, err := netlink.SocketDiagTCP(family)
		if err != nil {
			return nil, unlisted("tcp", err)
		}
		for _, s := range all {
			from, known := netip.AddrFromSlice(s.ID.Source)
			to, both := netip.AddrFromSlice(s.ID.Destination)
			if known && both && s.INode > 0 {
				inodes[pair{netip.AddrPortFrom(from.Unmap(), s.ID.SourcePort),
					netip.AddrPortFrom(to.Unmap(), s.ID.DestinationPort)}] = uint64(s.INode)
			}
		}
	}
	out := map[uint64]end{}
	for p, inode := range inodes {
		if other := inodes[pair{p.to, p.from}]; other > 0 {
			out[inode] = end{other, "TCP " + p.to.String()}
		}
	}
	return out, nil
}

// within is a tree that no link leads out of.
type within struct{ *os.Root }

func (w within) read(name string) (string, error) {
	f, err := w.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	return readAll(f)
}

func (w within) list(dir string) ([]string, error) { return w.many(dir, mostEntries) }

func (w within) many(dir string, most int) ([]string, error) {
	f, err := w.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return entries(f, most)
}

func (w within) char(string) (string, error) { return "", unix.EOPNOTSUPP }

func (w within) link(name string) (string, error) { return w.Readlink(name) }

func (w within) device(string) (on, is string, err error) { return "", "", unix.EOPNOTSUPP }

func (w within) sysOf(int) (files, func(), error) { return nil, nil, unix.EOPNOTSUPP }

func (w within) peers() (map[uint64]end, error) { return nil, unix.EOPNOTSUPP }

func (w within) route(netip.Addr) (string, error) { return "", unix.EOPNOTSUPP }

func (w within) listening() map[string][]uint64 { return map[string][]uint64{} }

func (w within) streams() (map[uint64]end, error) { return nil, unix.EOPNOTSUPP }
