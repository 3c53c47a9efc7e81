package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
)

// TestDomain: a pinned guest has a CPU for each vCPU and the memory of its node, one that floats has
// neither, and one that is emulated asks for no KVM; libvirt's own schema takes all three.
func TestDomain(t *testing.T) {
	in := &instance{name: ours + "-x-0", ask: ask{cpus: 2, memory: 1024}}
	domain := func(h home, emulate bool) ([]byte, error) {
		return domainOf(in, h, emulate, "/boot/vmlinuz", "/var/tmp/initrd", "/var/tmp/x.init", "/var/tmp/x.console")
	}
	floating, err := domain(home{}, false)
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := domain(home{topology.CPUs(4, 6), topology.Nodes(1)}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<vcpupin vcpu="0" cpuset="4">`, `<vcpupin vcpu="1" cpuset="6">`, `<memory mode="strict" nodeset="1">`} {
		if !strings.Contains(string(pinned), want) || strings.Contains(string(floating), want) {
			t.Errorf("%s: want it in the pinned guest alone:\n%s\n%s", want, pinned, floating)
		}
	}
	emulated, err := domain(home{}, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<domain type="qemu">`, `<cpu mode="maximum">`} {
		if !strings.Contains(string(emulated), want) || strings.Contains(string(floating), want) {
			t.Errorf("%s: want it in the emulated guest alone:\n%s\n%s", want, emulated, floating)
		}
	}
	validate, err := exec.LookPath("virt-xml-validate")
	if err != nil {
		t.Skip("skipped: no virt-xml-validate (package libvirt-clients)")
	}
	all := map[string][]byte{"floating.xml": floating, "pinned.xml": pinned, "emulated.xml": emulated}
	for name, text := range all {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(validate, file, "domain").CombinedOutput(); err != nil {
			t.Errorf("%s: %s\n%s", name, out, text)
		}
	}
}

// TestPodCommand: a pod is the host's files in a container, confined as its home says.
func TestPodCommand(t *testing.T) {
	in := &instance{name: ours + "-pod-0", ask: ask{cpus: 8, memory: 100}}
	got := strings.Join(in.pod(&state{Run: "R", Dir: "/var/tmp/d"}, home{topology.CPUs(0, 1), topology.Nodes(0)}.confine([]string{"sh", "x"})), " ")
	want := "ctr -n homenode-seeds run --rm --memory-limit 171966464 --mount type=bind,src=/var/tmp/d,dst=/var/tmp/d,options=rbind:rw --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --env HOMENODE_SEEDS=R --cwd /var/tmp/d --rootfs /run/homenode-seeds-root homenode-seeds-pod-0 taskset -c 0-1 numactl --membind=0 sh x"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	help, err := exec.Command("ctr", "run", "--help").Output()
	if err != nil {
		t.Skip("skipped: no ctr (package containerd)")
	}
	for _, flag := range []string{"--rm", "--memory-limit", "--mount", "--env", "--cwd", "--rootfs"} {
		if !strings.Contains(string(help), flag) {
			t.Errorf("ctr run has no %s", flag)
		}
	}
}

// TestGuestKernel: the kernel of guests must exist. The initial RAM disk gets the modules for the host's
// files, whatever else the user's configuration names.
func TestGuestKernel(t *testing.T) {
	l := &lab{kernel: "0.0-none", state: &state{Dir: t.TempDir()}}
	_, _, err := l.initrd()
	text := fmt.Sprint(err)
	if !strings.Contains(text, "/boot/vmlinuz-0.0-none") || !strings.Contains(text, "-kernel") {
		t.Errorf("without its kernel: %v", err)
	}
	conf := t.TempDir()
	if err := os.Mkdir(filepath.Join(conf, "conf.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"initramfs.conf", "conf.d/driver-policy"} {
		if err := os.WriteFile(filepath.Join(conf, name), []byte("MODULES=most\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := onlyModules(conf, "9p", "virtio_pci"); err != nil {
		t.Fatal(err)
	}
	// As mkinitramfs reads them: initramfs.conf, then conf.d in order.
	const script = `. ./initramfs.conf; for f in conf.d/*; do . "./$f"; done; echo "$MODULES"; cat modules`
	read := exec.Command("sh", "-c", script)
	read.Dir = conf
	out, err := read.CombinedOutput()
	if want := "list\n9p\nvirtio_pci\n"; err != nil || string(out) != want {
		t.Errorf("mkinitramfs would read %q (%v), want %q", out, err, want)
	}
}

// fakeVirsh puts a virsh into PATH. Its guest has a text on its console, and runs until it is destroyed.
func fakeVirsh(t *testing.T, console, text string) {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
case $2 in
create) printf '%s' >%s; touch %[3]s/runs;;
domstate) if [ -e %[3]s/runs ]; then echo running; fi;;
destroy) rm %[3]s/runs;;
esac
`, text, console, dir)
	if err := os.WriteFile(filepath.Join(dir, "virsh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// TestGuestThatStays: a guest whose kernel starts no program, or that does not power off, is destroyed, and one line
// says what is wrong.
func TestGuestThatStays(t *testing.T) {
	for _, c := range []struct{ console, want string }{
		{"", "its kernel started no program within 1 s; does KVM work here? -smoke -emulate does without"},
		{
			`Linux\r\nhomenode-seeds begins\r\n7\r\nhomenode-seeds ended with status 0\r\n`,
			"its command ended 2 s ago, and it has not powered off",
		},
	} {
		console := filepath.Join(t.TempDir(), "console")
		fakeVirsh(t, console, c.console)
		argv := follow("x.xml", "x", console, time.Second, 2*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
		cancel()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		last := lines[len(lines)-1]
		if err == nil || last != "guest x was destroyed: "+c.want {
			t.Errorf("%q: %v, %q", c.console, err, out)
		}
	}
}

// TestGuestIsStill: a guest that has not powered off takes no CPU: its first process sleeps, and does not end.
func TestGuestIsStill(t *testing.T) {
	text := initOf("x")
	if !strings.Contains(text, "\nmkfifo still\n") || !strings.HasSuffix(text, "\n"+still+"\n") {
		t.Fatalf("its first process does not wait in the end:\n%s", text)
	}
	c := exec.Command("sh", "-c", "mkfifo still; echo x; "+still+"; echo ended")
	c.Dir = t.TempDir()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Kill(); c.Wait() }()
	if _, err := out.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	state := ""
	end := time.Now().Add(20 * time.Second)
	for ; state != "S" && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		state = strings.Fields(string(stat))[2]
	}
	if state != "S" {
		t.Errorf("it is in state %s: it does not sleep", state)
	}
}

// TestNoGuests: one line says what a machine lacks for guests.
func TestNoGuests(t *testing.T) {
	empty := t.TempDir()
	program := func(dir, name, text string) string {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	fails := program(t.TempDir(), "virsh", "exit 1")
	answers := program(t.TempDir(), "virsh", "exit 0")
	whole := program(program(t.TempDir(), "virsh", "exit 0"), "mkinitramfs", "exit 0")
	for _, c := range []struct{ path, kernel, want string }{
		{empty, "x", "there is no virsh (package libvirt-clients): processes take the place of guests"},
		{fails, "x", "libvirt does not answer (virsh version): processes take the place of guests"},
		{answers, "x", "there is no mkinitramfs (package initramfs-tools): processes take the place of guests"},
	} {
		t.Setenv("PATH", c.path)
		l := lab{kernel: c.kernel}
		if as, why := l.kindOf(Guest); as != Process || why != c.want {
			t.Errorf("%s, %q", as, why)
		}
	}
	t.Setenv("PATH", whole)
	l := lab{kernel: "x", emulate: true}
	if as, why := l.kindOf(Guest); as != Guest || !strings.Contains(why, "-emulate") {
		t.Errorf("emulated: %s, %q", as, why)
	}
}

const madeUpGuest = `name: made-up
title: Made up
published: {source: a, url: none, machine: c, result: d}
repeats: e
needs: {cpus: 1, nodes: 1, memory_mib: 1}
sizes: {mib: 256}
programs:
  - {name: guest, role: work, as: guest, cpus: "1", memory_mib: mib, class: shared, run: "echo processors $(nproc)"}
metrics:
  - {name: processors, unit: "", better: higher, of: [guest], pattern: 'processors ([0-9]+)'}
arms: [kernel, first-free]
periods: {settle: 0s, measure: 1s}
`

// TestGuestRuns: guests of libvirt, one that floats and one that is pinned, boot, print their value, and are gone
// afterwards. HOMENODE_TEST_GUESTS names the release of a kernel in /boot that has 9p; it takes minutes.
func TestGuestRuns(t *testing.T) {
	kernel := os.Getenv("HOMENODE_TEST_GUESTS")
	if kernel == "" {
		t.Skip("skipped: HOMENODE_TEST_GUESTS names no kernel")
	}
	host, err := topology.FromSysfs(os.DirFS("/"))
	if err != nil {
		t.Fatal(err)
	}
	top := inside(t)
	l := labOn(t, top, madeUpGuest, host, &options{blocks: 1, seed: 7, smoke: true, emulate: true, kernel: kernel})
	// A guest has a /tmp of its own.
	if l.state.Dir, err = os.MkdirTemp("/var/tmp", ours+"-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(l.state.Dir) })
	l.state.In = []Kind{Guest}
	values := map[string]float64{}
	if err := l.experiment(t.Context(), func(p period) { values[p.arm] = p.values["processors"] }); err != nil {
		t.Fatal(err)
	}
	if values["kernel"] != 1 || values["first-free"] != 1 {
		t.Errorf("processors of the guests: %v, want 1 in each arm", values)
	}
	if left, _ := exec.Command("virsh", "list", "--all", "--name").Output(); strings.Contains(string(left), ours) {
		t.Errorf("guests are left: %s", left)
	}
	restored(t, l)
}
