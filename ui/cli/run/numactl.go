package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/topology/strict"
	"github.com/homenode/homenode/ui/cli"
)

// Programs that this one stands in for: by their name as a command, and as the name it is called by.
var Programs = []string{"migratepages", "numactl", "numad", "numastat", "taskset"}

// ProgramCommand is the command for one of programs; nil for any other name.
func ProgramCommand(e *cli.Env, name string) *cobra.Command {
	switch name {
	case "migratepages":
		return migratepagesCommand(e)
	case "numactl":
		return numactlCommand(e)
	case "numad":
		return numadCommand(e)
	case "numastat":
		return numastatCommand(e)
	case "taskset":
		return tasksetCommand(e)
	}
	return nil
}

// standIn is the command for another program: its command line is that of the program, and so is the exit
// status of what goes wrong.
func standIn(use, short, long, example string, run func(c *cobra.Command, args []string) error) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Example: example, DisableFlagParsing: true}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 1 && (args[0] == "--help" || args[0] == "-h") {
			return c.Help()
		}
		err := run(c, args)
		var exit *cli.Exit
		if err == nil || (errors.As(err, &exit) && (exit.Code >= cli.ExitNotRun || exit == cli.ErrNo) &&
			c.Name() == "taskset") {
			return err
		}
		return cli.No(errors.New(err.Error())) // whatever it is of, that is its status
	}
	return c
}

// eachFlag is a flag that does something where it stands: numactl goes by their order.
type eachFlag struct {
	do   func(string) error
	bare bool
}

func (f eachFlag) String() string        { return "" }
func (f eachFlag) Set(text string) error { return f.do(text) }
func (f eachFlag) Type() string {
	if f.bare {
		return "bool"
	}
	return "string"
}

// flagsOf makes flags that begin options of another program may shorten (getopt_long(3)).
func flagsOf(name string, all []standInFlag) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.SetInterspersed(false)
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, typed string) pflag.NormalizedName {
		found := typed
		n := 0
		for i := range all {
			switch {
			case all[i].name == typed:
				return pflag.NormalizedName(typed)
			case strings.HasPrefix(all[i].name, typed):
				found = all[i].name
				n++
			}
		}
		if n == 1 {
			return pflag.NormalizedName(found)
		}
		return pflag.NormalizedName(typed)
	})
	for i := range all {
		x := &all[i]
		f.VarP(eachFlag{x.do, x.bare}, x.name, x.letter, "")
		if x.bare {
			f.Lookup(x.name).NoOptDefVal = "true"
		}
	}
	return f
}

type standInFlag struct {
	name, letter string
	bare         bool
	do           func(string) error
}

var (
	refused       = regexp.MustCompile(`^invalid argument ".*" for ".*" flag: (.*)$`)
	unknownLetter = regexp.MustCompile(`^unknown shorthand flag: '(.)' in `)
	NoValue       = regexp.MustCompile(`^flag needs an argument: (?:'.' in )?(-\S+)$`)
)

// badFlag says what is wrong with options of another program.
func badFlag(f *pflag.FlagSet, err error) error {
	text := err.Error()
	if m := refused.FindStringSubmatch(text); m != nil {
		return errors.New(m[1])
	}
	if m := unknownLetter.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("unknown option -%s; see `homenode %s --help`", m[1], f.Name())
	}
	if m := NoValue.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("%s wants a value; see `homenode %s --help`", m[1], f.Name())
	}
	if name, is := strings.CutPrefix(text, "unknown flag: --"); is {
		var known []string
		f.VisitAll(func(x *pflag.Flag) { known = append(known, x.Name) })
		if near := strict.Nearest(name, known); near != "" {
			return fmt.Errorf("unknown option --%s; did you mean --%s?", name, near)
		}
		return fmt.Errorf("unknown option --%s; see `homenode %s --help`", name, f.Name())
	}
	return errors.New(text)
}

// numactl is a command line of numactl(8).
type numactl struct {
	e         *cli.Env
	at        *whereabouts
	all       bool // of the machine, not of the cpuset
	start     cli.Start
	policy    string // the flag that named the memory policy
	same      topology.NodeSet
	show, hw  bool
	placed    bool // CPUs or a memory policy were named
	segment   cli.Segment
	shared    string // the flag that named shared memory
	strict    bool
	only      string // a flag that goes with shared memory alone
	did       bool   // something was done to a segment
	balancing bool
}

func numactlCommand(e *cli.Env) *cobra.Command {
	return standIn("numactl [OPTION]… [--] COMMAND [ARG…]", "Do what numactl(8) does, in its words",
		`Takes the command line of numactl(8): where a command runs and where its memory
comes from, --show, --hardware, and policies of shared memory (--shm, --shmid, --file).
A running daemon learns of the command. Exit status: that of the command; 1 when
it could not be started.

Called as numactl, this program is it: ln -s $(command -v homenode) /usr/local/bin/numactl

Beyond numactl: a mask such as 0x3 is nodes 0 and 1, as its manual page has it.`,
		"  homenode numactl --cpunodebind=0 --membind=0,1 -- redis-server\n  homenode numactl --interleave=all "+
			"mysqld\n  homenode numactl --hardware",
		func(c *cobra.Command, args []string) error {
			n := &numactl{e: e}
			n.segment.ID = -1
			return n.run(c, args)
		})
}

func (n *numactl) run(c *cobra.Command, args []string) (err error) {
	if n.at, err = readWhereabouts(n.e); err != nil {
		return err
	}
	policy := func(flag string, m cli.Memory) func(string) error {
		return func(text string) error { return n.setPolicy(flag, m, text) }
	}
	shared := func(flag string, do func(string) error) func(string) error {
		return func(text string) error {
			if n.only == "" {
				n.only = flag
			}
			return do(text)
		}
	}
	f := flagsOf("numactl", []standInFlag{
		{"all", "a", true, func(string) error { n.all = true; n.at.all(); return nil }},
		{"balancing", "b", true, func(string) error { n.balancing = true; return nil }},
		{"interleave", "i", false, policy("interleave", cli.MemoryInterleave)},
		{"weighted-interleave", "w", false, policy("weighted-interleave", cli.MemoryWeighted)},
		{"preferred", "p", false, policy("preferred", cli.MemoryPreferred)},
		{"preferred-many", "P", false, policy("preferred-many", cli.MemoryMany)},
		{"membind", "m", false, policy("membind", cli.MemoryBind)},
		{"localalloc", "l", true, policy("localalloc", cli.MemoryLocal)},
		{"cpunodebind", "N", false, func(text string) error { return n.nodeCPUs("cpunodebind", text) }},
		{"cpubind", "c", false, func(text string) error { return n.nodeCPUs("cpubind", text) }},
		{"nodebind", "", false, func(text string) error { return n.nodeCPUs("nodebind", text) }},
		{"physcpubind", "C", false, n.cpus},
		{"show", "s", true, func(string) error { n.show = true; return nil }},
		{"hardware", "H", true, func(string) error { n.hw = true; return nil }},
		{"shm", "S", false, func(text string) error { n.segment.KeyFile = text; n.shared = "shm"; return nil }},
		{"shmid", "I", false, func(text string) error {
			n.shared = "shmid"
			n.segment.ID, err = strconv.Atoi(text)
			if err != nil || n.segment.ID < 0 {
				return fmt.Errorf("--shmid %q: want the number of a segment, which `ipcs -m` lists", text)
			}
			return nil
		}},
		{"file", "f", false, func(text string) error { n.segment.File = text; n.shared = "file"; return nil }},
		{"huge", "u", true, shared("huge", func(string) error { n.segment.Huge = true; return nil })},
		{"offset", "o", false,
			shared("offset", func(text string) error { return n.size("offset", text, &n.segment.Offset) })},
		{"length", "L", false,
			shared("length", func(text string) error { return n.size("length", text, &n.segment.Length) })},
		{"strict", "t", true, shared("strict", func(string) error { n.strict = true; return nil })},
		{"shmmode", "M", false, shared("shmmode", func(text string) error {
			mode, err := strconv.ParseUint(text, 8, 12)
			if err != nil {
				return fmt.Errorf("--shmmode %q: want an octal mode such as 0600", text)
			}
			n.segment.Mode = uint32(mode)
			return nil
		})},
		{"touch", "T", true,
			shared("touch",
				func(string) error { return n.onSegment(func(s cli.OpenSegment) error { s.Touch(); return nil }) })},
		{"dump", "d", true, shared("dump", func(string) error {
			return n.onSegment(func(s cli.OpenSegment) error { return s.Dump(n.e.Stdout, false) })
		})},
		{"dump-nodes", "D", true, shared("dump-nodes", func(string) error {
			return n.onSegment(func(s cli.OpenSegment) error { return s.Dump(n.e.Stdout, true) })
		})},
	})
	if err := f.Parse(args); err != nil {
		return badFlag(f, err)
	}
	command := f.Args()
	switch {
	case n.shared != "" && len(command) > 0:
		return fmt.Errorf("--%s sets the policy of shared memory and starts no command: leave out %q", n.shared,
			command[0])
	case n.shared != "" && !n.did:
		return fmt.Errorf("--%s: say a memory policy after it, such as --interleave=all", n.shared)
	case n.shared != "":
		return nil
	case n.only != "":
		return fmt.Errorf("--%s goes with shared memory: say --shm, --shmid or --file before it", n.only)
	case n.hw:
		return n.hardware()
	case n.show && !n.placed:
		return n.showNow()
	case n.show:
		return errors.New("--show shows the current settings; to see those of a start: numactl … numactl --show")
	case len(command) == 0 && n.policy == "localalloc":
		return errors.New("name a command, or the shared memory with --shm or --file before the policy")
	case len(command) == 0:
		return errors.New("name the command to run")
	}
	if n.balancing && n.start.Memory == cli.MemoryBind {
		n.start.Balancing = true
	}
	return n.exec(c, command)
}

// exec becomes the command: as run does, which tells the daemon, unless it is to go beyond the cpuset.
func (n *numactl) exec(c *cobra.Command, command []string) error {
	if n.all || !n.placed {
		path, err := exec.LookPath(command[0])
		if err != nil {
			return notRun(command[0], err)
		}
		return notRun(command[0], n.e.Exec(n.start, path, command))
	}
	return runQuietly(c.Context(), n.e, &n.start, command)
}

// runQuietly starts a command as `homenode run` does for a person who says where.
func runQuietly(ctx context.Context, e *cli.Env, s *cli.Start, command []string) error {
	args := []string{"run", "--quiet"}
	if !s.CPUs.Empty() {
		args = append(args, "--cpus-list", s.CPUs.String())
	}
	for _, p := range policies {
		switch {
		case p.memory != s.Memory:
		case p.memory == cli.MemoryLocal:
			args = append(args, "--"+p.flag)
		default:
			args = append(args, "--"+p.flag, s.Nodes.String())
		}
	}
	if s.Balancing {
		args = append(args, "--balancing")
	}
	root := &cobra.Command{Use: "homenode", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(RunCommand(e))
	root.SetArgs(append(append(args, "--"), command...))
	return root.ExecuteContext(ctx)
}

// all lets a command line name all that the machine has.
func (at *whereabouts) all() {
	at.mems = at.memory
	if online, err := readSet[topology.CPUID](at.root, "sys/devices/system/cpu/online"); err == nil {
		at.cpus = online
	}
}

func (n *numactl) setPolicy(flag string, m cli.Memory, text string) (err error) {
	var nodes topology.NodeSet
	if m != cli.MemoryLocal {
		if nodes, err = n.nodes(flag, text, n.at.mems, "memory"); err != nil {
			return err
		}
		if k := nodes.Len(); m == cli.MemoryPreferred && k != 1 {
			return fmt.Errorf("--preferred %s: %d nodes; --preferred-many takes several", text, k)
		}
	}
	if n.shared != "" {
		n.did = true
		return n.onSegment(func(s cli.OpenSegment) error { return s.SetPolicy(m, nodes, n.strict) })
	}
	if n.policy != "" && n.policy != flag {
		return fmt.Errorf("--%s and --%s are two memory policies; a command has one", n.policy, flag)
	}
	n.policy, n.placed = flag, true
	n.start.Memory, n.start.Nodes = m, nodes
	return nil
}

// onSegment does something with the range that the flags so far name.
func (n *numactl) onSegment(do func(cli.OpenSegment) error) error {
	if n.shared == "" {
		return errors.New("say --shm, --shmid or --file before this option and before a memory policy")
	}
	s, err := n.e.ByHand.Segment(n.segment)
	if err != nil {
		return fmt.Errorf("--%s: %w", n.shared, err)
	}
	n.did = true
	err = do(s)
	if closed := s.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("--%s: %w", n.shared, err)
	}
	return nil
}

func (n *numactl) size(flag, text string, into *int64) error {
	unit := text
	if strings.HasSuffix(strings.ToLower(unit), "m") || strings.HasSuffix(strings.ToLower(unit), "g") ||
		strings.HasSuffix(strings.ToLower(unit), "k") {
		unit += "iB"
	}
	size, err := humanize.ParseBytes(unit)
	if err != nil || size > 1<<50 || strings.HasPrefix(text, "-") {
		return fmt.Errorf("--%s %q: want bytes, or a number with k, m or g", flag, text)
	}
	*into = int64(size)
	return nil
}

func (n *numactl) nodeCPUs(flag, text string) error {
	on, err := n.nodes(flag, text, n.at.online, "")
	if err != nil {
		return err
	}
	var cpus topology.CPUSet
	for node := range on.All() {
		cpus = cpus.Union(n.at.of[node])
	}
	if n.start.CPUs = cpus.Intersect(n.at.cpus); n.start.CPUs.Empty() {
		return fmt.Errorf("--%s %s: no CPU of node %s is allowed here; allowed: CPUs %s", flag, text, on, n.at.cpus)
	}
	n.placed = true
	return nil
}

func (n *numactl) cpus(text string) error {
	set, err := n.at.cpusNamed("physcpubind", text)
	if err != nil {
		return err
	}
	n.start.CPUs, n.placed = set, true
	return nil
}

// nodes is the nodes that a text names: numbers, the node of a device, or those named before.
func (n *numactl) nodes(flag, text string, may topology.NodeSet, what string) (topology.NodeSet, error) {
	if text == "same" {
		if n.same.Empty() {
			return n.same, fmt.Errorf("--%s same: no nodes were named before", flag)
		}
		return n.same, nil
	}
	if kind, name, is := strings.Cut(text, ":"); is {
		node, err := nodeOf(n.e.Root, kind, name)
		if err != nil {
			return topology.NodeSet{}, fmt.Errorf("--%s %s: %w", flag, text, err)
		}
		text = strconv.Itoa(int(node))
	}
	set, err := n.at.named(flag, text, may, what)
	if err == nil {
		n.same = set
	}
	return set, err
}

// nodeOf is the node of a device, as numactl names those.
func nodeOf(root fs.FS, kind, name string) (topology.NodeID, error) {
	if (strings.Contains(name, "..") && kind != "file") || name == "" {
		return 0, fmt.Errorf("want %s:NAME", kind)
	}
	var dir string
	switch kind {
	case "netdev":
		dir = "sys/class/net/" + name + "/device"
	case "ip":
		device, err := deviceTo(name)
		if err != nil {
			return 0, err
		}
		return nodeOf(root, "netdev", device)
	case "block":
		dir = "sys/class/block/" + strings.TrimPrefix(name, "/dev/") + "/device"
	case "file":
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil {
			return 0, &os.PathError{Op: "stat", Path: name, Err: err}
		}
		dir = fmt.Sprintf("sys/dev/block/%d:%d/device", unix.Major(st.Dev), unix.Minor(st.Dev))
		if _, err := fs.Stat(root, dir); err != nil { // a partition, whose disk is the folder above
			dir = fmt.Sprintf("sys/dev/block/%d:%d/../device", unix.Major(st.Dev), unix.Minor(st.Dev))
		}
	case "pci":
		if strings.Count(name, ":") < 2 {
			name = "0000:" + name
		}
		if !strings.Contains(name, ".") {
			name += ".0"
		}
		dir = "sys/bus/pci/devices/" + name
	default:
		return 0, fmt.Errorf("want netdev:, file:, ip:, block: or pci: before the name")
	}
	// The device may be below the one of the bus, which has the node.
	for _, file := range []string{"numa_node", "device/numa_node", "device/device/numa_node"} {
		text, err := fs.ReadFile(root, path.Join(dir, file))
		if err != nil {
			continue
		}
		node, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || node < 0 {
			break
		}
		return topology.NodeID(node), nil
	}
	return 0, errors.New("the kernel knows no node of it")
}

// deviceTo is the network device that leads to a host. No packet is sent.
func deviceTo(host string) (string, error) {
	c, err := net.Dial("udp", net.JoinHostPort(host, "9"))
	if err != nil {
		return "", err
	}
	defer c.Close()
	from, _ := c.LocalAddr().(*net.UDPAddr)
	all, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, i := range all {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			if ip, is := a.(*net.IPNet); is && from != nil && ip.IP.Equal(from.IP) {
				return i.Name, nil
			}
		}
	}
	return "", errors.New("no network device leads there")
}

func spaced[T ~int](s topology.Set[T]) string {
	var b strings.Builder
	for id := range s.All() {
		fmt.Fprintf(&b, "%d ", id)
	}
	return b.String()
}

// showNow prints what holds now, line by line as numactl does, for scripts that read it.
func (n *numactl) showNow() error {
	now, err := n.e.Where()
	if err != nil {
		return cli.Forbiddenf("%w", err)
	}
	policy, preferred := now.Policy, "current"
	switch {
	case strings.HasPrefix(policy, "prefer"):
		policy, preferred = strings.Replace(policy, "prefer", "preferred", 1), strings.TrimSpace(spaced(now.OfNodes))
	case strings.Contains(policy, "interleave"):
		preferred = fmt.Sprintf("%d (interleave next)", now.OfNodes.Min())
	case policy == "bind":
		preferred = fmt.Sprint(now.OfNodes.Min())
	case policy == "local":
		preferred = ""
	}
	var on topology.NodeSet
	for node, cpus := range n.at.of {
		if cpus.Intersects(now.Now) {
			on.Add(node)
		}
	}
	mems := n.at.mems
	w := n.e.Stdout
	fmt.Fprintf(w, "policy: %s\npreferred node: %s\n", policy, preferred)
	if strings.Contains(policy, "interleave") {
		fmt.Fprintf(w, "interleavemask: %s\ninterleavenode: %d\n", spaced(now.OfNodes), now.OfNodes.Min())
	}
	if policy == "bind" {
		mems = now.OfNodes
	}
	fmt.Fprintf(w, "physcpubind: %s\ncpubind: %s\nnodebind: %s\nmembind: %s\n", spaced(now.Now), spaced(on), spaced(on),
		spaced(mems))
	if strings.HasPrefix(policy, "preferred") {
		fmt.Fprintf(w, "preferred: %s\n", spaced(now.OfNodes))
	} else {
		fmt.Fprintln(w, "preferred: ")
	}
	return nil
}
