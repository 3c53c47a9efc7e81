package libvirt

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

const devicesXML = `<devices>
 <disk type='file' device='disk'><target dev='vda'/></disk><disk type='file' device='cdrom'><target dev='sda'/></disk>
 <disk type='block'><target dev='vdb'/></disk>
 <interface type='bridge'><mac address='52:54:00:00:00:01'/></interface><interface type='hostdev'><mac address='52:54:00:00:00:02'/></interface>
</devices></domain>`

func withDevices(text string) string { return strings.Replace(text, "</domain>", devicesXML, 1) }

// allLimits is what a guest of the fake is limited to, "1" as it runs and "2" by definition.
func (g *fakeGuest) allLimits() map[string]string {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	out := map[string]string{}
	for device, all := range g.limits {
		for key, v := range all {
			if text := fmt.Sprint(v.Value()); text != "0" && text != "" {
				out[device+" "+key] = text
			}
		}
	}
	return out
}

func TestLimit(t *testing.T) {
	f := startFake(t)
	run := f.add(t, "run", withDevices(plainXML("run", 3)), withDevices(plainXML("run", 0)))
	off := f.add(t, "off", "", withDevices(plainXML("off", 0)))
	transient := f.add(t, "transient", withDevices(plainXML("transient", 4)), "")
	w := watch(t)
	rate, none := topology.KiB(2048), topology.KiB(0)
	disk := guest.DiskLimit{IOPS: 100, IOPSPerGiB: 5, Rate: 1024}
	tests := []struct {
		g    *fakeGuest
		l    guest.Limits
		say  []string
		want map[string]string
		undo []string // paths of the settings
	}{
		{run, guest.Limits{Network: &rate, Disk: &disk},
			[]string{"NIC 52:54:00:00:00:01: 2048 KiB a second each way", "disk vda: 600 operations and 1024 KiB a second", "disk vdb: 100 operations and 1024 KiB a second"},
			map[string]string{
				"1 52:54:00:00:00:01 inbound.average": "2048", "1 52:54:00:00:00:01 outbound.average": "2048", "1 vda total_iops_sec": "600",
				"1 vda total_bytes_sec": "1048576", "1 vdb total_iops_sec": "100", "1 vdb total_bytes_sec": "1048576",
				"2 52:54:00:00:00:01 inbound.average": "2048", "2 52:54:00:00:00:01 outbound.average": "2048", "2 vda total_iops_sec": "600",
				"2 vda total_bytes_sec": "1048576", "2 vdb total_iops_sec": "100", "2 vdb total_bytes_sec": "1048576"},
			[]string{"run@3/52:54:00:00:00:01", "run@3/vda", "run@3/vdb", "run/52:54:00:00:00:01", "run/vda", "run/vdb"}},
		{off, guest.Limits{Network: &none}, []string{"NIC 52:54:00:00:00:01: no limit"}, map[string]string{}, []string{"off/52:54:00:00:00:01"}},
		{transient, guest.Limits{Disk: &guest.DiskLimit{Rate: 1}}, []string{"disk vda: any number of operations and 1 KiB a second", "disk vdb: any number of operations and 1 KiB a second"},
			map[string]string{"1 vda total_bytes_sec": "1024", "1 vdb total_bytes_sec": "1024"}, []string{"transient@4/vda", "transient@4/vdb"}},
	}
	for _, tt := range tests {
		say, err := w.Limits(t.Context(), tt.g.name, tt.l)
		if err != nil || !slices.Equal(say, tt.say) {
			t.Errorf("%s: %q, %v", tt.g.name, say, err)
		}
		entries := doAll(t, w, step(plan.SetLimits, tt.g.name, tt.l.String()))
		if got := tt.g.allLimits(); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %s", tt.g.name, cmp.Diff(tt.want, got))
		}
		var paths []string
		for _, e := range entries {
			paths = append(paths, e.Path)
		}
		if !slices.Equal(paths, tt.undo) {
			t.Errorf("%s: journalled %q", tt.g.name, paths)
		}
		for _, err := range w.Restore(t.Context(), entries) {
			if err != nil {
				t.Error(err)
			}
		}
		if got := tt.g.allLimits(); len(got) > 0 {
			t.Errorf("%s: undone, it is limited to %v", tt.g.name, got)
		}
	}
}

// The limits of before come back whole: those that another manager set, too.
func TestUndoOfLimits(t *testing.T) {
	f := startFake(t)
	g := f.add(t, "a", withDevices(plainXML("a", 3)), "")
	w := watch(t)
	before := map[string]string{"1 52:54:00:00:00:01 inbound.average": "100", "1 52:54:00:00:00:01 inbound.peak": "200", "1 vda read_bytes_sec": "4096", "1 vda total_iops_sec_max": "70"}
	for _, device := range []string{"52:54:00:00:00:01", "vda", "vdb"} {
		if _, err := w.Read(t.Context(), plan.Entry{Kind: plan.GuestLimits, Path: "a@3/" + device}); err != nil {
			t.Fatal(err)
		}
	}
	f.edit(func() {
		g.limits["1 52:54:00:00:00:01"]["inbound.average"], g.limits["1 52:54:00:00:00:01"]["inbound.peak"] = dbus.MakeVariant(uint32(100)), dbus.MakeVariant(uint32(200))
		g.limits["1 vda"]["read_bytes_sec"], g.limits["1 vda"]["total_iops_sec_max"] = dbus.MakeVariant(uint64(4096)), dbus.MakeVariant(uint64(70))
	})
	entries := doAll(t, w, step(plan.SetLimits, "a", "network=7 rate=8 iops=9"))
	want := map[string]string{"1 52:54:00:00:00:01 inbound.average": "7", "1 52:54:00:00:00:01 outbound.average": "7", "1 vda total_bytes_sec": "8192", "1 vda total_iops_sec": "9", "1 vdb total_bytes_sec": "8192", "1 vdb total_iops_sec": "9"}
	if got := g.allLimits(); !maps.Equal(got, want) {
		t.Errorf("limited: %s", cmp.Diff(want, got))
	}
	if entries[0].Old != "inbound.average=100 inbound.peak=200" || entries[1].Old != "read_bytes_sec=4096 total_iops_sec_max=70" {
		t.Errorf("journalled %+v", entries)
	}
	for i, err := range w.Restore(t.Context(), entries) {
		if err != nil {
			t.Errorf("%s: %v", entries[i].Path, err)
		}
	}
	if got := g.allLimits(); !maps.Equal(got, before) {
		t.Errorf("undone: %s", cmp.Diff(before, got))
	}
	if err := restore(t, w, plan.Entry{Kind: plan.GuestLimits, Path: "a@3/vda", Old: "read_bytes_sec=x"}); err == nil || !maps.Equal(g.allLimits(), before) {
		t.Errorf("to what is no limit: %v, %v", err, g.allLimits())
	}
	// Another run, another device, no definition: gone.
	for path, kind := range map[string]plan.SettingKind{"a@4/vda": plan.GuestLimits, "a@3/vdz": plan.GuestLimits, "a/vda": plan.GuestLimitsNext, "b/vda": plan.GuestLimitsNext} {
		e := plan.Entry{Kind: kind, Path: path}
		if _, err := w.Read(t.Context(), e); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
		if err := restore(t, w, e); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// All or nothing: where one device refuses, those before it have their limits back.
func TestLimitsAllOrNothing(t *testing.T) {
	f := startFake(t)
	g := f.add(t, "a", withDevices(plainXML("a", 3)), withDevices(plainXML("a", 0)))
	w := watch(t)
	f.edit(func() { f.refuse["vdb"] = libvirtError("disk busy") })
	err := w.Apply(t.Context(), step(plan.SetLimits, "a", "network=7 rate=8"), nil)
	if err == nil || !strings.Contains(err.Error(), `guest "a": vdb: SetBlockIOTune: disk busy`) {
		t.Error(err)
	}
	if got := g.allLimits(); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
	for _, name := range []string{"gone"} {
		if _, err := w.Changes(t.Context(), step(plan.SetLimits, name, "network=7")); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, guest.ErrGone) {
			t.Errorf("one that is not there: %v", err)
		}
	}
	for _, bad := range []string{"network=x", "speed=7", "network=-1", "network=99999999999999", "network=4294967296"} {
		if _, err := w.Changes(t.Context(), step(plan.SetLimits, "a", bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
