package workload

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/topology"
)

func TestParseNear(t *testing.T) {
	for text, want := range map[string]string{
		"eth0":                                   "eth0",
		"0000:3b:00.0":                           "0000:3b:00.0",
		"eth0,policy=required":                   "device=eth0,policy=required",
		"device=eth0 , policy=preferred":         "eth0",
		"process=spdk_tgt,policy=required, eth1": "process=spdk_tgt,policy=required eth1",
		"service=ovs-vswitchd":                   "service=ovs-vswitchd",
		"ns/pod":                                 "ns/pod",
		"gpu=auto,policy=required":               "gpu=auto,policy=required",
		"gpu=gpu0 gpu=GPU-0a1b":                  "gpu0 GPU-0a1b",
		"gpu=":                                   `!gpu "": want auto`,
		"gpu=a\x1b":                              `!device "a\x1b": want a name without`,
		"":                                       `!"": want the name of a device`,
		"policy=required":                        `!"policy=required": want device=NAME`,
		"eth0,policy=must":                       `!policy "must": want required, socket or preferred`,
		"devise=eth0":                            `!"devise=eth0": want device=NAME`,
		"device=":                                "!want one of device, process and service",
		"device=a\x01b":                          `!device "a\x01b": want a name without`,
		"/a\x1bb":                                `!workload "/a\x1bb": want what can be printed`, // XML holds no such
		"device=\xff":                            `!device "\xff": want a name without`,
		strings.Repeat("e,", MostNear+1):         "!17 names: want 16 at most",
		"device=" + strings.Repeat("e", 257):     "!device ",
	} {
		near, err := ParseNear(text)
		if bad, is := strings.CutPrefix(want, "!"); is {
			if err == nil || !strings.HasPrefix(err.Error(), bad) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: %v, want %s", text, err, bad)
			}
			continue
		}
		if err != nil || NearText(near) != want {
			t.Errorf("%q: %q, %v; want %q", text, NearText(near), err, want)
		}
	}
}

// Whatever may be wished for can be written and read back.
func TestNearTextReadsBack(t *testing.T) {
	name := rapid.StringMatching(`[a-z0-9:.@/=_\\-]{1,20}`)
	rapid.Check(t, func(t *rapid.T) {
		keys := make([]string, 3)
		keys[rapid.IntRange(0, 2).Draw(t, "key")] = name.Draw(t, "name")
		n, err := NewNear(keys[0], keys[1], keys[2], rapid.SampledFrom([]string{"", "required", "preferred"}).Draw(t, "policy"))
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseNear(NearText([]Near{n, n}))
		if err != nil || len(back) != 2 || back[0].String() != n.String() || back[1].Required != n.Required || back[0].Device != n.Device {
			t.Fatalf("%+v as %q reads back as %+v, %v", n, n.String(), back, err)
		}
	})
}

// A service is the unit of that name; a process any workload that is called so.
func TestLocate(t *testing.T) {
	all := []Named{{ID: "/system.slice/ovs.service", Cgroup: "/system.slice/ovs.service", Whole: true, Name: "ovs"}, {ID: "pid:7", Name: "spdk_tgt", Processes: []Process{{PID: 7}}}}
	ran := func(id ID) []NodeShare {
		return map[ID][]NodeShare{"pid:7": {{Node: 0, Share: 0.1}, {Node: 1, Share: 0.9}}, "/system.slice/ovs.service": {{Node: 0, Share: 0.5}, {Node: 2, Share: 0.5}}}[id]
	}
	for _, tt := range []struct {
		near  Near
		id    ID
		nodes string
	}{
		{Near{Service: "ovs"}, "/system.slice/ovs.service", "0,2"},
		{Near{Service: "ovs.service"}, "/system.slice/ovs.service", "0,2"},
		{Near{Process: "spdk_tgt"}, "pid:7", "1"},
		{Near{Service: "spdk_tgt"}, "", ""},
		{Near{Process: "gone", Workload: "old", Nodes: topology.Nodes(3)}, "", ""},
		{Near{Device: "spdk_tgt"}, "", ""},
	} {
		near := []Near{tt.near}
		Locate(near, all, func(ID) bool { return true }, ran)
		if near[0].Workload != tt.id || near[0].Nodes.String() != tt.nodes {
			t.Errorf("%+v: %+v", tt.near, near[0])
		}
	}
}

func TestUserOf(t *testing.T) {
	for cgroup, want := range map[string]int{
		"/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope": 1000,
		"/user.slice/user-0.slice/session-1.scope":                        0,
		"/system.slice/x.service":                                         0,
		"/system.slice/user.slice/user-1000.slice/x":                      0,
		"/user.slice/user-1000":                                           0,
	} {
		if got := UserOf(cgroup); got != want {
			t.Errorf("%s: %d, want %d", cgroup, got, want)
		}
	}
}

// TestLongNames: the author of a pod writes the names, and each scan, the history and status have them.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	for _, text := range []string{"shop/" + long, "/" + long, "process=" + long, long} {
		if all, err := ParseNear(text); err == nil {
			t.Errorf("%.20s: %d names", text, len(all))
		}
	}
	pod := "a-namespace-of-63-bytes/" + strings.Repeat("p", 253) + "/" + strings.Repeat("c", 63)
	if _, err := ParseNear(pod); err != nil {
		t.Error(err)
	}
}
