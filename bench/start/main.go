// Start measures what it costs to start `true`: by itself, under numactl where that is
// installed, and under `homenode run` with a daemon and without. The ways take turns, so that
// what else runs on the machine meets all of them alike. It prints a table in Markdown.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

func main() {
	n := flag.Int("n", 100, "starts of each")
	program := flag.String("homenode", "./homenode", "the `program`")
	flag.Parse()
	if err := measure(*program, *n); err != nil {
		log.Fatal(err)
	}
}

type way struct {
	name string
	argv []string
	wall []time.Duration
	cpu  []time.Duration // user and system, of the process and what it waited for
}

func measure(program string, n int) error {
	dir, err := os.MkdirTemp("", "homenode-start")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "sock")
	d := exec.Command(program, "daemon", "--mode", "observe", "--socket", socket, "--state-dir",
		filepath.Join(dir, "state"))
	if err := d.Start(); err != nil {
		return err
	}
	defer func() {
		d.Process.Signal(syscall.SIGTERM)
		d.Wait()
	}()
	for late := time.Now().Add(time.Minute); exec.Command(program, "run", "--strict", "--quiet", "--socket", socket,
		"--", "true").Run() != nil; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(late) {
			return fmt.Errorf("the daemon does not answer within a minute")
		}
	}
	ways := []*way{
		{name: "`true`", argv: []string{"true"}},
		{name: "`numactl --localalloc true`", argv: []string{"numactl", "--localalloc", "true"}},
		{name: "`homenode run -- true`, with a daemon", argv: []string{program, "run", "--strict", "--quiet",
			"--socket", socket, "--", "true"}},
		{name: "`homenode run -- true`, without", argv: []string{program, "run", "--quiet", "--socket",
			filepath.Join(dir, "none"), "--", "true"}},
		{name: "`homenode run --class dedicated -- true`, without", argv: []string{program, "run", "--quiet", "--class",
			"dedicated", "--socket", filepath.Join(dir, "none"), "--", "true"}},
	}
	ways = slices.DeleteFunc(ways, func(w *way) bool { _, err := exec.LookPath(w.argv[0]); return err != nil })
	for i := range n + 3 { // three to warm up
		for _, w := range ways {
			c := exec.Command(w.argv[0], w.argv[1:]...)
			began := time.Now()
			if err := c.Run(); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if i >= 3 {
				w.wall = append(w.wall, time.Since(began))
				w.cpu = append(w.cpu, c.ProcessState.UserTime()+c.ProcessState.SystemTime())
			}
		}
	}
	fmt.Printf("| %d starts of each, taking turns | median | least | median of CPU time |\n|---|---|---|---|\n", n)
	for _, w := range ways {
		slices.Sort(w.wall)
		slices.Sort(w.cpu)
		fmt.Printf("| %s | %s | %s | %s |\n", w.name, ms(w.wall[n/2]), ms(w.wall[0]), ms(w.cpu[n/2]))
	}
	return nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
