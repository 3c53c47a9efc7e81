//go:build linux

package runtimes

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// A container of each of the two engines, as they are called.
const (
	ofDocker = "shop"
	ofPodman = "stock"
)

// engines starts Docker with the cgroup driver cgroupfs, and a walker in a container of it and in
// one of Podman's; it gives the folders of their cgroups.
func engines(t *lab.T) (docker, podman string) {
	os.RemoveAll(lab.StateFolder)
	t.Command("systemd-run", "-q", "--unit=dockerd", "--slice=system.slice", "-p", "Delegate=yes", "dockerd",
		"--exec-opt", "native.cgroupdriver=cgroupfs",
		"--storage-driver", "vfs", "--bridge=none", "--iptables=false", "--ip6tables=false")
	t.Defer(func() { lab.Capture([]string{"systemctl", "stop", "dockerd"}, "") })
	t.OnFailure(func() {
		log := lab.Capture([]string{"journalctl", "-u", "dockerd", "--no-pager", "-o", "cat"}, "")
		t.LogLines("dockerd", log.Out, 30)
	})
	t.Poll(2*lab.SystemdLimit, time.Second, "Docker answers", func() (bool, string) {
		r := lab.CaptureFor(lab.SystemdLimit, []string{"docker", "version"}, "docker version")
		return r.Exit == lab.ExitOK, r.String()
	})
	walk := func(slot, node int) []string {
		return []string{"--network", "none", "--security-opt", "seccomp=unconfined", "--cap-add", "SYS_NICE", "-v",
			"/e2e:/e2e", "e2e/walker:1",
			"/bin/sh", "-c",
			fmt.Sprintf("/bin/sleep 999999 | /e2e/walker --burst 2048 --sleep 3ms --slot %d --mib 64 --threads 2 "+
				"--place bind:%d --unbind", slot, node)}
	}
	start := func(name string, engine []string, slot, node int) string {
		with := func(more ...string) []string { return append(append([]string{}, engine...), more...) }
		t.Command(with("import", "/image.tar", "e2e/walker:1")...)
		id := strings.TrimSpace(
			t.Command(with(append([]string{"run", "-d", "--name", name}, walk(slot, node)...)...)...))
		t.Defer(func() { lab.CaptureFor(lab.SystemdLimit, with("rm", "-f", name), "") })
		return id
	}
	docker = lab.CgroupRoot + "/docker/" + start(ofDocker, []string{"docker"}, 1, 3)
	podman = lab.CgroupRoot + "/machine.slice/libpod-" +
		start(ofPodman, []string{"podman", "--runtime", "crun", "--cgroup-manager", "systemd", "--storage-driver",
			"vfs", "--events-backend", "none"}, 2, 1) + ".scope"
	for _, dir := range []string{docker, podman} {
		if _, err := os.Stat(dir); err != nil {
			t.Fatalf("%v", err)
		}
	}
	return docker, podman
}

// dockerPlaced: containers of Docker with the driver cgroupfs and of Podman are known by the names
// that these gave them, come to a node, and get back what they had.
func dockerPlaced(t *lab.T) {
	Install(t)
	docker, podman := engines(t)
	t.Command("systemctl", "start", "homenode")
	t.Defer(func() {
		lab.Capture([]string{Installed, "undo", "--all"}, "")
		lab.Capture([]string{Installed, "resume", "--all"}, "")
		lab.Capture([]string{"systemctl", "stop", "homenode"}, "")
	})
	if _, err := os.Stat(podman + "/container"); err == nil {
		podman += "/container"
	}
	homes := []string{awaitSet(t, docker, oneNode), awaitSet(t, podman, oneNode)}
	for name, dir := range map[string]string{ofDocker: docker, ofPodman: podman} {
		t.Poll(lab.SystemdLimit, time.Second, name+" is known by its name", func() (bool, string) {
			r := lab.Capture([]string{Installed, "explain", name}, "explain")
			return r.Exit == lab.ExitOK && strings.Contains(r.Out, name) &&
				strings.Contains(r.Out, strings.TrimPrefix(dir, lab.CgroupRoot)[:20]), r.String()
		})
	}
	t.Command(Installed, "undo", "--all")
	for _, dir := range []string{docker, podman} {
		awaitSet(t, dir, func(cpus string) bool { return cpus == "" })
	}
	t.Textf("Docker's on CPUs %s, Podman's on %s", homes[0], homes[1])
}

// dockerAgents: agents in containers of either are kept on the host's reserve with its services,
// and let go again.
func dockerAgents(t *lab.T) {
	Install(t)
	docker, podman := engines(t)
	const reserve = "0-1,4-5,8-9,12-13"
	effective := func(dir string) string { return lab.ReadText(dir + "/cpuset.cpus.effective") }
	before := []string{effective(docker), effective(podman)}
	t.Command(Installed, "host", "prepare", "--agents-slice", "/docker", "--agents-slice", "/machine.slice/libpod-*")
	for _, dir := range []string{docker, podman} {
		if now := effective(dir); now != reserve {
			t.Fatalf("%s runs on %q", dir, now)
		}
	}
	t.Command(Installed, "host", "prepare", "--undo")
	for i, dir := range []string{docker, podman} {
		if now := effective(dir); now != before[i] {
			t.Fatalf("%s runs on %q after undo, was on %q", dir, now, before[i])
		}
	}
	t.Command(Installed, "host", "prepare", "--slices", "machine.slice")
	if now := effective(podman); now != reserve {
		t.Fatalf("%s runs on %q with machine.slice prepared", podman, now)
	}
	t.Command(Installed, "host", "prepare", "--undo")
	if now := effective(podman); now != before[1] {
		t.Fatalf("%s runs on %q after undo, was on %q", podman, now, before[1])
	}
	t.Textf("on CPUs %s", reserve)
}
