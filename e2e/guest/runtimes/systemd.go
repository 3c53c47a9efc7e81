//go:build linux

package runtimes

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// Where the program and its unit go.
const (
	Installed     = "/usr/local/bin/homenode"
	installedUnit = "/etc/systemd/system/homenode.service"
)

// Show is a property of a unit as systemd tells it.
func Show(t *lab.T, unit, property string) string {
	return strings.TrimSpace(t.Command("systemctl", "show", "-p", property, "--value", unit))
}

// Install puts the program and its unit in place, and has the daemon
// enforce.
func Install(t *lab.T) {
	for _, f := range []struct {
		from, to string
		mode     os.FileMode
	}{{lab.HomenodeBin, Installed, 0o755}, {"/e2e/homenode.service", installedUnit, 0o644}} {
		b, err := os.ReadFile(f.from)
		t.Do(err)
		t.Do(os.MkdirAll(f.to[:strings.LastIndex(f.to, "/")], 0o755))
		os.Remove(f.to) // it may run
		t.Do(os.WriteFile(f.to, b, f.mode))
	}
	configure(t, "e2e")
	t.Command("systemctl", "daemon-reload")
	t.OnFailure(func() {
		log := lab.Capture([]string{"journalctl", "-u", "homenode", "--no-pager", "-o", "cat"}, "")
		t.LogLines("journal", log.Out, 40)
		t.LogLines("status", lab.Capture([]string{Installed, "status"}, "").Out, 20)
	})
}

// configure writes the configuration of the unit, with patterns of what is left alone.
func configure(t *lab.T, exclude string) {
	t.Do(os.WriteFile("/etc/homenode.yaml",
		[]byte("mode: enforce\nmanage: {min_memory: 16MiB, exclude: ["+exclude+
			"]}\nbalance: {enabled: false}\nmove: {bandwidth: 1GiB}\n"), 0o644))
}

// serve runs a walker as a service with further options of systemd-run, and gives its
// cgroup's folder.
func serve(t *lab.T, slice, name, walker string, options ...string) string {
	argv := append([]string{"systemd-run", "-q", "--unit=" + name, "--slice=" + slice}, options...)
	// Its input must stay open.
	t.Command(append(argv, "/bin/sh", "-c", "/bin/sleep infinity | /e2e/walker --burst 2048 --sleep 3ms "+walker)...)
	t.Defer(func() { lab.Capture([]string{"systemctl", "stop", name}, "") })
	return lab.CgroupRoot + "/" + slice + "/" + name + ".service"
}

// awaitSet waits until a CPU set, "" for none, stands in the cgroup.
func awaitSet(t *lab.T, dir string, ok func(cpus string) bool) (cpus string) {
	t.Poll(lab.SystemdLimit, time.Second, "the CPU set of "+dir, func() (bool, string) {
		cpus = lab.ReadText(dir + "/cpuset.cpus")
		return ok(cpus), "it is " + cpus
	})
	return cpus
}

// oneNode reports whether a set is all the CPUs of a node.
func oneNode(cpus string) bool { return slices.Contains([]string{"0-3", "4-7", "8-11", "12-15"}, cpus) }

// told is how many lines of the history about the workload in a cgroup have a code.
func told(t *lab.T, dir, code string) (n int) {
	for _, e := range t.Events(t.Command(Installed, "history", "--json", "--limit", "0")) {
		if e.Workload == strings.TrimPrefix(dir, lab.CgroupRoot) && e.Code == code {
			n++
		}
	}
	return n
}

func pidOfUnit(t *lab.T) string { return Show(t, "homenode", "MainPID") }

// Answers waits until the daemon does, as another process than before.
func Answers(t *lab.T, before string) {
	t.Poll(lab.SystemdLimit, time.Second, "homenode.service answers", func() (bool, string) {
		now := pidOfUnit(t)
		r := lab.Capture([]string{Installed, "status", "--json"}, "status")
		return now != "0" && now != before && r.Exit == lab.ExitOK, fmt.Sprintf("MainPID %s, %s", now, r)
	})
}

// systemdUnit: the unit that ships does its work in its sandbox.
func systemdUnit(t *lab.T) {
	Install(t)
	db := serve(t, "system.slice", "db", "--slot 1 --mib 64 --threads 2 --place bind:3 --unbind")
	web := serve(t, "system.slice", "web", "--slot 3 --mib 32 --threads 1 --place interleave --unbind")
	t.Command("systemctl", "start", "homenode")
	t.Defer(func() { lab.Capture([]string{"systemctl", "stop", "homenode"}, "") })
	if s := Show(t, "homenode", "ActiveState"); s != "active" {
		t.Fatalf("homenode.service is %s", s)
	}
	homes := []string{awaitSet(t, db, oneNode), awaitSet(t, web, oneNode)}
	t.Poll(lab.SystemdLimit, time.Second, "the spread memory is at home", func() (bool, string) {
		return told(t, web, "move-ended") > 0, "no page move has ended"
	})
	for _, file := range []string{"/run/homenode/homenode.sock", "/var/lib/homenode/homenode.db"} {
		if _, err := os.Stat(file); err != nil {
			t.Fatalf("%v", err)
		}
	}

	before := pidOfUnit(t)
	t.Command("systemctl", "restart", "homenode")
	Answers(t, before)
	before = pidOfUnit(t)
	t.Command("systemctl", "kill", "-s", "KILL", "--kill-whom=main", "homenode")
	Answers(t, before)
	if n := Show(t, "homenode", "NRestarts"); n != "1" {
		t.Fatalf("systemd restarted it %s times", n)
	}
	now := []string{lab.ReadText(db + "/cpuset.cpus"), lab.ReadText(web + "/cpuset.cpus")}
	if !slices.Equal(now, homes) {
		t.Fatalf("after a restart and a kill: %q, was %q", now, homes)
	}
	t.Command("systemctl", "stop", "homenode")
	if r := Show(t, "homenode", "Result"); r != "success" {
		t.Fatalf("stopped with %s", r)
	}
	said := t.Command("journalctl", "-u", "homenode", "--no-pager", "-o", "cat")
	for _, bad := range []string{"not permitted", "denied", "not implemented", "level=ERROR", " failed"} {
		for line := range strings.Lines(said) {
			if strings.Contains(line, bad) {
				t.Fatalf("the journal has: %s", line)
			}
		}
	}
	t.Command(Installed, "undo", "--all")
	awaitSet(t, db, func(cpus string) bool { return cpus == "" })
	t.Command(Installed, "resume", "--all")
	t.Textf("at home on %s, restarted, killed, stopped, undone", strings.Join(homes, " and "))
}

// systemdCpusets: homenode's CPU sets stand beside systemd's own.
func systemdCpusets(t *lab.T) {
	Install(t)
	admin := serve(t, "system.slice", "admin", "--slot 2 --mib 32 --threads 1 --place bind:0 --unbind", "-p",
		"AllowedCPUs=4-7")
	db := serve(t, "system.slice", "db", "--slot 1 --mib 64 --threads 2 --place bind:3 --unbind")
	t.Command("systemctl", "start", "homenode")
	t.Defer(func() {
		lab.Capture([]string{"systemctl", "stop", "homenode"}, "")
		lab.Capture([]string{Installed, "undo", "--all"}, "")
		lab.Capture([]string{Installed, "resume", "--all"}, "")
	})
	home := awaitSet(t, db, oneNode)
	t.Command("systemctl", "daemon-reload")
	awaitSet(t, db, func(cpus string) bool { return cpus == home })
	// A change of another property makes systemd write all of a slice's cgroups anew.
	t.Command("systemctl", "set-property", "--runtime", "db.service", "CPUWeight=50")
	awaitSet(t, db, func(cpus string) bool { return cpus == home })
	lab.Warm(30 * time.Second)
	steps := told(t, db, "step-took")
	if now := lab.ReadText(db + "/cpuset.cpus"); now != home || steps > 6 {
		t.Fatalf("db is on %q, was on %s; its CPU set was written %d times", now, home, steps)
	}
	if now := lab.ReadText(admin + "/cpuset.cpus"); now != "4-7" {
		t.Fatalf("the CPUs that AllowedCPUs gave are now %q", now)
	}
	var s lab.Status
	t.Do(json.Unmarshal([]byte(t.Command(Installed, "status", "--json")), &s))
	if _, state, why := s.Of(strings.TrimPrefix(admin, lab.CgroupRoot)); state != "left alone" {
		t.Fatalf("the service with AllowedCPUs is %s: %s", state, why)
	}
	t.Textf("AllowedCPUs left alone, db on %s written %d times", home, steps)
}

// systemdHost: host prepare by systemd's AllowedCPUs, its undo without and by the
// daemon in its sandbox; the daemon, confined itself by then, places on all CPUs.
func systemdHost(t *lab.T) {
	Install(t)
	configure(t, "e2e, /system.slice/**") // what has a home there would be in the way of preparing once more
	units := []string{"system.slice", "init.scope"}
	state := func() string {
		s := ""
		for _, u := range units {
			s += fmt.Sprintf("%s: %s, %s, %s\n", u, Show(t, u, "AllowedCPUs"),
				lab.ReadText(lab.CgroupRoot+"/"+u+"/cpuset.cpus"),
				lab.ReadText(lab.CgroupRoot+"/"+u+"/cpuset.cpus.effective"))
		}
		return s
	}
	// cpuset is on
	serve(t, "system.slice", "db", "--slot 1 --mib 32 --threads 1 --place local", "-p", "AllowedMemoryNodes=0-3")
	before, settings := state(), lab.HostSettings()
	report := lab.Capture([]string{Installed, "host", "report"}, "host report")
	if !strings.Contains(report.Out, "system.slice") {
		t.Fatalf("%s", report)
	}
	t.Command(Installed, "host", "prepare")
	const reserve = "0-1,4-5,8-9,12-13"
	prepared := state()
	for _, u := range units {
		if now := strings.ReplaceAll(Show(t, u, "AllowedCPUs"), " ", ","); now != reserve {
			t.Fatalf("AllowedCPUs of %s is %q", u, now)
		}
		if now := lab.ReadText(lab.CgroupRoot + "/" + u + "/cpuset.cpus.effective"); now != reserve {
			t.Fatalf("%s runs on %q", u, now)
		}
	}
	t.Command("systemctl", "daemon-reload")
	if now := state(); now != prepared {
		t.Fatalf("after daemon-reload: %s, was %s", now, prepared)
	}
	t.Command(Installed, "host", "prepare", "--undo")
	if now := state(); now != before {
		t.Fatalf("after undo: %s, was %s", now, before)
	}
	t.Same("after undo", settings, lab.HostSettings(), lab.All)

	t.Command(Installed, "host", "prepare")
	t.Command("systemctl", "start", "homenode")
	t.Defer(func() {
		lab.Capture([]string{"systemctl", "stop", "homenode"}, "")
		lab.Capture([]string{Installed, "undo", "--all"}, "")
		lab.Capture([]string{Installed, "resume", "--all"}, "")
	})
	t.Command(Installed, "undo", "host")
	if now := state(); now != before {
		t.Fatalf("after undo by the daemon: %s, was %s", now, before)
	}
	t.Command(Installed, "host", "prepare") // by the daemon
	if now := state(); now != prepared {
		t.Fatalf("prepared by the daemon: %s, want %s", now, prepared)
	}
	app := serve(t, "app.slice", "app", "--slot 4 --mib 32 --threads 1 --place interleave --unbind")
	home := awaitSet(t, app, oneNode)
	t.Command(Installed, "undo", "host")
	if now := state(); now != before {
		t.Fatalf("after undo by the daemon: %s, was %s", now, before)
	}
	t.Same("after undo by the daemon", settings, lab.HostSettings(), lab.All)
	t.Textf("prepared and undone twice; app on %s", home)
}
