//go:build linux

package runtimes

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// proxmoxThreads: a guest as Proxmox VE runs it, by its cgroup, configuration and QMP. As a
// dedicated one each of its vCPU threads has a CPU of its own at home, which stands; as a shared
// one it floats; with an affinity it is left; undo gives back what was there. Its QEMU is a walker.
func proxmoxThreads(t *lab.T) {
	config := func(text string) {
		t.Do(os.MkdirAll("/etc/pve/qemu-server", 0o755))
		t.Do(os.WriteFile("/etc/pve/qemu-server/100.conf", []byte("name: shop\ncores: 2\nmemory: 128\n"+text), 0o644))
	}
	config("tags: homenode-dedicated\n")
	slice := t.NewGroup(lab.CgroupRoot, "qemu.slice")
	w := t.StartWalkers(slice, lab.WalkerSpec{Name: "100.scope", Slot: 0, MiB: 64, Threads: 2, Place: "bind:0",
		Unbind: true})[0]
	w.Called = "vm:100"
	vcpus := lab.ThreadsOf(w.PID)[1:3] // the first is no vCPU's
	const run = "/run/qemu-server"
	t.Do(os.MkdirAll(run, 0o755))
	t.Do(os.WriteFile(filepath.Join(run, "100.pid"), fmt.Appendln(nil, w.PID), 0o644))
	l, err := net.Listen("unix", filepath.Join(run, "100.qmp"))
	t.Do(err)
	t.Defer(func() { l.Close() })
	go answerQMP(l, vcpus)

	before := lab.TakeSnapshot([]*lab.Walker{w})
	of := func(tid int) lab.Set { return t.Set(lab.StatusField(tid, "Cpus_allowed_list")) }
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	var own [2]lab.Set
	apart := func() (bool, string) {
		own = [2]lab.Set{of(vcpus[0]), of(vcpus[1])}
		group, mems := t.Set(lab.ReadText(w.Group.File("cpuset.cpus"))), lab.ReadText(w.Group.File("cpuset.mems"))
		text := fmt.Sprintf("vCPUs on %v, its cgroup on %v, memory %q", own, group, mems)
		return own[0].Size() == 1 && own[1].Size() == 1 && own[0] != own[1] && group == own[0]|own[1] && mems != "",
			text
	}
	t.Until(60*time.Second, "each vCPU has a CPU of its own", apart)
	first := own
	for _, tid := range lab.ThreadsOf(w.PID) {
		if cpus := of(tid); !cpus.Within(first[0] | first[1]) {
			t.Fatalf("thread %d may use %v", tid, cpus)
		}
	}
	settled := lab.TakeSnapshot([]*lab.Walker{w})
	lab.Warm(15 * time.Second) // it reads threads again after ten
	t.Same("later", settled, lab.TakeSnapshot([]*lab.Walker{w}), lab.All)

	config("tags: homenode-shared\n")
	t.Until(60*time.Second, "its vCPUs float", func() (bool, string) {
		own = [2]lab.Set{of(vcpus[0]), of(vcpus[1])}
		return own[0] == own[1] && own[0].Size() > 1, fmt.Sprint(own)
	})
	t.UndoneAll()
	t.Same("after undo --all", before, lab.TakeSnapshot([]*lab.Walker{w}), lab.All)

	config("affinity: 0-1\n")
	t.Must(lab.Homenode("resume", "--all"), lab.ExitOK)
	t.Until(30*time.Second, "its owner's affinity is told", func() (bool, string) {
		r := t.Must(lab.Homenode("explain", "vm:100"), lab.ExitOK)
		return strings.Contains(r.Out, "its setting affinity"), r.Out
	})
	t.Same("its owner's", before, lab.TakeSnapshot([]*lab.Walker{w}), lab.All)
	t.Alive(d)
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
				reply = fmt.Sprintf(`[{"cpu-index": 0, "thread-id": %d}, {"cpu-index": 1, "thread-id": %d}]`, vcpus[0],
					vcpus[1])
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
