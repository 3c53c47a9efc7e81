package libvirt

import (
	"context"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/homenode/homenode/core/topology"
)

// state is what the statistics tell of one guest.
type state struct {
	state int32 // virDomainState
	vcpus uint32
	rss   topology.KiB
	disks map[string]uint64 // nil where that was not asked, or not told
}

// record is the statistics of one guest.
type record struct {
	Name  string
	Stats map[string]dbus.Variant
}

// disksWithin bounds how long a look waits to be told of disks: they may wait for the next time.
const disksWithin = 2 * time.Second

// disks adds what the disks of the guests have read and written. Only of those that run: of
// others libvirt opens the images itself (src/qemu/qemu_driver.c), and one on a server that is gone
// never answers.
func (c *Client) disks(ctx context.Context, all map[string]state) {
	ctx, cancel := context.WithTimeout(ctx, disksWithin)
	defer cancel()
	var records []record
	if c.call(ctx, c.path, connectIface+".GetAllDomainStats", &records, statsBlock, statsActive|statsNoWait) != nil {
		return
	}
	for _, r := range records {
		s, there := all[r.Name]
		eachDisk(r.Stats, func(name string, of func(string) (uint64, bool)) {
			read, knows := of("rd.bytes")
			written, both := of("wr.bytes")
			if !knows || !both {
				return
			}
			if s.disks == nil {
				s.disks = map[string]uint64{}
			}
			s.disks[name] = read + written
		})
		if there {
			all[r.Name] = s
		}
	}
}

// states is all guests, running or not, in one call.
func (c *Client) states(ctx context.Context) (map[string]state, error) {
	var records []record
	if err := c.call(ctx, c.path, connectIface+".GetAllDomainStats", &records, statsState|statsBalloon|statsVCPU,
		statsNoWait); err != nil {
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
