//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Where the program and its unit go.
const (
	installed     = "/usr/local/bin/homenode"
	installedUnit = "/etc/systemd/system/homenode.service"
)

// show is a property of a unit as systemd tells it.
func (t *T) show(unit, property string) string {
	return strings.TrimSpace(t.command("systemctl", "show", "-p", property, "--value", unit))
}

// install puts the program and its unit in place, and has the daemon
// enforce.
func (t *T) install() {
	for _, f := range []struct {
		from, to string
		mode     os.FileMode
	}{{homenodeBin, installed, 0o755}, {"/e2e/homenode.service", installedUnit, 0o644}} {
		b, err := os.ReadFile(f.from)
		t.Do(err)
		t.Do(os.MkdirAll(f.to[:strings.LastIndex(f.to, "/")], 0o755))
		os.Remove(f.to) // it may run
		t.Do(os.WriteFile(f.to, b, f.mode))
	}
	t.configure("e2e")
	t.command("systemctl", "daemon-reload")
	t.OnFailure(func() {
		t.logLines("journal", capture([]string{"journalctl", "-u", "homenode", "--no-pager", "-o", "cat"}, "").out, 40)
		t.logLines("status", capture([]string{installed, "status"}, "").out, 20)
	})
}

// configure writes the configuration of the unit, with patterns of what is left alone.
func (t *T) configure(exclude string) {
	t.Do(os.WriteFile("/etc/homenode.yaml", []byte("mode: enforce\nmanage: {min_memory: 16MiB, exclude: ["+exclude+"]}\nbalance: {enabled: false}\nmove: {bandwidth: 1GiB}\n"), 0o644))
}

// serve runs a walker as a service with further options of systemd-run, and gives its
// cgroup's folder.
func (t *T) serve(slice, name, walker string, options ...string) string {
	argv := append([]string{"systemd-run", "-q", "--unit=" + name, "--slice=" + slice}, options...)
	// Its input must stay open.
	t.command(append(argv, "/bin/sh", "-c", "/bin/sleep infinity | /e2e/walker --burst 2048 --sleep 3ms "+walker)...)
	t.Defer(func() { capture([]string{"systemctl", "stop", name}, "") })
	return cgroupRoot + "/" + slice + "/" + name + ".service"
}

// awaitSet waits until a CPU set, "" for none, stands in the cgroup.
func (t *T) awaitSet(dir string, ok func(cpus string) bool) (cpus string) {
	t.until(systemdLimit, time.Second, "the CPU set of "+dir, func() (bool, string) {
		cpus = readText(dir + "/cpuset.cpus")
		return ok(cpus), "it is " + cpus
	})
	return cpus
}

// oneNode reports whether a set is all the CPUs of a node.
func oneNode(cpus string) bool { return slices.Contains([]string{"0-3", "4-7", "8-11", "12-15"}, cpus) }

// told is how many lines of the history about the workload in a cgroup have a code.
func (t *T) told(dir, code string) (n int) {
	for _, e := range t.events(t.command(installed, "history", "--json", "--limit", "0")) {
		if e.Workload == strings.TrimPrefix(dir, cgroupRoot) && e.Code == code {
			n++
		}
	}
	return n
}

func (t *T) pidOfUnit() string { return t.show("homenode", "MainPID") }

// answers waits until the daemon does, as another process than before.
func (t *T) answers(before string) {
	t.until(systemdLimit, time.Second, "homenode.service answers", func() (bool, string) {
		now := t.pidOfUnit()
		r := capture([]string{installed, "status", "--json"}, "status")
		return now != "0" && now != before && r.exit == exitOK, fmt.Sprintf("MainPID %s, %s", now, r)
	})
}

// systemdUnit: the unit that ships does its work in its sandbox.
func systemdUnit(t *T) {
	t.install()
	db := t.serve("system.slice", "db", "--slot 1 --mib 64 --threads 2 --place bind:3 --unbind")
	web := t.serve("system.slice", "web", "--slot 3 --mib 32 --threads 1 --place interleave --unbind")
	t.command("systemctl", "start", "homenode")
	t.Defer(func() { capture([]string{"systemctl", "stop", "homenode"}, "") })
	if s := t.show("homenode", "ActiveState"); s != "active" {
		t.Fatalf("homenode.service is %s", s)
	}
	homes := []string{t.awaitSet(db, oneNode), t.awaitSet(web, oneNode)}
	t.until(systemdLimit, time.Second, "the spread memory is at home", func() (bool, string) {
		return t.told(web, "move-ended") > 0, "no page move has ended"
	})
	for _, file := range []string{"/run/homenode/homenode.sock", "/var/lib/homenode/homenode.db"} {
		if _, err := os.Stat(file); err != nil {
			t.Fatalf("%v", err)
		}
	}

	before := t.pidOfUnit()
	t.command("systemctl", "restart", "homenode")
	t.answers(before)
	before = t.pidOfUnit()
	t.command("systemctl", "kill", "-s", "KILL", "--kill-whom=main", "homenode")
	t.answers(before)
	if n := t.show("homenode", "NRestarts"); n != "1" {
		t.Fatalf("systemd restarted it %s times", n)
	}
	if now := []string{readText(db + "/cpuset.cpus"), readText(web + "/cpuset.cpus")}; !slices.Equal(now, homes) {
		t.Fatalf("after a restart and a kill: %q, was %q", now, homes)
	}
	t.command("systemctl", "stop", "homenode")
	if r := t.show("homenode", "Result"); r != "success" {
		t.Fatalf("stopped with %s", r)
	}
	said := t.command("journalctl", "-u", "homenode", "--no-pager", "-o", "cat")
	for _, bad := range []string{"not permitted", "denied", "not implemented", "level=ERROR", " failed"} {
		for line := range strings.Lines(said) {
			if strings.Contains(line, bad) {
				t.Fatalf("the journal has: %s", line)
			}
		}
	}
	t.command(installed, "undo", "--all")
	t.awaitSet(db, func(cpus string) bool { return cpus == "" })
	t.command(installed, "resume", "--all")
	t.Textf("at home on %s, restarted, killed, stopped, undone", strings.Join(homes, " and "))
}

// systemdCpusets: homenode's CPU sets stand beside systemd's own.
func systemdCpusets(t *T) {
	t.install()
	admin := t.serve("system.slice", "admin", "--slot 2 --mib 32 --threads 1 --place bind:0 --unbind", "-p", "AllowedCPUs=4-7")
	db := t.serve("system.slice", "db", "--slot 1 --mib 64 --threads 2 --place bind:3 --unbind")
	t.command("systemctl", "start", "homenode")
	t.Defer(func() {
		capture([]string{"systemctl", "stop", "homenode"}, "")
		capture([]string{installed, "undo", "--all"}, "")
		capture([]string{installed, "resume", "--all"}, "")
	})
	home := t.awaitSet(db, oneNode)
	t.command("systemctl", "daemon-reload")
	t.awaitSet(db, func(cpus string) bool { return cpus == home })
	// A change of another property makes systemd write all of a slice's cgroups anew.
	t.command("systemctl", "set-property", "--runtime", "db.service", "CPUWeight=50")
	t.awaitSet(db, func(cpus string) bool { return cpus == home })
	warm(30 * time.Second)
	steps := t.told(db, "step-took")
	if now := readText(db + "/cpuset.cpus"); now != home || steps > 6 {
		t.Fatalf("db is on %q, was on %s; its CPU set was written %d times", now, home, steps)
	}
	if now := readText(admin + "/cpuset.cpus"); now != "4-7" {
		t.Fatalf("the CPUs that AllowedCPUs gave are now %q", now)
	}
	var s status
	t.Do(json.Unmarshal([]byte(t.command(installed, "status", "--json")), &s))
	if _, state, why := s.of(strings.TrimPrefix(admin, cgroupRoot)); state != "left alone" {
		t.Fatalf("the service with AllowedCPUs is %s: %s", state, why)
	}
	t.Textf("AllowedCPUs left alone, db on %s written %d times", home, steps)
}

// systemdHost: host prepare by systemd's AllowedCPUs, its undo without and by the
// daemon in its sandbox; the daemon, confined itself by then, places on all CPUs.
func systemdHost(t *T) {
	t.install()
	t.configure("e2e, /system.slice/**") // what has a home there would be in the way of preparing once more
	units := []string{"system.slice", "init.scope"}
	state := func() string {
		s := ""
		for _, u := range units {
			s += fmt.Sprintf("%s: %s, %s, %s\n", u, t.show(u, "AllowedCPUs"), readText(cgroupRoot+"/"+u+"/cpuset.cpus"), readText(cgroupRoot+"/"+u+"/cpuset.cpus.effective"))
		}
		return s
	}
	t.serve("system.slice", "db", "--slot 1 --mib 32 --threads 1 --place local", "-p", "AllowedMemoryNodes=0-3") // cpuset is on
	before, settings := state(), hostSettings()
	report := capture([]string{installed, "host", "report"}, "host report")
	if !strings.Contains(report.out, "system.slice") {
		t.Fatalf("%s", report)
	}
	t.command(installed, "host", "prepare")
	const reserve = "0-1,4-5,8-9,12-13"
	prepared := state()
	for _, u := range units {
		if now := strings.ReplaceAll(t.show(u, "AllowedCPUs"), " ", ","); now != reserve {
			t.Fatalf("AllowedCPUs of %s is %q", u, now)
		}
		if now := readText(cgroupRoot + "/" + u + "/cpuset.cpus.effective"); now != reserve {
			t.Fatalf("%s runs on %q", u, now)
		}
	}
	t.command("systemctl", "daemon-reload")
	if now := state(); now != prepared {
		t.Fatalf("after daemon-reload: %s, was %s", now, prepared)
	}
	t.command(installed, "host", "prepare", "--undo")
	if now := state(); now != before {
		t.Fatalf("after undo: %s, was %s", now, before)
	}
	t.same("after undo", settings, hostSettings(), all)

	t.command(installed, "host", "prepare")
	t.command("systemctl", "start", "homenode")
	t.Defer(func() {
		capture([]string{"systemctl", "stop", "homenode"}, "")
		capture([]string{installed, "undo", "--all"}, "")
		capture([]string{installed, "resume", "--all"}, "")
	})
	t.command(installed, "undo", "host")
	if now := state(); now != before {
		t.Fatalf("after undo by the daemon: %s, was %s", now, before)
	}
	t.command(installed, "host", "prepare") // by the daemon
	if now := state(); now != prepared {
		t.Fatalf("prepared by the daemon: %s, want %s", now, prepared)
	}
	app := t.serve("app.slice", "app", "--slot 4 --mib 32 --threads 1 --place interleave --unbind")
	home := t.awaitSet(app, oneNode)
	t.command(installed, "undo", "host")
	if now := state(); now != before {
		t.Fatalf("after undo by the daemon: %s, was %s", now, before)
	}
	t.same("after undo by the daemon", settings, hostSettings(), all)
	t.Textf("prepared and undone twice; app on %s", home)
}
