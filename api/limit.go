package api

import (
	"context"
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

// slots counts connections by user, or by address. A connection has its slot until it is closed.
type slots[K comparable] struct {
	mu    sync.Mutex
	users map[K]int // open connections
	all   int
}

// take reports whether who may have one more connection, with so many of one and so many of
// all, and counts it.
func (s *slots[K]) take(who K, each, all int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[who] >= each || s.all >= all {
		return false
	}
	s.users[who]++
	s.all++
	return true
}

func (s *slots[K]) give(who K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.users[who]--; s.users[who] == 0 {
		delete(s.users, who)
	}
}

// connectionsOf is how many connections a user may have, and all together when he asks for one.
func connectionsOf(uid int) (each, all int) {
	if privileged(uid) {
		return maxConnections, maxConnections
	}
	return maxPerUser, maxConnections - keptForRoot
}

// What users who are not root may ask at once of what takes a CPU for a second or more, and is answered
// one after the other: each, and all together. Who looks over TCP is one user here.
const questionsEach, questionsAtOnce = 4, 8

// inTurn bounds how many questions wait.
func inTurn[T, A any](asking *slots[int], next poster[T, A]) poster[T, A] {
	return func(ctx context.Context, in T) (out A, err error) {
		if p, _ := ctx.Value(peerKey{}).(peer); !privileged(p.uid) {
			if !asking.take(p.uid, questionsEach, questionsAtOnce) {
				return out, &Error{TooMany, "others are asking, too: ask again in a few seconds"}
			}
			defer asking.give(p.uid)
		}
		return next(ctx, in)
	}
}

// privileged reports whether uid is root, or whoever runs this daemon.
func privileged(uid int) bool { return uid == 0 || uid == os.Geteuid() }

// limited is a listener that closes at once what is too much.
type limited struct {
	net.Listener
	peerOf func(net.Conn) (peer, error)
	slots  slots[int]
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
		if each, all := connectionsOf(p.uid); l.slots.take(p.uid, each, all) {
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

// rates bounds the requests of each user, or address, by a bucket that fills again.
type rates[K comparable] struct {
	mu      sync.Mutex
	buckets map[K]bucket
}

type bucket struct {
	left float64
	at   time.Time
}

// mostBuckets is when full ones are dropped: a user can have thousands of UIDs
// (subuid(5)), and one that asks nothing is full in a few seconds.
const mostBuckets = 256

// take reports whether who may ask now.
func (r *rates[K]) take(who K, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.buckets) >= mostBuckets {
		for id, b := range r.buckets {
			if b.filled(now).left >= requestBurst {
				delete(r.buckets, id)
			}
		}
	}
	b, known := r.buckets[who]
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
	r.buckets[who] = b
	return may
}

func (b bucket) filled(now time.Time) bucket {
	b.left = min(requestBurst, b.left+max(0, now.Sub(b.at).Seconds())*requestsPerSecond)
	b.at = now
	return b
}
