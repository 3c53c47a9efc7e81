package peers

import (
	"fmt"
	"net"
	"os"
	"time"

	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

// Finder finds peers. Its methods may be called from several goroutines.
type Finder struct {
	owners *proc.Owners
	asking chan struct{} // has a place for each call that may be left behind
	within time.Duration
	diag   *diag
}

const (
	// answerWithin is how long a connection may wait for who it is of: a thousand times what it
	// takes.
	answerWithin = 100 * time.Millisecond
	// mostAsking bounds the calls under way, which are left behind when they take longer: each
	// holds a thread.
	mostAsking = 4
)

// New returns a Finder on this machine.
func New() *Finder {
	return &Finder{owners: proc.NewOwners(os.DirFS("/")), asking: make(chan struct{}, mostAsking), within: answerWithin,
		diag: &diag{}}
}

// Process returns who is responsible for a process that connected as a user. Where that is not
// found out in time, or the process has ended, it is found by the UID alone.
func (f *Finder) Process(pid, uid int) workload.Owner {
	if pid > 0 {
		if owner, ok := f.of(pid, uid); ok {
			return owner
		}
	}
	return f.owners.OfUID(uid)
}

// of returns the owner of a process that is still of a user: its PID may be another's by now.
func (f *Finder) of(pid, uid int) (workload.Owner, bool) {
	select {
	case f.asking <- struct{}{}:
	default:
		return workload.SystemOwner, false
	}
	type answer struct {
		owner workload.Owner
		ok    bool
	}
	found := make(chan answer, 1)
	go func() {
		defer func() { <-f.asking }()
		owner, err := f.owners.OfUser(pid, uid)
		found <- answer{owner, err == nil}
	}()
	late := time.NewTimer(f.within)
	defer late.Stop()
	select {
	case a := <-found:
		return a.owner, a.ok
	case <-late.C:
		return workload.SystemOwner, false
	}
}

// Check returns why Connection cannot tell of anything, nil when it can.
func (f *Finder) Check() error {
	if err := f.diag.check(); err != nil {
		return fmt.Errorf("sock_diag: %w", err)
	}
	return nil
}

// Connection returns the user at the other end of a TCP connection, and who is responsible, where
// that end is on this machine and in this network namespace. ok is false for any other, and for
// one that its process has closed.
func (f *Finder) Connection(c net.Conn) (uid int, owner workload.Owner, ok bool) {
	here, isTCP := c.LocalAddr().(*net.TCPAddr)
	there, both := c.RemoteAddr().(*net.TCPAddr)
	if !isTCP || !both {
		return 0, owner, false
	}
	// The peer's socket: what is remote here is local there.
	uid, ok = f.diag.userOf(there.AddrPort(), here.AddrPort())
	if !ok {
		return 0, owner, false
	}
	return uid, f.owners.OfUID(uid), true
}
