package observe

import (
	"testing"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// atTerminal makes a process the leader of the session of a terminal.
func (p *fakeProc) atTerminal(pid int) *fakeProc {
	p.session, p.tty = pid, 0x8801
	return p
}

// TestInheritedPin: what a process that homenode has pinned starts has its CPUs, and nobody
// else has set those.
func TestInheritedPin(t *testing.T) {
	m := newFake()
	const scope = "/user.slice/user-0.slice/session-1.scope"
	for _, g := range []string{"/user.slice", "/user.slice/user-0.slice", scope} {
		m.group(g, fakeGroup{})
	}
	m.proc(100, 1, "make", scope, 100*mib).threads[0].cpus = "0-3"
	m.proc(101, 100, "sh", scope, mib).threads[0].cpus = "0-3"
	m.proc(102, 101, "cc", scope, 100*mib).threads[0].cpus = "0-3"
	m.proc(103, 101, "ld", scope, 100*mib).threads[0].cpus = "2"
	s := newRig(t, m, Options{}).expecting("pid:100", topology.CPUs(0, 1, 2, 3)).look()
	for id, pinned := range map[workload.ID]bool{"pid:100": false, "pid:102": false, "pid:103": true} {
		if o := find(t, s, id); o.Pinned != pinned {
			t.Errorf("%s: pinned is %v: %s", id, o.Pinned, o.PinnedWhy)
		}
	}
}

// TestShellsOfTerminals: the shell of a terminal, and what starts such shells, are told
// from what is started there, which is looked at by itself.
func TestShellsOfTerminals(t *testing.T) {
	m := newFake()
	const scope = "/user.slice/user-0.slice/session-1.scope"
	for _, g := range []string{"/user.slice", "/user.slice/user-0.slice", scope} {
		m.group(g, fakeGroup{})
	}
	m.proc(100, 1, "sshd-session", scope, 8*mib)
	m.proc(110, 100, "bash", scope, 80*mib).atTerminal(110)
	m.proc(111, 110, "redis", scope, 100*mib)
	m.proc(112, 110, "make", scope, mib) // with its compilers, each of them small
	m.proc(113, 112, "cc", scope, 40*mib)
	m.proc(114, 112, "cc", scope, 40*mib)
	m.proc(115, 110, "ls", scope, mib)
	m.proc(120, 1, "tmux: server", scope, 90*mib).session = 120
	m.proc(121, 120, "zsh", scope, 4*mib).atTerminal(121)
	m.proc(122, 121, "train", scope, 100*mib)
	m.proc(130, 120, "solver", scope, 70*mib).atTerminal(130)
	m.proc(140, 120, "bash", scope, 70*mib).session = 140 // of no terminal
	m.proc(150, 120, "fish", scope, 4*mib).atTerminal(150)
	m.proc(151, 150, "vi", scope, 4*mib)
	r := newRig(t, m, Options{})
	r.with.Registered = []workload.Process{{PID: 150, Start: 150}}
	s := r.look()
	want := map[workload.ID]struct {
		terminal  bool
		processes int
	}{
		"pid:110": {true, 1},
		"pid:111": {false, 1},
		"pid:112": {false, 3},
		"pid:120": {true, 1},
		"pid:122": {false, 1},
		"pid:130": {false, 1}, // a program on a terminal of its own is no shell
		"pid:140": {false, 1},
		"pid:150": {true, 2}, // `homenode run` has placed it, with all of it
	}
	for _, o := range s.Observations {
		if w, ok := want[o.ID]; !ok || o.Terminal != w.terminal || len(o.Processes) != w.processes {
			t.Errorf("%s %s: terminal is %v, %d processes", o.ID, o.Name, o.Terminal, len(o.Processes))
		}
		delete(want, o.ID)
	}
	for id := range want {
		t.Errorf("%s is not seen", id)
	}
	if s.Uptime != m.uptime {
		t.Errorf("up for %v", s.Uptime)
	}
}

// TestShellIsNoWorkload: many small things that a shell starts are not one workload, and
// make none of it.
func TestShellIsNoWorkload(t *testing.T) {
	m := newFake()
	const scope = "/user.slice/user-0.slice/tmux-spawn-0123.scope"
	for _, g := range []string{"/user.slice", "/user.slice/user-0.slice", scope} {
		m.group(g, fakeGroup{})
	}
	m.proc(110, 1, "bash", scope, 4*mib).atTerminal(110)
	for pid := 111; pid < 120; pid++ {
		m.proc(pid, 110, "sleep", scope, 20*mib)
	}
	if s := newRig(t, m, Options{}).look(); len(s.Observations) != 0 || s.Small == 0 {
		t.Errorf("%d workloads, %d small", len(s.Observations), s.Small)
	}
}
