//go:build linux

package home

import (
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// homenodeShield: a neighbour that becomes noisy on the node of an important
// workload moves away; the important one stays and waits for CPUs no more.
func homenodeShield(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot,
		lab.WalkerSpec{Name: "vip", Slot: 0, MiB: 32, Threads: 2, Place: "bind:1", Unbind: true, Busy: true},
		lab.WalkerSpec{Name: "neighbour", Slot: 1, MiB: 32, Threads: 4, Place: "local", Busy: true})
	vip, neighbour := ws[0], ws[1:]
	// Heavy, so that the important one cannot be spared by the kernel alone.
	t.Write(neighbour[0].Group.File("cpu.weight"), "400")
	t.Order(neighbour, "pause", "paused")
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Balance: true, Cooldown: "1s",
		Extra: "workloads: [{match: vip, importance: 90, cpus: 2}, {match: neighbour, cpus: 1}]\n"})
	home := t.AwaitHome(lab.SettleLimit, ws)["vip"]
	t.Must(lab.Homenode("move", "neighbour", "--to", home.String()), lab.ExitOK)
	if now := t.AwaitHome(lab.SettleLimit, ws); now["vip"] != home || now["neighbour"] != home {
		t.Fatalf("homes %v on a calm node, told was %s", now, home)
	}

	t.Order(neighbour, "go", "going")
	start := time.Now()
	crowded := vip.Waits(4 * time.Second)
	t.Poll(120*time.Second, time.Second, "the neighbour has another home", func() (bool, string) {
		now := t.Homes(ws)
		if now["vip"] != home {
			t.Fatalf("the important one moved from node %s to %s", home, now["vip"])
		}
		return now["neighbour"] != home, "it lives on node " + now["neighbour"].String()
	})
	decided := time.Since(start)
	after := t.AwaitHome(lab.SettleLimit, ws)
	took := time.Since(start)
	calm := vip.Waits(4 * time.Second)
	if after["vip"] != home || t.Homes(ws)["vip"] != home {
		t.Fatalf("the important one moved from node %s to %s", home, after["vip"])
	}
	if crowded < 0.2 || calm > crowded/2 {
		t.Fatalf("the important one waited for a CPU %.0f %% of its time beside the neighbour, %.0f %% after",
			100*crowded, 100*calm)
	}
	t.Walking(ws)
	t.Alive(d)
	t.Textf("it waited %.0f %% of its time, then %.0f %%; the neighbour went from node %s to %s, decided after %.1f "+
		"s, memory there after %.1f s",
		100*crowded, 100*calm, home, after["neighbour"], decided.Seconds(), took.Seconds())
}
