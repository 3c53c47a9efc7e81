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
	URI    string // see Open
	Manage Managed
	// Process is the hypervisor of a running guest, by its name. nil or an error: not known.
	Process func(name string) (workload.Process, error)
	// CPUs is all that threads of a process may use. nil or an error: not known.
	CPUs func(pid int) (topology.CPUSet, error)
	// Answers returns an error that wraps plan.ErrNoAnswer when the lock of a process's memory is
	// held: libvirt would hold up the host when it sets memory nodes. nil asks nothing.
	Answers func(workload.Process) error
	// Running reports whether guests of libvirt run here, by what can be seen without it. nil:
	// not known.
	Running func() bool
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

	locking    chan struct{} // full while the lock among homenodes is waited for
	refreshing chan struct{} // full while libvirt is asked for all of it
	connecting chan struct{} // full while a connection is made

	mu     sync.Mutex // guards what follows; nobody waits for libvirt with it held
	client *Client    // nil while there is no bus
	owner  string     // connection that libvirt has, "" for none
	lost   time.Time  // the bus or libvirt was gone then: what was read before may be old
	fails  int
	retry  time.Time // no try before
	last   error     // of the newest Look
	looked bool      // there was a Look that did not fail
	host   *topology.Host
	known  map[string]*known
	// runs is the run of each guest that Changes was last asked about: that is the one to
	// be changed.
	runs map[string]int
	// tellDisks: the next look is to ask what disks have read and written.
	tellDisks bool
	held      interface{ Close() error } // the lock among homenodes
	sharing   int                        // changes that go on under it
}

// known is what was read of one guest.
type known struct {
	path    dbus.ObjectPath
	stale   bool // read it anew
	signals int  // about it, so far
	at      time.Time
	state   int32
	vcpus   uint32 // plugged in
	rss     topology.KiB
	disks   map[string]uint64 // bytes read and written by each; nil until it is asked for
	active  bool
	live    *domain.Document // of a running guest
	config  *domain.Document // its definition; nil for a transient guest
	process workload.Process
	unread  string // why it could not be understood

	// What the documents say on a host of these CPUs.
	standsOn string
	seen     guest.Observed
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
	one := func() chan struct{} { return make(chan struct{}, 1) }
	return &Watch{o: o, wake: one(), locking: one(), refreshing: one(), connecting: one(), known: map[string]*known{},
		runs: map[string]int{}}
}

// Wake receives when something happened to guests, or libvirt came or went.
func (w *Watch) Wake() <-chan struct{} { return w.wake }

func (w *Watch) notify() {
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

// connect is the connection, made when there is none.
func (w *Watch) connect(ctx context.Context) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin) // a change may take long
	defer cancel()
	select {
	case w.connecting <- struct{}{}:
		defer func() { <-w.connecting }()
	case <-ctx.Done():
		return nil, explain("connect", ctx.Err())
	}
	w.mu.Lock()
	c := w.client
	w.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := Open(ctx, w.o.URI)
	if err != nil {
		return nil, err
	}
	signals := make(chan *dbus.Signal, 256)
	c.bus.Signal(signals)
	for _, rule := range [][]dbus.MatchOption{
		{dbus.WithMatchInterface(connectIface), dbus.WithMatchMember("DomainEvent")},
		{dbus.WithMatchInterface(domainIface)},
		{dbus.WithMatchInterface(busName), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, service)},
	} {
		if err := c.bus.AddMatchSignalContext(ctx, rule...); err != nil {
			c.Close()
			return nil, fmt.Errorf("watch libvirt's events: %w", explain("AddMatch", err))
		}
	}
	owner, err := c.owner(ctx)
	if err != nil {
		c.Close()
		return nil, err
	}
	w.mu.Lock()
	w.client = c
	w.owner = owner
	w.lost = w.o.Now()
	w.mu.Unlock()
	go w.listen(c, signals)
	return c, nil
}

// listen takes signals until the bus ends.
func (w *Watch) listen(c *Client, signals <-chan *dbus.Signal) {
	for s := range signals {
		if w.noteSignal(s) {
			w.notify()
		}
	}
	w.mu.Lock()
	if w.client == c {
		w.client = nil
		w.lost = w.o.Now()
		w.retry = time.Time{}
		w.fails = 0
	}
	w.mu.Unlock()
	w.notify()
}

// guestSignals are the signals of a guest that change what is known of it.
var guestSignals = map[string]bool{
	"Tunable": true, "MetadataChange": true, "BalloonChange": true, "DeviceAdded": true, "DeviceRemoved": true,
}

// noteSignal reports whether a signal matters. Anybody on the bus can send one of any name:
// who sent it, the bus says.
func (w *Watch) noteSignal(s *dbus.Signal) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	path := s.Path
	switch {
	case s.Sender == busName && s.Name == busName+".NameOwnerChanged" && len(s.Body) == 3: // the service went, or came
		w.owner, _ = s.Body[2].(string)
		w.lost = w.o.Now()
		w.retry = time.Time{}
		w.fails = 0
		return true
	case s.Sender != w.owner:
		return false
	case s.Name == connectIface+".DomainEvent":
		if len(s.Body) < 1 {
			return false
		}
		path, _ = s.Body[0].(dbus.ObjectPath)
	default:
		if len(s.Name) <= len(domainIface) || !guestSignals[s.Name[len(domainIface)+1:]] {
			return false
		}
	}
	matters := s.Name == connectIface+".DomainEvent" // also of one that is not known yet
	for _, k := range w.known {
		if k.path == path || k.path == "" { // or that is being read for the first time
			k.stale, matters = true, true
			k.signals++
		}
	}
	return matters
}

// Look brings what is known up to date. On an error what was known before stands, but for
// runs whose hypervisor has ended.
func (w *Watch) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	select {
	case w.refreshing <- struct{}{}:
		defer func() { <-w.refreshing }()
	case <-ctx.Done():
		return explain("another look is under way", ctx.Err())
	}
	now := w.o.Now()
	w.mu.Lock()
	last, wait := w.last, now.Before(w.retry)
	w.mu.Unlock()
	if last != nil && wait {
		w.dropEnded()
		return last
	}
	err := w.look(ctx, now)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = err
	if err == nil {
		w.fails, w.looked = 0, true
		return nil
	}
	w.retry = now.Add(min(retryFirst<<min(w.fails, 10), retryMost))
	w.fails++
	if ctx.Err() == nil { // one that is slow is not gone: the next look goes on where this one ended
		w.lost = now
	}
	return err
}

func (w *Watch) look(ctx context.Context, now time.Time) error {
	c, err := w.connect(ctx)
	var all map[string]state
	if err == nil {
		all, err = c.states(ctx)
	}
	if err != nil {
		w.dropEnded()
		return err
	}
	w.mu.Lock()
	tell := w.tellDisks
	w.tellDisks = false
	w.mu.Unlock()
	if tell {
		c.disks(ctx, all)
	}
	stale := w.update(all, now)
	for _, name := range slices.Sorted(maps.Keys(stale)) {
		was, begun := stale[name], w.o.Now()
		fresh, gone, err := w.read(ctx, c, name, was)
		if err != nil {
			return err
		}
		w.mu.Lock()
		switch k := w.known[name]; {
		case gone:
			delete(w.known, name)
		case k != nil:
			fresh.at = begun
			fresh.stale = k.signals != was.signals
			fresh.signals = k.signals
			*k = fresh
		}
		w.mu.Unlock()
	}
	return nil
}

// update takes in what the statistics tell, and is what was known of the guests that are
// to be read anew.
func (w *Watch) update(all map[string]state, now time.Time) map[string]known {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.known, func(name string, _ *known) bool { _, there := all[name]; return !there })
	maps.DeleteFunc(w.runs, func(name string, _ int) bool { _, there := all[name]; return !there })
	for name, s := range all {
		if w.known[name] == nil {
			w.known[name] = &known{stale: true, state: s.state}
		}
	}
	again := w.oldest(now)
	stale := map[string]known{}
	for name, s := range all {
		k := w.known[name]
		if s.vcpus == 0 { // a guest that is busy does not tell all of it
			s.vcpus, s.rss = k.vcpus, max(s.rss, k.rss)
		}
		if !k.at.After(w.lost) || k.state != s.state || k.vcpus != s.vcpus || again[name] {
			k.stale = true
		}
		k.state = s.state
		k.vcpus = s.vcpus
		k.rss = s.rss
		if s.disks != nil {
			k.disks = s.disks
		}
		if k.stale {
			stale[name] = *k
		}
	}
	return stale
}

// dropEnded forgets runs that have ended while libvirt does not answer: nobody else tells.
func (w *Watch) dropEnded() {
	if w.o.Process == nil {
		return
	}
	w.mu.Lock()
	run := map[string]workload.Process{}
	for name, k := range w.known {
		if k.process.PID > 0 {
			run[name] = k.process
		}
	}
	w.mu.Unlock()
	for name, was := range run {
		if p, err := w.o.Process(name); err == nil && p == was {
			continue
		}
		w.mu.Lock()
		k := w.known[name]
		switch {
		case k == nil || k.process != was:
		case k.config == nil:
			delete(w.known, name)
		default:
			*k = known{path: k.path, stale: true, at: k.at, state: shutOff, config: k.config, signals: k.signals}
		}
		w.mu.Unlock()
	}
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
	slices.SortFunc(due, func(a, b string) int {
		return cmp.Or(w.known[a].at.Compare(w.known[b].at),
			cmp.Compare(a, b))
	})
	out := map[string]bool{}
	for _, name := range due[:min(len(due), max(2, len(w.known)/10))] {
		out[name] = true
	}
	return out
}

// read reads the XML of one guest, in as few calls as tell all; gone says that it
// vanished meanwhile.
func (w *Watch) read(ctx context.Context, c *Client, name string, was known) (fresh known, gone bool, err error) {
	fresh = known{path: was.path, state: was.state, vcpus: was.vcpus, rss: was.rss, disks: was.disks}
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
		return fresh, isGone(err), notGone(err)
	}
	d, why := domain.Parse([]byte(text))
	if why != nil {
		fresh.unread, fresh.active = why.Error(), was.state != shutOff
		return fresh, false, nil
	}
	if d.Run() == 0 { // off, and then it has a definition
		fresh.config = d
		return fresh, false, nil
	}
	fresh.active, fresh.live = true, d
	persistent, err := c.persistent(ctx, fresh.path)
	if err != nil {
		return fresh, isGone(err), notGone(err)
	}
	if persistent {
		if err := c.call(ctx, fresh.path, domainIface+".GetXMLDesc", &text, xmlInactive); err != nil {
			return fresh, isGone(err), notGone(err)
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
	return fresh, false, nil
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

// Attached is what a guest is plugged into, as it runs; nil for what is no guest that runs. What its
// disks have read and written is as of the look after the last time that this was asked: a look
// asks it of QEMU for no other reason.
func (w *Watch) Attached(id workload.ID) []workload.Attachment {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.known[guest.NameOf(id)]; k != nil && k.active && k.live != nil {
		all := k.live.Attachments()
		for i := range all {
			if a := &all[i]; a.Kind == workload.ByNetDisk || a.Kind == workload.ByBlock {
				w.tellDisks = true
				a.Bytes, a.Counted = k.disks[a.Name]
			}
		}
		return all
	}
	return nil
}

// Guests is all guests as of the last Look that did not fail, by name, and those that
// are not understood.
func (w *Watch) Guests(h *topology.Host) (guests []guest.Observed, unread []guest.Unread) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.host = h
	for _, name := range slices.Sorted(maps.Keys(w.known)) {
		k := w.known[name]
		if k.at.IsZero() { // the look ended before its turn
			unread = append(unread, guest.Unread{Name: name, Running: k.state != shutOff,
				Text: "libvirt has not told of it yet"})
			continue
		}
		if on := fmt.Sprint(h.Online, h.AllowedMems, len(h.Nodes)); k.unread == "" && k.standsOn != on {
			if err := k.stand(h); err != nil {
				unread = append(unread, k.unreadAs(name, err.Error()))
				continue
			}
			k.standsOn = on
		}
		if k.unread != "" {
			unread = append(unread, k.unreadAs(name, k.unread))
			continue
		}
		k.seen.Resident = k.rss
		guests = append(guests, k.seen)
	}
	return guests, unread
}

func (k *known) unreadAs(name, text string) guest.Unread {
	u := guest.Unread{Name: name, Running: k.active, Text: text, Process: k.process}
	if k.live != nil {
		u.Run = k.live.Run()
	}
	return u
}

// stand reads from the documents where the guest is.
func (k *known) stand(h *topology.Host) error {
	k.seen = guest.Observed{Process: k.process}
	if k.config != nil {
		s, err := k.config.Guest(h)
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
		k.seen.Guest = *k.seen.Defined
		return nil
	}
	s, err := k.live.Guest(h)
	if err != nil {
		return err
	}
	s.Running = true
	if d := k.seen.Defined; d != nil && d.Placed { // it may have come since the guest was started
		s.Near, s.Spec.Near = d.Near, slices.Concat(d.Near, s.Spec.Near[len(s.Near):])
	}
	k.seen.Guest, k.seen.Run = s, k.live.Run()
	return nil
}
