package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/libvirt/domain"
)

// paths is the objects of all guests, running or not.
func (c *Client) paths(ctx context.Context) ([]dbus.ObjectPath, error) {
	var paths []dbus.ObjectPath
	err := c.call(ctx, c.path, connectIface+".ListDomains", &paths, uint32(0))
	return paths, err
}

// lookup is the object of a guest by its name.
func (c *Client) lookup(ctx context.Context, name string) (dbus.ObjectPath, error) {
	var path dbus.ObjectPath
	if err := c.call(ctx, c.path, connectIface+".DomainLookupByName", &path, name); err != nil {
		return "", fmt.Errorf("guest %q: %w", name, err)
	}
	return path, nil
}

func (c *Client) active(ctx context.Context, path dbus.ObjectPath) (bool, error) {
	v, err := c.property(ctx, path, domainIface, "Active")
	on, _ := v.(bool)
	return on, err
}

func (c *Client) xml(ctx context.Context, path dbus.ObjectPath, flags uint32) (*domain.Document, error) {
	var text string
	if err := c.call(ctx, path, domainIface+".GetXMLDesc", &text, flags); err != nil {
		return nil, err
	}
	return domain.Parse([]byte(text))
}

// Guests is all guests that libvirt knows, running or not, by name; a running
// one as it runs, another as it will start. Guests that vanish meanwhile are left
// out; those that cannot be understood are in unread.
func (c *Client) Guests(ctx context.Context, h *topology.Host) (guests []guest.Standing, unread []guest.Unread, err error) {
	paths, err := c.paths(ctx)
	if err != nil {
		return nil, nil, err
	}
	resident, err := c.resident(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, path := range paths {
		s, why, err := c.standing(ctx, h, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, nil, err
		case why != nil:
			unread = append(unread, guest.Unread{Name: s.Name, Running: s.Running, Text: why.Error()})
		default:
			s.Resident = resident[s.Name]
			guests = append(guests, s)
		}
	}
	slices.SortFunc(guests, func(a, b guest.Standing) int { return strings.Compare(a.Name, b.Name) })
	return guests, unread, nil
}

// standing is one guest; why says what of its XML is not understood.
func (c *Client) standing(ctx context.Context, h *topology.Host, path dbus.ObjectPath) (s guest.Standing, why, err error) {
	on, err := c.active(ctx, path)
	if err != nil {
		return s, nil, err
	}
	read := func(flags uint32) (out guest.Standing, why, err error) {
		var text string
		if err := c.call(ctx, path, domainIface+".GetXMLDesc", &text, flags); err != nil {
			return out, nil, err
		}
		d, why := domain.Parse([]byte(text))
		if why == nil {
			out, why = d.Standing(h)
		}
		return out, why, nil
	}
	s, why, err = read(0)
	s.Running = on
	if err != nil || why != nil || !on {
		return s, why, err
	}
	later, why, err := read(xmlInactive)
	if err != nil || why != nil {
		return s, why, err
	}
	if later.Placed && (!s.Placed || !later.Home.Placement.CPUs.Equal(s.Home.Placement.CPUs) || !later.Home.Placement.Home.Equal(s.Home.Placement.Home)) {
		s.Next = &later.Home
	}
	return s, nil, nil
}

// resident is the memory that each running guest holds now, by name.
func (c *Client) resident(ctx context.Context) (map[string]topology.KiB, error) {
	var records []struct {
		Name  string
		Stats map[string]dbus.Variant
	}
	if err := c.call(ctx, c.path, connectIface+".GetAllDomainStats", &records, statsBalloon, uint32(0)); err != nil {
		return nil, err
	}
	out := map[string]topology.KiB{}
	for _, r := range records {
		if v, ok := r.Stats["balloon.rss"].Value().(uint64); ok && v < 1<<50 {
			out[r.Name] = topology.KiB(v)
		}
	}
	return out, nil
}

// Define makes a guest known to libvirt, or changes what it will be at its next
// start. It starts nothing.
func (c *Client) Define(ctx context.Context, xml []byte) error {
	var path dbus.ObjectPath
	return c.call(ctx, c.path, connectIface+".DomainDefineXML", &path, string(xml))
}
