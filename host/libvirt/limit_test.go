package libvirt

import (
	"errors"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
)

const devicesXML = `<devices>
 <disk type='file' device='disk'><target dev='vda'/></disk><disk type='file' device='cdrom'><target dev='sda'/></disk>
 <disk type='block'><target dev='vdb'/></disk>
 <interface type='bridge'><mac address='52:54:00:00:00:01'/></interface><interface type='hostdev'><mac address='52:54:00:00:00:02'/></interface>
</devices></domain>`

func TestLimit(t *testing.T) {
	f := startFake(t)
	with := func(text string) string { return strings.Replace(text, "</domain>", devicesXML, 1) }
	run := f.add(t, "run", with(plainXML("run", 3)), with(plainXML("run", 0)))
	off := f.add(t, "off", "", with(plainXML("off", 0)))
	transient := f.add(t, "transient", with(plainXML("transient", 4)), "")
	c := open(t, "")
	rate, none := topology.KiB(2048), topology.KiB(0)
	disk := guest.DiskLimit{IOPS: 100, IOPSPerGiB: 5, Rate: 1024}
	tests := []struct {
		g     *fakeGuest
		l     guest.Limits
		lines int
		want  map[string]string
	}{
		{run, guest.Limits{Network: &rate, Disk: &disk}, 3, map[string]string{
			"52:54:00:00:00:01 inbound.average": "uint32 2048 3", "52:54:00:00:00:01 outbound.average": "uint32 2048 3",
			"vda total_iops_sec": "uint64 600 3", "vda total_bytes_sec": "uint64 1048576 3",
			"vdb total_iops_sec": "uint64 100 3", "vdb total_bytes_sec": "uint64 1048576 3"}},
		{off, guest.Limits{Network: &none}, 1, map[string]string{
			"52:54:00:00:00:01 inbound.average": "uint32 0 2", "52:54:00:00:00:01 outbound.average": "uint32 0 2"}},
		{transient, guest.Limits{Disk: &guest.DiskLimit{Rate: 1}}, 2, map[string]string{
			"vda total_iops_sec": "uint64 0 1", "vda total_bytes_sec": "uint64 1024 1", "vdb total_iops_sec": "uint64 0 1", "vdb total_bytes_sec": "uint64 1024 1"}},
	}
	for _, tt := range tests {
		done, err := c.Limit(t.Context(), tt.g.name, tt.l)
		f.edit(func() {
			if err != nil || len(done) != tt.lines || !maps.Equal(tt.g.limits, tt.want) {
				t.Errorf("%s: %q, %v; set %v", tt.g.name, done, err, tt.g.limits)
			}
		})
	}
	if _, err := c.Limit(t.Context(), "gone", guest.Limits{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
	f.edit(func() { f.refuse["SetBlockIOTune"] = libvirtError("disk busy") })
	done, err := c.Limit(t.Context(), "run", guest.Limits{Network: &rate, Disk: &disk})
	if err == nil || !strings.Contains(err.Error(), `guest "run": disk vda: SetBlockIOTune: disk busy`) || len(done) != 1 {
		t.Errorf("%q, %v", done, err)
	}
}
