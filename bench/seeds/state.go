package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/store"
)

// state is what a run has changed: on disk before it is changed, so that a run that is killed can be
// cleaned up. Three things do so, whichever comes first: the run itself, its keeper (a process that waits for
// the run to be gone), and the next run or -restore.
type state struct {
	file string
	Run  string `json:"run"` // its programs have it in their environment, as HOMENODE_SEEDS
	Dir  string `json:"dir"` // with their files; removed in the end
	Kept []kept `json:"kept"`
	// In is what programs run in, apart from processes.
	In []Kind `json:"in,omitempty"`
	// Homenode is the program, and Daemons the state folders of its daemons that have not restored everything yet.
	Homenode string   `json:"homenode,omitempty"`
	Daemons  []string `json:"daemons,omitempty"`
}

// kept is a setting as it was found.
type kept struct {
	Path string `json:"path"`
	Old  string `json:"old"`
}

// stateFile is forgotten by a reboot, as settings of the kernel are.
var stateFile = "/run/homenode-seeds.json"

const marker = "HOMENODE_SEEDS="

// ours is what names of guests, containers and folders begin with, and the namespace of the containers.
const ours = "homenode-seeds"

// lock makes this run the only one; it holds until the process ends.
func lock(file string) error {
	f, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return cannot("another run is going on: %s.lock is held", file)
	}
	locked = f
	return nil
}

var locked *os.File // not collected

// save writes the state so that it survives a crash.
func (s *state) save() error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(s.file), ".homenode-seeds")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.file)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// load reads what an earlier run has left; nil for nothing.
func load(file string) (*state, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &state{file: file}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// keep writes down a setting before anything changes it.
func (s *state) keep(path string) error {
	if slices.ContainsFunc(s.Kept, func(k kept) bool { return k.Path == path }) {
		return nil
	}
	old, err := readSetting(path)
	if err != nil {
		return err
	}
	s.Kept = append(s.Kept, kept{path, old})
	return s.save()
}

// set changes a setting.
func (s *state) set(path, value string) error {
	now, err := readSetting(path)
	if err != nil {
		return err
	}
	if now == value {
		return nil
	}
	if err := s.keep(path); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(value), 0)
}

// found is the value that a setting had before the run.
func (s *state) found(path string) (string, error) {
	for _, k := range s.Kept {
		if k.Path == path {
			return k.Old, nil
		}
	}
	return readSetting(path)
}

func readSetting(path string) (string, error) {
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}

// restore ends what runs, and gives every setting its old value.
func (s *state) restore() error {
	var problems []error
	s.removeMachines()
	problems = append(problems, killMarked(s.Run, s.Dir, 0))
	if slices.Contains(s.In, Pod) {
		problems = append(problems, unmountPodRoot())
	}
	left := s.undoDaemons() // before the settings: the daemons came after those
	problems = append(problems, left)
	for _, k := range slices.Backward(s.Kept) {
		now, err := readSetting(k.Path)
		if err == nil && now != k.Old {
			err = os.WriteFile(k.Path, []byte(k.Old), 0)
		}
		problems = append(problems, err)
	}
	if left == nil && strings.Contains(filepath.Base(s.Dir), ours) {
		problems = append(problems, os.RemoveAll(s.Dir))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return os.Remove(s.file)
}

// undoDaemons has Homenode restore what its daemons of this run changed. A journal that still has entries stays, and
// the error says where.
func (s *state) undoDaemons() error {
	var problems []error
	for _, dir := range slices.Clone(s.Daemons) {
		problems = append(problems, s.undoDaemon(dir))
	}
	return errors.Join(problems...)
}

// undoDaemon does so for the daemon with one state folder, which must have ended.
func (s *state) undoDaemon(dir string) error {
	left, err := liveEntries(dir)
	if err == nil && len(left) > 0 {
		var said string
		var bad error
		for _, id := range left.workloads() { // not --all, which undoes other placements of the user, too
			// A socket where no daemon listens: another daemon of the host must not answer.
			c := exec.Command(s.Homenode, "undo", "--state-dir", dir, "--socket", filepath.Join(dir, "none.sock"), "--",
				string(id))
			out, err := c.CombinedOutput()
			said, bad = said+string(out), errors.Join(bad, err)
		}
		left, err = liveEntries(dir)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%s that homenode changed and did not restore (%v: %s)", words.Count(len(left), "setting"),
				bad, end(said))
		}
	}
	if err != nil {
		return fmt.Errorf("journal in %s: %w; restore them with: homenode undo --all --state-dir %[1]s", dir, err)
	}
	s.Daemons = slices.DeleteFunc(s.Daemons, func(d string) bool { return d == dir })
	return s.save()
}

// entries is settings that are not restored.
type entries []plan.Entry

// workloads is those that the settings are of.
func (all entries) workloads() (out []workload.ID) {
	for i := range all {
		out = append(out, all[i].Workload)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// liveEntries returns the settings in the journal of a state folder.
func liveEntries(dir string) (entries, error) {
	journal, err := store.OpenReadOnly(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the daemon ended before it wrote anything
	}
	if err != nil {
		return nil, err
	}
	all, err := journal.Journal()
	return all, errors.Join(err, journal.Close())
}

// removeMachines removes guests and containers of a run.
func (s *state) removeMachines() {
	if slices.Contains(s.In, Guest) {
		list, _ := answer("virsh", "list", "--name")
		for _, name := range strings.Fields(string(list)) {
			if strings.HasPrefix(name, ours+"-") {
				answer("virsh", "destroy", name) // they are transient
			}
		}
	}
	if slices.Contains(s.In, Pod) {
		list, _ := exec.Command("ctr", "-n", ours, "containers", "list", "-q").Output()
		for _, id := range strings.Fields(string(list)) {
			exec.Command("ctr", "-n", ours, "task", "kill", "-s", "KILL", id).Run()
			exec.Command("ctr", "-n", ours, "task", "delete", "-f", id).Run()
			exec.Command("ctr", "-n", ours, "containers", "delete", id).Run()
		}
	}
}

// killMarked kills all processes of a run: by their environment, or, of those that write over it
// (PostgreSQL), by the run's folder in their command line. It waits until they are gone. The process keep goes on; 0 is
// none.
func killMarked(run, dir string, keep int) error {
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		pids := slices.DeleteFunc(marked(run, dir), func(pid int) bool { return pid == keep })
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("processes %v do not end", pids)
		}
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func marked(run, dir string) []int {
	var out []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		own := slices.ContainsFunc(bytes.Split(environ, []byte{0}),
			func(v []byte) bool { return string(v) == marker+run })
		overwritten := dir != "" && !bytes.Contains(environ, []byte("PATH=")) && bytes.Contains(args, []byte(dir))
		if own || overwritten {
			out = append(out, pid)
		}
	}
	return out
}

// restoreLeft cleans up after a run that was killed. It reports whether there was one.
func restoreLeft(file string) (bool, error) {
	s, err := load(file)
	if err != nil || s == nil {
		return false, err
	}
	return true, s.restore()
}

// keeper starts the process that restores everything when this one is gone.
func keeper(self string) error {
	c := exec.Command(self, "keeper")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	keeping = append(keeping, in)
	return nil
}

// keeping holds the keeper's input, which stays open for as long as this process lives.
var keeping []io.Closer

// keep is the keeper's work: it waits for the end of its input, which the run's end brings.
func keep() error {
	io.Copy(io.Discard, os.Stdin)
	if s, err := load(stateFile); err == nil && s == nil {
		return nil // the run has restored everything
	}
	if err := lock(stateFile); err != nil {
		return nil // another run has begun, which has restored everything
	}
	_, err := restoreLeft(stateFile)
	return err
}
