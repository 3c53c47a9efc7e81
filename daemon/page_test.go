package daemon

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon/memory"
	"github.com/homenode/homenode/ui/house"
)

// shown runs a daemon on n workloads, whose use of CPU changes at each look, and serves its page.
func shown(t *testing.T, n int, period time.Duration) (*Daemon, string) {
	m := newMachine(t, 8, 64)
	m.mem = 1 << 30
	for i := range n {
		m.add(fmt.Sprintf("ns%d.slice/w%04d", i%23, i), 0.1, 1<<17, topology.NodeID(i%8))
	}
	random := rand.New(rand.NewPCG(1, 2))
	m.looked = func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, w := range m.live {
			w.obs.CPUUse = 0.05 + 0.3*random.Float64()
		}
	}
	r := rig{m: m, store: memory.New()}
	o := r.options(true)
	m.store = nil // that each change is journalled is tested elsewhere
	o.Clock, o.Inline, o.Period = bubbleClock{}, false, period
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	beside(t, d.Run, func(ctx context.Context) error {
		return api.ServeTCP(ctx, l, d, api.Remote{Houses: api.NewHouses(d, "host", house.Painter{})})
	})
	return d, l.Addr().String()
}

// stall has n viewers that take nothing of what they are sent, until the test ends.
func stall(t *testing.T, at string, n int) {
	t.Helper()
	for range n {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.(*net.TCPConn).SetReadBuffer(1024)
		io.WriteString(c, "GET /v1/house/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
}

// TestStalledViewersAndTheLoop: the loop goes on, and answers, whoever does not take what he is sent.
func TestStalledViewersAndTheLoop(t *testing.T) {
	d, at := shown(t, 500, 5*time.Millisecond)
	stall(t, at, 10)
	for began := d.View().Scans; d.View().Scans < began+50; {
		if _, err := d.Place(t.Context(), api.Want{Name: "x", Class: workload.Shared, CPUs: 1}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

const (
	costFile    = "HOMENODE_PAGE_COST"    // where TestPageCost writes its table
	costViewers = "HOMENODE_PAGE_VIEWERS" // ADDRESS N: this process is N viewers
)

// TestPageCost measures what viewers cost, into bench/results/page.md: make bench-page.
func TestPageCost(t *testing.T) {
	if as := os.Getenv(costViewers); as != "" {
		view(t, as)
		return
	}
	file := os.Getenv(costFile)
	if file == "" {
		t.Skip("a measurement: make bench-page")
	}
	const n, during = 1000, 20 * time.Second
	d, at := shown(t, n, 2*time.Second)
	for d.View().Scans < 3 || len(d.View().Tasks) > 0 {
		time.Sleep(100 * time.Millisecond)
	}
	var b strings.Builder
	host, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	fmt.Fprintf(&b, "# What viewers of the page cost\n\nA daemon with %d workloads on 8 nodes of 64 CPUs, a look every 2 s at which every workload's use of CPU is another (0.05 to 0.35 CPUs); viewers are another process on the same machine\n(2 CPUs, Linux %s). %v each. `make bench-page` does it again.\n\n"+
		"| viewers | bytes/s for each | first picture, bytes | CPU of the daemon, %% of one | longest wait of a request, ms (median of 5) |\n|---|---|---|---|---|\n", n, strings.TrimSpace(string(host)), during)
	for _, x := range []struct {
		viewers, stalled int
	}{{0, 0}, {1, 0}, {20, 0}, {20, 10}} {
		ctx, cancel := context.WithCancel(t.Context())
		var out []byte
		var done sync.WaitGroup
		if x.viewers > 0 {
			c := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestPageCost$", "-test.v")
			c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %d", costViewers, at, x.viewers, x.stalled, int(during.Seconds())))
			done.Go(func() { out, _ = c.Output() })
		}
		time.Sleep(time.Second)
		before := used()
		var longest []time.Duration
		for range 5 {
			most := time.Duration(0)
			for until := time.Now().Add(during / 5); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
				asked := time.Now()
				if _, err := d.Place(ctx, api.Want{Name: "x", Class: workload.Shared, CPUs: 1}); err != nil {
					t.Fatal(err)
				}
				most = max(most, time.Since(asked))
			}
			longest = append(longest, most)
		}
		slices.Sort(longest)
		cpu := float64(used()-before) / float64(during)
		done.Wait()
		cancel()
		var each, first int64
		for line := range strings.Lines(string(out)) {
			fmt.Sscanf(line, "each %d first %d", &each, &first)
		}
		who := fmt.Sprint(x.viewers)
		if x.stalled > 0 {
			who += fmt.Sprintf(" and %d that take nothing", x.stalled)
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %.1f | %.1f |\n", who, each, first, 100*cpu, float64(longest[2].Microseconds())/1000)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Log(b.String())
}

// used is the CPU time of this process.
func used() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// view is viewers, and such as take nothing, for some seconds.
func view(t *testing.T, as string) {
	var at string
	var viewers, stalled, seconds int
	if _, err := fmt.Sscan(as, &at, &viewers, &stalled, &seconds); err != nil {
		t.Fatal(err)
	}
	stall(t, at, stalled)
	var all atomic.Int64
	for range viewers {
		resp, err := http.Get("http://" + at + "/v1/house/changes")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		go func() {
			buf := make([]byte, 1<<20)
			for {
				n, err := resp.Body.Read(buf)
				all.Add(int64(n))
				if err != nil {
					return
				}
			}
		}()
	}
	time.Sleep(time.Second)
	firsts := all.Swap(0) / int64(viewers)
	time.Sleep(time.Duration(seconds) * time.Second)
	fmt.Printf("\neach %d first %d\n", all.Load()/int64(viewers)/int64(seconds), firsts)
}
