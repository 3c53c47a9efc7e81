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
		os.Exit(runTest(os.Args[2]))
	case len(os.Args) > 1 && os.Args[1] == "as-nobody":
		fmt.Fprintln(os.Stderr, asNobody(os.Args[2:]))
		os.Exit(125)
	case len(os.Args) > 1 && os.Args[1] == "orphan":
		fmt.Fprintln(os.Stderr, orphan(os.Args[2:]))
		os.Exit(125)
	case len(os.Args) == 2 && os.Args[1] == "brood":
		if err := broodProcess(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(125)
		}
	case len(os.Args) == 2 && os.Args[1] == "sleeper":
		sleeper()
	case len(os.Args) > 1 && os.Args[1] == "in-netns":
		fmt.Fprintln(os.Stderr, inNetns(os.Args[2:]))
		os.Exit(125)
	case len(os.Args) == 2 && os.Args[1] == "hungry":
		fmt.Fprintln(os.Stderr, hungry())
		os.Exit(125)
	case len(os.Args) == 3 && os.Args[1] == "holder":
		fmt.Fprintln(os.Stderr, holder(os.Args[2]))
		os.Exit(125)
	case len(os.Args) > 1 && os.Args[1] == "read-only-cgroups":
		fmt.Fprintln(os.Stderr, readOnlyCgroups(os.Args[2:]))
		os.Exit(125)
	default:
		fmt.Fprintln(os.Stderr, "usage: PID 1, or: init test NAME")
		os.Exit(2)
	}
}
