//go:build linux

package home

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/homenode/homenode/e2e/guest/lab"
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
func homenodeNumactl(t *lab.T) {
	if _, err := os.Stat("/bin/numactl"); err != nil {
		t.Skipf("no numactl from this machine's archive")
	}
	lab.FreshState()
	for _, x := range numactlExamples {
		a := startedBy(t, append([]string{"/bin/numactl"}, strings.Fields(x.numactl)...))
		b := startedBy(t, append(append([]string{lab.HomenodeBin, "--socket", lab.SocketPath, "run", "--quiet"},
			strings.Fields(x.homenode)...), "--"))
		if a != b {
			t.Fatalf("numactl %s: %+v, homenode run %s: %+v", x.numactl, a, x.homenode, b)
		}
		t.Logf("numactl %s = homenode run %s: %+v", x.numactl, x.homenode, a)
	}
	// Who shows what holds says the same of both.
	argv := []string{"/bin/numactl", "--membind=1", lab.HomenodeBin, "run", "--show"}
	r := lab.CaptureFor(lab.CommandLimit, argv, "run --show")
	if r.Exit != lab.ExitOK || !strings.Contains(r.Out, "bind, node 1") {
		t.Fatalf("%s", r)
	}
}

// startedBy runs a walker behind the words of a command line.
func startedBy(t *lab.T, wrap []string) (s started) {
	argv := append(wrap, "/bin/walker", "--slot", "8", "--mib", "8", "--threads", "1", "--place", "local")
	w := t.WalkerBehind(strings.Join(wrap, " "), argv)
	defer w.Kill()
	all, err := lab.NumaMaps(w.PID)
	t.Do(err)
	policies := map[string]bool{}
	for _, m := range all {
		policies[m.Policy] = true
	}
	s.Policies = strings.Join(slices.Sorted(maps.Keys(policies)), " ")
	b := t.Buffer(w)
	s.Buffer = b.Policy
	// Else it lies where it happened to run.
	if _, nodes, named := strings.Cut(b.Policy, ":"); named &&
		(!strings.ContainsAny(nodes, ",-") || strings.HasPrefix(b.Policy, "interleave")) {
		s.Nodes = fmt.Sprint(slices.Sorted(maps.Keys(b.Nodes)))
	}
	s.CPUs, s.Mems = lab.StatusField(w.PID, "Cpus_allowed_list"), lab.StatusField(w.PID, "Mems_allowed_list")
	return s
}
