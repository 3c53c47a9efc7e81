package hostile

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// number is an environment variable as a number.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// kept is the file of seeds that failed once, one a line: seed, events, and what did not hold.
const kept = "testdata/seeds.txt"

// played is one seed to play.
type played struct{ seed, events uint64 }

// keptSeeds reads the seeds that failed once.
func keptSeeds(t *testing.T) (out []played) {
	file, err := os.Open(kept)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		var p played
		if _, err := fmt.Sscan(text, &p.seed, &p.events); err != nil {
			t.Fatalf("%s: %q: %v", kept, text, err)
		}
		out = append(out, p)
	}
	return out
}

// freshSeed is where new seeds begin: SEED, or what make test has drawn, or the time.
func freshSeed(t *testing.T) uint64 {
	return number(t, "SEED", number(t, "RAPID_SEED", uint64(time.Now().UnixNano()>>10)))
}

// TestHostile plays the seeds that failed once, the first twelve, and fresh ones, which differ from
// run to run. With SEED, SEEDS or EVENTS it plays those alone. `make hostile` plays more.
// A failure says how to play it again.
func TestHostile(t *testing.T) {
	chosen := os.Getenv("SEEDS") != "" || os.Getenv("EVENTS") != ""
	first, seeds, events := freshSeed(t), number(t, "SEEDS", 12), number(t, "EVENTS", 2000)
	var all []played
	if !chosen {
		all = keptSeeds(t)
		for seed := range uint64(12) {
			all = append(all, played{1 + seed, events})
		}
	}
	for k := range seeds {
		all = append(all, played{first + k, events})
	}
	t.Logf("hostile: SEED=%d SEEDS=%d EVENTS=%d", first, seeds, events)
	var trace io.Writer
	if number(t, "TRACE", 0) > 0 {
		trace = os.Stdout
	}
	var sum Tally
	failed := uint64(0)
	for _, p := range all {
		begun := time.Now()
		tally, err := Run(p.seed, int(p.events), trace)
		sum.Add(tally)
		if testing.Verbose() {
			t.Logf("seed %d: %d events in %.1f s", p.seed, tally.Events, time.Since(begun).Seconds())
		}
		if err != nil {
			t.Error(err)
			if failed++; failed >= number(t, "FAILURES", 3) {
				break
			}
		}
	}
	t.Logf("%+v", sum)
}

// TestSoak plays fresh seeds for so many hours, and appends those that fail to the kept ones, which
// TestHostile plays from then on. Nine in ten have 2,000 events, the tenth has 10,000.
func TestSoak(t *testing.T) {
	text := os.Getenv("SOAK_HOURS")
	if text == "" {
		t.Skip("make soak HOURS=1 runs it")
	}
	hours, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	first, until := freshSeed(t), time.Now().Add(time.Duration(hours*float64(time.Hour)))
	t.Logf("hostile: SEED=%d and on", first)
	var mu sync.Mutex // guards what follows
	var sum Tally
	next := first
	work := func() {
		for time.Now().Before(until) {
			mu.Lock()
			p := played{next, 2000}
			next++
			mu.Unlock()
			if p.seed%10 == 0 {
				p.events = 10_000
			}
			tally, err := Run(p.seed, int(p.events), nil)
			mu.Lock()
			sum.Add(tally)
			if err != nil {
				t.Error(err)
				keep(t, p, err)
			}
			mu.Unlock()
		}
	}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(work)
	}
	workers.Wait()
	t.Logf("%d seeds: %+v", next-first, sum)
}

// keep appends a seed that failed to the kept ones, with the first line of what did not hold.
func keep(t *testing.T, p played, failure error) {
	text, _, _ := strings.Cut(failure.Error(), "\n")
	file, err := os.OpenFile(kept, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		t.Error(err)
		return
	}
	_, err = fmt.Fprintf(file, "%d %d # %s\n", p.seed, p.events, text)
	if close := file.Close(); err != nil || close != nil {
		t.Error(err, close)
	}
}
