package api

import (
	"context"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/homenode/homenode/core/workload"
)

// What one party may have open on the socket, and all together. A command needs one
// connection, and a screen that follows events a second; libvirt starts its hook once for each
// guest. Descriptors are the daemon's too: it looks at the host with them.
const (
	maxPerUser     = 16
	maxConnections = 64
	keptForRoot    = 16 // of maxConnections
	// maxStreams of maxPerUser may be streams, which end when their reader wants: four are
	// left for commands.
	maxStreams = 12
)

// What one party may ask, which is not root: a busy screen asks twice a second. An answer
// costs about a millisecond for every hundred workloads.
const (
	requestsPerSecond = 20
	requestBurst      = 60
)

// slots counts what each party has under way.
type slots struct {
	mu  sync.Mutex
	by  map[workload.Owner]int
	all int
}

func newSlots() *slots { return &slots{by: map[workload.Owner]int{}} }

// take reports whether a party may have one more, with at most each of one and all of all, and
// counts it. The second half of all is for parties that have none.
func (s *slots) take(who workload.Owner, each, all int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= all/2 {
		each = 1
	}
	if s.by[who] >= each || s.all >= all {
		return false
	}
	s.by[who]++
	s.all++
	return true
}

func (s *slots) give(who workload.Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	s.by[who]--
	if s.by[who] == 0 {
		delete(s.by, who)
	}
}

// onSocket returns how many connections a peer may have on the socket, and all together when it
// asks for one.
func onSocket(p peer) (each, all int) {
	if p.unbounded() {
		return maxConnections, maxConnections
	}
	return maxPerUser, maxConnections - keptForRoot
}

// What parties other than root may ask at once of what takes a CPU for a second or more, and is
// answered one after the other: each, and all together.
const questionsEach, questionsAtOnce = 4, 8

// inTurn bounds how many questions wait.
func inTurn[T, A any](asking *slots, next poster[T, A]) poster[T, A] {
	return func(ctx context.Context, in T) (out A, err error) {
		if p, _ := ctx.Value(peerKey{}).(peer); !p.unbounded() {
			if !asking.take(p.party(), questionsEach, questionsAtOnce) {
				return out, &Error{TooMany, "others are asking, too: ask again in a few seconds"}
			}
			defer asking.give(p.party())
		}
		return next(ctx, in)
	}
}

// privileged reports whether uid is root, or whoever runs this daemon.
func privileged(uid int) bool { return uid == 0 || uid == os.Geteuid() }

// kind is of requests: those of one kind fill no bucket of another.
type kind int

const (
	ordinary kind = iota
	bearing       // with the token
	scraping      // of /metrics: it goes on while a viewer from the same address asks too often
)

// asker is a party that asks for one kind of thing.
type asker struct {
	who  workload.Owner
	kind kind
}

// rates bounds the requests of each party.
type rates struct {
	mu      sync.Mutex
	buckets map[asker]*rate.Limiter
}

func newRates() *rates { return &rates{buckets: map[asker]*rate.Limiter{}} }

// mostBuckets is how many there are at most. When a party comes that has none, the fullest gives
// way: a party that asks nothing is full in a few seconds and misses it not.
const mostBuckets = 256

// take reports whether a party may ask now.
func (r *rates) take(who asker, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.buckets[who]
	if b == nil {
		if len(r.buckets) >= mostBuckets {
			r.drop(now)
		}
		b = rate.NewLimiter(requestsPerSecond, requestBurst)
		r.buckets[who] = b
	}
	return b.AllowN(now, 1)
}

// drop drops all full buckets, or the fullest.
func (r *rates) drop(now time.Time) {
	var fullest asker
	most := -1.0
	for who, b := range r.buckets {
		left := b.TokensAt(now)
		if left >= requestBurst {
			delete(r.buckets, who)
		}
		if left > most {
			most, fullest = left, who
		}
	}
	delete(r.buckets, fullest)
}
