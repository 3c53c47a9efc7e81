//go:build linux

package runtimes

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// systemContainers is a program that runs system containers with liblxc: Incus or LXD.
type systemContainers struct {
	name   string   // of its instances: NAME:web
	unit   string   // of systemd
	client string   // its command
	admin  []string // its command for administrators
}

var (
	incus = systemContainers{"incus", "incus", "incus", []string{"incus", "admin"}}
	lxd   = systemContainers{"lxd", "lxd", "lxc", []string{"lxd"}}
)

// startUp starts the daemon with a storage pool and the image of the disk.
func (s systemContainers) startUp(t *lab.T) {
	t.OnFailure(func() {
		log := lab.Capture([]string{"journalctl", "-u", s.unit, "--no-pager", "-o", "cat"}, "")
		t.LogLines(s.unit, log.Out, 30)
	})
	t.Command("systemctl", "start", s.unit)
	t.Defer(func() { lab.Capture([]string{"systemctl", "stop", s.unit + ".socket", s.unit}, "") })
	t.Command("/bin/sh", "-c", strings.Join(s.admin, " ")+" init --preseed </etc/preseed.yaml")
	t.Command(s.client, "image", "import", "/image.tar", "--alias", "e2e")
}

// launch starts a container with a walker and further configuration.
func (s systemContainers) launch(t *lab.T, name, walker string, config ...string) lab.Group {
	argv := []string{s.client, "launch", "e2e", name, "-c", "environment.WALK=--burst 2048 --sleep 3ms " + walker}
	for _, c := range config {
		argv = append(argv, "-c", c)
	}
	t.Defer(func() { lab.CaptureFor(lab.SystemdLimit, []string{s.client, "delete", "--force", name}, "") })
	t.Command(argv...)
	return lab.Group(lab.CgroupRoot + "/lxc.payload." + name)
}

// walkerIn waits until the walker of a container has filled its memory, and returns its process.
func walkerIn(t *lab.T, g lab.Group, mib int) (pid int) {
	t.Poll(lab.SystemdLimit, time.Second, "the walker in "+g.Path()+" has its memory", func() (bool, string) {
		for _, pid = range t.PIDsIn(g) {
			if lab.ReadText(fmt.Sprintf("/proc/%d/comm", pid)) != "walker" {
				continue
			}
			anon, err := lab.AnonByNode(pid)
			t.Do(err)
			pages := 0
			for _, n := range anon {
				pages += n
			}
			return pages >= mib<<20/lab.PageSize, fmt.Sprintf("%d pages", pages)
		}
		return false, "no walker"
	})
	return pid
}

// atOneNode waits until the cgroup of a container has the CPUs of one node, and its walker's memory is there.
func atOneNode(t *lab.T, g lab.Group, pid int) (home lab.Set) {
	t.Poll(2*lab.SystemdLimit, time.Second, g.Path()+" is at home", func() (bool, string) {
		cpus := t.Set(lab.ReadText(g.File("cpuset.cpus")))
		home = t.NodesOf(cpus)
		anon, err := lab.AnonByNode(pid)
		t.Do(err)
		is := home.Size() == 1 && cpus == lab.CPUsOf(home) && lab.Share(anon, home) >= 0.99
		return is, fmt.Sprintf("its CPUs are %s, its memory is %s", cpus, lab.ByNodeText(anon))
	})
	return home
}

// systemContainersHome: a container of Incus or LXD is called by its name, comes to one node with its memory, also
// once the other program has written all CPUs into its cgroup or started it anew, and has its old CPUs after an undo.
// One with limits.cpu is left alone.
func systemContainersHome(t *lab.T, s systemContainers) {
	os.RemoveAll("/var/lib/homenode")
	Install(t)
	s.startUp(t)
	const spread = " --place interleave --unbind"
	web := s.launch(t, "web", "--slot 1 --mib 64 --threads 2"+spread, "user.homenode.cpus=2")
	limited := s.launch(t, "limited", "--slot 2 --mib 32 --threads 1"+spread, "limits.cpu=2")
	pid := walkerIn(t, web, 64)
	walkerIn(t, limited, 32)
	before, chosen := t.Read(web.File("cpuset.cpus")), t.Read(limited.File("cpuset.cpus"))

	t.Command("systemctl", "start", "homenode")
	t.Defer(func() { lab.Capture([]string{"systemctl", "stop", "homenode"}, "") })
	start := time.Now()
	home := atOneNode(t, web, pid)
	took := time.Since(start)
	t.Poll(lab.SystemdLimit, time.Second, s.name+":web is in status with its key", func() (bool, string) {
		text := t.Command(Installed, "status", "--json")
		var status lab.Status
		t.Do(json.Unmarshal([]byte(text), &status))
		for _, w := range status.Workloads {
			if w.ID == s.name+":web" {
				is := w.CPUs == 2 && w.Home == home.String()
				return is, fmt.Sprintf("%d CPUs, home %q", w.CPUs, w.Home)
			}
		}
		return false, t.Command(Installed, "status")
	})
	if said := t.Command(Installed, "explain", "limited"); !strings.Contains(said, "limits.cpu: 2") {
		t.Fatalf("explain does not say why %s:limited is left alone: %s", s.name, said)
	}
	if now := t.Read(limited.File("cpuset.cpus")); now != chosen {
		t.Fatalf("%s chose CPUs %s for limited, now it has %s", s.name, chosen, now)
	}

	// Another instance: the CPUs of all are written anew.
	late := s.launch(t, "late", "--slot 3 --mib 32 --threads 1"+spread)
	atOneNode(t, late, walkerIn(t, late, 32))
	if now := atOneNode(t, web, pid); now != home {
		t.Fatalf("web was at home on node %s, and is on %s once another has started", home, now)
	}
	t.Command(s.client, "restart", "--force", "web")
	pid = walkerIn(t, web, 64)
	again := atOneNode(t, web, pid)

	t.Command(Installed, "undo", "--all")
	t.Defer(func() { lab.Capture([]string{Installed, "resume", "--all"}, "") })
	if now := t.Read(web.File("cpuset.cpus")); now != before {
		t.Fatalf("after undo --all web has CPUs %q, before homenode it had %q", now, before)
	}
	t.Textf("%s:web at home on node %s after %.0f s, on %s once restarted, CPUs %q again after an undo",
		s.name, home, took.Seconds(), again, before)
}
