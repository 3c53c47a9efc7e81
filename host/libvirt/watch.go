package libvirt

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/libvirt/domain"
)

// WatchOptions is what a Watch works with.
type WatchOptions struct {
	URI string // see Open
	// Process is the hypervisor of a running guest, by its name. nil or an error: not known.
	Process func(name string) (workload.Process, error)
	// Lock keeps other programs of homenode from changing guests until it is closed; nil
	// is none.
	Lock func(context.Context) (interface{ Close() error }, error)
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

// Watch keeps up with the guests of a libvirt: what it knows is brought up to date by
// Look, and Wake says when something happened. A bus, a service or a libvirt that
// goes away is tried again, and everything read anew once it is back. It drives
// guests too (see driver.go). Its methods may be called from several goroutines.
type Watch struct {
	o    WatchOptions
	wake chan struct{}

	changing chan struct{} // full while guests are changed: one change at a time

	mu     sync.Mutex // guards what follows
	client *Client    // nil while there is no bus
	lost   time.Time  // the bus or libvirt was gone then: what was read before may be old
	fails  int
	retry  time.Time // no try before
	last   error     // of the newest Look
	looked bool      // there was a Look that did not fail
	host   *topology.Host
	known  map[string]*known
	busy   time.Time // until then nobody waits for another change
	// runs is the run of each guest that Settings was last asked about: that is the one
	// to be changed.
	runs    map[string]int
	yielded map[string]bool // settings that Restore left to a hand
}

// known is what was read of one guest.
type known struct {
	path    dbus.ObjectPath
	stale   bool // read it anew
	at      time.Time
	state   int32
	vcpus   uint32 // plugged in
	rss     topology.KiB
	active  bool
	live    *domain.Document // of a running guest
	config  *domain.Document // its definition; nil for a transient guest
	process workload.Process
	unread  string // why it could not be understood

	// What the documents say on a host of these CPUs.
	standsOn string
	seen     guest.Seen
}

// What happens without a word, such as a hand that changes numatune, is found when a
// guest is read again: its turn comes after this long, see oldest.
const rereadEvery = 10 * time.Second

// A look that fails is tried again after a second, then twice as late each time.
const (
	retryFirst = time.Second
	retryMost  = 30 * time.Second
	// lookWithin bounds one look: a libvirt that hangs must not hold up the daemon. A
	// hundred guests are read in a second.
	lookWithin = 15 * time.Second
)

// NewWatch makes a Watch; the first Look connects.
func NewWatch(o WatchOptions) *Watch {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Watch{o: o, wake: make(chan struct{}, 1), changing: make(chan struct{}, 1), known: map[string]*known{}, runs: map[string]int{}, yielded: map[string]bool{}}
}

// Wake receives when something happened to guests, or libvirt came or went.
func (w *Watch) Wake() <-chan struct{} { return w.wake }

func (w *Watch) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Close ends the connection. Guests are not touched.
func (w *Watch) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client == nil {
		return nil
	}
	c := w.client
	w.client = nil
	return c.Close()
}

// connect is the connection, made when there is none. w.mu is held.
func (w *Watch) connect(ctx context.Context) (*Client, error) {
	if w.client != nil {
		return w.client, nil
	}
	// A change may take long, and everybody waits for w.mu.
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	c, err := Open(ctx, w.o.URI)
	if err != nil {
		return nil, err
	}
	signals := make(chan *dbus.Signal, 256)
	c.bus.Signal(signals)
	for _, rule := range [][]dbus.MatchOption{
		{dbus.WithMatchInterface(connectIface), dbus.WithMatchMember("DomainEvent")},
		{dbus.WithMatchInterface(domainIface)},
		{dbus.WithMatchInterface("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, service)},
	} {
		if err := c.bus.AddMatchSignalContext(ctx, rule...); err != nil {
			c.Close()
			return nil, fmt.Errorf("watch libvirt's events: %w", explain("AddMatch", err))
		}
	}
	w.client, w.lost = c, w.o.Now()
	go w.listen(c, signals)
	return c, nil
}

// listen takes signals until the bus ends.
func (w *Watch) listen(c *Client, signals <-chan *dbus.Signal) {
	for s := range signals {
		if w.heard(s) {
			w.poke()
		}
	}
	w.mu.Lock()
	if w.client == c {
		w.client, w.lost, w.retry, w.fails = nil, w.o.Now(), time.Time{}, 0
	}
	w.mu.Unlock()
	w.poke()
}

// told are the signals of a guest that change what is known of it.
var told = map[string]bool{
	"Tunable": true, "MetadataChange": true, "BalloonChange": true, "DeviceAdded": true, "DeviceRemoved": true,
}

// heard notes a signal, and reports whether it matters.
func (w *Watch) heard(s *dbus.Signal) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	path := s.Path
	switch s.Name {
	case "org.freedesktop.DBus.NameOwnerChanged": // the service went, or came
		w.lost, w.retry, w.fails = w.o.Now(), time.Time{}, 0
		return true
	case connectIface + ".DomainEvent":
		if len(s.Body) < 1 {
			return false
		}
		path, _ = s.Body[0].(dbus.ObjectPath)
	default:
		if len(s.Name) <= len(domainIface) || !told[s.Name[len(domainIface)+1:]] {
			return false
		}
	}
	for _, k := range w.known {
		if k.path == path {
			k.stale = true
			return true
		}
	}
	return s.Name == connectIface+".DomainEvent" // one that is not known yet
}

// Look brings what is known up to date. On an error what was known before stands.
func (w *Watch) Look(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.o.Now()
	if w.last != nil && now.Before(w.retry) {
		return w.last
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	w.last = w.look(ctx, now)
	if w.last == nil {
		w.fails = 0
		return nil
	}
	w.retry = now.Add(min(retryFirst<<min(w.fails, 10), retryMost))
	w.fails++
	if ctx.Err() == nil { // one that is slow is not gone: the next look goes on where this one ended
		w.lost = now
	}
	return w.last
}

func (w *Watch) look(ctx context.Context, now time.Time) error {
	c, err := w.connect(ctx)
	if err != nil {
		return err
	}
	all, err := c.states(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(w.known, func(name string, _ *known) bool { _, there := all[name]; return !there })
	maps.DeleteFunc(w.runs, func(name string, _ int) bool { _, there := all[name]; return !there })
	for name, s := range all {
		if w.known[name] == nil {
			w.known[name] = &known{stale: true, state: s.state}
		}
	}
	again := w.oldest(now)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s, k := all[name], w.known[name]
		if s.vcpus == 0 { // a guest that is busy does not tell all of it
			s.vcpus, s.rss = k.vcpus, max(s.rss, k.rss)
		}
		if !k.at.After(w.lost) || k.state != s.state || k.vcpus != s.vcpus || again[name] {
			k.stale = true
		}
		k.state, k.vcpus, k.rss = s.state, s.vcpus, s.rss
		if !k.stale {
			continue
		}
		switch gone, err := w.read(ctx, c, name, k); {
		case err != nil:
			return err
		case gone:
			delete(w.known, name)
		default:
			k.stale, k.at = false, w.o.Now()
		}
	}
	w.looked = true
	return nil
}

// oldest is the guests that are read again although nothing was heard of them: a tenth of
// those that are due, and two at least, so that no look reads all.
func (w *Watch) oldest(now time.Time) map[string]bool {
	var due []string
	for name, k := range w.known {
		if !k.stale && now.Sub(k.at) >= rereadEvery {
			due = append(due, name)
		}
	}
	slices.SortFunc(due, func(a, b string) int { return cmp.Or(w.known[a].at.Compare(w.known[b].at), cmp.Compare(a, b)) })
	out := map[string]bool{}
	for _, name := range due[:min(len(due), max(2, len(w.known)/10))] {
		out[name] = true
	}
	return out
}

// state is what the statistics tell of one guest.
type state struct {
	state int32 // virDomainState
	vcpus uint32
	rss   topology.KiB
}

// states is all guests, running or not, in one call.
func (c *Client) states(ctx context.Context) (map[string]state, error) {
	var records []struct {
		Name  string
		Stats map[string]dbus.Variant
	}
	if err := c.call(ctx, c.path, connectIface+".GetAllDomainStats", &records, statsState|statsBalloon|statsVCPU, statsNoWait); err != nil {
		return nil, err
	}
	out := make(map[string]state, len(records))
	for _, r := range records {
		var s state
		s.state, _ = r.Stats["state.state"].Value().(int32)
		s.vcpus, _ = r.Stats["vcpu.current"].Value().(uint32)
		if v, ok := r.Stats["balloon.rss"].Value().(uint64); ok && v < 1<<50 {
			s.rss = topology.KiB(v)
		}
		out[r.Name] = s
	}
	return out, nil
}

// read reads the XML of one guest, in as few calls as tell all; gone says that it
// vanished meanwhile.
func (w *Watch) read(ctx context.Context, c *Client, name string, k *known) (gone bool, err error) {
	fresh := known{path: k.path, state: k.state, vcpus: k.vcpus, rss: k.rss}
	var text string
	if fresh.path != "" {
		err = c.call(ctx, fresh.path, domainIface+".GetXMLDesc", &text, uint32(0))
	}
	if fresh.path == "" || isGone(err) { // its path is its UUID's: another of the name has another
		if fresh.path, err = c.lookup(ctx, name); err == nil {
			err = c.call(ctx, fresh.path, domainIface+".GetXMLDesc", &text, uint32(0))
		}
	}
	if err != nil {
		return isGone(err), notGone(err)
	}
	d, why := domain.Parse([]byte(text))
	if why != nil {
		fresh.unread, fresh.active = why.Error(), k.state != shutOff
		*k = fresh
		return false, nil
	}
	if d.Run() == 0 { // off, and then it has a definition
		fresh.config = d
		*k = fresh
		return false, nil
	}
	fresh.active, fresh.live = true, d
	v, err := c.property(ctx, fresh.path, domainIface, "Persistent")
	if err != nil {
		return isGone(err), notGone(err)
	}
	if persistent, _ := v.(bool); persistent {
		if err := c.call(ctx, fresh.path, domainIface+".GetXMLDesc", &text, xmlInactive); err != nil {
			return isGone(err), notGone(err)
		}
		if fresh.config, why = domain.Parse([]byte(text)); why != nil {
			fresh.unread = why.Error()
		}
	}
	if w.o.Process != nil {
		if p, err := w.o.Process(name); err == nil {
			fresh.process = p
		}
	}
	*k = fresh
	return false, nil
}

// shutOff is VIR_DOMAIN_SHUTOFF.
const shutOff int32 = 5

func notGone(err error) error {
	if isGone(err) {
		return nil
	}
	return err
}

// Processes is the hypervisors of the running guests, rising by guest.
func (w *Watch) Processes() []workload.Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []workload.Process
	for _, name := range slices.Sorted(maps.Keys(w.known)) {
		if p := w.known[name].process; p.PID > 0 {
			out = append(out, p)
		}
	}
	return out
}

// Guests is all guests as of the last Look that did not fail, by name, and those that
// are not understood.
func (w *Watch) Guests(h *topology.Host) (guests []guest.Seen, unread []guest.Unread) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.host = h
	for _, name := range slices.Sorted(maps.Keys(w.known)) {
		k := w.known[name]
		if k.at.IsZero() { // the look ended before its turn
			unread = append(unread, guest.Unread{Name: name, Running: k.state != shutOff, Text: "libvirt has not told of it yet"})
			continue
		}
		if on := fmt.Sprint(h.Online, h.AllowedMems, len(h.Nodes)); k.unread == "" && k.standsOn != on {
			if err := k.stand(h); err != nil {
				unread = append(unread, guest.Unread{Name: name, Running: k.active, Text: err.Error()})
				continue
			}
			k.standsOn = on
		}
		if k.unread != "" {
			unread = append(unread, guest.Unread{Name: name, Running: k.active, Text: k.unread})
			continue
		}
		k.seen.Resident = k.rss
		guests = append(guests, k.seen)
	}
	return guests, unread
}

// stand reads from the documents where the guest is.
func (k *known) stand(h *topology.Host) error {
	k.seen = guest.Seen{Process: k.process}
	if k.config != nil {
		s, err := k.config.Standing(h)
		if err == nil {
			k.seen.Defined = &s
		} else if k.live == nil {
			return err
		}
	}
	if k.live == nil {
		if k.seen.Defined == nil {
			return fmt.Errorf("neither runs nor has a definition")
		}
		k.seen.Standing = *k.seen.Defined
		return nil
	}
	s, err := k.live.Standing(h)
	if err != nil {
		return err
	}
	s.Running = true
	k.seen.Standing, k.seen.Run = s, k.live.Run()
	return nil
}
