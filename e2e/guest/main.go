//go:build linux

package main

import (
	"fmt"
	"os"
)

func main() {
	switch {
	case os.Getpid() == 1:
		pid1()
	case len(os.Args) == 2 && os.Args[1] == "systemd":
		pid1()
	case len(os.Args) == 3 && os.Args[1] == "test":
		os.Exit(runTest(os.Args[2], tests))
	case len(os.Args) > 1 && os.Args[1] == "as-service":
		fail(asService(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == "in-group":
		fail(inGroup(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == "as-nobody":
		fail(asNobody(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == "orphan":
		fail(orphan(os.Args[2:]))
	case len(os.Args) == 2 && os.Args[1] == "brood":
		if err := broodProcess(); err != nil {
			fail(err)
		}
	case len(os.Args) > 1 && os.Args[1] == "toll":
		if err := tollProcess(os.Args[2:]); err != nil {
			fail(err)
		}
	case len(os.Args) == 2 && os.Args[1] == "sleeper":
		sleeper()
	case len(os.Args) == 3 && os.Args[1] == "sleeper":
		fail(named(os.Args[2]))
	case len(os.Args) > 1 && os.Args[1] == "in-tree":
		fail(inTree(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == "in-netns":
		fail(inNetns(os.Args[2:]))
	case len(os.Args) == 4 && os.Args[1] == "ask-memcached":
		err := askMemcached(os.Args[2], os.Args[3])
		if err != nil {
			fail(err)
		}
	case len(os.Args) == 2 && os.Args[1] == "hungry":
		fail(hungry())
	case len(os.Args) == 3 && os.Args[1] == "holder":
		fail(holder(os.Args[2]))
	case len(os.Args) == 3 && os.Args[1] == "storage":
		fail(storage(os.Args[2]))
	case len(os.Args) == 3 && os.Args[1] == "hog":
		fail(hog(os.Args[2]))
	case len(os.Args) == 2 && os.Args[1] == "bursts":
		bursts()
	case len(os.Args) == 3 && os.Args[1] == "together":
		fail(together(os.Args[2]))
	case len(os.Args) == 4 && os.Args[1] == "restless":
		fail(restless(os.Args[2], os.Args[3]))
	case len(os.Args) == 2 && os.Args[1] == "storm":
		fail(storm())
	case len(os.Args) == 2 && os.Args[1] == "mute":
		fail(mute())
	case len(os.Args) == 3 && os.Args[1] == "mute-reader":
		fail(muteReader(os.Args[2]))
	case len(os.Args) == 3 && os.Args[1] == "stuck":
		fail(stuck(os.Args[2], ""))
	case len(os.Args) == 4 && os.Args[1] == "many":
		fail(many(os.Args[2], os.Args[3]))
	case len(os.Args) == 4 && os.Args[1] == "stuck":
		fail(stuck(os.Args[2], os.Args[3]))
	case len(os.Args) == 3 && os.Args[1] == "sharer":
		fail(sharer(os.Args[2]))
	case len(os.Args) == 3 && os.Args[1] == "called":
		fail(called(os.Args[2]))
	case len(os.Args) > 1 && os.Args[1] == "read-only-cgroups":
		fail(readOnlyCgroups(os.Args[2:]))
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
