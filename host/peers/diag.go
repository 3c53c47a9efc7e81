package peers

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// diag asks the kernel for single TCP sockets (sock_diag(7)). The zero value is ready.
//
// netlink.SocketGet has the kernel list all sockets of the two ports instead (NLM_F_DUMP), of
// whatever address: another socket of the same ports would hide the one meant, and a host has
// hundreds of thousands of buckets to go through.
type diag struct {
	mu     sync.Mutex
	socket *nl.NetlinkSocket // nil until the first question, and after an error
}

// Of struct inet_diag_req_v2 and struct inet_diag_msg (linux/inet_diag.h), all in network byte
// order but the family, the state, the UID and the inode.
const (
	requestSize = 56
	sourcePort  = 8 // within the request
	destPort    = 10
	source      = 12
	dest        = 28
	cookie      = 48

	answerSize  = 72
	answerState = 1
	answerID    = 4 // of the fields that the request has from sourcePort on
	answerUID   = 64
	answerInode = 68

	tcpListen = 10 // include/net/tcp_states.h
)

// answersWithin bounds a question: the kernel answers within the call that asks.
const answersWithin = time.Second

// userOf returns the UID of the socket of this network namespace that is bound to one address and
// connected to another. ok is false where there is none, and where no process has it open any
// more: the kernel then tells of UID 0.
func (d *diag) userOf(local, remote netip.AddrPort) (uid int, ok bool) {
	request := requestFor(local, remote)
	answer, err := d.answer(request)
	if err != nil {
		return 0, false
	}
	return readAnswer(answer, request)
}

// check asks for a socket that there is not.
func (d *diag) check() error {
	none := netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	_, err := d.answer(requestFor(none, none))
	return err
}

// answer sends a request and returns the answer; nil when the kernel has no such socket.
func (d *diag) answer(request []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.socket == nil {
		s, err := nl.Subscribe(unix.NETLINK_INET_DIAG)
		if err != nil {
			return nil, err
		}
		timeout := unix.NsecToTimeval(answersWithin.Nanoseconds())
		if err := s.SetReceiveTimeout(&timeout); err != nil {
			s.Close()
			return nil, err
		}
		d.socket = s
	}
	answer, err := d.ask(request)
	if err != nil {
		d.socket.Close()
		d.socket = nil
	}
	return answer, err
}

// requestFor returns a struct inet_diag_req_v2 for one socket.
func requestFor(local, remote netip.AddrPort) []byte {
	b := make([]byte, requestSize)
	from, to := local.Addr().Unmap(), remote.Addr().Unmap()
	b[0], b[1] = unix.AF_INET6, unix.IPPROTO_TCP
	if from.Is4() {
		b[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(b[4:], ^uint32(0)) // states: all
	binary.BigEndian.PutUint16(b[sourcePort:], local.Port())
	binary.BigEndian.PutUint16(b[destPort:], remote.Port())
	copy(b[source:], from.AsSlice())
	copy(b[dest:], to.AsSlice())
	binary.NativeEndian.PutUint64(b[cookie:], ^uint64(0)) // INET_DIAG_NOCOOKIE
	return b
}

// readAnswer reads a struct inet_diag_msg. Without a socket for the addresses the kernel answers
// with one that listens at the local port, which is not meant.
func readAnswer(b, request []byte) (uid int, ok bool) {
	if len(b) < answerSize || b[answerState] == tcpListen {
		return 0, false
	}
	for i := sourcePort; i < source; i++ { // ports: the addresses may be written as IPv6
		if b[answerID+i-sourcePort] != request[i] {
			return 0, false
		}
	}
	if binary.NativeEndian.Uint32(b[answerInode:]) == 0 {
		return 0, false
	}
	return int(binary.NativeEndian.Uint32(b[answerUID:])), true
}

// errorOf reads a struct nlmsgerr; nil for ENOENT: there is no such socket.
func errorOf(b []byte) error {
	if len(b) < 4 {
		return unix.EBADMSG
	}
	errno := unix.Errno(-int32(binary.NativeEndian.Uint32(b)))
	if errno == unix.ENOENT {
		return nil
	}
	return errno
}

// ask sends a request and returns the answer, nil when the kernel has no such socket.
func (d *diag) ask(request []byte) ([]byte, error) {
	q := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, 0)
	q.AddRawData(request)
	if err := d.socket.Send(q); err != nil {
		return nil, err
	}
	for {
		messages, from, err := d.socket.Receive()
		if err != nil {
			return nil, err
		}
		if from.Pid != nl.PidKernel {
			continue
		}
		for _, m := range messages {
			switch {
			case m.Header.Seq != q.Seq:
			case m.Header.Type == unix.NLMSG_ERROR:
				return nil, errorOf(m.Data)
			case m.Header.Type == nl.SOCK_DIAG_BY_FAMILY:
				return m.Data, nil
			}
		}
	}
}
