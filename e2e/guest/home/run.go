//go:build linux

package home

import (
	"strings"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// homenodeRun: a command starts in a home: CPUs and memory of one node.
func homenodeRun(t *lab.T) {
	for _, c := range []struct {
		name   string
		daemon bool
		wrap   []string
	}{
		{"root, no daemon", false, nil},
		{"nobody, no daemon", false, lab.ViaNobody},
		{"root, daemon", true, nil},
		{"nobody, daemon", true, lab.ViaNobody},
	} {
		lab.FreshState()
		var d *lab.Daemon
		if c.daemon {
			d = t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
		}
		runsAtHome(t, c.name, c.wrap, "shared", "prefer")
		runsAtHome(t, c.name, c.wrap, "dedicated", "bind")
		if d != nil {
			t.Stop(d)
		}
	}

	t.Must(lab.Homenode("run", "--", "/bin/no-such-thing"), lab.ExitNotFound)
	t.Must(lab.Homenode("run", "--dry-run", "--cpus", "2", "--memory", "64MiB", "--", "/bin/walker"), lab.ExitOK)
	t.Must(lab.Homenode("run", "--cpus", "0", "--", "/bin/walker"), lab.ExitUsage)
	t.Must(lab.Homenode("run", "--class", "golden", "--", "/bin/walker"), lab.ExitUsage)
	t.Must(lab.Homenode("run", "--memory", "64GiB", "--class", "dedicated", "--", "/bin/walker"), lab.ExitNo)
	// The command's own status comes through: it becomes the command.
	if r := lab.Homenode("run", "--", "/bin/walker", "--no-such-flag"); r.Exit != 2 ||
		!strings.Contains(r.Err, "no-such-flag") {
		t.Fatalf("%s", r)
	}
}

// runsAtHome starts a walker by homenode run and looks at what it got.
func runsAtHome(t *lab.T, who string, wrap []string, class, policy string) {
	argv := append(append([]string{}, wrap...), lab.HomenodeBin, "--socket", lab.SocketPath, "run", "--class", class,
		"--cpus", "2", "--memory", "64MiB", "--",
		"/bin/walker", "--slot", "8", "--mib", "64", "--threads", "2", "--place", "local")
	w := t.WalkerBehind("run as "+class+" ("+who+")", argv)
	defer w.Kill()

	var nodes lab.Set
	for _, cpus := range lab.Allowed(w.PID) {
		nodes |= t.NodesOf(cpus)
	}
	if nodes.Size() != 1 {
		t.Fatalf("%s: its threads may use CPUs of nodes %s: %v", w.Name, nodes, lab.Allowed(w.PID))
	}
	b := t.Buffer(w)
	if lab.Share(b.Nodes, nodes) < 0.99 {
		t.Fatalf("%s: CPUs of node %s, memory %s", w.Name, nodes, lab.ByNodeText(b.Nodes))
	}
	if !strings.HasPrefix(b.Policy, policy) || !strings.HasSuffix(b.Policy, ":"+nodes.String()) {
		t.Fatalf("%s: memory policy %q, wanted %s of node %s", w.Name, b.Policy, policy, nodes)
	}
}
