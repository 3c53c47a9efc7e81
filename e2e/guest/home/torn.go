//go:build linux

package home

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// homenodeTorn: what Prometheus is told of a workload while its memory is torn over the nodes and
// when it has come home. The host has the alert rules judge it (homenode.alert).
func homenodeTorn(t *lab.T) {
	const metrics, token = "127.0.0.1:4663", "0123456789abcdef"
	t.Do(os.WriteFile(lab.WorkFolder+"/token", []byte(token), 0o600))
	// The rule is about workloads of more than 256 MiB.
	ws := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "db", Slot: 0, MiB: 264, Threads: 1, Place: "interleave",
		Unbind: true})
	o := lab.DaemonOptions{Mode: "observe"}
	o.Extra = fmt.Sprintf("api: {listen: %q, token: %s/token}\n", metrics, lab.WorkFolder)
	ratio := func(phase string, right func(float64) bool) (is float64) {
		var lines []string
		t.Poll(60*time.Second, time.Second, phase+" by /metrics", func() (bool, string) {
			lines = scrape(t, metrics, token)
			for _, l := range lines {
				if text, ok := strings.CutPrefix(l, fmt.Sprintf("homenode_workload_home_memory_ratio{workload=%q} ",
					ws[0].ID())); ok {
					var err error
					is, err = strconv.ParseFloat(text, 64)
					return err == nil && right(is), l
				}
			}
			return false, fmt.Sprintf("%d lines, none about it", len(lines))
		})
		for n, l := range lines {
			t.Record("SCRAPE %s %d %s", phase, n, l)
		}
		return is
	}
	d := t.StartDaemon(o)
	torn := ratio("torn", func(is float64) bool { return is < 0.8 })
	t.Stop(d)
	o.Mode = "enforce"
	d = t.StartDaemon(o)
	t.AwaitHome(lab.SettleLimit, ws)
	home := ratio("home", func(is float64) bool { return is > 0.99 })
	t.Alive(d)
	t.Textf("%.0f %% of %d MiB at home, then %.0f %%", torn*100, ws[0].MiB, home*100)
}

// scrape asks as Prometheus does, over TCP.
func scrape(t *lab.T, address, token string) []string {
	c, err := net.DialTimeout("tcp", address, lab.CommandLimit)
	t.Do(err)
	defer c.Close()
	t.Do(c.SetDeadline(time.Now().Add(lab.CommandLimit)))
	_, err = fmt.Fprintf(c, "GET /metrics HTTP/1.0\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", address, token)
	t.Do(err)
	answer, err := io.ReadAll(c)
	t.Do(err)
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	if !strings.HasPrefix(head, "HTTP/1.0 200 ") {
		t.Fatalf("GET /metrics: %s", lab.Cut(string(answer)))
	}
	return strings.Split(strings.TrimSuffix(body, "\n"), "\n")
}
