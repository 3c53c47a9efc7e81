package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/homenode/homenode/api"
)

// renewEvery is how often all bookings are extended.
const renewEvery = 10 * time.Minute

// renewWithin bounds the renewal of one claim: nothing else is prepared or published meanwhile.
const renewWithin = 10 * time.Second

// Policies for a kubelet whose static managers pin containers, too.
const (
	refuse = "refuse" // devices get a taint, claims are not prepared
	report = "report" // an event says so; what the kubelet pins stays so
)

// driver prepares claims.
type driver struct {
	daemon   homenode
	file     claimsFile
	cdi      cdiFolder
	pool     string // of its devices: the node's name
	managers string // refuse or report
	static   func() string
	events   record.EventRecorder
	fatal    func(error)
	client   kubernetes.Interface
	evicts   bool // pods that the daemon asks for are evicted

	// mu guards claims and the file of them. It is held over calls of the daemon: what is
	// asked for two claims at once is asked one after the other.
	mu     sync.Mutex
	claims map[types.UID]*claim
}

func sortedUIDs(all map[types.UID]*claim) []types.UID { return slices.Sorted(maps.Keys(all)) }

// PrepareResourceClaims books each claim. A claim is booked whole or not at all.
func (d *driver) PrepareResourceClaims(ctx context.Context,
	all []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[types.UID]kubeletplugin.PrepareResult{}
	for _, rc := range all {
		devices, err := d.prepare(ctx, rc)
		if err != nil {
			err = fmt.Errorf("homenode: claim %s/%s: %w", rc.Namespace, rc.Name, err)
		}
		out[rc.UID] = kubeletplugin.PrepareResult{Err: err, Devices: devices}
	}
	return out, nil
}

func (d *driver) prepare(ctx context.Context, rc *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	c := d.claims[rc.UID]
	if c == nil {
		if text := d.static(); text != "" {
			if d.managers == refuse {
				return nil,
					fmt.Errorf("%s. Set both policies to none, or start homenode-kube with --kubelet-managers=report",
						text)
			}
			d.events.Eventf(rc, corev1.EventTypeWarning, "KubeletPinsToo",
				"On %s %s. Homenode leaves alone what the kubelet pins, so containers may run on another NUMA node "+
					"than the one allocated.", d.pool, text)
		}
		var err error
		if c, err = asClaim(rc, d.pool, rand.Text()); err != nil {
			return nil, err
		}
		// First the file: what is booked after a crash is found there, and let go by Unprepare.
		d.claims[rc.UID] = c
		if err := d.file.write(d.claims); err != nil {
			delete(d.claims, rc.UID)
			return nil, err
		}
	}
	if err := d.book(ctx, c); err != nil {
		return nil, errors.Join(err, d.letGo(ctx, c))
	}
	if err := errors.Join(d.cdi.write(c), d.file.write(d.claims)); err != nil {
		return nil, err
	}
	var out []kubeletplugin.Device
	for _, b := range c.Bookings {
		out = append(out, kubeletplugin.Device{Requests: []string{b.Request}, PoolName: d.pool, DeviceName: b.Device,
			ShareID:      b.ShareID,
			CDIDeviceIDs: []string{cdiKind + "=" + cdiName(c.UID, b.Request)}})
	}
	// One entry for each device and request, however many bookings it has.
	return slices.CompactFunc(out, func(a, b kubeletplugin.Device) bool {
		return a.DeviceName == b.DeviceName && a.Requests[0] == b.Requests[0] && equalShare(a.ShareID, b.ShareID)
	}), nil
}

func equalShare(a, b *types.UID) bool { return a == b || (a != nil && b != nil && *a == *b) }

// book asks the daemon for all of a claim; asked again, what it holds stays as it is.
func (d *driver) book(ctx context.Context, c *claim) error {
	for i := range c.Bookings {
		b := &c.Bookings[i]
		home, err := d.daemon.Place(ctx, b.want(c))
		if err != nil {
			return fmt.Errorf("book %d CPUs and %d MiB on NUMA node %d: %w", b.CPUs, b.Memory>>10, b.Node, err)
		}
		if !b.Given.Empty() && !home.CPUs.Equal(b.Given) {
			klog.InfoS("booked anew, on other CPUs than before", "claim", c.Namespace+"/"+c.Name, "before",
				b.Given.String(), "now", home.CPUs.String())
		}
		if short := home.CPUs.Len() < b.CPUs; short && !home.CPUs.Equal(b.Given) {
			d.events.Eventf(c.reference(), corev1.EventTypeWarning, "CPUsOffline",
				"On %s CPUs of NUMA node %d went offline: the claim has %d of its %d CPUs (%s). It has all again "+
					"when they come online; delete its pods to have them scheduled elsewhere.",
				d.pool, b.Node, home.CPUs.Len(), b.CPUs, home.CPUs)
		} else if !short && !b.Given.Empty() && b.Given.Len() < b.CPUs {
			d.events.Eventf(c.reference(), corev1.EventTypeNormal, "CPUsOnline",
				"On %s the claim has all of its %d CPUs again (%s).", d.pool, b.CPUs, home.CPUs)
		}
		b.Given = home.CPUs
	}
	return nil
}

// letGo ends the bookings of a claim and forgets it.
func (d *driver) letGo(ctx context.Context, c *claim) error {
	for i := range c.Bookings {
		if _, err := d.daemon.Place(ctx, api.Want{ID: c.Bookings[i].ID, Release: true}); err != nil {
			return err // all of it is kept in the file, for the next try
		}
	}
	if err := d.cdi.remove(c.UID); err != nil {
		return err
	}
	delete(d.claims, c.UID)
	return d.file.write(d.claims)
}

// UnprepareResourceClaims ends the bookings of claims. One that is not known has none.
func (d *driver) UnprepareResourceClaims(ctx context.Context,
	all []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[types.UID]error{}
	for _, o := range all {
		out[o.UID] = nil
		if c := d.claims[o.UID]; c != nil {
			if err := d.letGo(ctx, c); err != nil {
				out[o.UID] = fmt.Errorf("homenode: claim %s/%s: %w", o.Namespace, o.Name, err)
			}
		}
	}
	return out, nil
}

// renew extends all bookings, and makes the CDI files anew: a restart of the machine has
// removed them. A daemon that does not answer for one claim is not asked for the rest.
func (d *driver) renew(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, uid := range sortedUIDs(d.claims) {
		c := d.claims[uid]
		one, cancel := context.WithTimeout(ctx, renewWithin)
		err := errors.Join(d.book(one, c), d.cdi.write(c))
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("claim %s/%s: %w", c.Namespace, c.Name, err))
		}
		if errors.Is(err, api.ErrLate) || errors.Is(err, api.ErrNoDaemon) {
			break
		}
	}
	return errors.Join(append(errs, d.file.write(d.claims))...)
}

// HandleError is told of what goes wrong beside calls.
func (d *driver) HandleError(ctx context.Context, err error, msg string) {
	if dropped := new(resourceslice.DroppedFieldsError); errors.As(err, &dropped) {
		klog.FromContext(ctx).Error(err,
			"This cluster lacks feature gates; without DRAConsumableCapacity no claim can be prepared", "lacks",
			dropped.DisabledFeatures())
		return
	}
	if errors.Is(err, kubeletplugin.ErrRecoverable) {
		klog.FromContext(ctx).Error(err, msg)
		return
	}
	d.fatal(fmt.Errorf("%s: %w", msg, err))
}

// WatchHealthStatus is never called: the service is turned off.
func (d *driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}
