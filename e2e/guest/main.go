//go:build linux

package main

import (
	"fmt"
	"os"

	"github.com/homenode/homenode/e2e/guest/count"
	"github.com/homenode/homenode/e2e/guest/home"
	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/guest/runtimes"
	"github.com/homenode/homenode/e2e/guest/share"
)

func main() {
	switch {
	case os.Getpid() == 1:
		lab.PID1()
	case len(os.Args) == 2 && os.Args[1] == "systemd":
		lab.PID1()
	case len(os.Args) == 3 && os.Args[1] == "test":
		os.Exit(lab.RunTest(os.Args[2], tests))
	case len(os.Args) > 1 && os.Args[1] == "as-service":
		fail(share.AsService(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == "in-group":
		fail(share.InGroup(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == "as-nobody":
		fail(lab.AsNobody(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == "orphan":
		fail(lab.Orphan(os.Args[2:]))
	case len(os.Args) == 2 && os.Args[1] == "brood":
		if err := home.BroodProcess(); err != nil {
			fail(err)
		}
	case len(os.Args) > 1 && os.Args[1] == "toll":
		if err := share.TollProcess(os.Args[2:]); err != nil {
			fail(err)
		}
	case len(os.Args) == 2 && os.Args[1] == "sleeper":
		home.Sleeper()
	case len(os.Args) == 3 && os.Args[1] == "sleeper":
		fail(home.Named(os.Args[2]))
	case len(os.Args) > 1 && os.Args[1] == "in-tree":
		fail(home.InTree(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == "in-netns":
		fail(lab.InNetns(os.Args[2:]))
	case len(os.Args) == 4 && os.Args[1] == "ask-memcached":
		err := count.AskMemcached(os.Args[2], os.Args[3])
		if err != nil {
			fail(err)
		}
	case len(os.Args) == 2 && os.Args[1] == "hungry":
		fail(home.Hungry())
	case len(os.Args) == 3 && os.Args[1] == "holder":
		fail(home.Holder(os.Args[2]))
	case len(os.Args) == 3 && os.Args[1] == "storage":
		fail(runtimes.Storage(os.Args[2]))
	case len(os.Args) == 3 && os.Args[1] == "hog":
		fail(share.Hog(os.Args[2]))
	case len(os.Args) == 2 && os.Args[1] == "bursts":
		share.Bursts()
	case len(os.Args) == 3 && os.Args[1] == "together":
		fail(share.Together(os.Args[2]))
	case len(os.Args) == 4 && os.Args[1] == "restless":
		fail(share.Restless(os.Args[2], os.Args[3]))
	case len(os.Args) == 2 && os.Args[1] == "storm":
		fail(share.Storm())
	case len(os.Args) == 2 && os.Args[1] == "mute":
		fail(home.Mute())
	case len(os.Args) == 3 && os.Args[1] == "mute-reader":
		fail(home.MuteReader(os.Args[2]))
	case len(os.Args) == 3 && os.Args[1] == "stuck":
		fail(home.Stuck(os.Args[2], ""))
	case len(os.Args) == 4 && os.Args[1] == "many":
		fail(home.Many(os.Args[2], os.Args[3]))
	case len(os.Args) == 4 && os.Args[1] == "stuck":
		fail(home.Stuck(os.Args[2], os.Args[3]))
	case len(os.Args) == 3 && os.Args[1] == "sharer":
		fail(home.Sharer(os.Args[2]))
	case len(os.Args) == 3 && os.Args[1] == "called":
		fail(home.Called(os.Args[2]))
	case len(os.Args) > 1 && os.Args[1] == "read-only-cgroups":
		fail(home.ReadOnlyCgroups(os.Args[2:]))
	default:
		fmt.Fprintln(os.Stderr, "usage: PID 1, or: init test NAME")
		os.Exit(2)
	}
}

// fail ends a helper process that could not do what it is for.
func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(125)
}
