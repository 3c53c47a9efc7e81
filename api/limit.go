package api

import (
	"net"
	"os"
	"sync"
	"time"
)

// What one user, and all together, may have open. A command needs one connection, and
// a screen that follows events a second; libvirt starts its hook once for each guest.
// Descriptors are the daemon's too: it looks at the host with them.
const (
	maxPerUser     = 16
	maxConnections = 64
	keptForRoot    = 16 // of maxConnections
)

// What one user may ask, who is not root: a busy screen asks twice a second. An answer
// costs about a millisecond for every hundred workloads.
const (
	requestsPerSecond = 20
	requestBurst      = 60
)

// slots counts connections by user. A connection has its slot until it is closed.
type slots struct {
	mu    sync.Mutex
	users map[int]int // open connections by UID
	all   int
}

// take reports whether uid may have one more connection, and counts it.
func (s *slots) take(uid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := maxConnections
	if !privileged(uid) {
		limit -= keptForRoot
		if s.users[uid] >= maxPerUser {
			return false
		}
	}
	if s.all >= limit {
		return false
	}
	s.users[uid]++
	s.all++
	return true
}

func (s *slots) give(uid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.users[uid]--; s.users[uid] == 0 {
		delete(s.users, uid)
	}
}

// privileged reports whether uid is root, or whoever runs this daemon.
func privileged(uid int) bool { return uid == 0 || uid == os.Geteuid() }

// limited is a listener that closes at once what is too much.
type limited struct {
	net.Listener
	peerOf func(net.Conn) (peer, error)
	slots  slots
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		p, err := l.peerOf(c)
		if err != nil {
			p = peer{uid: -1}
		}
		if l.slots.take(p.uid) {
			return &slotConn{Conn: c, peer: p, free: sync.OnceFunc(func() { l.slots.give(p.uid) })}, nil
		}
		c.Close()
	}
}

// slotConn is a connection that has a slot.
type slotConn struct {
	net.Conn
	peer peer
	free func()
}

func (c *slotConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// rates bounds the requests of each user by a bucket that fills again.
type rates struct {
	mu      sync.Mutex
	buckets map[int]bucket // by UID
}

type bucket struct {
	left float64
	at   time.Time
}

// mostBuckets is when full ones are dropped: a user can have thousands of UIDs
// (subuid(5)), and one that asks nothing is full in a few seconds.
const mostBuckets = 256

// take reports whether uid may ask now.
func (r *rates) take(uid int, now time.Time) bool {
	if privileged(uid) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.buckets) >= mostBuckets {
		for id, b := range r.buckets {
			if b.filled(now).left >= requestBurst {
				delete(r.buckets, id)
			}
		}
	}
	b, known := r.buckets[uid]
	if !known {
		if len(r.buckets) >= mostBuckets {
			return false
		}
		b = bucket{requestBurst, now}
	}
	b = b.filled(now)
	may := b.left >= 1
	if may {
		b.left--
	}
	r.buckets[uid] = b
	return may
}

func (b bucket) filled(now time.Time) bucket {
	b.left = min(requestBurst, b.left+max(0, now.Sub(b.at).Seconds())*requestsPerSecond)
	b.at = now
	return b
}
