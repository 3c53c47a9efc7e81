//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// proxmoxThreads: a guest as Proxmox VE runs it, by its cgroup, configuration and QMP. As a
// dedicated one each of its vCPU threads has a CPU of its own at home, which stands; as a shared
// one it floats; with an affinity it is left; undo gives back what was there. Its QEMU is a walker.
func proxmoxThreads(t *T) {
	config := func(text string) {
		t.Do(os.MkdirAll("/etc/pve/qemu-server", 0o755))
		t.Do(os.WriteFile("/etc/pve/qemu-server/100.conf", []byte("name: shop\ncores: 2\nmemory: 128\n"+text), 0o644))
	}
	config("tags: homenode-dedicated\n")
	slice := t.newGroup(cgroupRoot, "qemu.slice")
	w := t.startWalkers(slice, walkerSpec{name: "100.scope", slot: 0, mib: 64, threads: 2, place: "bind:0", unbind: true})[0]
	w.called = "vm:100"
	vcpus := threadsOf(w.pid)[1:3] // the first is no vCPU's
	const run = "/run/qemu-server"
	t.Do(os.MkdirAll(run, 0o755))
	t.Do(os.WriteFile(filepath.Join(run, "100.pid"), fmt.Appendln(nil, w.pid), 0o644))
	l, err := net.Listen("unix", filepath.Join(run, "100.qmp"))
	t.Do(err)
	t.Defer(func() { l.Close() })
	go answerQMP(l, vcpus)

	before := takeSnapshot([]*walker{w})
	of := func(tid int) set { return t.set(statusField(tid, "Cpus_allowed_list")) }
	d := t.startDaemon(daemonOptions{mode: "enforce"})
	var own [2]set
	apart := func() (bool, string) {
		own = [2]set{of(vcpus[0]), of(vcpus[1])}
		group, mems := t.set(readText(w.group.file("cpuset.cpus"))), readText(w.group.file("cpuset.mems"))
		text := fmt.Sprintf("vCPUs on %v, its cgroup on %v, memory %q", own, group, mems)
		return own[0].size() == 1 && own[1].size() == 1 && own[0] != own[1] && group == own[0]|own[1] && mems != "", text
	}
	t.Until(60*time.Second, "each vCPU has a CPU of its own", apart)
	first := own
	for _, tid := range threadsOf(w.pid) {
		if cpus := of(tid); !cpus.within(first[0] | first[1]) {
			t.Fatalf("thread %d may use %v", tid, cpus)
		}
	}
	settled := takeSnapshot([]*walker{w})
	warm(15 * time.Second) // it reads threads again after ten
	t.same("later", settled, takeSnapshot([]*walker{w}), all)

	config("tags: homenode-shared\n")
	t.Until(60*time.Second, "its vCPUs float", func() (bool, string) {
		own = [2]set{of(vcpus[0]), of(vcpus[1])}
		return own[0] == own[1] && own[0].size() > 1, fmt.Sprint(own)
	})
	t.undoneAll()
	t.same("after undo --all", before, takeSnapshot([]*walker{w}), all)

	config("affinity: 0-1\n")
	t.must(homenode("resume", "--all"), exitOK)
	t.Until(30*time.Second, "its owner's affinity is told", func() (bool, string) {
		r := t.must(homenode("explain", "vm:100"), exitOK)
		return strings.Contains(r.out, "its setting affinity"), r.out
	})
	t.same("its owner's", before, takeSnapshot([]*walker{w}), all)
	t.alive(d)
	t.Textf("vCPUs on CPUs %v, then on %v", first, own[0])
}

// answerQMP answers as a QEMU with these vCPU threads, one client after the other.
func answerQMP(l net.Listener, vcpus []int) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprintln(c, `{"QMP": {"version": {}, "capabilities": []}}`)
		lines := bufio.NewScanner(c)
		for lines.Scan() {
			var q struct{ Execute, ID string }
			json.Unmarshal(lines.Bytes(), &q)
			reply := "{}"
			switch q.Execute {
			case "query-cpus-fast":
				reply = fmt.Sprintf(`[{"cpu-index": 0, "thread-id": %d}, {"cpu-index": 1, "thread-id": %d}]`, vcpus[0], vcpus[1])
			case "query-memory-size-summary":
				reply = `{"base-memory": 134217728}`
			case "query-memdev":
				reply = "[]"
			}
			fmt.Fprintf(c, "{\"id\": %q, \"return\": %s}\n", q.ID, reply)
		}
		c.Close()
	}
}
