// Processes measures what daemons in observe mode cost beside sleeping processes of an ordinary
// user, side by side, so that other work on the machine meets all of them alike. It needs root.
//
//	go run ./bench/processes -n 3000 -rounds 4 ./homenode-before ./homenode
//
// All runs in a PID namespace with a /proc of its own: what else the machine runs is not seen.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	n := flag.Int("n", 3000, "sleeping processes")
	sleeper := flag.String("sleeper", "sleep 1000000", "the `command` that sleeps")
	rounds := flag.Int("rounds", 4, "rounds, each with fresh daemons")
	warm := flag.Duration("warm", 16*time.Second, "time before each measurement")
	over := flag.Duration("over", 40*time.Second, "time that is measured")
	flag.Parse()
	var err error
	if os.Getpid() == 1 {
		err = measure(*n, strings.Fields(*sleeper), *rounds, *warm, *over, flag.Args())
	} else {
		err = inNamespace()
	}
	if err != nil {
		log.Fatal(err)
	}
}

// inNamespace runs this program again in a PID namespace.
func inNamespace() error {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	return cmd.Run()
}

func measure(n int, sleeper []string, rounds int, warm, over time.Duration, programs []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	for range n {
		cmd := exec.Command(sleeper[0], sleeper[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if err := cmd.Start(); err != nil {
			return err
		}
	}
	shares := map[string][]float64{}
	for round := range rounds {
		order := slices.Clone(programs)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		got, err := beside(order, warm, over)
		if err != nil {
			return err
		}
		load, _ := os.ReadFile("/proc/loadavg")
		fmt.Printf("round %d, load %s", round+1, load)
		for i, program := range order {
			fmt.Printf("  %s %.2f %%\n", program, got[i])
			shares[program] = append(shares[program], got[i])
		}
	}
	for _, program := range programs {
		all := slices.Sorted(slices.Values(shares[program]))
		fmt.Printf("%s: median %.2f %% of a CPU (%.2f to %.2f) beside %d processes\n", program, all[len(all)/2], all[0],
			all[len(all)-1], n)
	}
	return nil
}

// beside is the CPU time of daemons that run at once, in percent of a CPU.
func beside(programs []string, warm, over time.Duration) (shares []float64, err error) {
	dir, err := os.MkdirTemp("", "homenode-processes")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var daemons []*exec.Cmd
	for i, program := range programs {
		at := filepath.Join(dir, fmt.Sprint(i))
		cmd := exec.Command(program, "daemon", "--mode", "observe", "--state-dir", at+"-state", "--socket", at+".sock")
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		defer func() {
			cmd.Process.Signal(unix.SIGTERM)
			cmd.Wait()
		}()
		daemons = append(daemons, cmd)
	}
	time.Sleep(warm)
	began := time.Now()
	before, err := clocks(daemons)
	if err != nil {
		return nil, err
	}
	time.Sleep(over)
	after, err := clocks(daemons)
	took := time.Since(began)
	for i := range after {
		shares = append(shares, 100*float64(after[i]-before[i])/float64(took))
	}
	return shares, err
}

// clocks is the CPU time of each daemon (clock_getcpuclockid(3)).
func clocks(daemons []*exec.Cmd) (out []time.Duration, err error) {
	const scheduled = 2 // CPUCLOCK_SCHED
	for _, cmd := range daemons {
		var t unix.Timespec
		if err := unix.ClockGettime(int32(^cmd.Process.Pid)<<3|scheduled, &t); err != nil {
			return nil, fmt.Errorf("%s: %w", cmd.Path, err)
		}
		out = append(out, time.Duration(t.Nano()))
	}
	return out, nil
}
