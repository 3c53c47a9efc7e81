package control

import (
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// storage is a guest of 4 GiB on node 0, and a storage daemon of it that runs on node 1.
func storage(t *testing.T, then func(*fake), change ...func(*Settings)) *fake {
	f := newFake(t, 2, 8, append(change, surveying(Links))...)
	f.add("guest", 2, 4<<20, 0)
	f.add("nbd", 0.5, 1<<17, 1)
	f.scan(8)
	if then != nil {
		then(f)
	}
	link := workload.Link{Kind: workload.BySocket, Helper: f.works["/nbd"].obs.Processes[0], Name: "qemu-nbd", Nodes: topology.Nodes(1), Evidence: "unix socket /run/nbd.sock"}
	f.links = map[workload.ID][]workload.Link{"/guest": {link}}
	if f.works["/other"] != nil {
		f.links["/other"] = f.links["/guest"]
	}
	f.after(30 * time.Second)
	f.scan(1)
	return f
}

func (f *fake) passes(n int) {
	for range n {
		f.after(2 * time.Second)
		f.scan(1)
	}
}

// A daemon that serves a guest comes to the guest's node with its memory, and undo takes it back.
func TestHelperFollows(t *testing.T) {
	f := storage(t, nil)
	if f.home("/guest") != "0" || f.home("/nbd") != "1" {
		t.Fatalf("homes %s, %s", f.home("/guest"), f.home("/nbd"))
	}
	before := f.cpus("/nbd")
	f.passes(30)
	v := f.s.View()
	if f.home("/nbd") != "0" || f.home("/guest") != "0" || f.onHome("/nbd") < 0.99 || f.cpus("/nbd") == before {
		t.Errorf("homes %s and %s, %.2f of its memory there, CPUs %s; %v\n%v", f.home("/nbd"), f.home("/guest"), f.onHome("/nbd"), f.cpus("/nbd"), v.Following, f.s.Balancing)
	}
	if near := v.SpecOf("/guest").Near; len(near) != 0 {
		t.Errorf("the guest is pulled: %+v", near)
	}
	if f.s.Journal.Of(plan.CgroupCPUs, "/nbd") == nil {
		t.Error("not in the journal")
	}
	if r := f.undo("/nbd"); r.Failed != nil || len(r.Undo.Restored) == 0 {
		t.Errorf("%+v", r)
	}
	f.passes(30)
	if f.cpus("/nbd") != "" {
		t.Errorf("after undo it may use %s", f.cpus("/nbd"))
	}
	if why := f.s.Following["/nbd"]; why.Follows || !strings.Contains(why.Why.String(), "Undone") {
		t.Errorf("after undo: %+v", why)
	}
}

// Who serves whom is told by a program's name and a socket, which a user chooses: a user neither
// has a daemon of the system follow, nor pulls work of somebody else to a daemon.
func TestHelpersAndOtherUsers(t *testing.T) {
	const user = 1000
	for _, tt := range []struct {
		name            string
		guest, helper   int // their users
		pinned          bool
		follows, pulled bool
	}{
		{"the system's", 0, 0, false, true, false},
		{"one user's", user, user, false, true, false},
		{"the system's, that stays", 0, 0, true, false, true},
		{"a user's guest at a daemon of the system", user, 0, false, false, true},
		{"a user's guest at a daemon of the system, that stays", user, 0, true, false, true},
		{"a guest at a user's daemon", 0, user, false, false, false},
		{"a guest at a user's daemon, that stays", 0, user, true, false, false},
		{"a guest at a daemon of another user", user, user + 1, true, false, false},
	} {
		f := storage(t, func(f *fake) {
			f.works["/guest"].obs.UID, f.works["/nbd"].obs.UID, f.works["/nbd"].obs.Pinned = tt.guest, tt.helper, tt.pinned
			f.scan(1)
		})
		f.passes(3)
		near := f.s.SpecOf(f.s.Observation("/guest")).Near
		if f.s.Following["/nbd"].Follows != tt.follows || (len(near) > 0) != tt.pulled {
			t.Errorf("%s: %+v, near %+v", tt.name, f.s.Following["/nbd"], near)
		}
	}
}

// Whoever may not be moved stays, with the reason; then the guest is pulled, as by any helper.
func TestHelperThatStays(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Settings)
		then   func(*fake)
		why    string
	}{
		{"excluded", func(s *Settings) { s.Exclude = []string{"/nbd"} }, nil, "exclude"},
		{"by configuration", func(s *Settings) { s.HelpersStay = true }, nil, "near.follow: false"},
		{"pinned", func(*Settings) {}, func(f *fake) { f.works["/nbd"].obs.Pinned, f.works["/nbd"].obs.PinnedWhy = true, "CPU 9" }, "CPU 9"},
		{"large", func(*Settings) {}, func(f *fake) { f.works["/nbd"].obs.Memory[0].KiB = 12 << 20 }, "holds 12 GiB"},
		{"of two nodes", func(*Settings) {}, func(f *fake) {
			f.add("other", 1, 1<<20, 1)
		}, "share no node"},
	} {
		f := storage(t, tt.then, tt.change)
		f.byHand = true
		f.after(30 * time.Second)
		f.passes(30)
		x := f.s.Following["/nbd"]
		if x.Follows || !strings.Contains(x.Why.String(), tt.why) {
			t.Errorf("%s: %+v", tt.name, x)
		}
		if f.home("/nbd") == "0" {
			t.Errorf("%s: it moved", tt.name)
		}
		v := f.s.View()
		if near := v.SpecOf("/guest").Near; len(near) != 1 {
			t.Errorf("%s: the guest is near %+v", tt.name, near)
		}
	}
}

// A helper that is too small to be a workload is registered, so that it becomes one.
func TestSmallHelperIsRegistered(t *testing.T) {
	f := newFake(t, 2, 8, surveying(Links))
	f.add("guest", 2, 4<<20, 0)
	id := f.addProcess(77, "swtpm", 0, 4<<10, 1)
	small, helper := f.works[id], f.works[id].obs.Processes[0]
	delete(f.works, id)
	f.links = map[workload.ID][]workload.Link{"/guest": {{Kind: workload.BySocket, Helper: helper, Name: "swtpm", Evidence: "unix socket"}}}
	f.scan(2)
	v := f.s.View()
	if len(v.Registered()) != 1 || v.Registered()[0] != helper {
		t.Errorf("registered %+v", v.Registered())
	}
	f.works[id] = small
	f.passes(4)
	if v = f.s.View(); f.home(id) != "0" || len(v.Registered()) != 1 {
		t.Errorf("home %q, registered %+v, %+v", f.home(id), v.Registered(), f.decision(id))
	}
}
