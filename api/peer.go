package api

import (
	"context"
	"fmt"
	"net"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/workload"
)

// peer is who sits at the other end of the socket, by the kernel's word
// (unix(7), SO_PEERCRED and SO_PEERGROUPS), taken when it connected.
type peer struct {
	uid, gid int
	groups   []int
	pid      int // in this PID namespace; 0 outside of it
	// owner is who is responsible, as far as the server found out; see party.
	owner workload.Owner
	// root is of a peer over TCP that is root, or whoever runs this daemon, of this machine:
	// that has no rights there, but no bounds either.
	root bool
	// local is of a peer over TCP that a user of this machine, or a container, is responsible
	// for. A service may be a proxy that many come through, as another machine may.
	local bool
}

// party is what connections and requests of the peer are counted by.
func (p peer) party() workload.Owner {
	if p.owner != workload.SystemOwner || p.root {
		return p.owner
	}
	return workload.UserOwner(p.uid).Holder(p.uid)
}

// unbounded reports whether the peer may have and ask as much as there is.
func (p peer) unbounded() bool { return p.root || privileged(p.uid) }

// peerKey and connKey are where the context of a request has its peer and its connection.
type (
	peerKey struct{}
	connKey struct{}
)

// hungUp reports whether who asks has closed the connection of a request, as poll(2) tells:
// POLLHUP, which a peer that still reads does not cause.
func hungUp(ctx context.Context) bool {
	u, ok := ctx.Value(connKey{}).(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(fds, 0)
		gone = err == nil && n > 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	})
	return gone || err != nil
}

func (p peer) mayChange(a Access) bool {
	if p.uid == 0 {
		return true
	}
	return p.uid > 0 && a.Group >= 0 && (p.gid == a.Group || slices.Contains(p.groups, a.Group))
}

func peerOf(c net.Conn) (peer, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return peer{}, fmt.Errorf("peer of %T: not a unix socket", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	var p peer
	var inner error
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); inner != nil {
			return
		}
		p = peer{uid: int(cred.Uid), gid: int(cred.Gid), groups: peerGroups(fd), pid: int(cred.Pid)}
	})
	if err == nil {
		err = inner
	}
	return p, err
}

// peerGroups is the peer's supplementary groups, none when the kernel does not
// say: fewer groups can only take rights away. Where there are more than room was made
// for, the kernel answers ERANGE with the size they need (net/core/sock.c).
func peerGroups(fd uintptr) []int {
	buf := make([]uint32, 64)
	for range 2 {
		size := uint32(len(buf) * 4)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch errno {
		case 0:
			groups := make([]int, size/4)
			for i := range groups {
				groups[i] = int(buf[i])
			}
			return groups
		case unix.ERANGE:
			buf = make([]uint32, size/4)
		default:
			return nil
		}
	}
	return nil
}
