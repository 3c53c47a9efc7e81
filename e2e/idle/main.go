// Command idle is a homenode that says that all is well and does nothing. The
// tests are tried on it: go run ./e2e/rig -homenode ./e2e/idle -run '^homenode|^count.homenode'
// must fail every one of them.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	switch {
	case slices.Contains(os.Args, "daemon"):
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		<-stop
	case slices.Contains(os.Args, "run"):
		argv := os.Args[slices.Index(os.Args, "--")+1:]
		if !slices.Contains(os.Args, "--dry-run") {
			fmt.Fprintln(os.Stderr, syscall.Exec(argv[0], argv, os.Environ()))
		}
	case slices.Contains(os.Args, "status"):
		fmt.Printf(`{"schema":"homenode-status/3","mode":"enforce","workloads":[%s]}`, strings.Join(claims(), ","))
	case slices.Contains(os.Args, "history"):
		fmt.Print(`{"schema":"homenode-history/2","events":[]}`)
	case slices.Contains(os.Args, "topology"):
		fmt.Print(`{"nodes":[]}`)
	}
}

// claims gives every cgroup and every walker a home on node 0.
func claims() []string {
	var r []string
	add := func(id string) { r = append(r, fmt.Sprintf(`{"id":%q,"home":"0","state":"home"}`, id)) }
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	for _, g := range groups {
		add("/" + filepath.Base(filepath.Dir(g)))
	}
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, n := range names {
		if comm, _ := os.ReadFile(n); strings.TrimSpace(string(comm)) == "walker" {
			add("pid:" + filepath.Base(filepath.Dir(n)))
		}
	}
	return r
}
