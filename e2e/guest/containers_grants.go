//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"
)

func init() { tests["containers.grants"] = containersGrants }

// attackers is how many pods ask for what they may not have: with one CPU each they would have most of the guest's 16.
const attackers = 12

// containersGrants: pods that request nothing and say class: dedicated get no CPU of their own, neither by default nor where
// another namespace has a grant; the memory that one says it will hold keeps no honest pod from its home. A pod
// of the granted namespace that is Guaranteed with whole CPUs has its own CPUs. A mark that the author of a pod has written is
// not believed, also by a runtime that copies it into the container (CRI-O).
func containersGrants(t *T) {
	c := t.cri()
	idle := func(cpus float64) containerSpec {
		k := small("c", 0)
		k.idle, k.cpus = true, cpus
		return k
	}
	var hostile []podSpec
	for i := range attackers {
		hostile = append(hostile, podSpec{name: fmt.Sprintf("evil%d", i), qos: "besteffort", annotations: map[string]string{"homenode.io/class": "dedicated"}, containers: []containerSpec{idle(0)}})
	}
	hostile[0].annotations["homenode.io/memory"] = "1800MiB"
	hostile[1].annotations["homenode.io/tier"] = "online-strict"
	hostile[1].annotations["homenode.io/importance"] = "100"
	marked := idle(0)
	marked.cpuset = "0-1" // by another program
	hostile = append(hostile, podSpec{name: "forged", qos: "besteffort", annotations: map[string]string{"homenode.io/given": "cpus=0-1 mems= mac=00", "homenode.io/given-cpus": "0-1"}, containers: []containerSpec{marked}})
	own := small("c", 5)
	own.own, own.cpus, own.threads, own.memoryMiB = true, 2, 2, 100
	prod := func(name string) podSpec {
		return podSpec{name: name, namespace: "prod", qos: "guaranteed", annotations: map[string]string{"homenode.io/class": "dedicated"}, containers: []containerSpec{own}}
	}

	for _, granted := range []bool{false, true} {
		o := daemonOptions{mode: "enforce"}
		if granted {
			o.extra = "containers: {annotations: {allow: [class=dedicated], from: {namespaces: [prod]}}}\n"
		}
		d := t.underRuntime(o)
		pods := t.pods(c, hostile...)
		honest := t.morePods(c, numbered(3, 0)...)
		mine := t.morePods(c, prod(map[bool]string{false: "ours", true: "theirs"}[granted]))
		t.awaitHome(settleLimit, walkersOf(honest))
		dedicated := map[string]bool{}
		t.until(30*time.Second, time.Second, "status knows all pods", func() (bool, string) {
			seen := 0
			dedicated = map[string]bool{}
			for _, w := range t.status().Workloads {
				if strings.HasPrefix(w.ID, "shop/evil") || strings.HasPrefix(w.ID, "prod/") {
					seen++
				}
				if w.Class == "dedicated" {
					dedicated[w.ID] = true
				}
			}
			return seen >= attackers+1, fmt.Sprintf("%d of %d", seen, attackers+1)
		})
		k := mine[0].containers[0]
		want := map[string]bool{}
		if granted {
			want[k.called] = true
		}
		if fmt.Sprint(dedicated) != fmt.Sprint(want) {
			t.Fatalf("granted %v: dedicated are %v, want %v", granted, dedicated, want)
		}
		if granted && k.first.size() != 2 {
			t.Fatalf("%s requests 2 CPUs of its own and began on CPUs %s", k.called, k.first)
		}
		forged := pods[len(pods)-1].containers[0]
		if cpus := t.read(forged.group.file("cpuset.cpus")); cpus != "0-1" {
			t.Fatalf("granted %v: another program confined %s to CPUs 0-1, now it has %s", granted, forged.called, cpus)
		}
		said := t.must(homenode("status"), exitOK)
		text := said.out + said.err
		for _, p := range pods[:attackers] {
			if n := strings.Count(text, "shop/"+p.name+": "); n != 1 {
				t.Fatalf("granted %v: status has %d lines of %s: %s", granted, n, p.name, text)
			}
		}
		if !strings.Contains(text, "asked for class dedicated by annotation, not granted: no grant allows class=dedicated to its namespace") || !strings.Contains(text, "homenode.io/given") {
			t.Fatalf("granted %v: status does not say what was refused: %s", granted, text)
		}
		if said := t.must(homenode("explain", "shop/evil2"), exitOK); !strings.Contains(said.out, "containers.annotations") {
			t.Fatalf("granted %v: explain does not say what an operator can do: %s", granted, said)
		}
		t.Textf("granted %v: %d pods that request nothing have no CPU of their own, 3 honest pods are at home, %s on CPUs %s", granted, attackers, k.called, k.first)
		t.undoneAll()
		if cpus := t.read(forged.group.file("cpuset.cpus")); cpus != "0-1" {
			t.Fatalf("granted %v: undo has given %s CPUs %q", granted, forged.called, cpus)
		}
		t.must(homenode("resume", "--all"), exitOK)
		t.stop(d)
		t.cleanPods(c)
	}
}
