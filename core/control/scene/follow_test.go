package scene

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/load"
	"github.com/homenode/homenode/core/place/nearness"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// served is a guest on node 0, with a link to a helper on node 1.
func served() (*Scene, *Basis, *conduct) {
	guest, helper := service("guest"), service("nbd")
	guest.Memory = []workload.NodeMemory{{Node: 0, KiB: 4 << 20}}
	helper.Memory = []workload.NodeMemory{{Node: 1, KiB: 1 << 17}}
	helper.RanOn = []workload.NodeShare{{Node: 1, Share: 1}}
	helper.Processes = []workload.Process{{PID: 9, Start: 9}}
	s := seen(guest, helper)
	by, work := basis()
	s.Linked(map[workload.ID][]workload.Link{
		guest.ID: {{Kind: workload.BySocket, Helper: helper.Processes[0], Nodes: topology.Nodes(1)}},
	}, nil)
	return s, by, work
}

// TestFollow: a helper follows the workload that it serves; a helper that stays says why, and then the
// workload is drawn to it.
func TestFollow(t *testing.T) {
	const guestID, helperID = "/system.slice/guest.service", "/system.slice/nbd.service"
	type setup struct {
		s             *Scene
		by            *Basis
		work          *conduct
		guest, helper *workload.Observation
	}
	for _, tt := range []struct {
		what    string
		do      func(*setup)
		follows bool
		bound   words.Code // of the helper
		drawn   bool       // the guest, to its helper
	}{
		{"free", func(*setup) {}, true, words.HelperFollows, false},
		{"by configuration", func(x *setup) { x.by.Settings.HelpersStay = true }, false, words.HelperStays, true},
		{"held", func(x *setup) { x.work.held[helperID] = true }, false, words.HelperStays, true},
		{"pinned", func(x *setup) { x.helper.Pinned = true }, false, words.HelperStays, true},
		{"with a policy of its own", func(x *setup) { x.helper.OwnPolicy = "interleave" }, false, words.HelperStays, true},
		{"with an unknown policy", func(x *setup) { x.helper.OwnPolicy = workload.PolicyUnknown }, true, words.HelperFollows, false},
		{"left alone", func(x *setup) { x.by.Settings.Exclude = []string{"nbd"} }, false, words.HelperStays, true},
		{"fixed", func(x *setup) { x.s.Claims = map[workload.ID]*workload.Claim{helperID: {Fixed: true}} }, false, words.HelperStays, true},
		{"dedicated", func(x *setup) {
			x.by.Settings.Rules = []workload.Rule{{Match: "nbd", Class: workload.Dedicated}}
		}, false, words.HelperStays, true},
		{"larger than the guest", func(x *setup) { x.helper.Memory[0].KiB = 8 << 20 }, false, words.HelperIsLarger, true},
		{"larger than a guest that stays", func(x *setup) {
			x.helper.Memory[0].KiB = 8 << 20
			x.work.held[guestID] = true
		}, true, words.HelperFollowsBound, false},
		{"larger than a guest at its device", func(x *setup) {
			x.helper.Memory[0].KiB = 8 << 20
			x.s.Snapshot.Host.Devices = []topology.Device{{Name: "eth0", Node: 0}}
			x.by.Settings.Rules = []workload.Rule{{Match: "guest", Near: []string{"device=eth0"}, NearGiven: true}}
		}, true, words.HelperFollowsBound, false},
		{"larger than a guest at its PCI device", func(x *setup) {
			x.helper.Memory[0].KiB = 8 << 20
			x.s.Snapshot.Host.Devices = []topology.Device{{Name: "eth1", PCI: "0000:02:00.0", Node: 1}, {Name: "eth0", PCI: "0000:01:00.0", Node: 0}}
			x.by.Settings.Rules = []workload.Rule{{Match: "guest", Near: []string{"device=0000:01:00.0"}, NearGiven: true}}
		}, true, words.HelperFollowsBound, false},
		{"larger than a guest at a device of no known node", func(x *setup) {
			x.helper.Memory[0].KiB = 8 << 20
			x.s.Snapshot.Host.Devices = []topology.Device{{Name: "eth0", Node: topology.None}}
			x.by.Settings.Rules = []workload.Rule{{Match: "guest", Near: []string{"device=eth0"}, NearGiven: true}}
		}, false, words.HelperIsLarger, false},
		{"larger than a guest far from its device", func(x *setup) {
			x.helper.Memory[0].KiB = 8 << 20
			x.s.Snapshot.Host.Devices = []topology.Device{{Name: "eth0", Node: 1}}
			x.by.Settings.Rules = []workload.Rule{{Match: "guest", Near: []string{"device=eth0"}, NearGiven: true}}
		}, false, words.HelperIsLarger, false},
		{"of a user, for the system", func(x *setup) { x.helper.UID = 1000 }, false, "", false},
		{"of the system, for a user", func(x *setup) { x.guest.UID = 1000 }, false, "", true},
	} {
		s, by, work := served()
		guest, helper := s.Observation(guestID), s.Observation(helperID)
		tt.do(&setup{s, by, work, guest, helper})
		s.Follow(by, nil)
		f := s.Following[helperID]
		if f.Follows != tt.follows || f.Why.Code != tt.bound {
			t.Errorf("%s: %+v", tt.what, f)
		}
		near := s.SpecOf(by, guest).Near
		drawn := len(near) == 1 && near[0].Learned && near[0].Workload == helperID
		if drawn != tt.drawn {
			t.Errorf("%s: the guest is near %+v", tt.what, near)
		}
		if to := s.SpecOf(by, helper).Near; (len(to) == 1 && to[0].Workload == guestID) != tt.follows {
			t.Errorf("%s: the helper is near %+v", tt.what, to)
		}
	}
}

// TestClientsCountOnce: a workload with two links to a helper is one of those that it serves.
func TestClientsCountOnce(t *testing.T) {
	const guestID, helperID = "/system.slice/guest.service", "/system.slice/nbd.service"
	s, by, _ := served()
	s.Links[guestID] = append(s.Links[guestID], s.Links[guestID][0])
	other := service("other")
	s.Snapshot.Observations = append(s.Snapshot.Observations, other)
	s.Links[other.ID] = s.Links[guestID][:1]
	s.Follow(by, nil)
	if f := s.Following[helperID]; len(f.Of) != 2 || f.Of[0] != guestID || f.Of[1] != other.ID {
		t.Errorf("%+v", f)
	}
}

// TestFollowsTheHome: the home of a workload counts more than where it ran last, but for batch work.
func TestFollowsTheHome(t *testing.T) {
	const guestID, helperID = "/system.slice/guest.service", "/system.slice/nbd.service"
	for class, want := range map[workload.Class]string{workload.Shared: "1", workload.Batch: "0"} {
		s, by, _ := served()
		s.Follow(by, []workload.Placement{home(guestID, class, 1, 4)})
		if got := s.Following[helperID].Nodes.String(); got != want {
			t.Errorf("%s: %s, want %s", class, got, want)
		}
	}
}

// TestFollowRemembers: what was decided stays while no scan shows where the workload is.
func TestFollowRemembers(t *testing.T) {
	const guestID, helperID = "/system.slice/guest.service", "/system.slice/nbd.service"
	s, by, _ := served()
	s.Observation(guestID).RanOn = nil
	s.Follow(by, nil)
	if len(s.Following) != 0 {
		t.Errorf("%+v", s.Following)
	}
	s.Following = map[workload.ID]nearness.Following{helperID: {Follows: true}}
	s.Follow(by, nil)
	if !s.Following[helperID].Follows {
		t.Errorf("%+v", s.Following)
	}
	s.Helpers = nil
	s.Follow(by, nil)
	if s.Following != nil {
		t.Errorf("without helpers: %+v", s.Following)
	}
}

// TestLocateHelpers: a helper that no workload has any more is of none.
func TestLocateHelpers(t *testing.T) {
	const helperID = "/system.slice/nbd.service"
	s, _, _ := served()
	key := ProcessKey{PID: 9, Start: 9}
	if got := s.Helpers[key]; got != helperID {
		t.Errorf("%q", got)
	}
	before := s.Helpers
	s.Observation(helperID).Processes = nil
	s.LocateHelpers()
	if got, known := s.Helpers[key]; got != "" || !known || before[key] != helperID {
		t.Errorf("%q; before %q", got, before[key])
	}
}

// TestVhostUse: the links of a workload share the CPUs of its vhost threads by their traffic.
func TestVhostUse(t *testing.T) {
	links := []Link{{Rate: 30, VhostUse: 0.8}, {Rate: 10, VhostUse: 0.8}, {Rate: 500}}
	for i, want := range []float64{0.6, 0.2, 0} {
		got := VhostUse(links, i)
		if d := got - want; d > 1e-9 || d < -1e-9 {
			t.Errorf("link %d: %v, want %v", i, got, want)
		}
	}
	if got := VhostUse([]Link{{VhostUse: 1}}, 0); got != 0 {
		t.Errorf("without traffic: %v", got)
	}
}

// TestRecognise: the kind of load is known of workloads whose slices are, and of an earlier process nothing.
func TestRecognise(t *testing.T) {
	p, still := process(7, 0, 1), service("still")
	p.Slices = workload.Slices{PerSecond: 1000, Mean: time.Millisecond / 10, Asleep: 0.9}
	s := seen(p, still)
	s.Began = time.Unix(100, 0)
	s.Recognise(true)
	first, ok := s.Loads[p.ID]
	if !ok || first.Since != s.Began || len(s.Loads) != 1 {
		t.Fatalf("%+v", s.Loads)
	}
	s.Before, s.Began = s.Snapshot, time.Unix(200, 0)
	s.Recognise(true)
	if got := s.Loads[p.ID]; got.Since != first.Since {
		t.Errorf("since %v", got.Since)
	}
	before := process(7, 0, 1)
	before.Processes = []workload.Process{{PID: 7, Start: 1}}
	s.Before.Observations = []workload.Observation{still, before}
	s.Recognise(true)
	if got := s.Loads[p.ID]; got.Since != s.Began {
		t.Errorf("of an earlier process: since %v", got.Since)
	}
	s.Recognise(false)
	if s.Loads != nil {
		t.Errorf("off: %+v", s.Loads)
	}
}

// TestWeigh: the kind of load gives an importance to shared work only, where no person gave one.
func TestWeigh(t *testing.T) {
	ten := 10
	for _, tt := range []struct {
		what  string
		on    bool
		rules []workload.Rule
		want  int
	}{
		{"on", true, nil, 70},
		{"off", false, nil, workload.DefaultImportance},
		{"a rule without an importance", true, []workload.Rule{{Match: "db"}}, 70},
		{"a rule with one", true, []workload.Rule{{Match: "db", Importance: &ten}}, 10},
		{"dedicated", true, []workload.Rule{{Match: "db", Class: workload.Dedicated}}, workload.DefaultImportance},
	} {
		by, _ := basis()
		by.Settings.Weighs, by.Settings.Rules = tt.on, tt.rules
		s := seen(service("db"))
		o := &s.Snapshot.Observations[0]
		s.Loads = map[workload.ID]load.Load{o.ID: {Importance: 70}}
		if got := s.SpecOf(by, o).Importance; got != tt.want {
			t.Errorf("%s: %d, want %d", tt.what, got, tt.want)
		}
	}
}
