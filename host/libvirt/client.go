package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/host/libvirt/domain"
)

const (
	service         = "org.libvirt"
	connectIface    = "org.libvirt.Connect"
	domainIface     = "org.libvirt.Domain"
	propertiesIface = "org.freedesktop.DBus.Properties"
	busName         = "org.freedesktop.DBus" // of the bus itself
)

// Flags of libvirt's API (include/libvirt/libvirt-domain.h).
const (
	affectLive    uint32 = 1      // VIR_DOMAIN_AFFECT_LIVE
	affectConfig  uint32 = 2      // VIR_DOMAIN_AFFECT_CONFIG
	xmlSecure     uint32 = 1      // VIR_DOMAIN_XML_SECURE: with passwords, which a define would else take away
	xmlInactive   uint32 = 2      // VIR_DOMAIN_XML_INACTIVE: as it will start next time
	metadataOfOwn int32  = 2      // VIR_DOMAIN_METADATA_ELEMENT
	statsState    uint32 = 1      // VIR_DOMAIN_STATS_STATE
	statsBalloon  uint32 = 4      // VIR_DOMAIN_STATS_BALLOON
	statsVCPU     uint32 = 8      // VIR_DOMAIN_STATS_VCPU
	statsBlock    uint32 = 32     // VIR_DOMAIN_STATS_BLOCK
	statsActive   uint32 = 1 << 0 // VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE: of guests that run
	// VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT: without what a busy guest cannot tell at once
	statsNoWait uint32 = 1 << 29
)

// DefaultURI is the libvirt that is meant when none is named.
const DefaultURI = "qemu:///system"

// ErrUnavailable means that libvirt cannot be reached here.
var ErrUnavailable = errors.New("libvirt cannot be reached")

// ErrURI means that a libvirt of that URI is not known here.
var ErrURI = errors.New("libvirt URI")

// gone is why a guest, or the run of it that was meant, is not there.
type gone string

func (g gone) Error() string { return "the guest is gone (" + string(g) + ")" }

// Is: for the command line it is no such guest, for who drives steps a target that does
// not exist.
func (g gone) Is(target error) bool { return target == guest.ErrGone || target == fs.ErrNotExist }

func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// Client is a connection to the libvirt of this host. Its methods may be called
// from several goroutines.
type Client struct {
	bus  *dbus.Conn
	path dbus.ObjectPath // of the driver
}

// Open connects to a bus and to the driver of a libvirt URI: qemu:///system,
// qemu:///session or test:///default; "" is DefaultURI. The first is on the
// system bus, as is the last; the second is on the session bus.
func Open(ctx context.Context, uri string) (*Client, error) {
	connect := dbus.ConnectSystemBus
	// The connection outlives ctx, but to make it does not: a bus may accept and say nothing.
	alive, end := context.WithCancel(context.Background())
	defer context.AfterFunc(ctx, end)()
	path := dbus.ObjectPath("/org/libvirt/QEMU")
	switch uri {
	case "", DefaultURI:
	case "qemu:///session":
		connect = dbus.ConnectSessionBus
	case "test:///default":
		path = "/org/libvirt/Test"
	default:
		return nil, fmt.Errorf("%w %q; want qemu:///system, qemu:///session or test:///default", ErrURI, uri)
	}
	bus, err := connect(dbus.WithContext(alive))
	if err != nil {
		end()
		return nil, fmt.Errorf("%w: no D-Bus here; apt install libvirt-dbus, or dnf install libvirt-dbus (%w)",
			ErrUnavailable, err)
	}
	c := &Client{bus, path}
	// The first call starts the service, and opens libvirt.
	if _, err := c.property(ctx, path, connectIface, "LibVersion"); err != nil {
		bus.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connection. Guests are not touched.
func (c *Client) Close() error { return c.bus.Close() }

// call calls a method and stores what it returns.
func (c *Client) call(ctx context.Context, path dbus.ObjectPath, method string, into any, args ...any) error {
	call := c.bus.Object(service, path).CallWithContext(ctx, method, 0, args...)
	err := call.Err
	if err == nil && into != nil {
		err = call.Store(into)
	}
	return explain(method[strings.LastIndexByte(method, '.')+1:], err)
}

func (c *Client) property(ctx context.Context, path dbus.ObjectPath, iface, name string) (any, error) {
	var v dbus.Variant
	err := c.call(ctx, path, propertiesIface+".Get", &v, iface, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v.Value(), nil
}

// owner is the connection that the service has.
func (c *Client) owner(ctx context.Context) (name string, err error) {
	err = c.bus.BusObject().CallWithContext(ctx, busName+".GetNameOwner", 0, service).Store(&name)
	return name, explain("GetNameOwner", err)
}

// lookup is the object of a guest by its name.
func (c *Client) lookup(ctx context.Context, name string) (dbus.ObjectPath, error) {
	var path dbus.ObjectPath
	if err := c.call(ctx, c.path, connectIface+".DomainLookupByName", &path, name); err != nil {
		return "", fmt.Errorf("guest %q: %w", name, err)
	}
	return path, nil
}

func (c *Client) xml(ctx context.Context, path dbus.ObjectPath, flags uint32) (*domain.Document, error) {
	var text string
	if err := c.call(ctx, path, domainIface+".GetXMLDesc", &text, flags); err != nil {
		return nil, err
	}
	return domain.Parse([]byte(text))
}

// persistent reports whether a guest has a definition: to define a transient one would
// make it stay.
func (c *Client) persistent(ctx context.Context, path dbus.ObjectPath) (bool, error) {
	v, err := c.property(ctx, path, domainIface, "Persistent")
	yes, _ := v.(bool)
	return yes, err
}

// define makes a guest known to libvirt, or changes what it will be at its next
// start. It starts nothing.
func (c *Client) define(ctx context.Context, xml []byte) error {
	var path dbus.ObjectPath
	return c.call(ctx, c.path, connectIface+".DomainDefineXML", &path, string(xml))
}

// ends is what a call returns whose connection ends: which of them depends on what it was doing.
var ends = []error{dbus.ErrClosed, net.ErrClosed, io.EOF, unix.EPIPE, unix.ECONNRESET}

// explain gives an error of the bus its meaning.
func explain(op string, err error) error {
	var e dbus.Error
	if err == nil || !errors.As(err, &e) {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%s: %w: no answer in time", op, ErrUnavailable)
		}
		if slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) }) {
			return fmt.Errorf("%s: %w: %w", op, ErrUnavailable, err)
		}
		return err
	}
	text := e.Error()
	switch {
	case e.Name == "org.freedesktop.DBus.Error.ServiceUnknown" ||
		e.Name == "org.freedesktop.DBus.Error.NameHasNoOwner" ||
		strings.HasPrefix(e.Name, "org.freedesktop.DBus.Error.Spawn"):
		return fmt.Errorf("%w: the bus has no service %s; install libvirt-dbus (%s)", ErrUnavailable, service, text)
	case e.Name == "org.freedesktop.DBus.Error.NoReply" || e.Name == "org.freedesktop.DBus.Error.Disconnected":
		return fmt.Errorf("%s: %w: %s", op, ErrUnavailable, text)
	case e.Name == "org.freedesktop.DBus.Error.AccessDenied" || e.Name == "org.freedesktop.DBus.Error.AuthFailed",
		strings.Contains(text, "access denied") || strings.Contains(text, "authentication"):
		return fmt.Errorf("%s: %w: %s", op, fs.ErrPermission, text)
	case e.Name == "org.freedesktop.DBus.Error.UnknownObject" || strings.Contains(text, "Domain not found") ||
		strings.Contains(text, "no domain with matching"),
		strings.Contains(text, "domain is not running"):
		return fmt.Errorf("%s: %w", op, gone(text))
	case strings.Contains(text, "Failed to connect socket") || strings.Contains(text, "failed to connect"):
		return fmt.Errorf("%w: its daemon does not answer: %s", ErrUnavailable, text)
	}
	return fmt.Errorf("%s: %s", op, text)
}
