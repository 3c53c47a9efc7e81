//go:build linux

package runtimes

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// flavors are small enough for six guests on four nodes of 4 CPUs and 1 GiB.
const flavors = `flavors:
  - {name: s1, family: test, class: shared, vcpus: 1, memory: 64MiB, max_nodes: 1}
  - {name: s2, family: test, class: shared, vcpus: 2, memory: 96MiB, max_nodes: 1}
  - {name: house, family: test, class: dedicated, vcpus: 2, memory: 64MiB, max_nodes: 1, emulator: housekeeping}
  - {name: alone, family: test, class: dedicated, vcpus: 2, memory: 64MiB, max_nodes: 1, emulator: isolate}
  - {name: wide, family: test, class: dedicated, vcpus: 6, memory: 192MiB, max_nodes: 2, emulator: share}
`

const (
	flavorsPath = lab.WorkFolder + "/flavors.yaml"
	images      = "/var/lib/libvirt/images"
	reserved    = "0-1"
	// vmLimit bounds a call that emulated guests make slow, on a loaded machine.
	vmLimit = 5 * time.Minute
)

// vm is a guest of libvirt and what it should have.
type vm struct {
	name, flavor string
	vcpus, mib   int
	nodes        int    // so many
	emulator     string // share, isolate, housekeeping; "" floats along with its vCPUs
}

func (v *vm) dedicated() bool { return v.emulator != "" }

// six guests of both classes. The widest comes first: it needs room on two nodes.
var six = []*vm{
	{"wide", "wide", 6, 192, 2, "share"},
	{"alone", "alone", 2, 64, 1, "isolate"},
	{"house", "house", 2, 64, 1, "housekeeping"},
	{"sa", "s2", 2, 96, 1, ""},
	{"sb", "s2", 2, 96, 1, ""},
	{"sc", "s1", 1, 64, 1, ""},
}

// vmCommand runs homenode vm with the flavors and the reserve of these tests.
func vmCommand(args ...string) lab.Result { return vmCommandAs(nil, args...) }

func vmCommandAs(wrap []string, args ...string) lab.Result {
	argv := append(append(append([]string{}, wrap...), lab.HomenodeBin), lab.UsualSocket()...)
	argv = append(append(argv, "vm"), args...)
	switch args[0] {
	case "define", "capacity", "move", "adopt":
		argv = append(argv, "--reserve", reserved, "--overcommit", "8", "--flavors", flavorsPath)
	case "list":
		argv = append(argv, "--reserve", reserved)
	}
	return lab.CaptureFor(vmLimit, argv, "vm "+strings.Join(args, " "))
}

func virsh(args ...string) lab.Result {
	return lab.CaptureFor(vmLimit, append([]string{"virsh", "-q", "-c", "qemu:///system"}, args...),
		"(virsh) "+strings.Join(args, " "))
}

// image makes a boot disk with the program that walks over a guest's memory.
func image(t *lab.T, name string) string {
	file := images + "/" + name + ".img"
	b, err := os.ReadFile("/e2e/pacer")
	t.Do(err)
	t.Do(os.WriteFile(file, b, 0o644))
	t.Do(os.Truncate(file, 1<<20)) // a BIOS takes less for no disk
	return file
}

// sixGuests are defined by homenode, started, and have touched all their memory.
// Those that another test left running stay as they are.
func sixGuests(t *lab.T) {
	t.Do(os.WriteFile(flavorsPath, []byte(flavors), 0o644))
	start := time.Now()
	for _, v := range six {
		if v.runs() || virsh("domstate", v.name).Exit == lab.ExitOK {
			continue
		}
		t.Must(vmCommand("define", "--emulated", "--flavor", v.flavor, "--name", v.name, "--disk",
			image(t, v.name)+",format=raw"), lab.ExitOK)
	}
	defined := time.Now()
	startVMs(t, six)
	t.Logf("six guests: defined in %.1f s, started in %.1f s", defined.Sub(start).Seconds(),
		time.Since(defined).Seconds())
}

// startVMs starts guests side by side and waits until their memory is touched.
func startVMs(t *lab.T, vms []*vm) {
	said := make([]lab.Result, len(vms))
	var done sync.WaitGroup
	for i, v := range vms {
		done.Go(func() {
			if !v.runs() {
				said[i] = virsh("start", v.name)
			}
		})
	}
	done.Wait()
	for i := range vms {
		t.Must(said[i], lab.ExitOK)
	}
	t.Poll(vmLimit, time.Second, "all memory touched", func() (bool, string) {
		for _, v := range vms {
			if len(v.ram()) != v.nodes {
				anon, _ := lab.AnonByNode(v.pid())
				return false, fmt.Sprintf("%s of %d MiB has touched %s", v.name, v.mib, lab.ByNodeText(anon))
			}
		}
		return true, ""
	})
}

// pid is that of its QEMU; 0 when it does not run.
func (v *vm) pid() int {
	var pid int
	fmt.Sscan(lab.ReadText("/run/libvirt/qemu/"+v.name+".pid"), &pid)
	return pid
}

func (v *vm) runs() bool {
	pid := v.pid()
	return pid != 0 && strings.HasPrefix(lab.ReadText(fmt.Sprintf("/proc/%d/comm", pid)), "qemu")
}

// ram is the mapping that is its memory, or a cell's.
func (v *vm) ram() []lab.Mapping {
	maps, _ := lab.NumaMaps(v.pid())
	var r []lab.Mapping
	for _, m := range maps {
		n := 0
		for _, on := range m.Nodes {
			n += on
		}
		// All but the first MiB, of which the pacer touches little.
		if cell := v.mib / v.nodes; m.Anon && n >= (cell-2)<<8 && n <= (cell+1)<<8 {
			r = append(r, m)
		}
	}
	return r
}

// threads is the CPUs that each of its threads may use, by QEMU's names for them:
// "CPU 0/TCG", "IO iothread1"; all others are the emulator's, under "".
func (v *vm) threads() map[string][]lab.Set {
	r := map[string][]lab.Set{}
	pid := v.pid()
	for tid, may := range lab.Allowed(pid) {
		name := lab.ReadText(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid))
		if !strings.HasPrefix(name, "CPU ") && !strings.HasPrefix(name, "IO ") {
			name = ""
		}
		r[name] = append(r[name], may)
	}
	return r
}

// vcpus is where its vCPUs may run, in order.
func vcpus(t *lab.T, v *vm) []lab.Set {
	threads := v.threads()
	r := make([]lab.Set, v.vcpus)
	for i := range r {
		got := threads[fmt.Sprintf("CPU %d/TCG", i)]
		if len(got) != 1 {
			t.Fatalf("%s: %d threads of vCPU %d; it has %v", v.name, len(got), i, threads)
		}
		r[i] = got[0]
	}
	return r
}

func union(sets []lab.Set) (u lab.Set) {
	for _, s := range sets {
		u |= s
	}
	return u
}
