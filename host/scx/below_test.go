package scx

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/share"
)

// hosted is a machine with Linux 7.3, and another scheduler that is enabled.
func hosted(t *testing.T, takes bool) *Driver {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"sys/kernel/sched_ext/state":    "enabled\n",
		"sys/kernel/sched_ext/root/ops": "flow_1.0\n",
		"sys/kernel/btf/vmlinux": string(types(t,
			append(slices.Clone(generations[0].needs), generationBelow.needs...)...)),
		"proc/self/status": "CapEff:\t000001ffffffffff\n",
		"proc/self/mounts": "bpf /sys/fs/bpf bpf rw 0 0\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if takes {
		if err := os.Mkdir(filepath.Join(root, subs), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return NewDriver(DriverOptions{Root: root, Folder: filepath.Join(root, "kept"), Pins: filepath.Join(root, "pins")})
}

// TestLookBelow: another scheduler that lets others have cgroups is no obstacle, and asks for the object
// that is made for it; one that does not is.
func TestLookBelow(t *testing.T) {
	for _, takes := range []bool{true, false} {
		d := hosted(t, takes)
		seen, err := d.Look(context.Background(), share.SchedulerOrders{})
		if err != nil || !seen.Unable.None() || seen.Loaded != "" {
			t.Fatalf("%+v, %v", seen, err)
		}
		if want := versionOf(objectBelow); (seen.Newest == want) != takes {
			t.Errorf("takes %v: newest %s, below another one %s", takes, seen.Newest, want)
		}
		if takes && (seen.Under != "flow_1.0" || seen.Other != "") || !takes && (seen.Other != "flow_1.0" || seen.Under != "") {
			t.Errorf("takes %v: %+v", takes, seen)
		}
		if object, err := d.object(versionOf(objectBelow)); err != nil || versionOf(object) != versionOf(objectBelow) {
			t.Errorf("its object: %v", err)
		}
	}
}

// TestMadeFor: an object is made to be the only scheduler, or to run below another one.
func TestMadeFor(t *testing.T) {
	for _, g := range append(slices.Clone(generations), generationBelow) {
		spec, err := g.spec()
		if err != nil {
			t.Fatal(err)
		}
		if isBelow(spec) != (g.name == generationBelow.name) {
			t.Errorf("%s: below another one: %v", g.name, isBelow(spec))
		}
		for _, name := range ownMaps {
			if g.name == generationBelow.name && spec.Maps[name] == nil {
				t.Errorf("no map %s", name)
			}
		}
		if err := putMember(spec, "timeout_ms", 4, func(b []byte) { native.PutUint32(b, 7) }); err != nil {
			t.Error(err)
		}
		if err := putMember(spec, "no_such", 4, nil); err == nil || !strings.Contains(err.Error(), "no_such") {
			t.Errorf("a member that is not there: %v", err)
		}
	}
	no := Support{Kind: Supported}.unfit()
	other := Support{Kind: Other, Why: "another sched_ext scheduler is loaded: x"}
	if no == nil || !strings.Contains(no.Error(), "below another one") || other.unfit() != error(other) {
		t.Errorf("%v, %v", no, other.unfit())
	}
}
