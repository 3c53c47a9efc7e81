//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// numactlExamples is those of numactl(8) that a command starts with, beside the flags of
// homenode run that do the same; netdev: needs a card, and shared memory segments and
// files are not homenode's. 16 CPUs, 4 nodes.
var numactlExamples = []struct{ numactl, homenode string }{
	{"--physcpubind=+0-4,8-12", "--cpus-list +0-4,8-12"},
	{"--interleave=all", "--interleave all"},
	{"--cpunodebind=0 --membind=0,1", "--cpunodebind 0 --membind 0,1"},
	{"--cpunodebind=0 --membind=0,1 --", "-N 0 -m 0,1"},
	{"--preferred=1", "--preferred 1"},
	{"--preferred-many=0x3", "--preferred-many 3"},
	{"--preferred-many=1,2", "--preferred-many 1,2"},
	{"--localalloc", "--localalloc"},
	{"--membind=!0", "--membind !0"},
	{"--balancing --membind=0", "--membind 0 --balancing"},
	{"--physcpubind=all --cpunodebind=all", "--cpus-list all"},
}

// started is how a command runs: what a user of numactl looks at.
type started struct {
	Policies   string // of all its mappings
	Buffer     string // policy of its memory
	Nodes      string // that its memory lies on, where the policy names them
	CPUs, Mems string
}

// homenodeNumactl: each example of numactl's manual and the homenode line beside it start a
// command alike.
func homenodeNumactl(t *T) {
	if _, err := os.Stat("/bin/numactl"); err != nil {
		t.Skipf("no numactl from this machine's archive")
	}
	freshState()
	for _, x := range numactlExamples {
		a := t.startedBy(append([]string{"/bin/numactl"}, strings.Fields(x.numactl)...))
		b := t.startedBy(append(append([]string{homenodeBin, "--socket", socketPath, "run", "--quiet"}, strings.Fields(x.homenode)...), "--"))
		if a != b {
			t.Fatalf("numactl %s: %+v, homenode run %s: %+v", x.numactl, a, x.homenode, b)
		}
		t.Logf("numactl %s = homenode run %s: %+v", x.numactl, x.homenode, a)
	}
	// Who shows what holds says the same of both.
	r := captureFor(commandLimit, []string{"/bin/numactl", "--membind=1", homenodeBin, "run", "--show"}, "run --show")
	if r.exit != exitOK || !strings.Contains(r.out, "bind, node 1") {
		t.Fatalf("%s", r)
	}
}

// startedBy runs a walker behind the words of a command line.
func (t *T) startedBy(wrap []string) (s started) {
	argv := append(wrap, "/bin/walker", "--slot", "8", "--mib", "8", "--threads", "1", "--place", "local")
	w := t.walkerBehind(strings.Join(wrap, " "), argv)
	defer w.kill()
	all, err := numaMaps(w.pid)
	t.Do(err)
	policies := map[string]bool{}
	for _, m := range all {
		policies[m.policy] = true
	}
	s.Policies = strings.Join(slices.Sorted(maps.Keys(policies)), " ")
	b := t.buffer(w)
	s.Buffer = b.policy
	// Else it lies where it happened to run.
	if _, nodes, named := strings.Cut(b.policy, ":"); named && (!strings.ContainsAny(nodes, ",-") || strings.HasPrefix(b.policy, "interleave")) {
		s.Nodes = fmt.Sprint(slices.Sorted(maps.Keys(b.nodes)))
	}
	s.CPUs, s.Mems = statusField(w.pid, "Cpus_allowed_list"), statusField(w.pid, "Mems_allowed_list")
	return s
}
