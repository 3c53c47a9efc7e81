package run

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
)

// advisedFor is how long an answer is kept in the ledger, s: libvirt starts the guest within seconds of the
// question, and two guests that start together must not get the same room. From then on the guest itself is
// seen there.
const advisedFor = 30

func numadCommand(e *cli.Env) *cobra.Command {
	var want string
	var version bool
	c := &cobra.Command{
		Use:   "numad -w CPUS[:MIB]",
		Short: "Answer what libvirt asks numad(8)",
		Long: `Prints the NUMA nodes for a guest of CPUS virtual CPUs and MIB mebibytes of memory, such
as 0-1. libvirt asks this of numad for each guest with <vcpu placement='auto'> that it
starts, and binds the guest to the answer. A running daemon answers from its ledger and
keeps the room for 30 seconds; without one this command scans the machine. If no node
has room, the answer is every node, which binds nothing.

libvirt calls the numad whose path its build has, most often /usr/bin/numad. Called as
numad, this program is it: ln -s $(command -v homenode) /usr/bin/numad`,
		Example: "  homenode numad -w 4:8192\n  homenode numad -w 2",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if version {
				_, err := fmt.Fprintf(e.Stdout, "numad from homenode %s\n", e.Version)
				return err
			}
			if !c.Flags().Changed("want") {
				return cli.Misused(c, "want -w CPUS[:MIB]; guests and programs are placed by homenode daemon")
			}
			cpus, mib, err := parseAdvice(want)
			if err != nil {
				return err
			}
			nodes, err := advise(c, e, cpus, mib)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(e.Stdout, nodes)
			return err
		},
	}
	c.Flags().StringVarP(&want, "want", "w", "", "the size of the guest: `CPUS[:MIB]`")
	c.Flags().BoolVarP(&version, "version", "V", false, "print the version")
	cli.SocketFlag(c, e)
	return c
}

// parseAdvice reads the size of a guest as libvirt writes it: vCPUs, and MiB of memory (0 where it is not named).
func parseAdvice(text string) (cpus int, mib int64, err error) {
	first, second, has := strings.Cut(text, ":")
	cpus, err = strconv.Atoi(first)
	if err != nil || cpus < 1 || cpus > topology.MaxID {
		return 0, 0, cli.Usagef("-w %s: %q is no number of CPUs; want CPUS[:MIB] such as 4:8192", text, first)
	}
	if !has {
		return cpus, 0, nil
	}
	const most = 1 << 40 // 1 EiB, as much as the API takes
	mib, err = strconv.ParseInt(second, 10, 64)
	if err != nil || mib < 0 || mib > most {
		return 0, 0, cli.Usagef("-w %s: %q is no size in MiB; want CPUS[:MIB] such as 4:8192", text, second)
	}
	return cpus, mib, nil
}

// advise returns the nodes for a guest.
func advise(c *cobra.Command, e *cli.Env, cpus int, mib int64) (topology.NodeSet, error) {
	self, err := e.Self()
	if err != nil {
		return topology.NodeSet{}, cli.Forbiddenf("this process: %w", err)
	}
	want := api.Want{Name: "a guest of libvirt", Class: workload.Shared, CPUs: cpus, MemoryKiB: mib << 10}
	held := want
	held.ID = workload.ID(fmt.Sprintf("numad:%d", self.PID)) // each question is a guest of its own
	held.HoldSeconds = advisedFor
	home, silent, err := askDaemon(c, e, held)
	if full(err) {
		// The guest starts whatever the answer is: a home that is crowded is better than none.
		home, silent, err = askDaemon(c, e, want)
	}
	if silent != nil {
		home, err = adviseAlone(c, e, want, silent)
	}
	switch {
	case full(err):
		at, err := readWhereabouts(e)
		if err != nil {
			return topology.NodeSet{}, err
		}
		return at.memory, nil
	case err != nil:
		return topology.NodeSet{}, err
	}
	return home.Nodes, nil
}

// adviseAlone answers without a daemon.
func adviseAlone(c *cobra.Command, e *cli.Env, want api.Want, silent error) (api.Home, error) {
	expected := errors.Is(silent, api.ErrNoDaemon) || errors.Is(silent, fs.ErrPermission)
	if !expected {
		fmt.Fprintf(e.Stderr, "numad: the daemon did not answer: %s\n", cli.OneLine(silent.Error()))
	}
	b, done, err := e.Local(cli.ContextOf(c), "")
	if err != nil {
		return api.Home{}, err
	}
	defer done()
	return b.Place(cli.ContextOf(c), want)
}

// full reports whether a home was refused for want of room.
func full(err error) bool {
	var refused *api.Error
	return errors.As(err, &refused) && refused.Code == api.NoRoom
}
