//go:build linux

package home

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/vishvananda/netlink"
)

// device is the part of an explanation that these tests read.
type device struct {
	ID       string `json:"id"`
	Node     int    `json:"node"`
	State    string `json:"state"`
	Allowed  string `json:"allowed"`
	Avoided  string `json:"avoided"`
	Settings []struct {
		Path string `json:"path"`
		Now  string `json:"now"`
		To   string `json:"to"`
		Why  string `json:"why"`
	} `json:"settings"`
	Users []struct {
		Workload string `json:"workload"`
		How      string `json:"how"`
	} `json:"users"`
}

func explainDevice(t *lab.T, name string) device {
	var x struct {
		Device *device `json:"device"`
	}
	r := t.Must(lab.Homenode("explain", "device:"+name, "--json"), lab.ExitOK)
	t.Do(json.Unmarshal([]byte(r.Out), &x))
	if x.Device == nil {
		t.Fatalf("explain says nothing of device %s: %s", name, lab.Cut(r.Out))
	}
	return *x.Device
}

// homenodeIRQ: the interrupts of a card's queues go to the CPUs of its node that no
// dedicated work has, with as many queues as there are such CPUs; undo puts back every
// value that stood before.
func homenodeIRQ(t *lab.T) {
	card := t.Card()
	// Values of their own, so that undo can not pass by writing defaults.
	numbers := slices.Sorted(maps.Keys(card.Interrupts()))
	if len(numbers) < 3 {
		t.Fatalf("%s has interrupts %v only", card.Name, card.Interrupts())
	}
	for i, f := range numbers {
		t.Write(f, []string{"0-1", "2", "0-7", "5"}[i%4])
	}
	t.Write("/sys/class/net/"+card.Name+"/queues/rx-0/rps_cpus", "05")
	before := card.Values()
	t.OnFailure(func() {
		for _, c := range before.Changes(card.Values(), lab.All) {
			t.Logf("%s", c)
		}
	})

	t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "alone", Slot: 0, MiB: 24, Threads: 1, Place: "local"})
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Extra: "irq: place\nirq_queues: match\n" +
		"workloads: [{match: /alone, class: dedicated, cpus: 2, near: [" + card.Name + "]}]\n"})
	var alone lab.Set
	start := time.Now()
	const placed = "interrupts on the card's node, away from dedicated CPUs"
	t.Poll(120*time.Second, time.Second, placed, func() (bool, string) {
		for _, w := range t.Status().Workloads {
			if w.ID == "/alone" {
				alone = t.Set(w.CPUSet)
			}
		}
		if alone.Size() != 2 || !alone.Within(lab.NodeCPUs(t.Shape.NIC)) {
			return false, fmt.Sprintf("dedicated work has CPUs %s, wanted 2 of node %d", alone, t.Shape.NIC)
		}
		for f, name := range card.Interrupts() {
			if cpus := t.Set(lab.ReadText(f)); cpus == 0 || !cpus.Within(lab.NodeCPUs(t.Shape.NIC)&^alone) {
				return false, fmt.Sprintf("%s goes to CPUs %s", name, cpus)
			}
		}
		return explainDevice(t, card.Name).State == "at home", "the device is not at home"
	})
	took := time.Since(start)
	allowed := lab.NodeCPUs(t.Shape.NIC) &^ alone
	x := explainDevice(t, card.Name)
	if t.Set(x.Allowed) != allowed || t.Set(x.Avoided) != alone || x.Node != t.Shape.NIC ||
		len(x.Settings) < len(numbers) {
		t.Fatalf("explain says %+v; wanted CPUs %s, without %s", x, allowed, alone)
	}
	for _, s := range x.Settings {
		if s.Why == "" || s.To != "" {
			t.Fatalf("explain says of %s: %q, to %q", s.Path, s.Why, s.To)
		}
	}
	was, queues := card.Queues(before), card.Queues(card.Values())
	if want := min(was, allowed.Size()); queues != want {
		t.Fatalf("%d queue pairs for %d CPUs, of %d", queues, allowed.Size(), was)
	}
	text := t.Must(lab.Homenode("explain", "device:"+card.Name), lab.ExitOK).Out
	for l := range strings.Lines(text) {
		t.Logf("%s", l)
	}
	changed := before.Changes(card.Values(), lab.All)

	t.Must(lab.Homenode("undo", "device:"+card.Name), lab.ExitOK)
	t.Same("after undo of the device", before, card.Values(), lab.All)
	lab.Warm(12 * time.Second) // longer than the time between two looks
	t.Same("12 s after undo", before, card.Values(), lab.All)
	t.Alive(d)
	t.Textf("%d interrupts, %d queue pairs of %d, at home after %.1f s; %d values put back", len(numbers), queues, was,
		took.Seconds(), len(changed))
}

// homenodeNear: homenode finds by itself that a workload in a network namespace of its
// own talks through a veth and a bridge to the card.
func homenodeNear(t *lab.T) {
	card := t.Card()
	port, err := netlink.LinkByName(card.Name)
	t.Do(err)
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
	t.Do(netlink.LinkAdd(bridge))
	t.Defer(func() { netlink.LinkDel(bridge) })
	t.Do(netlink.LinkSetMaster(port, bridge))
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "vethw", MasterIndex: bridge.Attrs().Index},
		PeerName: "inside"}
	t.Do(netlink.LinkAdd(pair))
	t.Defer(func() { netlink.LinkDel(pair) })
	ws := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "boxed", Slot: 0, MiB: 24, Threads: 1, Place: "local",
		Netns: true},
		lab.WalkerSpec{Name: "open", Slot: 1, MiB: 24, Threads: 1, Place: "local"})
	peer, err := netlink.LinkByName("inside")
	t.Do(err)
	t.Do(netlink.LinkSetNsPid(peer, ws[0].PID))

	before := card.Values()
	d := t.StartDaemon(lab.DaemonOptions{Mode: "observe"})
	way := "inside → vethw → br0 → " + card.Name
	t.Poll(90*time.Second, time.Second, "the card is found", func() (bool, string) {
		r := t.Must(lab.Homenode("status", "--json"), lab.ExitOK)
		var s struct {
			Workloads []struct {
				ID    string `json:"id"`
				Links []struct {
					Kind, Name, Nodes, Evidence string
				} `json:"links"`
			} `json:"workloads"`
		}
		t.Do(json.Unmarshal([]byte(r.Out), &s))
		found, why := false, "no such workload"
		for _, w := range s.Workloads {
			if w.ID == ws[1].ID() && len(w.Links) > 0 {
				t.Fatalf("a workload that uses no device has links %+v", w.Links)
			}
			if w.ID == ws[0].ID() {
				why = fmt.Sprintf("links %+v", w.Links)
				found = len(w.Links) == 1 && w.Links[0].Kind == "netns" && w.Links[0].Name == card.Name &&
					w.Links[0].Nodes == fmt.Sprint(t.Shape.NIC) && strings.Contains(w.Links[0].Evidence, way)
			}
		}
		return found, why
	})
	if text := t.Must(lab.Homenode("explain", ws[0].ID()), lab.ExitOK).Out; !strings.Contains(text, card.Name) {
		t.Fatalf("explain: %s", lab.Cut(text))
	}
	if users := explainDevice(t, card.Name).Users; len(users) != 1 || users[0].Workload != ws[0].ID() {
		t.Fatalf("users of the card: %+v", users)
	}
	t.Same("after observing", before, card.Values(), lab.All)
	t.Alive(d)
	t.Walking(ws)
	t.Textf("%s", way)
}
