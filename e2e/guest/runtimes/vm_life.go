//go:build linux

package runtimes

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// where is all that homenode decides about a guest, as /proc has it.
type where struct {
	pid     int
	threads string  // which CPUs its threads may use
	nodes   lab.Set // that hold 99 % of its memory
}

func whereIs(v *vm) where {
	w := where{pid: v.pid()}
	threads := v.threads()
	for _, name := range slices.Sorted(maps.Keys(threads)) {
		w.threads += fmt.Sprintf("%q on %s; ", name, union(threads[name]))
	}
	anon, _ := lab.AnonByNode(w.pid)
	for n := range anon {
		if lab.Share(anon, lab.SetOf(n)) >= 0.01 {
			w.nodes |= lab.SetOf(n)
		}
	}
	return w
}

func whereVMs(vms []*vm) map[string]where {
	r := map[string]where{}
	for _, v := range vms {
		r[v.name] = whereIs(v)
	}
	return r
}

// unmoved fails the test when a guest is not as it was.
func unmoved(t *lab.T, when string, vms []*vm, was map[string]where) {
	for _, v := range vms {
		if is := whereIs(v); is != was[v.name] || is.pid == 0 {
			t.Fatalf("%s: %s was %+v, is %+v", when, v.name, was[v.name], is)
		}
	}
}

// saysWhy fails the test unless a command failed with one line that says why.
func saysWhy(t *lab.T, r lab.Result, exits ...int) {
	said := strings.TrimSpace(r.Err)
	if !slices.Contains(exits, r.Exit) || said == "" || strings.Contains(said, "\n") ||
		strings.Contains(said, "goroutine") {
		t.Fatalf("%s; wanted status %v and one line that says why", r, exits)
	}
	t.Logf("%s: status %d, %s", r.Args, r.Exit, said)
}

// libvirtMove: a shared guest moves with its memory while it runs, and comes up
// there when it is started again; nobody else moves.
func libvirtMove(t *lab.T) {
	sixGuests(t)
	sa := six[3]
	was := whereVMs(six)
	from := was["sa"].nodes
	// Where another shared guest is there are CPUs to float over.
	to := was["sb"].nodes
	if to == from {
		to = was["sc"].nodes
	}
	if from.Size() != 1 || to.Size() != 1 || to == from {
		t.Fatalf("sa on nodes %s; where would it go? %+v", from, was)
	}
	start := time.Now()
	t.Must(vmCommand("move", "sa", "--nodes", to.String()), lab.ExitOK)
	took := time.Since(start)
	floats := union(vcpus(t, sa))
	if t.NodesOf(floats) != to {
		t.Fatalf("sa went to node %s; its vCPUs may use CPUs %s", to, floats)
	}
	var others lab.Set
	for _, v := range six {
		if v.dedicated() {
			others |= union(vcpus(t, v))
		}
	}
	t.Poll(vmLimit, time.Second, "its memory follows", func() (bool, string) {
		anon, _ := lab.AnonByNode(sa.pid())
		return lab.Share(anon, to) >= 0.99, lab.ByNodeText(anon)
	})
	floatsAtHome(t, sa, others)
	if sa.pid() != was["sa"].pid {
		t.Fatalf("sa was started anew")
	}
	rest := slices.DeleteFunc(slices.Clone(six), func(v *vm) bool { return v == sa })
	unmoved(t, "after sa moved", rest, was)
	// Once more changes nothing; a dedicated guest waits for its next start.
	t.Must(vmCommand("move", "sa", "--nodes", to.String()), lab.ExitOK)
	r := vmCommand("move", "house", "--nodes", "1")
	if r.Exit != lab.ExitNo && r.Exit != lab.ExitOK {
		t.Fatalf("%s", r)
	}
	t.Logf("house: %s%s", strings.TrimSpace(r.Out), strings.TrimSpace(r.Err))
	unmoved(t, "after house was asked to", rest, was)
	t.Textf("node %s to node %s in %.1f s, all its memory with it", from, to, took.Seconds())
}

// plainXML is a guest as somebody writes it who has not heard of homenode.
func plainXML(name, more string) string {
	return fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>48</memory><vcpu>1</vcpu>%s
<os><type arch='x86_64' machine='pc'>hvm</type><loader readonly='yes' type='rom'>/e2e/pacer</loader></os><features><acpi/><apic/></features>
<devices><emulator>/usr/bin/qemu-system-x86_64</emulator><controller type='usb' model='none'/><memballoon model='none'/></devices></domain>`, name, more)
}

func xmlFile(t *lab.T, name, text string) string {
	file := lab.WorkFolder + "/" + name + ".xml"
	t.Do(os.WriteFile(file, []byte(text), 0o644))
	return file
}

// remove takes a guest away if it is there.
func remove(name string) {
	virsh("destroy", name)
	virsh("undefine", name)
}

// plain and pinned are guests that virsh defined and started, the second bound by
// hand to CPUs of two nodes.
var plain, pinned = &vm{name: "plain", vcpus: 1, mib: 48, nodes: 1}, &vm{name: "pinned", vcpus: 1, mib: 48, nodes: 1}

const byHand = "7,15"

// strangers are plain and pinned, running.
func strangers(t *lab.T) {
	for v, more := range map[*vm]string{plain: "",
		pinned: fmt.Sprintf("<cputune><vcpupin vcpu='0' cpuset='%s'/></cputune>", byHand)} {
		if !v.runs() && virsh("domstate", v.name).Exit != lab.ExitOK {
			t.Must(virsh("define", xmlFile(t, v.name, plainXML(v.name, more))), lab.ExitOK)
		}
	}
	startVMs(t, []*vm{plain, pinned})
}

// libvirtAdopt: a guest of plain virsh gets a home for its next start, and is as it
// was once released; one bound by hand is left alone and named, and so is what
// cannot be read.
func libvirtAdopt(t *lab.T) {
	sixGuests(t)
	strangers(t)
	was, theirs := whereVMs(six), whereIs(pinned)
	before := t.Must(virsh("dumpxml", "--inactive", "plain"), lab.ExitOK).Out
	bound := func() bool {
		xml := t.Must(virsh("dumpxml", "--inactive", "plain"), lab.ExitOK).Out
		return strings.Contains(xml, "homenode") && strings.Contains(xml, "<memory mode='restrictive'") &&
			strings.Contains(xml, "cpuset=")
	}
	r := t.Must(vmCommand("adopt", "--all"), lab.ExitNo)
	if !strings.Contains(r.Err, "pinned") || !strings.Contains(r.Out, "plain") || !bound() {
		t.Fatalf("%s", r)
	}
	t.Must(vmCommand("release", "plain"), lab.ExitOK)
	if after := t.Must(virsh("dumpxml", "--inactive", "plain"), lab.ExitOK).Out; after != before {
		t.Fatalf("plain was defined as %s; adopted and released, as %s", before, after)
	}
	t.Must(vmCommand("adopt", "plain"), lab.ExitOK)
	if !bound() {
		t.Fatalf("plain was not adopted again")
	}
	if is := whereIs(pinned); is != theirs {
		t.Fatalf("pinned was %+v, is %+v", theirs, is)
	}
	unmoved(t, "after adopting", six, was)
	// XML that is none, or no guest's.
	for _, text := range []string{"", "<domain", "<network/>", "<domain><name>x</name><vcpu>none</vcpu></domain>"} {
		r := vmCommand("list", "--synthetic", "node:2 core:2", "--running", xmlFile(t, "broken", text))
		saysWhy(t, r, lab.ExitUsage)
	}
	t.Textf("%s; %s", strings.TrimSpace(r.Out), strings.TrimSpace(r.Err))
}

// libvirtRestart: libvirtd, libvirt-dbus and the bus go away and come back. homenode
// says so in one line, and then knows everything again.
func libvirtRestart(t *lab.T) {
	lab.FreshState()
	sixGuests(t)
	was := whereVMs(six)
	list := t.Must(vmCommand("list", "--json"), lab.ExitOK).Out
	again := func(what string) {
		t.Poll(vmLimit, time.Second, what+" is back", func() (bool, string) {
			// libvirtd ends when the bus does; what starts daemons would start it again.
			if len(processes(t, "libvirtd")) == 0 {
				launch(t, "libvirtd", "-d")
			}
			r := vmCommand("list", "--json")
			return r.Exit == lab.ExitOK && r.Out == list, r.String()
		})
		unmoved(t, what+" was away", six, was)
	}
	for _, c := range []struct {
		name, program string
		start         []string
	}{
		{"libvirtd", "libvirtd", []string{"libvirtd", "-d"}},
		{"libvirt-dbus", "libvirt-dbus", nil}, // the bus starts it
		{"the bus", "dbus-daemon", []string{"dbus-daemon", "--system"}},
	} {
		killAll(t, c.program)
		if c.start != nil {
			saysWhy(t, vmCommand("list"), lab.ExitForbidden)
			os.Remove("/run/dbus/pid")
			launch(t, c.start...)
		}
		again(c.name)
	}
	t.Must(vmCommand("move", "sa"), lab.ExitOK)
	t.Textf("libvirtd, libvirt-dbus and the bus killed and back")
}

// launch starts a daemon that outlives this test.
func launch(t *lab.T, argv ...string) {
	c := exec.Command(argv[0], argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	t.Do(c.Run())
}

// processes is those of a program.
func processes(t *lab.T, program string) []int {
	dirs, err := os.ReadDir("/proc")
	t.Do(err)
	var pids []int
	for _, d := range dirs {
		if pid, err := strconv.Atoi(d.Name()); err == nil && lab.ReadText("/proc/"+d.Name()+"/comm") == program {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killAll kills the processes of a program and waits until they are gone.
func killAll(t *lab.T, program string) {
	pids := processes(t, program)
	if len(pids) == 0 {
		t.Fatalf("no %s runs", program)
	}
	for _, pid := range pids {
		t.Do(syscall.Kill(pid, syscall.SIGKILL))
	}
	t.Until(30*time.Second, program+" ends", func() (bool, string) {
		for _, pid := range pids {
			if lab.ReadText(fmt.Sprintf("/proc/%d/cmdline", pid)) != "" {
				return false, "it runs"
			}
		}
		return true, ""
	})
}

// libvirtVanish: guests that come and go while homenode looks, adopts and pins.
func libvirtVanish(t *lab.T) {
	sixGuests(t)
	was := whereVMs(six)
	file := xmlFile(t, "brief", plainXML("brief", ""))
	remove("brief")
	var stop atomic.Bool
	gone := make(chan int)
	go func() {
		n := 0
		for ; !stop.Load(); n++ {
			virsh("define", file)
			time.Sleep(time.Duration(n%4) * 500 * time.Millisecond) // there for a look, a change, or neither
			virsh("undefine", "brief")
		}
		remove("brief")
		gone <- n
	}()
	seen := 0
	adopted := 0
	refused := 0
	const rounds = 5
	for range rounds {
		r := t.Must(vmCommand("list"), lab.ExitOK)
		if strings.Contains(r.Out, "brief") {
			seen++
		}
		switch r := vmCommand("adopt", "brief"); {
		case r.Exit == lab.ExitOK:
			adopted++
		default:
			saysWhy(t, r, lab.ExitNo)
			refused++
		}
	}
	stop.Store(true)
	times := <-gone
	unmoved(t, "while another came and went", six, was)
	t.Textf("came and went %d times: seen %d, adopted %d, refused %d times in %d", times, seen, adopted, refused,
		rounds)
}

// libvirtUnprivileged: who may not use libvirt is told so in one line.
func libvirtUnprivileged(t *lab.T) {
	sixGuests(t)
	was := whereVMs(six)
	for _, args := range [][]string{{"list"}, {"move", "sa"}, {"adopt", "--all"}} {
		saysWhy(t, vmCommandAs(lab.ViaNobody, args...), lab.ExitForbidden)
	}
	unmoved(t, "after nobody tried", six, was)
}

// libvirtDestroy: a guest that is gone leaves its room to the next.
func libvirtDestroy(t *lab.T) {
	sixGuests(t)
	define := func() lab.Result {
		return vmCommand("define", "--emulated", "--flavor", "wide", "--name", "second", "--disk",
			image(t, "second")+",format=raw")
	}
	saysWhy(t, define(), lab.ExitNo)
	t.Must(virsh("destroy", "wide"), lab.ExitOK)
	// Defined, it keeps its CPUs for its next start.
	saysWhy(t, define(), lab.ExitNo)
	t.Must(virsh("undefine", "wide"), lab.ExitOK)
	t.Defer(func() { remove("second") })
	t.Must(define(), lab.ExitOK)
	t.Textf("the room of wide went to another")
}
