// Balance runs the simulator's scenarios with many seeds on hosts of several sizes
// and sets the daemon beside other ways to run a NUMA machine.
//
//	go run ./bench/balance                                 # all of it: bench/results/balance.md and .jsonl
//	go run ./bench/balance -seeds 3 -nodes 2 -scenarios swap,wide-guest -o ""
//
// The exit status is 1 when the daemon broke a rule (sim.Trace.Breaks), or is not
// within 1 % of the best in a scenario where that is not known and meant (behind).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/homenode/homenode/sim"
)

// policies are compared, the daemon first.
var policies = []string{"homenode", "first-fit", "numad", "kernel-balancing", "none"}

// behind is why the daemon is not within 1 % of the best in a scenario, where that
// is known and meant (docs/design/balancing.md).
var behind = map[string]string{
	"found-running":     "its page moves are paced, the kernel's are not",
	"important-pressed": "it keeps idle CPUs beside important work",
}

func main() {
	seeds := flag.Int("seeds", 50, "`N` variants of each scenario and size")
	nodes := flag.String("nodes", "2,4,8", "`SIZES` of the host")
	scenarios := flag.String("scenarios", strings.Join(sim.Scenarios, ","), "`NAMES`")
	dir := flag.String("o", "bench/results",
		"`DIR` for balance.md and balance.jsonl; empty: the tables on standard output")
	resume := flag.Bool("resume", false,
		"go on after the rows that DIR/balance.jsonl has already (same binary, same seeds)")
	flag.Parse()
	debug.SetGCPercent(800) // as homenode sim does
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cells, err := cellsOf(*scenarios, *nodes, *seeds)
	if err == nil {
		err = run(ctx, cells, *dir, *resume)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "balance: %v\n", err)
		os.Exit(1)
	}
}

func cellsOf(scenarios, nodes string, seeds int) ([]*cell, error) {
	var out []*cell
	for _, name := range strings.Split(scenarios, ",") {
		if !slices.Contains(sim.Scenarios, name) {
			return nil, fmt.Errorf("scenario %q; want %s", name, strings.Join(sim.Scenarios, ", "))
		}
		for _, text := range strings.Split(nodes, ",") {
			n, err := strconv.Atoi(text)
			if err != nil {
				return nil, fmt.Errorf("-nodes: %w", err)
			}
			out = append(out, &cell{Scenario: name, Nodes: n, Seeds: max(1, seeds)})
		}
	}
	return out, nil
}

// run fills the cells, as many at a time as there are CPUs, and writes what they hold.
func run(ctx context.Context, cells []*cell, dir string, resume bool) error {
	raw := (*rawFile)(nil)
	if dir != "" {
		var err error
		if raw, err = openRaw(filepath.Join(dir, "balance.jsonl"), resume, cells); err != nil {
			return err
		}
		defer raw.file.Close()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	todo := make(chan *cell)
	var workers sync.WaitGroup
	var writing sync.Mutex
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for c := range todo {
				err := c.fill(ctx)
				writing.Lock()
				if err == nil && raw != nil {
					err = raw.add(c)
				}
				writing.Unlock()
				if err != nil {
					cancel(fmt.Errorf("%s on %d nodes: %w", c.Scenario, c.Nodes, err))
					return
				}
				fmt.Fprintf(os.Stderr, "%-18s %d nodes: %s\n", c.Scenario, c.Nodes, c.verdict())
			}
		})
	}
	for _, c := range cells {
		if c.Rows != nil {
			continue
		}
		select {
		case todo <- c:
		case <-ctx.Done():
		}
	}
	close(todo)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	out := os.Stdout
	if dir != "" {
		if err := raw.sort(cells); err != nil {
			return err
		}
		var err error
		if out, err = os.Create(filepath.Join(dir, "balance.md")); err != nil {
			return err
		}
		defer out.Close()
	}
	if err := tables(out, cells); err != nil {
		return err
	}
	return judge(cells)
}

// judge is an error when a rule was broken, or the daemon is beaten somewhere.
func judge(cells []*cell) error {
	broken, beaten := 0, 0
	for _, c := range cells {
		for _, b := range c.Broken {
			broken++
			fmt.Fprintf(os.Stderr, "%s on %d nodes, %s\n", c.Scenario, c.Nodes, b)
		}
		peer, by := c.best(felt)
		switch {
		case by <= within:
		case behind[c.Scenario] != "":
			fmt.Fprintf(os.Stderr, "%s on %d nodes: %.1f %% behind %s; known: %s\n", c.Scenario, c.Nodes, 100*by, peer,
				behind[c.Scenario])
		default:
			beaten++
			fmt.Fprintf(os.Stderr, "%s on %d nodes: %.1f %% behind %s\n", c.Scenario, c.Nodes, 100*by, peer)
		}
	}
	if broken+beaten > 0 {
		return fmt.Errorf("%d rules broken; not within %.0f %% of the best in %d of %d cases", broken, 100*within,
			beaten, len(cells))
	}
	return nil
}
