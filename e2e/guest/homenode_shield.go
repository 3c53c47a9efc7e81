//go:build linux

package main

import "time"

// homenodeShield: a neighbour that becomes noisy on the node of an important
// workload moves away; the important one stays and waits for CPUs no more.
func homenodeShield(t *T) {
	ws := t.startWalkers(cgroupRoot,
		walkerSpec{name: "vip", slot: 0, mib: 32, threads: 2, place: "bind:1", unbind: true, busy: true},
		walkerSpec{name: "neighbour", slot: 1, mib: 32, threads: 4, place: "local", busy: true})
	vip, neighbour := ws[0], ws[1:]
	// Heavy, so that the important one cannot be spared by the kernel alone.
	t.write(neighbour[0].group.file("cpu.weight"), "400")
	t.order(neighbour, "pause", "paused")
	d := t.startDaemon(daemonOptions{mode: "enforce", balance: true, cooldown: "1s",
		extra: "workloads: [{match: vip, importance: 90, cpus: 2}, {match: neighbour, cpus: 1}]\n"})
	home := t.awaitHome(settleLimit, ws)["vip"]
	t.must(homenode("move", "neighbour", "--to", home.String()), exitOK)
	if now := t.awaitHome(settleLimit, ws); now["vip"] != home || now["neighbour"] != home {
		t.Fatalf("homes %v on a calm node, told was %s", now, home)
	}

	t.order(neighbour, "go", "going")
	start := time.Now()
	crowded := vip.waits(4 * time.Second)
	t.until(120*time.Second, time.Second, "the neighbour has another home", func() (bool, string) {
		now := t.homes(ws)
		if now["vip"] != home {
			t.Fatalf("the important one moved from node %s to %s", home, now["vip"])
		}
		return now["neighbour"] != home, "it lives on node " + now["neighbour"].String()
	})
	decided := time.Since(start)
	after := t.awaitHome(settleLimit, ws)
	took := time.Since(start)
	calm := vip.waits(4 * time.Second)
	if after["vip"] != home || t.homes(ws)["vip"] != home {
		t.Fatalf("the important one moved from node %s to %s", home, after["vip"])
	}
	if crowded < 0.2 || calm > crowded/2 {
		t.Fatalf("the important one waited for a CPU %.0f %% of its time beside the neighbour, %.0f %% after", 100*crowded, 100*calm)
	}
	t.walking(ws)
	t.alive(d)
	t.Textf("it waited %.0f %% of its time, then %.0f %%; the neighbour went from node %s to %s, decided after %.1f s, memory there after %.1f s",
		100*crowded, 100*calm, home, after["neighbour"], decided.Seconds(), took.Seconds())
}
