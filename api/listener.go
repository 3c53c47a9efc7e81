package api

import (
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// bounded is a listener that counts open connections by party. Where a party has all that it may,
// its oldest connection on which nothing was answered yet gives way. Where all are taken, one of
// the party with the most gives way to a party with fewer. What finds no place is closed at once.
type bounded struct {
	net.Listener
	who   func(net.Conn) peer
	bound func(peer) (each, all int) // connections that a peer may have, and all together then
	// trial is the connections beyond bound that get trialTime to show that they are worth a
	// place: of one party, and all together with those within bound. 0 is none.
	trialEach, trialAll int
	refused             *Refusals

	mu   sync.Mutex
	open map[workload.Owner][]*placed // the oldest first
	all  int
}

// trialTime is how long a connection on trial may take to send its first request: several round
// trips around the world, with TLS.
const trialTime = 2 * time.Second

// placed is a connection that has a place until it is closed.
type placed struct {
	net.Conn
	of   *bounded
	peer peer

	// Guarded by of.mu.
	answered bool        // something was answered on it
	kept     bool        // it gives way to none
	trial    *time.Timer // closes it; nil for one that is not on trial
}

func (l *bounded) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if own := l.place(c); own != nil {
			return own, nil
		}
		c.Close()
	}
}

// place gives a connection a place, nil when there is none.
func (l *bounded) place(c net.Conn) *placed {
	own := &placed{Conn: c, of: l, peer: l.who(c)}
	who := own.peer.party()
	each, all := l.bound(own.peer)
	l.mu.Lock()
	var closing *placed
	has := len(l.open[who])
	switch {
	case has >= each:
		closing = firstUnanswered(l.open[who])
	case l.all >= all:
		closing = l.most(has)
	}
	within := has < each && l.all < all
	if closing != nil {
		// A place on trial that a party takes from itself stays one on trial.
		within = closing.trial == nil || closing.peer.party() != who
		l.remove(closing)
		has = len(l.open[who])
	}
	onTrial := !within && has < each+l.trialEach && l.all < l.trialAll
	if onTrial {
		own.trial = time.AfterFunc(trialTime, func() {
			l.refused.add(who, refusedConnection)
			own.Close()
		})
	}
	if within || onTrial {
		l.open[who] = append(l.open[who], own)
		l.all++
	}
	l.mu.Unlock()
	if closing != nil {
		closing.Close()
		l.refused.add(closing.peer.party(), refusedConnection)
	}
	if !within && !onTrial {
		l.refused.add(who, refusedConnection)
		return nil
	}
	return own
}

func firstUnanswered(all []*placed) *placed {
	i := slices.IndexFunc(all, func(c *placed) bool { return !c.answered && !c.kept })
	if i < 0 {
		return nil
	}
	return all[i]
}

// most returns a connection of the party that has the most that may give way, nil when that party
// would then have fewer than one that has so many now.
func (l *bounded) most(has int) *placed {
	var from []*placed
	for _, all := range l.open {
		may := slices.DeleteFunc(slices.Clone(all), func(c *placed) bool { return c.kept || c.peer.unbounded() })
		// Of two that have as many, always the same: maps have no order.
		tied := len(may) > 0 && len(may) == len(from)
		if len(may) > len(from) || (tied && may[0].peer.party() < from[0].peer.party()) {
			from = may
		}
	}
	if len(from) < has+2 {
		return nil
	}
	if c := firstUnanswered(from); c != nil {
		return c
	}
	return from[len(from)-1]
}

// remove takes a connection out of the count; l.mu is held.
func (l *bounded) remove(c *placed) {
	who := c.peer.party()
	i := slices.Index(l.open[who], c)
	if i < 0 {
		return
	}
	if c.trial != nil {
		c.trial.Stop()
	}
	l.all--
	if l.open[who] = slices.Delete(l.open[who], i, i+1); len(l.open[who]) == 0 {
		delete(l.open, who)
	}
}

// Close closes the connection and frees its place.
func (c *placed) Close() error {
	c.of.mu.Lock()
	c.of.remove(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// SyscallConn is of syscall.Conn.
func (c *placed) SyscallConn() (syscall.RawConn, error) {
	under, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, syscall.EOPNOTSUPP
	}
	return under.SyscallConn()
}

// onTrial reports whether a connection is beyond what its party may have.
func (c *placed) onTrial() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.trial != nil
}

// answers notes that something is answered on the connection. One that is kept gives way to none
// any more, and is no longer on trial.
func (c *placed) answers(kept bool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.answered = true
	if !kept {
		return
	}
	c.kept = true
	if c.trial != nil {
		c.trial.Stop()
		c.trial = nil
	}
}
