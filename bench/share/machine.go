package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
)

// errCannot is why it cannot run here.
type errCannot struct{ why string }

func (e errCannot) Error() string { return e.why }

func cannot(format string, a ...any) error { return errCannot{fmt.Sprintf(format, a...)} }

const fewestCPUs = 4

// split is which CPUs are for the experiment and which for the generator: with several nodes
// those of the first and of the last node with CPUs; else the last quarter of the cores is
// the generator's.
func split(h *topology.Host) (experiment, generator topology.CPUSet, err error) {
	if n := h.Allowed.Len(); n < fewestCPUs {
		return experiment, generator,
			cannot("%d CPUs: at least %d are needed, some of them for the load generator alone", n, fewestCPUs)
	}
	var nodes []topology.CPUSet
	for i := range h.Nodes {
		if c := h.Nodes[i].CPUs.Intersect(h.Allowed); !c.Empty() {
			nodes = append(nodes, c)
		}
	}
	if len(nodes) > 1 {
		return nodes[0], nodes[len(nodes)-1], nil
	}
	var cores []topology.CPUSet
	for i := range h.Cores {
		if c := h.Cores[i].CPUs.Intersect(h.Allowed); !c.Empty() {
			cores = append(cores, c)
		}
	}
	for _, c := range cores[len(cores)-max(1, len(cores)/4):] {
		generator = generator.Union(c)
	}
	if experiment = h.Allowed.Minus(generator); experiment.Empty() {
		return experiment, generator, cannot("one core: the load generator needs another one")
	}
	return experiment, generator, nil
}

// ready says why it cannot run with what the machine has.
func ready(root fs.FS, uid int) error {
	if uid != 0 {
		return cannot("not root: cgroups, CPU sets and homenode's enforce mode need it")
	}
	controllers, err := fs.ReadFile(root, "sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		return cannot("no cgroup v2 at /sys/fs/cgroup (cgroup.controllers is missing): boot with " +
			"systemd.unified_cgroup_hierarchy=1")
	}
	for _, c := range []string{"cpu", "cpuset"} {
		if !slices.Contains(strings.Fields(string(controllers)), c) {
			return cannot("cgroup v2 lacks the controller %s (/sys/fs/cgroup/cgroup.controllers)", c)
		}
	}
	return nil
}

// scopeName is the unit that everything runs in where systemd does, and the cgroup elsewhere.
const scopeName = "homenode-bench-share"

const inScope = "HOMENODE_BENCH_SHARE_SCOPE"

// enterScope starts this program again in a transient scope of systemd whose cgroup it may
// divide (systemd.resource-control(5), Delegate=). It does not return then.
func enterScope() error {
	if _, err := os.Stat("/run/systemd/system"); err != nil || os.Getenv(inScope) != "" {
		return nil
	}
	run, err := exec.LookPath("systemd-run")
	if err != nil {
		return cannot("systemd runs here, but there is no systemd-run")
	}
	exec.Command("systemctl", "stop", scopeName+".scope").Run() // of a run that was killed
	argv := append([]string{run, "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--unit=" + scopeName,
		"--"}, os.Args...)
	if argv[len(argv)-len(os.Args)], err = os.Executable(); err != nil {
		return err
	}
	return unix.Exec(run, argv, append(os.Environ(), inScope+"=1"))
}

// cgroups are those of the experiment:
//
//	TOP/harness     this program, where TOP is a scope
//	TOP/daemon      homenode
//	TOP/generator   the load, on CPUs of its own
//	TOP/bench       the CPUs of the experiment
//	TOP/bench/online, TOP/bench/batch
type cgroups struct {
	top    string
	scope  bool     // systemd made TOP
	opened []string // controllers that the root did not hand down before
}

const cgroupRoot = "/sys/fs/cgroup"

func makeCgroups(experiment, generator topology.CPUSet) (g *cgroups, err error) {
	g = &cgroups{top: filepath.Join(cgroupRoot, scopeName)}
	if os.Getenv(inScope) != "" {
		own, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			return nil, err
		}
		g.scope, g.top = true, filepath.Join(cgroupRoot, strings.TrimPrefix(strings.TrimSpace(string(own)), "0::"))
	} else if err := g.sweep(); err != nil { // what a killed run has left
		return nil, fmt.Errorf("remove what an earlier run left in %s: %w", g.top, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.remove())
		}
	}()
	if !g.scope {
		before, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.subtree_control"))
		if err != nil {
			return g, err
		}
		for _, c := range []string{"cpu", "cpuset"} {
			if !slices.Contains(strings.Fields(string(before)), c) {
				g.opened = append(g.opened, c)
				if err := write(filepath.Join(cgroupRoot, "cgroup.subtree_control"), "+"+c); err != nil {
					return g, err
				}
			}
		}
	}
	for _, name := range []string{"", "harness", "daemon", "generator", "bench", "bench/online", "bench/batch"} {
		if err := os.Mkdir(g.at(name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return g, err
		}
	}
	if g.scope { // a cgroup with processes has no controllers for those below it
		if err := write(filepath.Join(g.at("harness"), "cgroup.procs"), "0"); err != nil {
			return g, err
		}
	}
	for _, x := range [][2]string{
		{"cgroup.subtree_control", "+cpu +cpuset"},
		{"bench/cgroup.subtree_control", "+cpu +cpuset"},
		{"bench/cpuset.cpus", experiment.String()},
		{"generator/cpuset.cpus", generator.String()},
	} {
		if err := write(g.at(x[0]), x[1]); err != nil {
			return g, err
		}
	}
	return g, nil
}

func (g *cgroups) at(name string) string { return filepath.Join(g.top, name) }

// path is a cgroup's as /proc/PID/cgroup writes it.
func (g *cgroups) path(name string) string { return strings.TrimPrefix(g.at(name), cgroupRoot) }

// kill ends all processes of a cgroup and waits until they have closed what they had open: cgroup.procs
// is empty before that, cgroup.events says so after it (do_exit, kernel/exit.c). A server that has not
// closed its port would be taken for the next one. It does not write to cgroup.kill: on Linux 6.18 every process
// that clone3 starts in such a cgroup afterwards is killed at once.
func (g *cgroups) kill(ctx context.Context, name string) error {
	if _, err := os.Stat(g.at(name)); err != nil {
		return err
	}
	return wait(ctx, 20*time.Millisecond, patience, func() bool {
		procs, _ := os.ReadFile(filepath.Join(g.at(name), "cgroup.procs"))
		for pid := range strings.FieldsSeq(string(procs)) {
			if n, err := strconv.Atoi(pid); err == nil && n > 0 {
				unix.Kill(n, unix.SIGKILL)
			}
		}
		b, err := os.ReadFile(filepath.Join(g.at(name), "cgroup.events"))
		return err == nil && strings.Contains(string(b), "populated 0")
	})
}

// sweep kills and removes everything below the top, and the top unless it is systemd's.
func (g *cgroups) sweep() error {
	var dirs []string
	filepath.WalkDir(g.top, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, p)
		}
		return nil
	})
	var problems []error
	for _, d := range slices.Backward(dirs) {
		if (d == g.top && g.scope) || (filepath.Base(d) == "harness" && g.scope) {
			continue // this program is in it; systemd collects the scope
		}
		name, _ := filepath.Rel(g.top, d)
		if err := g.kill(context.Background(), name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
		problems = append(problems, os.Remove(d))
	}
	return errors.Join(problems...)
}

// remove takes the cgroups away and puts the root's controllers back.
func (g *cgroups) remove() error {
	err := g.sweep()
	for _, c := range g.opened {
		err = errors.Join(err, write(filepath.Join(cgroupRoot, "cgroup.subtree_control"), "-"+c))
	}
	return err
}

// write writes a kernel file that is there.
func write(name, value string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(value); err != nil {
		return fmt.Errorf("write %q: %w", value, err)
	}
	return nil
}

// machine is what the figures are of.
type machine struct {
	CPU     string `json:"cpu"`
	CPUs    int    `json:"cpus"`
	Cores   int    `json:"cores"`
	Nodes   int    `json:"nodes"`
	Kernel  string `json:"kernel"`
	Guest   string `json:"hypervisor,omitempty"` // from CPUID's flag, "" for a real machine
	OS      string `json:"os,omitempty"`
	SMT     bool   `json:"smt"`
	Load    string `json:"load_average"` // before it began
	Program string `json:"homenode"`
}

func describe(h *topology.Host) machine {
	m := machine{CPU: h.CPU, CPUs: h.Online.Len(), Cores: len(h.Cores), Nodes: len(h.Nodes)}
	m.SMT = m.CPUs > m.Cores
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil && strings.Contains(string(info), " hypervisor") {
		m.Guest = "a hypervisor"
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(b))[:3], " ")
	}
	if b, err := os.ReadFile("/etc/os-release"); err == nil {
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
				m.OS = strings.Trim(strings.TrimSpace(v), `"`)
			}
		}
	}
	return m
}
