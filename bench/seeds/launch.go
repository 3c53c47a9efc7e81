package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
)

// instance is one program that runs.
type instance struct {
	program *Program
	i       int
	ask     ask
	home    home
	sizes   Sizes
	as      Kind   // process, where the machine has nothing else
	name    string // homenode-seeds-PROGRAM-I
	out     string // file with what it prints
	running
}

// running is a process that this run has started.
type running struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended
}

// begin starts the process.
func (r *running) begin() error {
	if err := r.cmd.Start(); err != nil {
		return err
	}
	r.done = make(chan struct{})
	go func() {
		r.err = r.cmd.Wait()
		close(r.done)
	}()
	return nil
}

// ended reports whether the process has ended.
func (r *running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// patience is how long something that begins, or ends, is waited for.
const patience = 60 * time.Second

// shell is a command of a file, as a process of this run.
func (l *lab) shell(text string) *exec.Cmd {
	c := exec.Command("sh", "-c", text)
	c.Dir = l.state.Dir
	c.Env = append(os.Environ(), "LC_ALL=C", marker+l.state.Run)
	// A run that is killed takes its programs with it, at once. (Those that change their user stay for the keeper.)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.WaitDelay = time.Second // a child that it leaves behind may keep its output open
	return c
}

// do runs a command of a file to its end.
func (l *lab) do(ctx context.Context, text string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c := l.shell(text)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		<-ended
		err = ctx.Err()
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("%.100s: %w; it printed: %s", oneLine(text), err, end(out.String()))
	}
	return nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// start starts an instance in a home.
func (l *lab) start(in *instance, h home) error {
	text, err := in.sizes.Fill(in.program.Run)
	if err != nil {
		return err
	}
	file, err := os.Create(in.out)
	if err != nil {
		return err
	}
	defer file.Close()
	script := filepath.Join(l.state.Dir, in.name+".sh")
	if err := os.WriteFile(script, []byte(text+"\n"), 0o755); err != nil {
		return err
	}
	argv := h.confine([]string{"sh", script})
	switch {
	case in.as == Guest:
		argv, err = l.guest(in, h, script) // which is pinned from outside
	case in.as == Pod:
		argv = in.pod(l.state, argv)
	case l.daemon != nil && in.program.Role != Load:
		argv = l.daemon.run(in, argv)
	}
	if err != nil {
		return err
	}
	in.cmd = l.shell("")
	in.cmd.Args = argv
	in.cmd.Stdout = file
	in.cmd.Stderr = file
	if in.cmd.Path, err = exec.LookPath(argv[0]); err != nil {
		return err
	}
	if err := in.begin(); err != nil {
		return fmt.Errorf("start %s: %w", in.name, err)
	}
	return nil
}

// confine is a command that starts in a home, where that says anything.
func (h home) confine(argv []string) []string {
	if !h.Nodes.Empty() {
		argv = append([]string{"numactl", "--membind=" + h.Nodes.String()}, argv...)
	}
	if !h.CPUs.Empty() {
		argv = append([]string{"taskset", "-c", h.CPUs.String()}, argv...)
	}
	return argv
}

// pod is the command that runs another one in a container of containerd. Its files are the host's (podRoot), so that
// no image is needed. It has a network of its own: in that of the host runc cannot mount sysfs over the
// host's /sys, which would be the same file system.
func (in *instance) pod(s *state, argv []string) []string {
	return append([]string{"ctr", "-n", ours, "run", "--rm",
		"--memory-limit", strconv.Itoa((in.ask.memory + 64) << 20),
		"--mount", "type=bind,src=" + s.Dir + ",dst=" + s.Dir + ",options=rbind:rw",
		// ctr gives a container without an image no environment.
		"--env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "--env", marker + s.Run, "--cwd",
		s.Dir,
		"--rootfs", podRoot, in.name}, argv...)
}

// podRoot is where the host's files are mounted once more, read-only, as the root of containers: runc cannot
// change its root to the one it has.
const podRoot = "/run/homenode-seeds-root"

// mountPodRoot mounts them. The copy is private before it is mounted, so that unmounting it reaches no mount of
// the host.
func mountPodRoot() error {
	if err := os.MkdirAll(podRoot, 0o755); err != nil {
		return err
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("copy the mounts of /: %w", err)
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("make the copy of the mounts of / read-only: %w", err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, podRoot, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", podRoot, err)
	}
	return nil
}

// unmountPodRoot undoes that. Only an empty folder is removed.
func unmountPodRoot() error {
	for {
		err := unix.Unmount(podRoot, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // nothing is mounted there
			break
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", podRoot, err)
		}
	}
	err := os.Remove(podRoot)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// text is what an instance has printed.
func (in *instance) text() string {
	b, _ := os.ReadFile(in.out)
	return string(b)
}

// ready waits until a server answers.
func (l *lab) ready(ctx context.Context, in *instance) error {
	if in.program.Ready == "" {
		return nil
	}
	text, err := in.sizes.Fill(in.program.Ready)
	if err != nil {
		return err
	}
	for end := time.Now().Add(patience); ; {
		err := l.do(ctx, text, 10*time.Second)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case in.ended():
			return in.lost()
		case err == nil:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%s does not answer: %w", in.name, err)
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// lost is the error of a server that ended by itself.
func (in *instance) lost() error {
	how := "with status 0"
	if in.err != nil {
		how = in.err.Error()
	}
	return fmt.Errorf("%s ended (%s); it printed: %s", in.name, how, end(in.text()))
}

// wait waits for a program that ends by itself.
func (in *instance) wait(ctx context.Context, within time.Duration) error {
	select {
	case <-in.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(within):
		return fmt.Errorf("%s has not ended after %v; it printed: %s", in.name, within, end(in.text()))
	}
	if in.err != nil {
		return in.lost()
	}
	return nil
}

// stop ends all instances, servers first asked and then made to.
func (l *lab) stop(all []*instance) error {
	for _, in := range all {
		if in.cmd != nil && !in.ended() {
			syscall.Kill(-in.cmd.Process.Pid, syscall.SIGTERM)
		}
	}
	late := time.After(10 * time.Second)
	for _, in := range all {
		if in.cmd == nil {
			continue
		}
		select {
		case <-in.done:
		case <-late:
			late = time.After(0)
			syscall.Kill(-in.cmd.Process.Pid, syscall.SIGKILL)
			<-in.done
		}
	}
	l.state.removeMachines()
	keep := 0
	if l.daemon != nil {
		keep = l.daemon.cmd.Process.Pid
	}
	return killMarked(l.state.Run, l.state.Dir, keep)
}

// pids is an instance's process and all below it.
func (in *instance) pids() []int {
	root := in.cmd.Process.Pid
	switch in.as {
	case Guest:
		root = numberIn("/run/libvirt/qemu/" + in.name + ".pid")
	case Pod:
		root = 0 // until containerd has its task
		list, _ := exec.Command("ctr", "-n", ours, "task", "list").Output()
		for line := range strings.Lines(string(list)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == in.name {
				root, _ = strconv.Atoi(f[1])
			}
		}
	}
	if root == 0 {
		return nil
	}
	return below(root)
}

// await returns the processes of an instance as soon as it has any: libvirt and containerd take a moment.
func (in *instance) await(ctx context.Context) ([]int, error) {
	for end := time.Now().Add(patience); ; {
		if pids := in.pids(); len(pids) > 0 {
			return pids, nil
		}
		switch {
		case in.ended():
			return nil, fmt.Errorf("%s was not placed: %w", in.name, in.lost())
		case time.Now().After(end):
			return nil, fmt.Errorf("%s was not placed: it has no process after %v", in.name, patience)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// below is a process and its descendants.
func below(root int) []int {
	out := []int{root}
	for k := 0; k < len(out); k++ {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", out[k]))
		for _, t := range tasks {
			text, _ := os.ReadFile(t)
			for _, f := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(f); err == nil {
					out = append(out, pid)
				}
			}
		}
	}
	return out
}

func numberIn(file string) int {
	text, _ := os.ReadFile(file)
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// settle carries out a rule on what runs.
func (l *lab) settle(ctx context.Context, r *rule, placed []*instance) error {
	switch {
	case r.homes != nil && r.later:
		for _, in := range placed {
			pids, err := in.await(ctx)
			if err != nil {
				return err
			}
			for _, pid := range pids {
				if err := l.confineRunning(ctx, pid, in.home.CPUs); err != nil {
					return err
				}
			}
		}
	case r.name == "numad":
		return l.startNumad(ctx, placed)
	}
	return nil
}

// confineRunning has taskset set the CPUs of all threads of a process. Where one of them ends meanwhile, taskset stops
// with an error in the midst of them, and is run once more.
func (l *lab) confineRunning(ctx context.Context, pid int, cpus topology.CPUSet) error {
	var err error
	for range 10 {
		err = l.do(ctx, fmt.Sprintf("taskset -acp %s %d >/dev/null", cpus, pid), 10*time.Second)
		if err == nil || syscall.Kill(pid, 0) != nil { // it has ended
			return nil
		}
		if !strings.Contains(err.Error(), "No such process") {
			return err
		}
	}
	return err
}

// numadFiles is what numad writes for all of the machine (numad.c, main and set_thp_scan_sleep_ms).
var numadFiles = []string{"/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
	"/sys/kernel/mm/ksm/merge_across_nodes"}

const numadPID = "/run/numad.pid"

// startNumad has numad look after these programs alone.
func (l *lab) startNumad(ctx context.Context, placed []*instance) error {
	if pid := numberIn(numadPID); alive(pid) {
		return cannot("numad runs already, as process %d: stop it first", pid)
	}
	for _, f := range numadFiles {
		if err := l.state.keep(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	os.Remove(numadPID) // of one that was killed
	l.numad = true
	argv := []string{"-i", "2:5", "-S", "0"}
	for _, in := range placed {
		pids, err := in.await(ctx)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			argv = append(argv, "-p", strconv.Itoa(pid))
		}
	}
	// it goes into the background
	if err := l.do(ctx, "exec numad "+strings.Join(argv, " "), 10*time.Second); err != nil {
		return err
	}
	for range 50 {
		if alive(numberIn(numadPID)) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("numad has ended at once; its log is /var/log/numad.log")
}

// stopNumad ends the numad of a period, and restores what it has set.
func (l *lab) stopNumad() error {
	if !l.numad {
		return nil
	}
	l.numad = false
	pid := numberIn(numadPID)
	exec.Command("numad", "-i", "0").Run()
	for n := 0; alive(pid) && n < 100; n++ {
		time.Sleep(20 * time.Millisecond)
	}
	var problems []error
	for _, f := range numadFiles {
		if found, err := l.state.found(f); err == nil {
			problems = append(problems, l.state.set(f, found))
		}
	}
	return errors.Join(problems...)
}

// alive reports whether a process runs: a zombie does not.
func alive(pid int) bool {
	if pid == 0 {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	return err == nil && !bytes.HasPrefix(after, []byte(" Z"))
}

// daemon is Homenode, in enforce mode, for the programs of this run alone.
type daemon struct {
	program, socket string
	dir             string // its state folder
	running
}

func (l *lab) startDaemon(ctx context.Context) error {
	late := time.Now().Add(patience)
	if l.smoke {
		late = time.Now()
	}
	for {
		err := hostFree() // another daemon may be about to end
		if err == nil {
			break
		}
		if time.Now().After(late) {
			return err
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(l.state.Dir, "homenode")
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "config.yaml")
	batch := slices.ContainsFunc(l.e.Programs, func(p Program) bool { return p.Class == "batch" })
	err = os.WriteFile(config,
		[]byte(fmt.Sprintf(`manage: {include: ["*%s*"], min_age: 0s, min_memory: 1MiB, min_cpu: 0}
restore_on_stop: true
libvirt: {manage: all}
irq: "off"
share: {enabled: %t}
`, ours, batch)), 0o600)
	if err != nil {
		return err
	}
	d := &daemon{program: l.homenode, socket: filepath.Join(dir, "sock"), dir: filepath.Join(dir, "state")}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	d.cmd = l.shell("")
	d.cmd.Path, d.cmd.Args = l.homenode, []string{l.homenode, "daemon", "--mode", "enforce", "--config", config,
		"--state-dir", d.dir, "--socket", d.socket}
	d.cmd.Stdout, d.cmd.Stderr = log, log
	l.state.Homenode, l.state.Daemons = l.homenode, append(l.state.Daemons, d.dir)
	if err := l.state.save(); err != nil {
		return err
	}
	if err := d.begin(); err != nil {
		return err
	}
	l.daemon = d
	for late = time.Now().Add(patience); ; {
		err := l.do(ctx, fmt.Sprintf("%q status --socket %q", d.program, d.socket), 20*time.Second)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if d.ended() || time.Now().After(late) {
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("homenode does not answer: %w; its log ends: %s", err, end(string(text)))
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// run is a command under Homenode: placed before it starts.
func (d *daemon) run(in *instance, argv []string) []string {
	class := in.program.Class
	if class == "" {
		class = "shared"
	}
	return append([]string{d.program, "run", "--socket", d.socket, "--or-anyway", "--name", in.name, "--class", class,
		"--cpus", strconv.Itoa(in.ask.cpus), "--memory", strconv.Itoa(in.ask.memory) + "MiB", "--"}, argv...)
}

// homeless is the line of `homenode run --or-anyway` for a program without a home (ui/cli, run.go).
const homeless = "homenode: runs anywhere: "

// unplaced returns how many programs Homenode started without a home.
func unplaced(all []*instance) (n int) {
	for _, in := range placedOf(all) {
		for line := range strings.Lines(in.text()) {
			if strings.HasPrefix(line, homeless) {
				n++
				break
			}
		}
	}
	return n
}

// stopDaemon ends Homenode, which restores what it has set.
func (l *lab) stopDaemon() error {
	d := l.daemon
	if d == nil {
		return nil
	}
	l.daemon = nil
	d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.done:
		return l.state.undoDaemon(d.dir)
	case <-time.After(patience):
		d.cmd.Process.Kill()
		<-d.done
		return errors.Join(fmt.Errorf("homenode did not end within %v", patience), l.state.undoDaemon(d.dir))
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
