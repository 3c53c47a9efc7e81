//go:build linux

package runtimes

import (
	"fmt"
	"os"
	"strings"

	"github.com/homenode/homenode/e2e/guest/lab"
)

const (
	// numadPath is the numad that Debian's libvirt calls (strings libvirt.so.0 | grep numad).
	numadPath = "/usr/bin/numad"
	numadLog  = lab.WorkFolder + "/numad.log"
)

// numadScript answers as homenode and keeps question and answer. The daemon of these tests has a socket of its own.
const numadScript = `#!/bin/sh
answer=$(%s numad --socket %s "$@") || exit
echo "$* = $answer" >> %s
echo "$answer"
`

// libvirtAuto: libvirt asks numad for guests with placement='auto', homenode answers from its ledger, and the guests'
// vCPUs and memory are where the answer says. Two guests that are asked for one after the other count for each other.
func libvirtAuto(t *lab.T) {
	auto := []*vm{{name: "auto1", vcpus: 3, mib: 48, nodes: 1}, {name: "auto2", vcpus: 3, mib: 48, nodes: 1}}
	for _, v := range auto {
		remove(v.name)
		t.Defer(func() { remove(v.name) })
	}
	lab.FreshState()
	d := overGuests(t, "marked", false)
	t.Do(os.WriteFile(numadPath, fmt.Appendf(nil, numadScript, lab.HomenodeBin, lab.SocketPath, numadLog), 0o755))
	t.Defer(func() { os.Remove(numadPath) })
	os.Remove(numadLog)
	var homes lab.Set
	for i, v := range auto {
		xml := strings.Replace(plainXML(v.name, ""), "<vcpu>1</vcpu>", "<vcpu placement='auto'>3</vcpu>", 1)
		t.Must(virsh("define", xmlFile(t, v.name, xml)), lab.ExitOK)
		startVMs(t, []*vm{v})
		lines := strings.Split(strings.TrimSpace(lab.ReadText(numadLog)), "\n")
		if len(lines) != i+1 {
			t.Fatalf("%s: libvirt asked %q", v.name, lines)
		}
		question, answer, _ := strings.Cut(lines[i], " = ")
		if question != "-w 3:48" {
			t.Fatalf("%s: libvirt asked %q", v.name, question)
		}
		home := t.Set(answer)
		// On nodes that guests of other tests crowd, it may be two.
		if home.Size() > 2 || homes&home != 0 {
			t.Fatalf("%s: the answer is nodes %s; guests before it have %s", v.name, home, homes)
		}
		homes |= home
		if on := t.NodesOf(union(vcpus(t, v))); on != home {
			t.Fatalf("%s: the answer is node %s, its vCPUs may use %s", v.name, home, union(vcpus(t, v)))
		}
		memoryAtHome(t, v, home)
	}
	seen(t, d, auto)
	t.Stop(d)
	t.Textf("libvirt asked numad -w 3:48 twice; the guests are on nodes %s", homes)
}
