//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
)

func init() {
	tests["homenode.irq"] = homenodeIRQ
	tests["homenode.near"] = homenodeNear
}

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

func (t *T) explainDevice(name string) device {
	var x struct {
		Device *device `json:"device"`
	}
	r := t.must(homenode("explain", "device:"+name, "--json"), exitOK)
	t.Do(json.Unmarshal([]byte(r.out), &x))
	if x.Device == nil {
		t.Fatalf("explain says nothing of device %s: %s", name, cut(r.out))
	}
	return *x.Device
}

// homenodeIRQ: the interrupts of a card's queues go to the CPUs of its node that no
// dedicated work has, with as many queues as there are such CPUs; undo puts back every
// value that stood before.
func homenodeIRQ(t *T) {
	card := t.card()
	// Values of their own, so that undo can not pass by writing defaults.
	numbers := slices.Sorted(maps.Keys(card.interrupts()))
	if len(numbers) < 3 {
		t.Fatalf("%s has interrupts %v only", card.name, card.interrupts())
	}
	for i, f := range numbers {
		t.write(f, []string{"0-1", "2", "0-7", "5"}[i%4])
	}
	t.write("/sys/class/net/"+card.name+"/queues/rx-0/rps_cpus", "05")
	before := card.values()
	t.OnFailure(func() {
		for _, c := range before.changes(card.values(), all) {
			t.Logf("%s", c)
		}
	})

	t.startWalkers(cgroupRoot, walkerSpec{name: "alone", slot: 0, mib: 24, threads: 1, place: "local"})
	d := t.startDaemon(daemonOptions{mode: "enforce", extra: "irq: place\nirq_queues: match\n" +
		"workloads: [{match: /alone, class: dedicated, cpus: 2, near: [" + card.name + "]}]\n"})
	var alone set
	start := time.Now()
	t.until(120*time.Second, time.Second, "interrupts on the card's node, away from dedicated CPUs", func() (bool, string) {
		for _, w := range t.status().Workloads {
			if w.ID == "/alone" {
				alone = t.set(w.CPUSet)
			}
		}
		if alone.size() != 2 || !alone.within(nodeCPUs(t.shape.NIC)) {
			return false, fmt.Sprintf("dedicated work has CPUs %s, wanted 2 of node %d", alone, t.shape.NIC)
		}
		for f, name := range card.interrupts() {
			if cpus := t.set(readText(f)); cpus == 0 || !cpus.within(nodeCPUs(t.shape.NIC)&^alone) {
				return false, fmt.Sprintf("%s goes to CPUs %s", name, cpus)
			}
		}
		return t.explainDevice(card.name).State == "at home", "the device is not at home"
	})
	took := time.Since(start)
	allowed := nodeCPUs(t.shape.NIC) &^ alone
	x := t.explainDevice(card.name)
	if t.set(x.Allowed) != allowed || t.set(x.Avoided) != alone || x.Node != t.shape.NIC || len(x.Settings) < len(numbers) {
		t.Fatalf("explain says %+v; wanted CPUs %s, without %s", x, allowed, alone)
	}
	for _, s := range x.Settings {
		if s.Why == "" || s.To != "" {
			t.Fatalf("explain says of %s: %q, to %q", s.Path, s.Why, s.To)
		}
	}
	was, queues := card.queues(before), card.queues(card.values())
	if want := min(was, allowed.size()); queues != want {
		t.Fatalf("%d queue pairs for %d CPUs, of %d", queues, allowed.size(), was)
	}
	text := t.must(homenode("explain", "device:"+card.name), exitOK).out
	for l := range strings.Lines(text) {
		t.Logf("%s", l)
	}
	changed := before.changes(card.values(), all)

	t.must(homenode("undo", "device:"+card.name), exitOK)
	t.same("after undo of the device", before, card.values(), all)
	warm(12 * time.Second) // longer than the time between two looks
	t.same("12 s after undo", before, card.values(), all)
	t.alive(d)
	t.Textf("%d interrupts, %d queue pairs of %d, at home after %.1f s; %d values put back", len(numbers), queues, was, took.Seconds(), len(changed))
}

// homenodeNear: homenode finds by itself that a workload in a network namespace of its
// own talks through a veth and a bridge to the card.
func homenodeNear(t *T) {
	card := t.card()
	port, err := netlink.LinkByName(card.name)
	t.Do(err)
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
	t.Do(netlink.LinkAdd(bridge))
	t.Defer(func() { netlink.LinkDel(bridge) })
	t.Do(netlink.LinkSetMaster(port, bridge))
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "vethw", MasterIndex: bridge.Attrs().Index}, PeerName: "inside"}
	t.Do(netlink.LinkAdd(pair))
	t.Defer(func() { netlink.LinkDel(pair) })
	ws := t.startWalkers(cgroupRoot, walkerSpec{name: "boxed", slot: 0, mib: 24, threads: 1, place: "local", netns: true},
		walkerSpec{name: "open", slot: 1, mib: 24, threads: 1, place: "local"})
	peer, err := netlink.LinkByName("inside")
	t.Do(err)
	t.Do(netlink.LinkSetNsPid(peer, ws[0].pid))

	before := card.values()
	d := t.startDaemon(daemonOptions{mode: "observe"})
	way := "inside → vethw → br0 → " + card.name
	t.until(90*time.Second, time.Second, "the card is found", func() (bool, string) {
		r := t.must(homenode("status", "--json"), exitOK)
		var s struct {
			Workloads []struct {
				ID    string `json:"id"`
				Links []struct {
					Kind, Name, Nodes, Evidence string
				} `json:"links"`
			} `json:"workloads"`
		}
		t.Do(json.Unmarshal([]byte(r.out), &s))
		found, why := false, "no such workload"
		for _, w := range s.Workloads {
			if w.ID == ws[1].id() && len(w.Links) > 0 {
				t.Fatalf("a workload that uses no device has links %+v", w.Links)
			}
			if w.ID == ws[0].id() {
				why = fmt.Sprintf("links %+v", w.Links)
				found = len(w.Links) == 1 && w.Links[0].Kind == "netns" && w.Links[0].Name == card.name &&
					w.Links[0].Nodes == fmt.Sprint(t.shape.NIC) && strings.Contains(w.Links[0].Evidence, way)
			}
		}
		return found, why
	})
	if text := t.must(homenode("explain", ws[0].id()), exitOK).out; !strings.Contains(text, card.name) {
		t.Fatalf("explain: %s", cut(text))
	}
	if users := t.explainDevice(card.name).Users; len(users) != 1 || users[0].Workload != ws[0].id() {
		t.Fatalf("users of the card: %+v", users)
	}
	t.same("after observing", before, card.values(), all)
	t.alive(d)
	t.walking(ws)
	t.Textf("%s", way)
}
