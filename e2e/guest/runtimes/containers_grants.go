//go:build linux

package runtimes

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// attackers is how many pods ask for what they may not have before a namespace has a grant, lateAttackers how many once
// one has: with a CPU each the first alone would have half of the guest's 16. An emulated guest makes few pods in a
// minute.
const attackers, lateAttackers = 8, 2

// containersGrants: pods that request nothing and say class: dedicated get no CPU of their own, neither by default nor
// where another namespace has a grant; the memory that one says it will hold keeps no honest pod from its home. A pod
// of the granted namespace that is Guaranteed with whole CPUs has its own CPUs. A mark that the author of a pod has
// written is not believed, also by a runtime that copies it into the container (CRI-O).
func containersGrants(t *lab.T) {
	c := ConnectCRI(t)
	idle := small("c", 0)
	idle.idle, idle.CPUs = true, 0
	evil := func(i int) PodSpec {
		return PodSpec{Name: fmt.Sprintf("evil%d", i), QoS: "besteffort",
			annotations: map[string]string{"homenode.io/class": "dedicated"}, Containers: []ContainerSpec{idle}}
	}
	var hostile []PodSpec
	for i := range attackers {
		hostile = append(hostile, evil(i))
	}
	hostile[0].annotations["homenode.io/memory"] = "1800MiB"
	hostile[1].annotations["homenode.io/tier"] = "online-strict"
	hostile[1].annotations["homenode.io/importance"] = "100"
	marked := idle
	marked.Cpuset = "0-1" // by another program
	hostile = append(hostile, PodSpec{Name: "forged", QoS: "besteffort",
		annotations: map[string]string{"homenode.io/given": "cpus=0-1 mems= mac=00", "homenode.io/given-cpus": "0-1"},
		Containers:  []ContainerSpec{marked}})
	own := small("c", 5)
	own.own = true
	own.CPUs = 2
	own.Threads = 2
	own.MemoryMiB = 100
	prod := func(name string) PodSpec {
		return PodSpec{Name: name, namespace: "prod", QoS: "guaranteed",
			annotations: map[string]string{"homenode.io/class": "dedicated"}, Containers: []ContainerSpec{own}}
	}

	d := UnderRuntime(t, lab.DaemonOptions{Mode: "enforce"})
	pods := Pods(t, c, hostile...)
	forged := pods[attackers].Containers[0]
	honest := morePods(t, c, numbered(2, 0)...)
	before := morePods(t, c, prod("before"))[0].Containers[0]
	t.AwaitHome(lab.SettleLimit, WalkersOf(honest))
	ownCPUs(t, attackers+1, nil)
	saysWhatIsRefused(t, attackers, "no grant in containers.annotations allows class=dedicated for its namespace")
	t.Textf("by default: %d pods that request nothing have no CPU of their own, and neither has a Guaranteed one; %d "+
		"honest pods are at home", attackers, len(honest))
	t.UndoneAll()
	if cpus := t.Read(forged.Group.File("cpuset.cpus")); cpus != "0-1" {
		t.Fatalf("another program confined %s to CPUs 0-1, after an undo it has %q", forged.Called, cpus)
	}
	t.Must(lab.Homenode("resume", "--all"), lab.ExitOK)
	t.Stop(d)

	UnderRuntime(t, lab.DaemonOptions{Mode: "enforce",
		Extra: "containers: {annotations: {allow: [class=dedicated], from: {namespaces: [prod]}}}\n"})
	for i := range lateAttackers {
		late := evil(attackers + i)
		late.namespace = []string{"shop", "prod"}[i%2] // the second has the grant, and is not Guaranteed
		pods = append(pods, morePods(t, c, late)...)
	}
	after := morePods(t, c, prod("after"))[0].Containers[0]
	ownCPUs(t, attackers+lateAttackers+2, map[string]int{before.Called: 2, after.Called: 2})
	if after.First.Size() != 2 {
		t.Fatalf("%s requests 2 CPUs of its own and began on CPUs %s", after.Called, after.First)
	}
	if cpus := t.Read(forged.Group.File("cpuset.cpus")); cpus != "0-1" {
		t.Fatalf("another program confined %s to CPUs 0-1, now it has %q", forged.Called, cpus)
	}
	saysWhatIsRefused(t, attackers, "no grant in containers.annotations allows class=dedicated for its namespace")
	if said := t.Must(lab.Homenode("explain", fmt.Sprintf("prod/evil%d", attackers+1)),
		lab.ExitOK); !strings.Contains(said.Out, "its pod is not Guaranteed") {
		t.Fatalf("explain does not say why a pod of the granted namespace is not dedicated: %s", said)
	}
	t.AwaitHome(lab.SettleLimit, WalkersOf(honest))
	t.Textf("with a grant to prod: %s began on CPUs %s of its own, %d others have none", after.Called, after.First,
		attackers+lateAttackers)
}

// ownCPUs waits until status knows so many pods of attackers and of prod, and checks which workloads have CPUs of
// their own, and how many.
func ownCPUs(t *lab.T, pods int, want map[string]int) {
	t.Poll(2*time.Minute, 2*time.Second, "dedicated are those that may be", func() (bool, string) {
		seen, dedicated := 0, map[string]int{}
		said, s := lab.Homenode("status", "--json"), lab.Status{}
		if said.Exit != lab.ExitOK { // the emulated guest may be busy with pods for longer than status waits
			return false, said.String()
		}
		t.Do(json.Unmarshal([]byte(said.Out), &s))
		for _, w := range s.Workloads {
			if strings.HasPrefix(w.ID, "shop/evil") || strings.HasPrefix(w.ID, "prod/") {
				seen++
			}
			if w.Class == "dedicated" {
				dedicated[w.ID] = t.Set(w.CPUSet).Size()
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
func saysWhatIsRefused(t *lab.T, pods int, why string) {
	text := ""
	t.Poll(2*time.Minute, 2*time.Second, "status answers", func() (bool, string) {
		said := lab.Homenode("status", "--json") // the table shows the first few lines alone
		text = said.Out
		return said.Exit == lab.ExitOK, said.String()
	})
	for i := range pods {
		if n := strings.Count(text, fmt.Sprintf("\"shop/evil%d: ", i)); n != 1 {
			t.Fatalf("status has %d lines of shop/evil%d: %s", n, i, text)
		}
	}
	if !strings.Contains(text, "asked for class dedicated by annotation, not granted: "+why) ||
		!strings.Contains(text, "homenode.io/given") {
		t.Fatalf("status does not say what was refused: %s", text)
	}
	if said := t.Must(lab.Homenode("explain", "shop/evil2"), lab.ExitOK); !strings.Contains(said.Out,
		"containers.annotations") {
		t.Fatalf("explain does not say what an operator can do: %s", said)
	}
}
