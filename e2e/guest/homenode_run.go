//go:build linux

package main

import "strings"

// homenodeRun: a command starts in a home: CPUs and memory of one node.
func homenodeRun(t *T) {
	for _, c := range []struct {
		name   string
		daemon bool
		wrap   []string
	}{
		{"root, no daemon", false, nil},
		{"nobody, no daemon", false, viaNobody},
		{"root, daemon", true, nil},
		{"nobody, daemon", true, viaNobody},
	} {
		freshState()
		var d *daemon
		if c.daemon {
			d = t.startDaemon(daemonOptions{mode: "enforce"})
		}
		t.runsAtHome(c.name, c.wrap, "shared", "prefer")
		t.runsAtHome(c.name, c.wrap, "dedicated", "bind")
		if d != nil {
			t.stop(d)
		}
	}

	t.must(homenode("run", "--", "/bin/no-such-thing"), exitNotFound)
	t.must(homenode("run", "--dry-run", "--cpus", "2", "--memory", "64MiB", "--", "/bin/walker"), exitOK)
	t.must(homenode("run", "--cpus", "0", "--", "/bin/walker"), exitUsage)
	t.must(homenode("run", "--class", "golden", "--", "/bin/walker"), exitUsage)
	t.must(homenode("run", "--memory", "64GiB", "--class", "dedicated", "--", "/bin/walker"), exitNo)
	// The command's own status comes through: it becomes the command.
	if r := homenode("run", "--", "/bin/walker", "--no-such-flag"); r.exit != 2 || !strings.Contains(r.err, "no-such-flag") {
		t.Fatalf("%s", r)
	}
}

// runsAtHome starts a walker by homenode run and looks at what it got.
func (t *T) runsAtHome(who string, wrap []string, class, policy string) {
	argv := append(append([]string{}, wrap...), homenodeBin, "--socket", socketPath, "run", "--class", class, "--cpus", "2", "--memory", "64MiB", "--",
		"/bin/walker", "--slot", "8", "--mib", "64", "--threads", "2", "--place", "local")
	w := t.walkerBehind("run as "+class+" ("+who+")", argv)
	defer w.kill()

	var nodes set
	for _, cpus := range allowed(w.pid) {
		nodes |= t.nodesOf(cpus)
	}
	if nodes.size() != 1 {
		t.Fatalf("%s: its threads may use CPUs of nodes %s: %v", w.name, nodes, allowed(w.pid))
	}
	b := t.buffer(w)
	if share(b.nodes, nodes) < 0.99 {
		t.Fatalf("%s: CPUs of node %s, memory %s", w.name, nodes, byNodeText(b.nodes))
	}
	if !strings.HasPrefix(b.policy, policy) || !strings.HasSuffix(b.policy, ":"+nodes.String()) {
		t.Fatalf("%s: memory policy %q, wanted %s of node %s", w.name, b.policy, policy, nodes)
	}
}
