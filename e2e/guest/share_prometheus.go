//go:build linux

package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

func init() { tests["share.goals-query"] = shareGoalsQuery }

const prometheusAddress = "127.0.0.1:9090"

// queried is a server that answers queries as Prometheus does, with one value for all.
type queried struct {
	mu    sync.Mutex
	value string // in seconds; "" is no result
	hangs bool
	asked int
	held  []net.Conn // connections that get no answer
}

// prometheus starts the server.
func (t *T) prometheus() *queried {
	q := &queried{}
	l, err := net.Listen("tcp", prometheusAddress)
	t.Do(err)
	t.Defer(func() {
		l.Close()
		q.mu.Lock()
		defer q.mu.Unlock()
		for _, c := range q.held {
			c.Close()
		}
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go q.serve(c)
		}
	}()
	return q
}

// answers sets the next answers: a value in seconds, no result, or no answer at all.
func (q *queried) answers(value string, hangs bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.value, q.hangs = value, hangs
}

func (q *queried) serve(c net.Conn) {
	for r := bufio.NewReader(c); ; {
		for { // the head of one request; it has no body
			line, err := r.ReadString('\n')
			if err != nil {
				c.Close()
				return
			}
			if strings.TrimSpace(line) == "" {
				break
			}
		}
		q.mu.Lock()
		q.asked++
		body := `{"status":"success","data":{"resultType":"vector","result":[]}}`
		if q.value != "" {
			result := fmt.Sprintf(`[{"metric":{},"value":[%d,%q]}]`, time.Now().Unix(), q.text())
			body = `{"status":"success","data":{"resultType":"vector","result":` + result + `}}`
		}
		hangs := q.hangs
		if hangs {
			q.held = append(q.held, c)
		}
		q.mu.Unlock()
		if hangs {
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
		fmt.Fprint(c, body)
	}
}

// text is the value, which differs a little from request to request as that of a real service does; a value that
// begins with "=" never changes.
func (q *queried) text() string {
	if same, ok := strings.CutPrefix(q.value, "="); ok {
		return same
	}
	return q.value + fmt.Sprint(q.asked%9+1)
}

// shareGoalsQuery: a goal whose metric comes from a query to Prometheus settles, and survives a halved limit, a query
// that hangs, one without a result, and a metric that lies. Undo after kill -9 leaves nothing behind.
func shareGoalsQuery(t *T) {
	ws := t.startWalkers(cgroupRoot, walkerSpec{name: "web", slot: 0, mib: 32, threads: 1, place: "local"},
		walkerSpec{name: "encode", slot: 1, mib: 32, threads: t.shape.CPUs(), place: "local", busy: true})
	web, encode := ws[0].group, ws[1].group
	before := shareState(web, encode)
	q := t.prometheus()
	q.answers("0.0012", false)
	o := daemonOptions{mode: "enforce", extra: "workloads: [{match: /encode, tier: batch}, {match: /web, tier: online, " +
		"slo: {metric: p99, of: {query: web_p99}, most: 2ms, window: 2s}}]\n" +
		"share: {enabled: true, sched_ext: off, max_wait: 0, prometheus: \"http://" + prometheusAddress + "\"}\n"}
	d := t.startDaemon(o)
	use := func(limit time.Duration, what string, state string, holds func(use float64) bool) (last float64) {
		t.Until(limit, what, func() (bool, string) {
			s, text := t.goalStatus()
			last = s.Use
			return len(s.Goals) == 1 && (state == "" || s.Goals[0].State == state) && s.cpus() > 0 && holds(s.Use), text
		})
		return last
	}
	target := func(use float64) bool { return use <= 0.6501 }
	above := func(least float64) func(float64) bool { return func(use float64) bool { return use > least } }
	high := use(120*time.Second, "slack raises the use beyond the target", "", above(0.75))
	config, err := os.ReadFile(configPath)
	t.Do(err)
	set := func(most string) {
		t.write(configPath, strings.Replace(string(config), "most: 2ms", "most: "+most, 1))
		t.Do(d.cmd.Process.Signal(syscall.SIGHUP))
	}
	set("1ms")
	fell := func(use float64) bool { return use < high-0.05 }
	low := use(60*time.Second, "a halved limit is missed, and the use falls", "missed", fell)
	set("2ms")
	use(120*time.Second, "with the old limit the use rises", "", above(0.70))
	q.answers("0.0004", true)
	use(120*time.Second, "a query that hangs is reported, and the target applies", "unread", target)
	q.answers("0.0004", false)
	use(120*time.Second, "the query answers again", "held", above(0.66))
	q.answers("", false)
	use(120*time.Second, "a query without a result is reported, and the target applies", "stale", target)
	q.answers("=0.0004", false)
	use(180*time.Second, "a metric that never changes is reported, and the target applies", "constant", target)
	q.answers("=NaN", false)
	use(120*time.Second, "a value that is no number does not count, and the target applies", "stale", target)
	t.alive(d)
	d.kill9()
	t.must(homenode("undo", "--all"), exitOK)
	t.backAs("undone after kill -9,", before, web, encode)
	t.Textf("use %.2f at a limit of 2 ms, %.2f at 1 ms; the target without an answer, without a result, with a constant "+
		"and with NaN", high, low)
}
