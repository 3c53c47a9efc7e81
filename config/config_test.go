package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/core/workload/specfile"
)

func TestConfig(t *testing.T) {
	good := "mode: enforce\nperiod: 500ms\nreserve: {cpus: \"0,8\", memory: 1GiB}\n" +
		"workloads:\n  - {match: \"/system.slice/**\", class: dedicated, importance: 80}\n"
	c, err := parse(good, "good")
	if err != nil || c.Mode != Enforce || c.Reserve.CPUs.String() != "0,8" || c.Reserve.Memory != 1<<30 || *c.Workloads[0].Importance != 80 {
		t.Errorf("good: %+v, %v", c, err)
	}
	for _, empty := range []string{"", "# nothing\n", "---\n"} {
		if c, err := parse(empty, "empty"); err != nil || c.Mode != Observe || c.Policy.Overcommit != 3 {
			t.Errorf("%q: %v", empty, err)
		}
	}
	for name, bad := range map[string]string{
		"unknown key": "mod: enforce", "bad mode": "mode: on", "bad period": "period: 1ns", "negative": "policy: {overcommit: -1}",
		"bad size": "move: {bandwidth: lots}", "bad set": "reserve: {cpus: 3-1}", "bad class": "workloads: [{match: x, class: gold}]",
		"too old": "manage: {min_age: 2h}", "of no age": "manage: {min_age: -1s}", "no match": "workloads: [{class: shared}]", "bad pattern": "manage: {include: [\"[\"]}", "not YAML": "a: [", "duplicate": "mode: observe\nmode: enforce",
		"NaN": "policy: {overcommit: .nan}", "memory promised to dedicated work": "policy: {memory_overcommit: 1.5}", "memory overcommit": "{partition: shared, policy: {memory_overcommit: 11}}",
	} {
		_, err := parse(bad, "file.yaml")
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "file.yaml") {
			t.Errorf("%s: want one line with the file's name, have %v", name, err)
		} else {
			t.Logf("%-12s %v", name, err)
		}
	}
}

// TestMerge: a later layer wins, its rules are tried first, and each value knows its place.
func TestMerge(t *testing.T) {
	c, err := Merge(New(),
		Layer{"a", []byte("mode: enforce\nshare: {target: 50, idle_cpus: 2}\nmanage: {include: [/a, /b]}\nworkloads:\n- {match: /x, cpus: 1}\n- {match: /y}\n")},
		Layer{"b", []byte("share: {target: 40}\nmanage: {include: [/c]}\nworkloads: [{match: /z, class: shared}]\n")},
		Layer{"c", nil})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]Value{}
	for _, v := range c.Values() {
		have[v.Key] = v
	}
	for _, want := range []Value{
		{"mode", "enforce", "a: line 1 column 7"}, {"share.target", "40", "b: line 1 column 17"}, {"share.idle_cpus", "2", "a: line 2 column 32"},
		{"manage.include", "[/c]", "b: line 2 column 19"}, {"workloads[0].match", "/z", "b: line 3 column 21"}, {"workloads[1].match", "/x", "a: line 5 column 11"},
		{"workloads[1].cpus", "1", "a: line 5 column 21"}, {"workloads[2].match", "/y", "a: line 6 column 11"}, {"period", "2s", ""}, {"irq", `""`, ""},
	} {
		if have[want.Key] != want {
			t.Errorf("have %q, want %q", have[want.Key], want)
		}
	}
	// An error names the layer and the rule as they stand there.
	for layer, want := range map[string]string{
		"workloads: [{match: /z, class: gold}]": "c: line 1 column 32: workloads[0].class: ",
		"share: {target: 400}":                  "c: line 1 column 17: share.target: 400; want 1 to 100 percent",
		"share: {target: 4":                     "c: line 1 column ",
	} {
		if _, err := Merge(c, Layer{"c", []byte(layer)}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", layer, err, want)
		}
	}
	if _, err := Merge(New(), Layer{"a", []byte("workloads: [{match: /x, class: gold}]")}, Layer{"b", []byte("workloads: [{match: /z}]")}); err == nil || !strings.HasPrefix(err.Error(), "a: line 1 column 32: workloads[1].class: ") {
		t.Errorf("a rule of an earlier layer: %v", err)
	}
}

// TestKeyWithoutValue: a key without a value, or with null, is the same as no key: the value of an earlier layer
// stays, or the default. An entry of a list needs a value.
func TestKeyWithoutValue(t *testing.T) {
	const given = "mode: enforce\nperiod: 5s\nreserve: {cpus: \"0\", memory: 1GiB}\nmanage: {include: [/a], min_memory: 1MiB}\n" +
		"share: {target: 40}\nbalance: {enabled: false}\nrestore_on_stop: true\nirq: place\nmetrics: {workloads: 3}\n" +
		"containers: {annotations: [{allow: [class=dedicated], from: {namespaces: [shop]}}]}\n"
	const empty = "mode:\nperiod: null\nreserve: {cpus: null, memory: ~}\nmanage: {include: null, min_memory: null}\n" +
		"share:\nbalance: {enabled: null}\nrestore_on_stop: null\nirq: null\nmetrics:\n  workloads:\ncontainers: {annotations: null}\n"
	for _, base := range []string{"", given} {
		want, err := Merge(New(), Layer{"a", []byte(base)})
		if err != nil {
			t.Fatal(err)
		}
		have, err := Merge(New(), Layer{"a", []byte(base)}, Layer{"b", []byte(empty)})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(have.Values(), want.Values()) {
			t.Errorf("over %q: %q, want %q", base, have.Values(), want.Values())
		}
	}
	for text, want := range map[string]string{
		"manage: {include: [null]}": "a: line 1 column 20: manage.include[0]: no value; write one or remove the entry",
		"workloads:\n-\n":           "a: line 2 column 3: workloads[0]: no value; write one or remove the entry",
	} {
		_, err := Merge(New(), Layer{"a", []byte(text)})
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestWritten(t *testing.T) {
	for want, v := range map[string]any{
		"2s": 2 * time.Second, "5m": 5 * time.Minute, "1h": time.Hour, "1m30s": 90 * time.Second, "1GiB": Size(1 << 30), "1500B": Size(1500), "3MiB": Size(3 << 20), "0B": Size(0),
		`""`: "", `"a: b"`: "a: b", "[]": []string{}, "[a, b]": []string{"a", "b"}, "true": true, "0.2": 0.2, "any": plan.Partition(""),
	} {
		if have := Written(v); have != want {
			t.Errorf("%v: %q, want %q", v, have, want)
		}
	}
}

// TestConfigErrors: each says where, which key, what is wrong and what would do.
func TestConfigErrors(t *testing.T) {
	for text, want := range map[string]string{
		"mode: observe\nperiod: 5":                  "f: line 2 column 9: period: 5; want a time with a unit, such as 2s",
		"period: abc":                               "f: line 1 column 9: period: abc; want a time with a unit, such as 2s",
		"period: 1ns":                               "f: line 1 column 9: period: 1ns; want 100ms to 1h",
		`reserve: {cpus: "x"}`:                      `f: line 1 column 17: reserve.cpus: "x"; want CPUs in list format, such as 0-3,8`,
		"reserve:\n  memory: -1GiB":                 "f: line 2 column 11: reserve.memory: -1GiB; want a size with a unit, such as 64MiB",
		"\nworkloads:\n  - {class: shared}":         "f: line 3 column 5: workloads[0].match: not given; want a pattern on ID or name",
		"workloads:\n  - match: a\n    class: gold": "f: line 3 column 12: workloads[0].class: ",
		"[]":                            "f: line 1 column 1: []; want keys: mode, period, state_dir,",
		"mod: enforce":                  `f: line 1 column 1: unknown key "mod"; did you mean mode?`,
		"move: {batch: x}":              "f: line 1 column 15: move.batch: x; want a whole number",
		"move:\n  batch: 0":             "f: line 2 column 10: move.batch: 0; want 1 to 65536 pages",
		"manage: 5":                     "f: line 1 column 9: manage: 5; want keys: min_memory,",
		"manage:\n  exclude:\n  - '['":  `f: line 3 column 5: manage.exclude[0]: bad pattern "["`,
		"api: {listen: here}":           `f: line 1 column 15: api.listen: "here"; want a port such as 4663,`,
		"api: {listen: '0.0.0.0:4663'}": `f: line 1 column 15: api.listen: "0.0.0.0:4663" is open to other machines; want token or client_ca`,
		"api: {listen: '[::]:1', cert: /c, key: /k}": `f: line 1 column 15: api.listen: "[::]:1" is open to other machines`,
		"api: {listen: 4663, cert: /c}":              `f: line 1 column 27: api.cert: "/c", and key ""; want both or neither`,
		"api: {listen: 4663, client_ca: /c}":         `f: line 1 column 32: api.client_ca: "/c"; want cert and key`,
		"workloads: 5":                               "f: line 1 column 12: workloads: 5; want a list",
		"restore_on_stop: 3":                         "f: line 1 column 18: restore_on_stop: 3; want true or false",
	} {
		_, err := parse(text, "f")
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("mode: enforce\nworkloads: [{match: x, class: batch}]")
	f.Add("reserve: {cpus: 0-3}")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := parse(text, "fuzz"); err == nil {
			if err := c.Validate(); err != nil {
				t.Errorf("accepted, then refused: %v", err)
			}
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("more than one line: %q", err)
		}
	})
}

// host is two nodes of 4 CPUs and 8 GiB each, with a NIC.
func host() *topology.Host {
	h := &topology.Host{Devices: []topology.Device{{Name: "eth0", PCI: "0000:81:00.0", Kind: topology.NIC}}, Distances: [][]int{{10, 20}, {20, 10}}}
	for n := range topology.NodeID(2) {
		node := topology.Node{ID: n, Package: topology.PackageID(n), Memory: 8 << 20, Free: 8 << 20, Kind: topology.DRAM}
		for c := range topology.CPUID(4) {
			node.CPUs.Add(topology.CPUID(n)*4 + c)
		}
		h.Nodes = append(h.Nodes, node)
		h.Online = h.Online.Union(node.CPUs)
		h.AllowedMems.Add(n)
	}
	h.Allowed = h.Online
	return h
}

// TestNearMustNameADevice: a misspelt device was taken in silence.
func TestNearMustNameADevice(t *testing.T) {
	c := New()
	c.Workloads = []Rule{{Match: "a", Near: specfile.Nears{{Device: "eth0"}, {Device: "0000:81:00.0"}, {Device: workload.AnyGPU}, {Process: "ovs"}}}, {Match: "b", Near: specfile.Nears{{Device: "eht0"}}}}
	odd, err := c.Suits(host())
	if want := []string{`workloads[1].near: this host has no device "eht0"`}; err != nil || !slices.Equal(odd, want) {
		t.Errorf("%q, %v; want %q", odd, err, want)
	}
}

// TestIdleMustSuitTheHost: more CPUs that stay idle than a node has were taken in silence.
func TestIdleMustSuitTheHost(t *testing.T) {
	for _, tt := range []struct {
		on       bool
		idle     int
		err, odd string
	}{
		{true, 3, "", ""},
		{true, 4, "share.idle_cpus: 4; the largest node of this host has 4 CPUs, and batch work needs some of them; want 3 or less, or 0 (an eighth of a node's CPUs)", ""},
		{false, 4, "", "share.idle_cpus: 4; there are no more CPUs on nodes 0-1, and batch work has next to none there; want 3 or less, or 0 (an eighth of a node's CPUs)"},
	} {
		c := New()
		c.Share.Enabled, c.Share.Idle = tt.on, tt.idle
		odd, err := c.Suits(host())
		if text := fmt.Sprint(err); text != cmp.Or(tt.err, "<nil>") || strings.Join(odd, "\n") != tt.odd {
			t.Errorf("%d: %v, %q", tt.idle, err, odd)
		}
	}
}

// TestReserveMustSuitTheHost: a reserve of all there is was taken in silence.
func TestReserveMustSuitTheHost(t *testing.T) {
	for _, tt := range []struct {
		cpus     string
		memory   Size
		err, odd string
	}{
		{"0-500", 0, "reserve.cpus: 0-500; leaves no CPU of 0-7 for work", ""},
		{"", 999 << 40, "reserve.memory: 999 TiB on every node; leaves no memory for work, the largest node has 8 GiB", ""},
		{"0,9-11", 0, "", "reserve.cpus: CPUs 9-11 are not on this host"},
		{"0-6", 7 << 30, "", ""},
	} {
		c := New()
		c.Reserve.Memory = tt.memory
		var err error
		if c.Reserve.CPUs, err = topology.ParseCPUSet(tt.cpus); err != nil {
			t.Fatal(err)
		}
		odd, err := c.Suits(host())
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || err.Error() != tt.err) {
			t.Errorf("reserve %q, %v: error %v, want %q", tt.cpus, tt.memory, err, tt.err)
		}
		if got := strings.Join(odd, "\n"); got != tt.odd {
			t.Errorf("reserve %q, %v: odd %q, want %q", tt.cpus, tt.memory, got, tt.odd)
		}
	}
}

// Every key reaches the settings that decisions go by.
func TestSettings(t *testing.T) {
	c, err := parse("mode: enforce\nirq: place\nirq_queues: match\nrestore_on_stop: true\npartition: 50%\n"+
		"reserve: {cpus: \"0\", memory: 1GiB}\npolicy: {overcommit: 2, packing: pack}\nmanage: {min_memory: 8MiB, min_cpu: 3, min_age: 7s, include: [\"a*\"], exclude: [b]}\n"+
		"move: {bandwidth: 8MiB}\nbalance: {enabled: false, window: 9s, horizon: 11s, cooldown: 13s}\n"+
		"share: {enabled: true, target: 70, idle_cpus: 3, max_wait: 2.5, freeze: true, evict_after: 10m, stop: true, sched_ext: off, probation: 2m, memory: 90, protect_memory: true, burst: true, io_weight: 10, cache: 30, memory_bandwidth: 50, io_max: [sdb write=1MiB read_iops=7, sda read=2MiB write_iops=9]}\n"+
		"workloads: [{match: m, class: dedicated, importance: 7, cpus: 2, memory: 4MiB, smt: isolate, near: []}, {match: n}]", "f")
	if err != nil {
		t.Fatal(err)
	}
	s := c.Settings()
	if !s.Enforce || s.Interrupts != control.InterruptsPlace || s.Queues != "match" || !s.RestoreOnStop || s.Partition != "50%" ||
		s.Policy.Reserved.String() != "0" || s.Policy.ReservedMemory != 1<<20 || s.Policy.Overcommit != 2 || s.Policy.Packing != "pack" ||
		s.Arrange.MinMemory != 8<<10 || s.Arrange.MinCPU != 3 || s.MinAge != 7*time.Second || !slices.Equal(s.Include, []string{"a*"}) || !slices.Equal(s.Exclude, []string{"b"}) ||
		s.Arrange.MoveBandwidth != 8<<20 || s.Balance.Enabled || s.Balance.Window != 9*time.Second || s.Balance.Horizon != 11*time.Second || s.Balance.Cooldown != 13*time.Second ||
		s.Share != (share.Settings{On: true, Target: 0.7, Idle: 3, MaxWait: 0.025, Freeze: true, EvictAfter: 10 * time.Minute, Stop: true, Probation: 2 * time.Minute, Spare: 1}) ||
		!reflect.DeepEqual(s.Base, share.Base{Memory: 0.9, Protect: true, Burst: true, IOWeight: 10, Cache: share.CacheLimit{Cache: 30, Bandwidth: 50}, IO: []share.IOMax{{Device: "sda", Read: 2 << 20, WriteIOPS: 9}, {Device: "sdb", Write: 1 << 20, ReadIOPS: 7}}}) {
		t.Errorf("got %+v", s)
	}
	r := s.Rules
	if len(r) != 2 || r[0].Match != "m" || r[0].Class != "dedicated" || *r[0].Importance != 7 || r[0].CPUs != 2 || r[0].Memory != 4<<10 || r[0].SMT != "isolate" ||
		!r[0].NearGiven || r[1].NearGiven {
		t.Errorf("rules %+v", r)
	}
	if want := []control.SurveyKind{control.Managers, control.Links, control.Interrupts, control.Isolation}; !slices.Equal(s.Surveys, want) {
		t.Errorf("surveys %v, want %v", s.Surveys, want)
	}
}

// A tier is named, or numbered as Group Identity and openEuler do it; one that contradicts is
// refused.
func TestTiers(t *testing.T) {
	for text, want := range map[string]struct {
		tier  workload.Tier
		class workload.Class
		err   string
	}{
		"tier: online-strict":                {workload.OnlineStrict, "", ""},
		"tier: batch":                        {workload.BatchTier, workload.Batch, ""},
		"tier: \"-1\"":                       {workload.BatchTier, workload.Batch, ""},
		"bvt: -1":                            {workload.BatchTier, workload.Batch, ""},
		"bvt: -2, class: batch":              {workload.BatchTier, workload.Batch, ""},
		"qos_level: 2, class: dedicated":     {workload.OnlineStrict, workload.Dedicated, ""},
		"bvt: 1, qos_level: 1, tier: online": {workload.Online, "", ""},
		"bvt: 0":                             {workload.Normal, "", ""},
		"bvt: 3":                             {"", "", "bvt: 3; want 2 (online-strict)"},
		"tier: gold":                         {"", "", `tier "gold": want online-strict`},
		"tier: online, bvt: -1":              {"", "", "bvt: -1 is tier batch, and the rule has online already"},
		"tier: batch, class: dedicated":      {"", "", "tier: batch does not go with class dedicated"},
		"tier: offline":                      {workload.BatchTier, workload.Batch, ""}, // as before version 0.2
		"class: offline":                     {"", workload.Batch, ""},
		"class: offline, bvt: -1":            {workload.BatchTier, workload.Batch, ""},
		"tier: offline, class: shared":       {"", "", "tier: batch does not go with class shared"},
		"bvt: 2, class: batch":               {"", "", "tier: online-strict does not go with class batch"},
	} {
		c, err := parse("workloads: [{match: m, "+text+"}]", "f")
		switch {
		case want.err != "" && (err == nil || !strings.Contains(err.Error(), want.err)):
			t.Errorf("%s: %v; want %q", text, err, want.err)
		case want.err == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want.err == "":
			if r := c.Settings().Rules[0]; r.Tier != want.tier || r.Class != want.class {
				t.Errorf("%s: tier %q, class %q; want %q, %q", text, r.Tier, r.Class, want.tier, want.class)
			}
		}
	}
	for text, want := range map[string]string{"target: 0": "share.target: 0; want 1 to 100", "idle_cpus: -1": "share.idle_cpus: -1", "max_wait: 101": "share.max_wait: 101", "sched_ext: on": `share.sched_ext: "on"; want auto or off`, "probation: 1s": "share.probation: 1s", "memory: 5": "share.memory: 5; want 0 (no limit) or 10 to 100", "io_weight: -1": "share.io_weight: -1", "cache: 3": "share.cache: 3; want 0 (all of it) or 5 to 95", "memory_bandwidth: 100": "share.memory_bandwidth: 100; want 0", "io_max: [sda]": "it limits nothing", "io_max: [sda read=5]": "read=5 is no size with a unit",
		"io_max: [sda reed=5]": `"reed" is unknown`, "io_max: [sda read_iops=-1]": "read_iops=-1 is no number above 0", "io_max: [sda read=1MiB, sda write=1MiB]": "twice",
		"evict_after: 10s": "share.evict_after: 10s; want 0", "evict_after: 5m, max_wait: 0": "share.max_wait is 0", "stop: true": "share.stop: when"} {
		if _, err := parse("share: {"+text+"}", "f"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

// Interrupts are placed only where that was asked for, and never in observe mode.
func TestInterruptsByMode(t *testing.T) {
	for text, want := range map[string]control.InterruptMode{
		"mode: observe": control.InterruptsReport, "mode: observe\nirq: place": control.InterruptsReport, "mode: observe\nirq: off": control.InterruptsOff,
		"mode: enforce": control.InterruptsOff, "mode: enforce\nirq: place": control.InterruptsPlace, "mode: enforce\nirq: report": control.InterruptsReport,
	} {
		c, err := parse(text, "f")
		if err != nil {
			t.Fatal(err)
		}
		s := c.Settings()
		if s.Interrupts != want || slices.Contains(s.Surveys, control.Interrupts) != (want != control.InterruptsOff) {
			t.Errorf("%q: %s with surveys %v, want %s", text, s.Interrupts, s.Surveys, want)
		}
	}
}

// What to be near to is a device, or says what it is and how strong the wish is; what is wrong is
// one line that says where and how to mend it.
func TestNear(t *testing.T) {
	for text, want := range map[string]string{
		"[eth0, '0000:81:00.0']":           "eth0 0000:81:00.0",
		"eth0":                             "eth0",
		"[]":                               "",
		"{device: eth0, policy: required}": "device=eth0,policy=required",
		"[{process: spdk_tgt}, {service: ovs}, d]": "process=spdk_tgt service=ovs d",
		"{devise: eth0}":               "!workloads[0].near: {devise: eth0}; want a device, or {device: NAME}",
		"{device: eth0, process: x}":   "!workloads[0].near: ",
		"{device: eth0, policy: must}": "!workloads[0].near: ",
		"{policy: required}":           "!workloads[0].near: ",
	} {
		c, err := parse("workloads: [{match: \"vm:*\", near: "+text+"}]", "f")
		if bad, is := strings.CutPrefix(want, "!"); is {
			if err == nil || !strings.HasPrefix(err.Error(), "f: line 1 column ") || !strings.Contains(err.Error(), bad) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %s", text, err, bad)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if r := c.Settings().Rules[0]; strings.Join(r.Near, " ") != want || !r.NearGiven {
			t.Errorf("%s: %q", text, r.Near)
		}
	}
	if _, err := parse("workloads: [{match: \"vm:*\", labels: {a: b}}]", "f"); err == nil || !strings.Contains(err.Error(), "workloads[0].labels: pods have labels, and vm:* names guests") {
		t.Errorf("labels of guests: %v", err)
	}
}

// parse reads a configuration over the defaults; name is for errors.
func parse(text, name string) (Config, error) {
	return Merge(New(), Layer{Name: name, Text: []byte(text)})
}
