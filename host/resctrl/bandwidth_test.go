package resctrl

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
)

// both is the measured bandwidth of the two caches of a model.
var both = share.Bandwidth{0: 24000, 1: 24000}

// newAMD is a model of AMD QoS: the kernel takes 1 to 2048 units of 1/8 GB/s.
func newAMD() *model {
	m := newModel()
	m.groups[mount] = "L3:0=ffff;1=ffff\nMB:0=2048;1=2048\n"
	m.fresh = m.groups[mount]
	m.files[mount+"/info/L3/cbm_mask"], m.files[mount+"/info/L3/shareable_bits"] = "ffff\n", "0\n"
	m.files[mount+"/info/MB/min_bandwidth"], m.files[mount+"/info/MB/bandwidth_gran"] = "0\n", "1\n"
	m.files[mount+"/info/MB/delay_linear"] = "0\n"
	m.bounds = func(v uint64) uint64 {
		if v > 2048 {
			return 0
		}
		return v
	}
	return m
}

// newMBps is a model of resctrl mounted with mba_MBps.
func newMBps() *model {
	m := newModel()
	m.files["proc/mounts"] = "resctrl /sys/fs/resctrl resctrl rw,relatime,mba_MBps 0 0\n"
	m.groups[mount] = "L3:0=7ff;1=7ff\nMB:0=4294967295;1=4294967295\n"
	m.fresh = m.groups[mount]
	m.files[mount+"/info/MB/delay_linear"] = "1\n"
	return m
}

// newMBpsBefore is the same with a kernel before 6.12, which rounds MiB/s up in 32 bits.
func newMBpsBefore() *model {
	m := newMBps()
	m.bounds = func(v uint64) uint64 { return uint64(uint32((v + 9) / 10 * 10)) }
	return m
}

// root has the default group have other values of MB.
func root(make func() *model, mb string) func() *model {
	return func() *model {
		m := make()
		cache, _, _ := strings.Cut(m.groups[mount], "\n")
		m.groups[mount] = cache + "\n" + mb + "\n"
		return m
	}
}

// file has a file of info/MB have other text.
func file(make func() *model, name, text string) func() *model {
	return func() *model {
		m := make()
		m.files[mount+"/info/MB/"+name] = text
		return m
	}
}

// TestBandwidthUnits: the unit of each machine, its rounding and bounds, and what is refused.
func TestBandwidthUnits(t *testing.T) {
	const needs = "MB: needs the measured bandwidth of "
	for _, tt := range []struct {
		name    string
		machine func() *model
		percent int
		whole   share.Bandwidth
		want    string // MB of the group, or the error
	}{
		{"percent", newModel, 25, both, "MB:0=30;1=30"},
		{"percent, nothing is measured", newModel, 25, nil, "MB:0=30;1=30"},
		{"percent, by its file", file(newModel, "delay_linear", "1\n"), 25, both, "MB:0=30;1=30"},
		{"AMD", newAMD, 40, both, "MB:0=81;1=81"},
		{"AMD, caches of two nodes", newAMD, 40, share.Bandwidth{0: 24000, 1: 48000}, "MB:0=81;1=161"},
		{"AMD, no limit", newAMD, 0, both, "MB:0=2048;1=2048"},
		{"AMD, almost nothing", newAMD, 10, share.Bandwidth{0: 1, 1: 1}, "MB:0=1;1=1"},
		{"AMD, more than it takes", newAMD, 90, share.Bandwidth{0: 1 << 30, 1: 24000}, "MB:0=2048;1=181"},
		{"AMD, steps", file(newAMD, "bandwidth_gran", "8\n"), 40, both, "MB:0=88;1=88"},
		{"AMD, the least", file(newAMD, "min_bandwidth", "100\n"), 40, both, "MB:0=100;1=100"},
		{"AMD, hostile files", file(file(newAMD, "min_bandwidth", "18446744073709551615"), "bandwidth_gran",
			"18446744073709551615"), 40, both, "MB:0=2048;1=2048"},
		{"AMD, one limited by the operator", root(newAMD, "MB:0=50;1=2048"), 40, both, "MB:0=50;1=81"},
		{"AMD, all limited by the operator", root(newAMD, "MB:0=90;1=50"), 40, both, "MB:0=81;1=50"},
		{"AMD, the same without a limit", root(newAMD, "MB:0=90;1=50"), 0, nil, "MB:0=90;1=50"},
		{"AMD, nothing is measured", newAMD, 40, nil, needs + "caches 0-1: resctrl counts in 1/8 GB/s here, and " +
			"share.memory_bandwidth is a percentage of it; run `homenode probe bandwidth`"},
		{"AMD, one is not", newAMD, 40, share.Bandwidth{0: 24000}, needs + "cache 1: "},
		{"AMD, an ID that no cache has", root(newAMD, "MB:0=2048;2147483647=2048"), 40, both, needs + "cache 65535: "},
		{"AMD, the values say enough", file(newAMD, "delay_linear", "x"), 40, both, "MB:0=81;1=81"},
		{"bad file", file(newModel, "delay_linear", "x"), 40, both, `info/MB/delay_linear: "x" is no number`},
		{"MiB/s", newMBps, 40, share.Bandwidth{0: 98304, 1: 100}, "MB:0=39330;1=40"},
		{"MiB/s, no limit", newMBps, 0, nil, "MB:0=4294967290;1=4294967290"},
		{"MiB/s, kernel before 6.12", newMBpsBefore, 40, share.Bandwidth{0: 98304, 1: 100}, "MB:0=39330;1=40"},
		{"MiB/s, kernel before 6.12, no limit", newMBpsBefore, 0, nil, "MB:0=4294967290;1=4294967290"},
		{"MiB/s, steps of 1", file(newMBps, "bandwidth_gran", "1"), 0, nil, "MB:0=4294967295;1=4294967295"},
		{"MiB/s, the least is a percentage", file(newMBps, "min_bandwidth", "90"), 40, share.Bandwidth{0: 100, 1: 50},
			"MB:0=40;1=20"},
		{"MiB/s, limited by the operator", root(newMBps, "MB:0=3000;1=7"), 40, both, "MB:0=3000;1=7"},
		{"MiB/s, another default", root(newMBps, "MB:0=2147483647;1=2147483647"), 0, nil,
			"MB:0=2147483640;1=2147483640"},
		{"MiB/s, nothing is measured", newMBps, 40, nil, needs + "caches 0-1: resctrl counts in MiB/s here"},
	} {
		m := tt.machine()
		before := m.state()
		_, err := run(&Driver{files: m}, toPart(share.CacheLimit{Cache: 30, Bandwidth: tt.percent}, tt.whole))
		if err == nil && !strings.Contains(m.groups[group], tt.want+"\n") {
			t.Errorf("%s: %q, want %q", tt.name, m.groups[group], tt.want)
		}
		if err == nil {
			continue
		}
		if !strings.Contains(err.Error(), tt.want) || m.state() != before {
			t.Errorf("%s: %v, and it left %s", tt.name, err, m.state())
		}
	}
}

// TestBandwidthLife: on machines that do not count in percent, too, the group is read as it was written, by another
// daemon too, a change by another program is seen, the limit goes, and undo leaves all as it was.
func TestBandwidthLife(t *testing.T) {
	for name, machine := range map[string]func() *model{"AMD": newAMD, "MiB/s": newMBps, "before 6.12": newMBpsBefore,
		"AMD, limited": root(newAMD, "MB:0=400;1=50")} {
		m := machine()
		before := m.state()
		d, ctx := &Driver{files: m}, context.Background()
		limited, err := run(d, toPart(share.CacheLimit{Cache: 30, Bandwidth: 40}, both))
		tasks, bad := run(d, into("/encode"))
		if err = errors.Join(err, bad); err != nil || limited[0].Old != "" {
			t.Fatalf("%s: %v, %+v", name, err, limited)
		}
		written := m.groups[group]
		for _, d := range []*Driver{d, {files: m}} {
			now, err := d.Read(ctx, limited[0])
			if err != nil || now.Value != limited[0].New || !limited[0].Ours(now) {
				t.Errorf("%s: reads %+v, %v", name, now, err)
			}
			m.groups[group] = strings.Replace(written, "MB:0=", "MB:0=1", 1)
			now, err = d.Read(ctx, limited[0])
			if err != nil || limited[0].Ours(now) || !strings.Contains(now.Value, "MB:0=1") {
				t.Errorf("%s: changed by another program it reads %+v, %v", name, now, err)
			}
			m.groups[group] = written
		}
		free, err := run(d, toGroup(share.CacheLimit{Cache: 30}))
		if err != nil || free[0].Old != limited[0].New || free[0].New == limited[0].New {
			t.Errorf("%s: without a limit: %+v, %v", name, free, err)
		}
		for _, d := range []*Driver{d, {files: m}} {
			if now, err := d.Read(ctx, free[0]); err != nil || now.Value != free[0].New {
				t.Errorf("%s: without a limit it reads %+v, %v", name, now, err)
			}
		}
		if err := errors.Join(d.Restore(ctx, append(tasks, limited...))...); err != nil || m.state() != before {
			t.Errorf("%s: undone: %v, %s", name, err, m.state())
		}
	}
}

// TestBandwidthJustMade: a group that a daemon made before it was killed has the kernel's values and reads as no group.
// One with a limit of bandwidth is another program's.
func TestBandwidthJustMade(t *testing.T) {
	for name, machine := range map[string]func() *model{"AMD": newAMD, "MiB/s": newMBps,
		"AMD, limited": root(newAMD, "MB:0=400;1=50")} {
		m := machine()
		m.groups[group] = m.fresh
		for _, want := range []string{"", "L3:0=3;1=3 MB:0=40;1=40"} {
			got, err := (&Driver{files: m}).Changes(context.Background(), toGroup(share.CacheLimit{Cache: 30}))
			if err != nil || got[0].Value != want {
				t.Errorf("%s: %+v, %v, want %q", name, got, err, want)
			}
			m.groups[group] = "L3:0=3;1=3\nMB:0=40;1=40\n"
		}
	}
}

// TestBandwidthOfBefore: the journal of a version that left MB out on such machines is read, and undone.
func TestBandwidthOfBefore(t *testing.T) {
	m := newAMD()
	before := m.state()
	m.groups[group] = "L3:0=f;1=f\nMB:0=2048;1=2048\n"
	d, ctx := &Driver{files: m}, context.Background()
	e := plan.Entry{Kind: plan.CacheGroup, Path: share.CacheGroup, New: "L3:0=f;1=f", State: plan.Applied}
	if now, err := d.Read(ctx, e); err != nil || now.Value != e.New {
		t.Errorf("reads %+v, %v", now, err)
	}
	m.groups[group] = "L3:0=1;1=f\nMB:0=2048;1=2048\n"
	if now, err := d.Read(ctx, e); err != nil || now.Value == e.New || now.Value == "" {
		t.Errorf("changed, it reads %+v, %v", now, err)
	}
	if err := d.Restore(ctx, []plan.Entry{e})[0]; err != nil || m.state() != before {
		t.Errorf("undone: %v, %s", err, m.state())
	}
}

// TestBandwidthCameLate: a cache whose CPUs came online has no limit yet.
func TestBandwidthCameLate(t *testing.T) {
	m := root(newAMD, "MB:0=2048")()
	d := &Driver{files: m}
	entries, err := run(d, toPart(share.CacheLimit{Bandwidth: 40}, both))
	if err != nil || entries[0].New != "L3:0=ffff;1=ffff MB:0=81" {
		t.Fatalf("%+v, %v", entries, err)
	}
	m.groups[group] = "L3:0=ffff;1=ffff\nMB:0=81;1=2048\n"
	if now, err := d.Read(context.Background(), entries[0]); err != nil || now.Value != "" {
		t.Errorf("reads %+v, %v", now, err)
	}
	if _, err := d.Changes(context.Background(), plan.Step{Kind: plan.SetCache, To: "cache=1% bandwidth=40% of x"}); err == nil ||
		errors.Is(err, fs.ErrNotExist) {
		t.Error("a bad limit:", err)
	}
}
