//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

func init() { tests["containers.grants"] = containersGrants }

// attackers is how many pods ask for what they may not have before a namespace has a grant, lateAttackers how many once one
// has: with a CPU each the first alone would have half of the guest's 16. An emulated guest makes few pods in a minute.
const attackers, lateAttackers = 8, 2

// containersGrants: pods that request nothing and say class: dedicated get no CPU of their own, neither by default nor where
// another namespace has a grant; the memory that one says it will hold keeps no honest pod from its home. A pod
// of the granted namespace that is Guaranteed with whole CPUs has its own CPUs. A mark that the author of a pod has written is
// not believed, also by a runtime that copies it into the container (CRI-O).
func containersGrants(t *T) {
	c := t.cri()
	idle := small("c", 0)
	idle.idle, idle.cpus = true, 0
	evil := func(i int) podSpec {
		return podSpec{name: fmt.Sprintf("evil%d", i), qos: "besteffort", annotations: map[string]string{"homenode.io/class": "dedicated"}, containers: []containerSpec{idle}}
	}
	var hostile []podSpec
	for i := range attackers {
		hostile = append(hostile, evil(i))
	}
	hostile[0].annotations["homenode.io/memory"] = "1800MiB"
	hostile[1].annotations["homenode.io/tier"] = "online-strict"
	hostile[1].annotations["homenode.io/importance"] = "100"
	marked := idle
	marked.cpuset = "0-1" // by another program
	hostile = append(hostile, podSpec{name: "forged", qos: "besteffort", annotations: map[string]string{"homenode.io/given": "cpus=0-1 mems= mac=00", "homenode.io/given-cpus": "0-1"}, containers: []containerSpec{marked}})
	own := small("c", 5)
	own.own, own.cpus, own.threads, own.memoryMiB = true, 2, 2, 100
	prod := func(name string) podSpec {
		return podSpec{name: name, namespace: "prod", qos: "guaranteed", annotations: map[string]string{"homenode.io/class": "dedicated"}, containers: []containerSpec{own}}
	}

	d := t.underRuntime(daemonOptions{mode: "enforce"})
	pods := t.pods(c, hostile...)
	forged := pods[attackers].containers[0]
	honest := t.morePods(c, numbered(2, 0)...)
	before := t.morePods(c, prod("before"))[0].containers[0]
	t.awaitHome(settleLimit, walkersOf(honest))
	t.ownCPUs(attackers+1, nil)
	t.saysWhatIsRefused(attackers, "no grant in containers.annotations allows class=dedicated for its namespace")
	t.Textf("by default: %d pods that request nothing have no CPU of their own, and neither has a Guaranteed one; %d honest pods are at home", attackers, len(honest))
	t.undoneAll()
	if cpus := t.read(forged.group.file("cpuset.cpus")); cpus != "0-1" {
		t.Fatalf("another program confined %s to CPUs 0-1, after an undo it has %q", forged.called, cpus)
	}
	t.must(homenode("resume", "--all"), exitOK)
	t.stop(d)

	t.underRuntime(daemonOptions{mode: "enforce", extra: "containers: {annotations: {allow: [class=dedicated], from: {namespaces: [prod]}}}\n"})
	for i := range lateAttackers {
		late := evil(attackers + i)
		late.namespace = []string{"shop", "prod"}[i%2] // the second has the grant, and is not Guaranteed
		pods = append(pods, t.morePods(c, late)...)
	}
	after := t.morePods(c, prod("after"))[0].containers[0]
	t.ownCPUs(attackers+lateAttackers+2, map[string]int{before.called: 2, after.called: 2})
	if after.first.size() != 2 {
		t.Fatalf("%s requests 2 CPUs of its own and began on CPUs %s", after.called, after.first)
	}
	if cpus := t.read(forged.group.file("cpuset.cpus")); cpus != "0-1" {
		t.Fatalf("another program confined %s to CPUs 0-1, now it has %q", forged.called, cpus)
	}
	t.saysWhatIsRefused(attackers, "no grant in containers.annotations allows class=dedicated for its namespace")
	if said := t.must(homenode("explain", fmt.Sprintf("prod/evil%d", attackers+1)), exitOK); !strings.Contains(said.out, "its pod is not Guaranteed") {
		t.Fatalf("explain does not say why a pod of the granted namespace is not dedicated: %s", said)
	}
	t.awaitHome(settleLimit, walkersOf(honest))
	t.Textf("with a grant to prod: %s began on CPUs %s of its own, %d others have none", after.called, after.first, attackers+lateAttackers)
}

// ownCPUs waits until status knows so many pods of attackers and of prod, and checks which workloads have CPUs of
// their own, and how many.
func (t *T) ownCPUs(pods int, want map[string]int) {
	t.until(2*time.Minute, 2*time.Second, "dedicated are those that may be", func() (bool, string) {
		seen, dedicated := 0, map[string]int{}
		said, s := homenode("status", "--json"), status{}
		if said.exit != exitOK { // the emulated guest may be busy with pods for longer than status waits
			return false, said.String()
		}
		t.Do(json.Unmarshal([]byte(said.out), &s))
		for _, w := range s.Workloads {
			if strings.HasPrefix(w.ID, "shop/evil") || strings.HasPrefix(w.ID, "prod/") {
				seen++
			}
			if w.Class == "dedicated" {
				dedicated[w.ID] = t.set(w.CPUSet).size()
			}
		}
		if len(dedicated) > len(want) {
			t.Fatalf("dedicated are %v, want %v", dedicated, want)
		}
		same := len(dedicated) == len(want)
		for id, n := range want {
			same = same && dedicated[id] == n
		}
		return same && seen >= pods, fmt.Sprintf("%d of %d pods, dedicated %v, want %v", seen, pods, dedicated, want)
	})
}

// saysWhatIsRefused checks that status has one line for each of the first attackers, and that explain says
// what an operator can do.
func (t *T) saysWhatIsRefused(pods int, why string) {
	text := ""
	t.until(2*time.Minute, 2*time.Second, "status answers", func() (bool, string) {
		said := homenode("status", "--json") // the table shows the first few lines alone
		text = said.out
		return said.exit == exitOK, said.String()
	})
	for i := range pods {
		if n := strings.Count(text, fmt.Sprintf("\"shop/evil%d: ", i)); n != 1 {
			t.Fatalf("status has %d lines of shop/evil%d: %s", n, i, text)
		}
	}
	if !strings.Contains(text, "asked for class dedicated by annotation, not granted: "+why) || !strings.Contains(text, "homenode.io/given") {
		t.Fatalf("status does not say what was refused: %s", text)
	}
	if said := t.must(homenode("explain", "shop/evil2"), exitOK); !strings.Contains(said.out, "containers.annotations") {
		t.Fatalf("explain does not say what an operator can do: %s", said)
	}
}
