//go:build linux

package home

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// slow is a bandwidth at which moving a walker takes long enough to meddle.
const slow = "8MiB"

// pair is two walkers in the wrong place: the first meets the trouble, the second
// shows that nothing is stuck.
func pair() []lab.WalkerSpec {
	return []lab.WalkerSpec{
		{Name: "first", Slot: 1, MiB: 160, Threads: 2, Place: "interleave", Unbind: true},
		{Name: "second", Slot: 2, MiB: 48, Threads: 1, Place: "interleave", Unbind: true},
	}
}

// awaitMove waits until pages of a walker are on the move.
func awaitMove(t *lab.T, w *lab.Walker) {
	was := lab.ByNodeText(t.Buffer(w).Nodes)
	t.Until(60*time.Second, "pages of "+w.Name+" move", func() (bool, string) {
		is := lab.ByNodeText(t.Buffer(w).Nodes)
		return is != was, is
	})
}

// homenodeExitInMove: a workload that ends while its pages move.
func homenodeExitInMove(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, pair()...)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Bandwidth: slow})
	awaitMove(t, ws[0])
	ws[0].Kill()
	e := t.AwaitEvent(30*time.Second, ws[0].ID(), "workload-gone")
	t.AwaitHome(lab.SettleLimit, ws[1:])
	t.Alive(d)
	t.Textf("history: %s", lab.Cut(e.Text))
}

// homenodeCgroupGone: a cgroup that was changed and is removed.
func homenodeCgroupGone(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, pair()...)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	t.AwaitHome(lab.SettleLimit, ws)
	id := ws[0].ID()
	ws[0].Kill()
	t.Until(10*time.Second, "remove cgroup", func() (bool, string) {
		err := syscall.Rmdir(string(ws[0].Group))
		return err == nil, fmt.Sprint(err)
	})
	e := t.AwaitEvent(30*time.Second, id, "workload-gone")
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	if cpus := t.Read(ws[1].Group.File("cpuset.cpus")); cpus != "" {
		t.Fatalf("after undo --all cpuset.cpus of the other is %q", cpus)
	}
	t.Alive(d)
	t.Textf("history: %s", lab.Cut(e.Text))
}

// homenodeNodeFull: the home runs out of free memory while pages move there.
func homenodeNodeFull(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, pair()...)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Bandwidth: "2MiB"})
	awaitMove(t, ws[0])
	home := t.Homes(ws)["first"]
	if home.Size() != 1 {
		t.Fatalf("home of first is %q", home)
	}
	fill(t, home.IDs()[0])
	// It moves on to a node with room, or says what did not fit.
	var outcome string
	t.Poll(90*time.Second, time.Second, "the full node is noticed", func() (bool, string) {
		s := t.Status()
		m, state, why := s.Of(ws[0].ID())
		now := t.Homes(ws)["first"]
		outcome = fmt.Sprintf("home node %s, then %s: %s, move %s with %d bytes refused; %s", home, now, state, m.State,
			m.Refused, why)
		return (now != home && now != 0) || m.Refused > 0 || m.State == "failed", outcome
	})
	t.Walking(ws)
	t.Alive(d)
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	t.Unrepeated()
	t.Textf("%s", lab.Cut(outcome))
}

// fill takes a node's free memory until the kernel gives from other nodes alone.
// The memory is preferred there, not bound: a bound allocation on a full node
// calls the OOM killer.
func fill(t *lab.T, node int) {
	// By default the kernel keeps some 60 MiB a node back (for huge pages), and
	// lets page moves have part of that: a node would never be quite full.
	const reserve = "/proc/sys/vm/min_free_kbytes"
	was := t.Read(reserve)
	t.Write(reserve, "4096")
	t.Defer(func() { lab.WriteText(reserve, was) })
	const chunk = 4 // MiB
	for misses := 0; misses < 3; {
		before := lab.NodeKiB(node, "MemFree")
		p := t.MapPages(chunk)
		t.Do(p.Bind(lab.MpolPreferred, lab.SetOf(node)))
		p.Touch()
		if before-lab.NodeKiB(node, "MemFree") < chunk<<10/2 {
			misses++
		} else {
			misses = 0
		}
	}
	t.Logf("node%d is full, %d KiB free", node, lab.NodeKiB(node, "MemFree"))
}

// homenodeCPUOffline: a CPU of a home goes and comes back.
func homenodeCPUOffline(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot,
		append(pair(), lab.WalkerSpec{Name: "p1", Slot: 3, MiB: 32, Threads: 1, Place: "interleave", Unbind: true,
			Plain: true})...)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	homes := t.AwaitHome(lab.SettleLimit, ws)
	cpu := lab.CPUsOf(homes["first"]).IDs()[1]
	file := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu)
	t.Write(file, "0")
	e := t.AwaitEvent(30*time.Second, "", "cpus-offline")
	t.AwaitHome(lab.SettleLimit, ws)
	t.Walking(ws)
	t.Write(file, "1")
	t.Until(60*time.Second, "the CPU is used again", func() (bool, string) {
		homes := t.Homes(ws)
		var seen []string
		for _, w := range ws {
			for _, cpus := range lab.Allowed(w.PID) {
				if cpus.Has(cpu) {
					return true, ""
				}
			}
			seen = append(seen, fmt.Sprintf("%s home %s allowed %v", w.Name, homes[w.Name], lab.Allowed(w.PID)))
		}
		return false, fmt.Sprint(seen)
	})
	t.Alive(d)
	t.Textf("history: %s", lab.Cut(e.Text))
}

// homenodeReadOnly: a daemon that may not write the cgroup tree, as in a
// container. What can not be done is said, and nothing else suffers.
func homenodeReadOnly(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, pair()...)
	before := lab.TakeSnapshot(ws)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Wrap: []string{"/init", "read-only-cgroups"}})
	e := t.AwaitEvent(30*time.Second, "", "step-failed")
	lab.Warm(3 * time.Second)
	t.Alive(d)
	settings := func(n string) bool { return n[0] == '/' }
	t.Same("cgroup files under a read-only tree", before, lab.TakeSnapshot(ws), settings)
	t.Must(lab.Homenode("status"), lab.ExitOK)
	t.Walking(ws)
	t.Unrepeated()
	t.Stop(d)
	t.Textf("history: %s", lab.Cut(e.Text))
}

// ReadOnlyCgroups runs a command in a mount namespace of its own, in which the
// cgroup tree is read-only.
func ReadOnlyCgroups(argv []string) error {
	if len(argv) == 0 {
		return errors.New("read-only-cgroups: no command")
	}
	runtime.LockOSThread() // a namespace belongs to the thread that asked for it
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare mounts: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	const readOnly = syscall.MS_REMOUNT | syscall.MS_BIND | syscall.MS_RDONLY
	if err := syscall.Mount("", lab.CgroupRoot, "", readOnly, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", lab.CgroupRoot, err)
	}
	return fmt.Errorf("run %s: %w", argv[0], syscall.Exec(argv[0], argv, os.Environ()))
}
