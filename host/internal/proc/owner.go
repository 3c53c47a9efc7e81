package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/workload"
)

// Owners finds the owners of processes and UIDs (workload.Owner) on one machine. Nothing that it
// reads waits for the process: /proc/PID/status, cgroup and ns/user take no lock of its address
// space (fs/proc/array.c, kernel/cgroup/cgroup.c, fs/proc/namespaces.c). Reading cgroup waits for
// cgroup_mutex, which a write of another program may hold.
//
// A process changes its owner only with root's help: setuid(2) of a service, or a manager that
// moves it to another cgroup. A user namespace that it creates or enters leaves the owner as it
// was. So an owner may be kept for a while, but not for good.
//
// Its methods may be called from several goroutines.
type Owners struct {
	root    fs.FS
	created func(userNS fs.File) (namespace, error)

	mu   sync.Mutex
	subs subordinates
	own  string // user namespace of this process, as ns/user links to it; "" until it is known
}

// namespace is the outermost user namespace of a process below this process's own.
type namespace struct {
	creator int // UID, in this process's user namespace
	inode   uint64
}

// NewOwners returns Owners on the file tree of a machine. User namespaces are found where root
// opens files of the operating system, as os.DirFS does.
func NewOwners(root fs.FS) *Owners { return &Owners{root: root, created: outermost} }

// ErrOtherUser is for a process that is not, or no longer, of the user that was asked for.
var ErrOtherUser = errors.New("the process is of another user")

// Of returns the owner of a process. The error is that of reading its status; it wraps
// fs.ErrNotExist when the process has ended.
func (o *Owners) Of(pid int) (workload.Owner, error) {
	status, err := o.statusOf(pid)
	if err != nil {
		return workload.SystemOwner, err
	}
	return o.Known(pid, status.UID, o.cgroupOf(pid)), nil
}

// OfUser returns the owner of a process that is of a user, by its real or effective UID; for any
// other the error is ErrOtherUser.
func (o *Owners) OfUser(pid, uid int) (workload.Owner, error) {
	status, err := o.statusOf(pid)
	if err != nil {
		return workload.SystemOwner, err
	}
	if uid != status.UID && uid != status.EUID {
		return workload.SystemOwner, ErrOtherUser
	}
	return o.Known(pid, uid, o.cgroupOf(pid)), nil
}

func (o *Owners) statusOf(pid int) (Status, error) {
	text, err := fs.ReadFile(o.root, File(pid, "status"))
	if err != nil {
		return Status{}, err
	}
	return ParseStatus(text), nil
}

// cgroupOf returns the cgroup v2 path of a process; "" where there is none, or no answer.
func (o *Owners) cgroupOf(pid int) string {
	text, err := fs.ReadFile(o.root, File(pid, "cgroup"))
	if err != nil {
		return ""
	}
	return Cgroup(text)
}

// Known returns the owner of a process of which the UID and the cgroup v2 path are known.
func (o *Owners) Known(pid, uid int, cgroup string) workload.Owner {
	if owner, ok := workload.CgroupOwner(cgroup); ok {
		return owner
	}
	byUID := o.OfUID(uid)
	ns, ok := o.namespaceOf(pid)
	if !ok {
		return byUID
	}
	if creator := o.OfUID(ns.creator); creator != workload.SystemOwner {
		return creator
	}
	// Root creates it for a container, or for a user: by a setuid program that makes sandboxes.
	if byUID == workload.SystemOwner || o.isAccount(uid) {
		return byUID
	}
	return workload.UserNamespaceOwner(ns.inode)
}

// OfUID returns the owner for a UID of which no more is known: the user to whom subuid(5) gives
// it, else workload.UserOwner.
func (o *Owners) OfUID(uid int) workload.Owner {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.subs.refresh(o.root)
	if owner, ok := o.subs.holder(uid); ok {
		return owner
	}
	return workload.UserOwner(uid)
}

// isAccount reports whether /etc/passwd has a UID.
func (o *Owners) isAccount(uid int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.subs.refresh(o.root)
	return o.subs.accounts[uid]
}

// namespaceOf returns the outermost user namespace of a process; ok is false when the process is
// in this process's own, and when that cannot be read. A link costs some 2 µs.
func (o *Owners) namespaceOf(pid int) (ns namespace, ok bool) {
	own := o.ownNamespace()
	name := File(pid, "ns/user")
	link, err := fs.ReadLink(o.root, name)
	if err != nil || own == "" || link == own {
		return ns, false
	}
	f, err := o.root.Open(name)
	if err != nil {
		return ns, false
	}
	defer f.Close()
	ns, err = o.created(f)
	return ns, err == nil
}

func (o *Owners) ownNamespace() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.own == "" {
		o.own, _ = fs.ReadLink(o.root, "proc/self/ns/user")
	}
	return o.own
}

// mostNested is how deep the kernel nests user namespaces (create_user_ns, kernel/user_namespace.c).
const mostNested = 33

// outermost follows the parents of a user namespace up to the child of this process's own
// (ioctl_nsfs(2)).
func outermost(userNS fs.File) (ns namespace, err error) {
	f, ok := userNS.(*os.File)
	if !ok {
		return ns, errors.ErrUnsupported
	}
	var own unix.Stat_t
	if err := unix.Stat("/proc/self/ns/user", &own); err != nil {
		return ns, err
	}
	at, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return ns, err
	}
	defer func() { unix.Close(at) }()
	for range mostNested {
		parent, err := unix.IoctlRetInt(at, unix.NS_GET_PARENT)
		if err != nil {
			return ns, fmt.Errorf("parent of a user namespace: %w", err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(parent, &st); err != nil {
			unix.Close(parent)
			return ns, err
		}
		if st.Ino == own.Ino && st.Dev == own.Dev {
			unix.Close(parent)
			return creatorOf(at)
		}
		unix.Close(at)
		at = parent
	}
	return ns, fmt.Errorf("user namespaces nest deeper than %d", mostNested)
}

func creatorOf(fd int) (ns namespace, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return ns, err
	}
	uid, err := unix.IoctlGetUint32(fd, unix.NS_GET_OWNER_UID)
	if err != nil {
		return ns, fmt.Errorf("owner of a user namespace: %w", err)
	}
	return namespace{int(uid), st.Ino}, nil
}
