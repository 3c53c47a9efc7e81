package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/homenode/homenode/e2e/suite"
)

// tools is what fetch.sh found.
type tools struct {
	qemu     string
	firmware []string
	vmlinux  string
	generic  string            // the generic flavour; "" when it was not fetched
	kernels  map[string]string // older ones by version; "" when one could not be fetched
	kernel   string
	accel    string     // kvm or tcg
	modules  []archived // for shapes with a network card
	// noModules is why there are none, "" when there are or none are needed.
	noModules string
	numactl   []archived
	disks     map[string]string // folder of each disk by its name; "" when it could not be fetched
}

func fetch(ctx context.Context, root string) (tools, error) {
	c := exec.CommandContext(ctx, filepath.Join(root, "e2e", "fetch.sh"))
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return tools{}, fmt.Errorf("run e2e/fetch.sh: %w", err)
	}
	name := filepath.Join(strings.TrimSpace(string(out)), "rig.env")
	f, err := os.Open(name)
	if err != nil {
		return tools{}, fmt.Errorf("read what was fetched: %w", err)
	}
	defer f.Close()
	var t tools
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), "=")
		switch key {
		case "QEMU":
			t.qemu = value
		case "FIRMWARE":
			t.firmware = strings.Fields(value)
		case "VMLINUX":
			t.vmlinux = value
		case "KERNEL":
			t.kernel = value
		}
	}
	if t.qemu == "" || t.vmlinux == "" {
		return tools{}, fmt.Errorf("read what was fetched: %s lacks QEMU or VMLINUX", name)
	}
	return t, nil
}

// fetchMore gets the generic kernel and the disks when shapes want them.
func (t *tools) fetchMore(ctx context.Context, root string, jobs []work) (err error) {
	run := func(wanted func(suite.Shape) bool, script string, args ...string) string {
		if err != nil || !slices.ContainsFunc(jobs, func(j work) bool { return wanted(j.shape) }) {
			return ""
		}
		c := exec.CommandContext(ctx, filepath.Join(root, "e2e", script), args...)
		c.Stderr = os.Stderr
		out, bad := c.Output()
		if bad != nil {
			err = fmt.Errorf("run e2e/%s: %w", script, bad)
		}
		return strings.TrimSpace(string(out))
	}
	t.generic = run(func(s suite.Shape) bool { return s.Generic }, "fetch-generic.sh")
	t.kernels = map[string]string{}
	for _, j := range jobs {
		if v := j.shape.Kernel; v != "" && t.kernels[v] == "" {
			t.kernels[v] = run(func(s suite.Shape) bool { return s.Kernel == v }, "fetch-kernel.sh", v)
		}
	}
	t.disks = map[string]string{}
	for _, j := range jobs {
		if name := j.shape.Disk; name != "" && t.disks[name] == "" {
			t.disks[name] = run(func(s suite.Shape) bool { return s.Disk == name }, "fetch-disk.sh", name)
		}
	}
	return err
}

// fetchNumactl gets numactl and its libraries when tests compare with it.
func (t *tools) fetchNumactl(ctx context.Context, root string, jobs []work) error {
	if !needs(jobs, func(t suite.Test) bool { return t.Numactl }) {
		return nil
	}
	c := exec.CommandContext(ctx, filepath.Join(root, "e2e", "fetch-numactl.sh"))
	c.Stderr = os.Stderr
	out, err := c.Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		return err
	}
	for from, name := range map[string]string{"numactl": "bin/numactl", "libnuma.so.1": "lib/libnuma.so.1",
		"libc.so.6":            "lib/libc.so.6",
		"ld-linux-x86-64.so.2": "lib64/ld-linux-x86-64.so.2"} {
		t.numactl = append(t.numactl, archived{name: name, from: filepath.Join(dir, from)})
	}
	slices.SortFunc(t.numactl, func(a, b archived) int { return strings.Compare(a.name, b.name) })
	return nil
}

// lacking says what a shape needs that this machine's archive does not have.
func (t *tools) lacking(s suite.Shape) string {
	switch {
	case s.Generic && t.generic == "":
		return "no generic kernel in this machine's archive"
	case s.Kernel != "" && t.kernels[s.Kernel] == "":
		return "no kernel " + s.Kernel + " in this machine's archive"
	case s.Disk == "crio" && os.Getenv("HOMENODE_CRIO") == "":
		return "HOMENODE_CRIO does not name a folder with crio and pinns, of which Debian has no package"
	case s.Disk != "" && t.disks[s.Disk] == "":
		return "no disk with " + s.Disk + " from this machine's archive"
	}
	return ""
}

// build makes the initramfs and, for a shape that counts, the plugin. Without a
// homenode that builds the guests still run: the tests that need it then fail
// with the reason, the others tell what they can.
func build(ctx context.Context, root, out, homenode string, more []archived,
	jobs []work) (image string, noHomenode error, err error) {
	bin := filepath.Join(out, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", nil, fmt.Errorf("make folder: %w", err)
	}
	files := append([]archived{
		{name: "init", from: filepath.Join(bin, "guest")},
		{name: "bin/walker", from: filepath.Join(bin, "walker")},
	}, more...)
	for _, name := range []string{"guest", "walker"} {
		if err := goBuild(ctx, root, bin, name, "./e2e/"+name); err != nil {
			return "", nil, err
		}
	}
	if needs(jobs, func(t suite.Test) bool { return t.Homenode }) {
		if noHomenode = goBuild(ctx, root, bin, "homenode", homenode); noHomenode == nil {
			files = append(files, archived{name: "bin/homenode", from: filepath.Join(bin, "homenode")})
		}
	}
	if needs(jobs, func(t suite.Test) bool { return t.Bench }) {
		if err := goBuild(ctx, root, bin, "bench-share", "./bench/share"); err != nil {
			return "", nil, err
		}
		files = append(files, archived{name: "bin/bench-share", from: filepath.Join(bin, "bench-share")})
	}
	for _, j := range jobs {
		if j.shape.Count {
			if err := plugin(ctx, root, bin, "numacount"); err != nil {
				return "", nil, err
			}
		}
		if j.shape.Virtual {
			if err := plugin(ctx, root, bin, "still"); err != nil {
				return "", nil, err
			}
		}
		if j.shape.Overlap {
			if err := plugin(ctx, root, bin, "overlap"); err != nil {
				return "", nil, err
			}
		}
		if j.shape.Init != "" {
			if err := buildAlone(ctx, root, out, j.shape.Init); err != nil {
				return "", nil, err
			}
		}
		if j.shape.Disk == "" {
			continue
		}
		if err := buildDisk(ctx, root, bin, homenode, j); err != nil {
			return "", nil, err
		}
	}
	image = filepath.Join(out, "initramfs.cpio")
	return image, noHomenode, writeArchive(image, files)
}

// aloneImage is the image of a guest whose first process is all there is.
func aloneImage(out, program string) string { return filepath.Join(out, program+".cpio") }

// buildAlone makes it.
func buildAlone(ctx context.Context, root, out, program string) error {
	bin := filepath.Join(out, "bin")
	if err := goBuild(ctx, root, bin, program, "./e2e/"+program); err != nil {
		return err
	}
	return writeArchive(aloneImage(out, program), []archived{{name: "init", from: filepath.Join(bin, program)}})
}

func needs(jobs []work, f func(suite.Test) bool) bool {
	for _, j := range jobs {
		for _, t := range j.tests {
			if f(t) {
				return true
			}
		}
	}
	return false
}

func goBuild(ctx context.Context, root, bin, name, pkg string, ldflags ...string) error {
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags",
		strings.Join(append([]string{"-s", "-w"}, ldflags...), " "), "-o", filepath.Join(bin, name), pkg)
	c.Dir = root
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if b, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", pkg, err, suite.OneLine(string(bytes.TrimSpace(b))))
	}
	return nil
}

func plugin(ctx context.Context, root, bin, name string) error {
	c := exec.CommandContext(ctx, "gcc", "-O2", "-Wall", "-fvisibility=hidden", "-shared", "-fPIC",
		"-o", filepath.Join(bin, name+".so"), filepath.Join(root, "e2e", name, name+".c"))
	if b, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s.so: %w: %s", name, err, b)
	}
	return nil
}
