//go:build linux

package main

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
)

func init() {
	tests["libvirt.move"] = libvirtMove
	tests["libvirt.adopt"] = libvirtAdopt
	tests["libvirt.restart"] = libvirtRestart
	tests["libvirt.vanish"] = libvirtVanish
	tests["libvirt.unprivileged"] = libvirtUnprivileged
	tests["libvirt.destroy"] = libvirtDestroy
}

// where is all that homenode decides about a guest, as /proc has it.
type where struct {
	pid     int
	threads string // which CPUs its threads may use
	nodes   set    // that hold 99 % of its memory
}

func whereIs(v *vm) where {
	w := where{pid: v.pid()}
	threads := v.threads()
	for _, name := range slices.Sorted(maps.Keys(threads)) {
		w.threads += fmt.Sprintf("%q on %s; ", name, union(threads[name]))
	}
	anon, _ := anonByNode(w.pid)
	for n := range anon {
		if share(anon, setOf(n)) >= 0.01 {
			w.nodes |= setOf(n)
		}
	}
	return w
}

func whereAll(vms []*vm) map[string]where {
	r := map[string]where{}
	for _, v := range vms {
		r[v.name] = whereIs(v)
	}
	return r
}

// unmoved fails the test when a guest is not as it was.
func (t *T) unmoved(when string, vms []*vm, was map[string]where) {
	for _, v := range vms {
		if is := whereIs(v); is != was[v.name] || is.pid == 0 {
			t.Fatalf("%s: %s was %+v, is %+v", when, v.name, was[v.name], is)
		}
	}
}

// saysWhy fails the test unless a command failed with one line that says why.
func (t *T) saysWhy(r result, exits ...int) {
	said := strings.TrimSpace(r.err)
	if !slices.Contains(exits, r.exit) || said == "" || strings.Contains(said, "\n") || strings.Contains(said, "goroutine") {
		t.Fatalf("%s; wanted status %v and one line that says why", r, exits)
	}
	t.Logf("%s: status %d, %s", r.args, r.exit, said)
}

// libvirtMove: a shared guest moves with its memory while it runs, and comes up
// there when it is started again; nobody else moves.
func libvirtMove(t *T) {
	t.sixGuests()
	sa := six[3]
	was := whereAll(six)
	from := was["sa"].nodes
	// Where another shared guest is there are CPUs to float over.
	to := was["sb"].nodes
	if to == from {
		to = was["sc"].nodes
	}
	if from.size() != 1 || to.size() != 1 || to == from {
		t.Fatalf("sa on nodes %s; where would it go? %+v", from, was)
	}
	start := time.Now()
	t.must(vmCommand("move", "sa", "--nodes", to.String()), exitOK)
	took := time.Since(start)
	floats := union(t.vcpus(sa))
	if t.nodesOf(floats) != to {
		t.Fatalf("sa went to node %s; its vCPUs may use CPUs %s", to, floats)
	}
	var others set
	for _, v := range six {
		if v.dedicated() {
			others |= union(t.vcpus(v))
		}
	}
	t.until(vmLimit, time.Second, "its memory follows", func() (bool, string) {
		anon, _ := anonByNode(sa.pid())
		return share(anon, to) >= 0.99, byNodeText(anon)
	})
	t.floatsAtHome(sa, others)
	if sa.pid() != was["sa"].pid {
		t.Fatalf("sa was started anew")
	}
	rest := slices.DeleteFunc(slices.Clone(six), func(v *vm) bool { return v == sa })
	t.unmoved("after sa moved", rest, was)
	// Once more changes nothing; a dedicated guest waits for its next start.
	t.must(vmCommand("move", "sa", "--nodes", to.String()), exitOK)
	r := vmCommand("move", "house", "--nodes", "1")
	if r.exit != exitNo && r.exit != exitOK {
		t.Fatalf("%s", r)
	}
	t.Logf("house: %s%s", strings.TrimSpace(r.out), strings.TrimSpace(r.err))
	t.unmoved("after house was asked to", rest, was)
	t.Textf("node %s to node %s in %.1f s, all its memory with it", from, to, took.Seconds())
}

// plainXML is a guest as somebody writes it who has not heard of homenode.
func plainXML(name, more string) string {
	return fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>48</memory><vcpu>1</vcpu>%s
<os><type arch='x86_64' machine='pc'>hvm</type><loader readonly='yes' type='rom'>/e2e/pacer</loader></os><features><acpi/><apic/></features>
<devices><emulator>/usr/bin/qemu-system-x86_64</emulator><controller type='usb' model='none'/><memballoon model='none'/></devices></domain>`, name, more)
}

func (t *T) xmlFile(name, text string) string {
	file := workFolder + "/" + name + ".xml"
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
func (t *T) strangers() {
	for v, more := range map[*vm]string{plain: "", pinned: fmt.Sprintf("<cputune><vcpupin vcpu='0' cpuset='%s'/></cputune>", byHand)} {
		if !v.runs() && virsh("domstate", v.name).exit != exitOK {
			t.must(virsh("define", t.xmlFile(v.name, plainXML(v.name, more))), exitOK)
		}
	}
	t.start([]*vm{plain, pinned})
}

// libvirtAdopt: a guest of plain virsh gets a home for its next start, and is as it
// was once released; one bound by hand is left alone and named, and so is what
// cannot be read.
func libvirtAdopt(t *T) {
	t.sixGuests()
	t.strangers()
	was, theirs := whereAll(six), whereIs(pinned)
	before := t.must(virsh("dumpxml", "--inactive", "plain"), exitOK).out
	bound := func() bool {
		xml := t.must(virsh("dumpxml", "--inactive", "plain"), exitOK).out
		return strings.Contains(xml, "homenode") && strings.Contains(xml, "<memory mode='restrictive'") && strings.Contains(xml, "cpuset=")
	}
	r := t.must(vmCommand("adopt", "--all"), exitNo)
	if !strings.Contains(r.err, "pinned") || !strings.Contains(r.out, "plain") || !bound() {
		t.Fatalf("%s", r)
	}
	t.must(vmCommand("release", "plain"), exitOK)
	if after := t.must(virsh("dumpxml", "--inactive", "plain"), exitOK).out; after != before {
		t.Fatalf("plain was defined as %s; adopted and released, as %s", before, after)
	}
	if t.must(vmCommand("adopt", "plain"), exitOK); !bound() {
		t.Fatalf("plain was not adopted again")
	}
	if is := whereIs(pinned); is != theirs {
		t.Fatalf("pinned was %+v, is %+v", theirs, is)
	}
	t.unmoved("after adopting", six, was)
	// XML that is none, or no guest's.
	for _, text := range []string{"", "<domain", "<network/>", "<domain><name>x</name><vcpu>none</vcpu></domain>"} {
		t.saysWhy(vmCommand("list", "--synthetic", "node:2 core:2", "--running", t.xmlFile("broken", text)), exitUsage)
	}
	t.Textf("%s; %s", strings.TrimSpace(r.out), strings.TrimSpace(r.err))
}

// libvirtRestart: libvirtd, libvirt-dbus and the bus go away and come back. homenode
// says so in one line, and then knows everything again.
func libvirtRestart(t *T) {
	freshState()
	t.sixGuests()
	was := whereAll(six)
	list := t.must(vmCommand("list", "--json"), exitOK).out
	again := func(what string) {
		t.until(vmLimit, time.Second, what+" is back", func() (bool, string) {
			// libvirtd ends when the bus does; what starts daemons would start it again.
			if len(t.processes("libvirtd")) == 0 {
				t.launch("libvirtd", "-d")
			}
			r := vmCommand("list", "--json")
			return r.exit == exitOK && r.out == list, r.String()
		})
		t.unmoved(what+" was away", six, was)
	}
	for _, c := range []struct {
		name, program string
		start         []string
	}{
		{"libvirtd", "libvirtd", []string{"libvirtd", "-d"}},
		{"libvirt-dbus", "libvirt-dbus", nil}, // the bus starts it
		{"the bus", "dbus-daemon", []string{"dbus-daemon", "--system"}},
	} {
		t.killAll(c.program)
		if c.start != nil {
			t.saysWhy(vmCommand("list"), exitForbidden)
			os.Remove("/run/dbus/pid")
			t.launch(c.start...)
		}
		again(c.name)
	}
	t.must(vmCommand("move", "sa"), exitOK)
	t.Textf("libvirtd, libvirt-dbus and the bus killed and back")
}

// launch starts a daemon that outlives this test.
func (t *T) launch(argv ...string) {
	c := exec.Command(argv[0], argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	t.Do(c.Run())
}

// processes is those of a program.
func (t *T) processes(program string) []int {
	dirs, err := os.ReadDir("/proc")
	t.Do(err)
	var pids []int
	for _, d := range dirs {
		if pid, err := strconv.Atoi(d.Name()); err == nil && readText("/proc/"+d.Name()+"/comm") == program {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killAll kills the processes of a program and waits until they are gone.
func (t *T) killAll(program string) {
	pids := t.processes(program)
	if len(pids) == 0 {
		t.Fatalf("no %s runs", program)
	}
	for _, pid := range pids {
		t.Do(syscall.Kill(pid, syscall.SIGKILL))
	}
	t.Until(30*time.Second, program+" ends", func() (bool, string) {
		for _, pid := range pids {
			if readText(fmt.Sprintf("/proc/%d/cmdline", pid)) != "" {
				return false, "it runs"
			}
		}
		return true, ""
	})
}

// libvirtVanish: guests that come and go while homenode looks, adopts and pins.
func libvirtVanish(t *T) {
	t.sixGuests()
	was := whereAll(six)
	file := t.xmlFile("brief", plainXML("brief", ""))
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
	seen, adopted, refused := 0, 0, 0
	const rounds = 5
	for range rounds {
		r := t.must(vmCommand("list"), exitOK)
		if strings.Contains(r.out, "brief") {
			seen++
		}
		switch r := vmCommand("adopt", "brief"); {
		case r.exit == exitOK:
			adopted++
		default:
			t.saysWhy(r, exitNo)
			refused++
		}
	}
	stop.Store(true)
	times := <-gone
	t.unmoved("while another came and went", six, was)
	t.Textf("came and went %d times: seen %d, adopted %d, refused %d times in %d", times, seen, adopted, refused, rounds)
}

// libvirtUnprivileged: who may not use libvirt is told so in one line.
func libvirtUnprivileged(t *T) {
	t.sixGuests()
	was := whereAll(six)
	for _, args := range [][]string{{"list"}, {"move", "sa"}, {"adopt", "--all"}} {
		t.saysWhy(vmCommandAs(viaNobody, args...), exitForbidden)
	}
	t.unmoved("after nobody tried", six, was)
}

// libvirtDestroy: a guest that is gone leaves its room to the next.
func libvirtDestroy(t *T) {
	t.sixGuests()
	define := func() result {
		return vmCommand("define", "--emulated", "--flavor", "wide", "--name", "second", "--disk", t.image("second")+",format=raw")
	}
	t.saysWhy(define(), exitNo)
	t.must(virsh("destroy", "wide"), exitOK)
	// Defined, it keeps its CPUs for its next start.
	t.saysWhy(define(), exitNo)
	t.must(virsh("undefine", "wide"), exitOK)
	t.Defer(func() { remove("second") })
	t.must(define(), exitOK)
	t.Textf("the room of wide went to another")
}
