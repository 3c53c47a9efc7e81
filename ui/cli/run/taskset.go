package run

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
)

func tasksetCommand(e *cli.Env) *cobra.Command {
	return standIn("taskset [-ac] MASK COMMAND… | -p [MASK] PID", "Do what taskset(1) does, in its words",
		`Takes the command line of taskset(1): starts a command on CPUs, or shows (-p PID) or
sets (-p MASK PID) those of a process, with -a of all its threads, with -c as a list.
A running daemon books the command; settings of a process belong to the user, and
homenode leaves them alone. Exit status: that of the command; 126 and 127 when it could
not be run or found, 1 otherwise.

Called as taskset, this program is it: ln -s $(command -v homenode) /usr/local/bin/taskset`,
		"  homenode taskset -c 0-3 make\n  homenode taskset 0x3 make\n  homenode taskset -cp 1234",
		func(c *cobra.Command, args []string) error {
			var pid, list, threads, version bool
			set := func(b *bool) func(string) error { return func(string) error { *b = true; return nil } }
			f := flagsOf("taskset", []standInFlag{
				{"pid", "p", true, set(&pid)}, {"cpu-list", "c", true, set(&list)},
				{"all-tasks", "a", true, set(&threads)}, {"version", "V", true, set(&version)},
			})
			if err := f.Parse(args); err != nil {
				return badFlag(f, err)
			}
			rest := f.Args()
			switch {
			case version:
				_, err := fmt.Fprintf(e.Stdout, "taskset from homenode %s\n", e.Version)
				return err
			case pid && len(rest) == 1:
				return tasksetProcess(e, list, threads, nil, rest[0])
			case pid && len(rest) == 2:
				return tasksetProcess(e, list, threads, &rest[0], rest[1])
			case pid:
				return errors.New("want -p PID, or -p MASK PID")
			case len(rest) < 2:
				return errors.New("want CPUs and the command to run, such as: taskset -c 0-3 make")
			}
			cpus, err := cpusOf(rest[0], list)
			if err != nil {
				return err
			}
			at, err := readWhereabouts(e)
			if err != nil {
				return err
			}
			may := cpus.Intersect(at.cpus)
			if may.Empty() {
				return fmt.Errorf("no CPU of %s is allowed here; allowed: %s", cpus, at.cpus)
			}
			if _, err := exec.LookPath(rest[1]); err != nil {
				return notRun(rest[1], err)
			}
			return runQuietly(c.Context(), e, &cli.Start{CPUs: may}, rest[1:])
		})
}

// tasksetProcess shows or sets the CPUs of a process.
func tasksetProcess(e *cli.Env, list, threads bool, to *string, of string) error {
	pid, err := strconv.Atoi(of)
	if err != nil || pid < 0 {
		return fmt.Errorf("%q: want the PID of a process", of)
	}
	var cpus topology.CPUSet
	if to != nil {
		if cpus, err = cpusOf(*to, list); err != nil {
			return err
		}
	}
	tids := []int{pid}
	if threads {
		if tids, err = e.ByHand.Threads(pid); err != nil {
			return fmt.Errorf("threads of process %d: %w", pid, err)
		}
	}
	for _, tid := range tids {
		if err := printAffinity(e, tid, "current", list); err != nil {
			return err
		}
		if to == nil {
			continue
		}
		if err := e.ByHand.SetAffinity(tid, cpus); err != nil {
			return fmt.Errorf("set CPUs %s of process %d: %w", cpus, tid, err)
		}
		if err := printAffinity(e, tid, "new", list); err != nil {
			return err
		}
	}
	return nil
}

func printAffinity(e *cli.Env, tid int, when string, list bool) error {
	cpus, err := e.ByHand.Affinity(tid)
	if err != nil {
		return fmt.Errorf("read the CPUs of process %d: %w", tid, err)
	}
	if list {
		_, err = fmt.Fprintf(e.Stdout, "pid %d's %s affinity list: %s\n", tid, when, cpus)
	} else {
		_, err = fmt.Fprintf(e.Stdout, "pid %d's %s affinity mask: %s\n", tid, when, maskText(cpus))
	}
	return err
}

// cpusOf reads a mask or, for list, a list whose ranges may have a stride: 0-10:2.
func cpusOf(text string, list bool) (topology.CPUSet, error) {
	var set topology.CPUSet
	if !list {
		set, ok := parseMask[topology.CPUID](text)
		if !ok || set.Empty() {
			return set, fmt.Errorf("%q: want a mask in hexadecimal such as 0x3, or -c before a list such as 0-3", text)
		}
		return set, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		spread, stride, has := strings.Cut(part, ":")
		step := 1
		if has {
			var err error
			if step, err = strconv.Atoi(stride); err != nil || step < 1 {
				return set, fmt.Errorf("%q: want a stride of 1 or more after the colon", part)
			}
		}
		some, err := topology.ParseSet[topology.CPUID](spread)
		if err != nil || some.Empty() {
			return set, fmt.Errorf("%q: want a list of CPUs such as 0-3,8 or 0-10:2", text)
		}
		for cpu := range some.All() {
			if int(cpu-some.Min())%step == 0 {
				set.Add(cpu)
			}
		}
	}
	return set, nil
}

// parseMask reads a mask in hexadecimal, with or without 0x, its words divided by commas as the kernel
// writes them.
func parseMask[T ~int](text string) (set topology.Set[T], ok bool) {
	text = strings.TrimPrefix(strings.ToLower(text), "0x")
	text = strings.ReplaceAll(text, ",", "")
	if text == "" || len(text) > topology.MaxID/4 {
		return set, false
	}
	for i := range len(text) {
		digit, err := strconv.ParseUint(text[len(text)-1-i:len(text)-i], 16, 4)
		if err != nil {
			return set, false
		}
		for bit := range 4 {
			if digit>>bit&1 == 1 {
				set.Add(T(4*i + bit))
			}
		}
	}
	return set, true
}

// maskText is a set as a mask in hexadecimal.
func maskText(cpus topology.CPUSet) string {
	digits := make([]byte, int(max(0, cpus.Max()))/4+1)
	for i := range digits {
		digit := 0
		for bit := range 4 {
			if cpus.Has(topology.CPUID(4*i + bit)) {
				digit |= 1 << bit
			}
		}
		digits[len(digits)-1-i] = "0123456789abcdef"[digit]
	}
	return string(digits)
}

func migratepagesCommand(e *cli.Env) *cobra.Command {
	return standIn("migratepages PID FROM-NODES TO-NODES", "Do what migratepages(8) does, in its words",
		`Moves the pages of a process that lie on some nodes to others, by one system call, as
migratepages(8) does. To move a process with its CPUs, at a pace and with a way back:
homenode move PID --to NODES. Exit status 1 when it could not be done.

Called as migratepages, this program is it.`,
		"  homenode migratepages 1234 0 1\n  homenode migratepages 1234 all 1",
		func(c *cobra.Command, args []string) error {
			if len(args) != 3 {
				return errors.New("want PID FROM-NODES TO-NODES, such as: migratepages 1234 0 1")
			}
			pid, err := strconv.Atoi(args[0])
			if err != nil || pid <= 0 {
				return fmt.Errorf("%q: want the PID of a process", args[0])
			}
			at, err := readWhereabouts(e)
			if err != nil {
				return err
			}
			at.all()
			n := &numactl{e: e, at: at}
			from, err := n.nodes("from", args[1], at.online, "")
			if err != nil {
				return fmt.Errorf("FROM-NODES %s", strings.TrimLeft(strings.TrimPrefix(err.Error(), "--from"), ": "))
			}
			to, err := n.nodes("to", args[2], at.memory, "memory")
			if err != nil {
				return fmt.Errorf("TO-NODES %s", strings.TrimLeft(strings.TrimPrefix(err.Error(), "--to"), ": "))
			}
			left, err := e.ByHand.Migrate(pid, from, to)
			switch {
			case err != nil:
				return fmt.Errorf("move pages of process %d: %w", pid, err)
			case left > 0: // which is no failure to migratepages
				fmt.Fprintf(e.Stderr, "migratepages: %s of process %d could not be moved\n", words.Count(left, "page"),
					pid)
			}
			return nil
		})
}
