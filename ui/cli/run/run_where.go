package run

import (
	"bufio"
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
)

// where is the flags of run that say where, as numactl(8) has them.
type where struct {
	nodes, cpusList, cpuNodes                             string
	bind, preferred, preferredMany, interleaved, weighted string
	local, balancing                                      bool
	policy                                                string // --policy; "" is none
	nice                                                  int
	memory                                                string // the flag that names the memory policy; "" is none
	start                                                 cli.Start
	exact                                                 bool   // nothing is to be searched
	strict                                                bool   // a daemon has to answer
	all                                                   bool   // of the machine, not of the cpuset
	typed                                                 string // another name of --cpus-list that was typed
}

func (w *where) flags(f *pflag.FlagSet) {
	f.StringVar(&w.nodes, "nodes", "", "find the home among these `NODES`, such as 0,1, +0 or !2")
	f.StringVarP(&w.cpusList, "cpus-list", "C", "", "exactly these `CPUS`, such as 0-3,8, +0-1, !2 or all")
	f.StringVarP(&w.cpuNodes, "cpunodebind", "N", "", "exactly the CPUs of these `NODES`")
	f.StringVarP(&w.bind, "membind", "m", "", "memory from these `NODES` only")
	f.StringVarP(&w.preferred, "preferred", "p", "", "memory from this `NODE` while it has room")
	f.StringVarP(&w.preferredMany, "preferred-many", "P", "", "memory from these `NODES` while they have room")
	f.StringVarP(&w.interleaved, "interleave", "i", "", "memory from these `NODES` in turn")
	f.StringVarP(&w.weighted, "weighted-interleave", "w", "",
		"memory from these `NODES` in turn, by the kernel's weights (Linux 6.9)")
	f.StringVar(&w.policy, "policy", "", "bandwidth: memory from its home and the slower memory next to it in turn, "+
		"by the kernel's weights (Linux 6.9)")
	f.BoolVarP(&w.local, "localalloc", "l", false, "memory from the node it runs on")
	f.BoolVarP(&w.balancing, "balancing", "b", false,
		"let NUMA balancing move pages among --membind or --preferred-many")
	f.BoolVar(&w.start.Scope, "scope", false, "run it in a systemd scope, a cgroup of its own")
	f.StringVar(&w.start.Unit, "unit", "", "`NAME` of the scope")
	f.IntVar(&w.nice, "nice", 0, "nice value, -20 to 19")
	f.BoolVarP(&w.all, "all", "a", false, "name CPUs and nodes beyond this cpuset, too")
	f.StringVarP(&w.cpuNodes, "cpubind", "c", "", "old name of --cpunodebind")
	f.Lookup("cpubind").Hidden = true
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		switch name {
		case "physcpubind": // numactl's names
			w.typed, name = name, "cpus-list"
		case "nodebind":
			name = "cpubind"
		}
		return pflag.NormalizedName(name)
	})
}

// policies is the flags that name a memory policy.
var policies = []struct {
	flag   string
	memory cli.Memory
}{
	{"membind", cli.MemoryBind}, {"preferred", cli.MemoryPreferred}, {"preferred-many", cli.MemoryMany},
	{"interleave", cli.MemoryInterleave},
	{"weighted-interleave", cli.MemoryWeighted}, {"localalloc", cli.MemoryLocal},
}

// read checks the flags against each other and against what this process may have. home is
// the nodes that a home is to be found among; empty is any.
func (w *where) read(c *cobra.Command, e *cli.Env) (home topology.NodeSet, err error) {
	f := c.Flags()
	given := func(names ...string) string {
		for _, n := range names {
			if f.Changed(n) {
				return n
			}
		}
		return ""
	}
	for _, p := range policies {
		if !f.Changed(p.flag) {
			continue
		}
		if w.memory != "" {
			return home, cli.Usagef("--%s and --%s are two memory policies; a command has one", w.memory, p.flag)
		}
		w.memory, w.start.Memory = p.flag, p.memory
	}
	if err := w.checkPolicy(); err != nil {
		return home, err
	}
	if w.balancing && w.start.Memory != cli.MemoryBind && w.start.Memory != cli.MemoryMany {
		return home, cli.Usagef("--balancing goes with --membind or --preferred-many")
	}
	switch {
	case w.start.Unit != "" && !w.start.Scope:
		return home, cli.Usagef("--unit goes with --scope")
	case w.start.Scope && c.Flag("class").Value.String() == string(workload.Dedicated):
		return home,
			cli.Usagef("--scope and --class dedicated do not go together: the daemon books CPUs for a process, and " +
				"leaves a scope with CPUs of its own to itself")
	}
	if f.Changed("nice") {
		if w.nice < -20 || w.nice > 19 {
			return home, cli.Usagef("--nice %d: want -20 to 19", w.nice)
		}
		w.start.Nice = &w.nice
	}
	w.start.Balancing = w.balancing
	if f.Changed("cpubind") {
		if f.Changed("cpunodebind") {
			return home, cli.Usagef("--cpubind is the old name of --cpunodebind; leave one out")
		}
		if err := f.Set("cpunodebind", w.cpuNodes); err != nil {
			return home, err
		}
	}
	cpus := given("cpus-list", "cpunodebind")
	switch {
	case f.Changed("cpus-list") && f.Changed("cpunodebind"):
		return home, cli.Usagef("--cpus-list and --cpunodebind both name the CPUs; leave one out")
	case cpus != "" && given("nodes", "near", "cpus") != "":
		return home, cli.Usagef("--%s names the CPUs, and then --%s has nothing to say; leave one out", cpus,
			given("nodes", "near", "cpus"))
	}
	w.exact = cpus != "" || (w.memory != "" && given("nodes", "near", "cpus", "class", "tier") == "")
	if cpus == "" && w.memory == "" && w.nodes == "" && !f.Changed("nodes") {
		return home, nil
	}
	at, err := readWhereabouts(e)
	if err != nil {
		return home, err
	}
	if w.all {
		at.all()
	}
	if f.Changed("nodes") {
		if home, err = at.named("nodes", w.nodes, at.online, ""); err != nil {
			return home, err
		}
	}
	switch cpus {
	case "cpus-list":
		if w.start.CPUs, err = at.cpusNamed(cmp.Or(w.typed, "cpus-list"), w.cpusList); err != nil {
			return home, err
		}
	case "cpunodebind":
		on, err := at.named("cpunodebind", w.cpuNodes, at.online, "")
		if err != nil {
			return home, err
		}
		for n := range on.All() {
			w.start.CPUs = w.start.CPUs.Union(at.of[n])
		}
		if w.start.CPUs = w.start.CPUs.Intersect(at.cpus); w.start.CPUs.Empty() {
			return home, cli.Usagef("--cpunodebind %s: no CPU of node %s is allowed here; allowed: CPUs %s", w.cpuNodes,
				on, at.cpus)
		}
	}
	return home, w.readMemory(c, at)
}

// readMemory reads the nodes of a memory policy.
func (w *where) readMemory(c *cobra.Command, at *whereabouts) (err error) {
	if w.memory == "" || w.start.Memory == cli.MemoryLocal {
		return nil
	}
	text := c.Flags().Lookup(w.memory).Value.String()
	if w.start.Nodes, err = at.named(w.memory, text, at.mems, "memory"); err != nil {
		return err
	}
	if n := w.start.Nodes.Len(); w.start.Memory == cli.MemoryPreferred && n != 1 {
		return cli.Usagef("--preferred %s: %d nodes; --preferred-many takes several", text, n)
	}
	return nil
}

// whereabouts is the nodes of this machine and what this process may have of them.
type whereabouts struct {
	online topology.NodeSet
	mems   topology.NodeSet // it may take memory from
	of     map[topology.NodeID]topology.CPUSet
	cpus   topology.CPUSet // it can be put on
	root   fs.FS
	memory topology.NodeSet // that have any
}

func readWhereabouts(e *cli.Env) (*whereabouts, error) {
	now, err := e.Where()
	if err != nil {
		return nil, cli.Forbiddenf("what this process may use: %w", err)
	}
	const nodes = "sys/devices/system/node/"
	at := &whereabouts{cpus: now.CPUs, of: map[topology.NodeID]topology.CPUSet{}, root: e.Root}
	online, err := readSet[topology.NodeID](e.Root, nodes+"online")
	if err != nil { // a kernel without NUMA
		at.online = topology.Nodes(0)
		at.memory = topology.Nodes(0)
		at.mems = topology.Nodes(0)
		at.of[0] = now.CPUs
		return at, nil
	}
	at.online, at.memory = online, online
	if has, err := readSet[topology.NodeID](e.Root, nodes+"has_memory"); err == nil {
		at.memory = has.Intersect(online)
	}
	for n := range online.All() {
		if at.of[n], err = readSet[topology.CPUID](e.Root, fmt.Sprintf("%snode%d/cpulist", nodes, n)); err != nil {
			return nil, cli.Forbiddenf("CPUs of node %d: %w", n, err)
		}
	}
	at.mems = at.memory
	if f, err := e.Root.Open("proc/self/status"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if list, is := strings.CutPrefix(s.Text(), "Mems_allowed_list:"); is {
				if mems, err := topology.ParseNodeSet(strings.TrimSpace(list)); err == nil {
					at.mems = mems.Intersect(at.memory)
				}
			}
		}
	}
	return at, nil
}

func readSet[T ~int](root fs.FS, name string) (topology.Set[T], error) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return topology.Set[T]{}, err
	}
	return topology.ParseSet[T](strings.TrimSpace(string(text)))
}

// named is the nodes of a flag, all of which must be among may; what is what they are for.
func (at *whereabouts) named(flag, text string, may topology.NodeSet, what string) (topology.NodeSet, error) {
	set, err := parseWhere(text, may)
	if err != nil {
		return set, cli.Usagef("--%s: %w", flag, err)
	}
	bad := set.Minus(may)
	if bad.Empty() {
		return set, nil
	}
	n := bad.Min()
	why := fmt.Sprintf("node %d is outside this cpuset", n)
	switch {
	case !at.online.Has(n):
		why = fmt.Sprintf("this machine has no node %d", n)
	case what == "memory" && !at.memory.Has(n):
		why = fmt.Sprintf("node %d has no memory", n)
	}
	return set, cli.Usagef("--%s %s: %s; allowed: %s", flag, text, why, may)
}

func (at *whereabouts) cpusNamed(flag, text string) (topology.CPUSet, error) {
	set, err := parseWhere(text, at.cpus)
	if err != nil {
		return set, cli.Usagef("--%s: %w", flag, err)
	}
	bad := set.Minus(at.cpus)
	if bad.Empty() {
		return set, nil
	}
	cpu := bad.Min()
	why := fmt.Sprintf("CPU %d is outside this cpuset", cpu)
	if present, err := readSet[topology.CPUID](at.root, "sys/devices/system/cpu/present"); err == nil &&
		!present.Has(cpu) {
		why = fmt.Sprintf("this machine has no CPU %d", cpu)
	} else if online, err := readSet[topology.CPUID](at.root, "sys/devices/system/cpu/online"); err == nil &&
		!online.Has(cpu) {
		why = fmt.Sprintf("CPU %d is offline", cpu)
	}
	return set, cli.Usagef("--%s %s: %s; allowed: %s", flag, text, why, at.cpus)
}

// placingFlags is the flags of run that say where or how large; --show takes none of them.
var placingFlags = []string{"class", "tier", "cpus", "memory", "near", "nodes", "cpus-list", "cpunodebind", "membind",
	"preferred", "preferred-many",
	"interleave", "weighted-interleave", "localalloc", "balancing", "all", "cpubind", "nice", "scope", "unit", "name",
	"dry-run", "or-anyway", "quiet",
	"policy"}

// shown is what holds for a command that starts here.
type shown struct {
	Schema string `json:"schema"`
	// Policy is memory policy, as in /proc/PID/numa_maps: default, bind, prefer, "prefer (many)",
	// interleave, "weighted interleave" or local.
	Policy      string           `json:"policy"`
	PolicyNodes topology.NodeSet `json:"policy_nodes"` // nodes of the memory policy; empty where it names none
	CPUs        topology.CPUSet  `json:"cpus"`         // CPUs of the affinity
	CPUNodes    topology.NodeSet `json:"cpu_nodes"`    // nodes of these CPUs
	Mems        topology.NodeSet `json:"mems"`         // nodes that memory may come from, by the cpuset
	AllowedCPUs topology.CPUSet  `json:"allowed_cpus"` // CPUs that the cpuset allows
	Nice        int              `json:"nice"`         // nice value, -20 to 19
}

func show(c *cobra.Command, e *cli.Env, args []string, asJSON bool) error {
	if i := slices.IndexFunc(placingFlags, c.Flags().Changed); i >= 0 || len(args) > 0 {
		what := "command"
		if i >= 0 {
			what = "--" + placingFlags[i]
		}
		return cli.Usagef("--show shows the current settings and takes no %s; to see those of a start: homenode run "+
			"… -- homenode run --show", what)
	}
	now, err := e.Where()
	if err != nil {
		return cli.Forbiddenf("%w", err)
	}
	at, err := readWhereabouts(e)
	if err != nil {
		return err
	}
	s := shown{"homenode-show/1", now.Policy, now.OfNodes, now.Now, topology.NodeSet{}, at.mems, now.CPUs, now.Nice}
	for n, cpus := range at.of {
		if cpus.Intersects(now.Now) {
			s.CPUNodes.Add(n)
		}
	}
	if asJSON {
		return cli.PrintJSON(e.Stdout, s)
	}
	policy := s.Policy
	if !s.PolicyNodes.Empty() {
		policy += ", " + words.Nodes(s.PolicyNodes)
	}
	_, err = fmt.Fprintf(e.Stdout,
		"memory policy      %s\nmemory from nodes  %s\nCPUs               %s\nnodes of the CPUs  %s\nCPUs of the "+
			"cpuset %s\nnice               %d\n",
		policy, s.Mems, s.CPUs, s.CPUNodes, s.AllowedCPUs, s.Nice)
	return err
}
