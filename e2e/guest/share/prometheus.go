//go:build linux

package share

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

const prometheusAddress = "127.0.0.1:9090"

// queried is a server that answers queries as Prometheus does.
type queried struct {
	mu     sync.Mutex
	answer answerer
	asked  int
	held   []net.Conn // connections that get no answer
}

// answerer returns the value of a query in seconds, "" for no result; hangs is for no answer at all.
type answerer func(query string) (value string, hangs bool)

// prometheus starts the server.
func prometheus(t *lab.T, answer answerer) *queried {
	q := &queried{answer: answer}
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

// answers sets the next answers to all queries: a value in seconds, no result, or no answer at all.
func (q *queried) answers(value string, hangs bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answer = func(string) (string, bool) { return q.text(value), hangs }
}

func (q *queried) serve(c net.Conn) {
	for r := bufio.NewReader(c); ; {
		request, err := http.ReadRequest(r) // it has no body
		if err != nil {
			c.Close()
			return
		}
		q.mu.Lock()
		q.asked++
		body := `{"status":"success","data":{"resultType":"vector","result":[]}}`
		value, hangs := q.answer(request.URL.Query().Get("query"))
		if value != "" {
			result := fmt.Sprintf(`[{"metric":{},"value":[%d,%q]}]`, time.Now().Unix(), value)
			body = `{"status":"success","data":{"resultType":"vector","result":` + result + `}}`
		}
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

// text is a value that differs a little from request to request as that of a real service does; one that begins
// with "=" never changes.
func (q *queried) text(value string) string {
	same, ok := strings.CutPrefix(value, "=")
	if ok || value == "" {
		return same
	}
	return value + fmt.Sprint(q.asked%9+1)
}

// shareGoalsQuery: a goal whose metric comes from a query to Prometheus settles, and survives a halved limit, a query
// that hangs, one without a result, and a metric that lies. Undo after kill -9 leaves nothing behind.
func shareGoalsQuery(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "web", Slot: 0, MiB: 32, Threads: 1, Place: "local"},
		lab.WalkerSpec{Name: "encode", Slot: 1, MiB: 32, Threads: t.Shape.CPUs(), Place: "local", Busy: true})
	web, encode := ws[0].Group, ws[1].Group
	before := shareState(web, encode)
	q := prometheus(t, nil)
	q.answers("0.0012", false)
	o := lab.DaemonOptions{Mode: "enforce",
		Extra: "workloads: [{match: /encode, tier: batch}, {match: /web, tier: online, " +
			"slo: {metric: p99, of: {query: web_p99}, most: 2ms, window: 2s}}]\n" +
			"share: {enabled: true, sched_ext: off, max_wait: 0, prometheus: \"http://" + prometheusAddress + "\"}\n"}
	d := t.StartDaemon(o)
	use := func(limit time.Duration, what string, state string, holds func(use float64) bool) (last float64) {
		t.Until(limit, what, func() (bool, string) {
			s, text := readGoals(t)
			last = s.Use
			return len(s.Goals) == 1 && (state == "" || s.Goals[0].State == state) && s.cpus() > 0 && holds(s.Use), text
		})
		return last
	}
	target := func(use float64) bool { return use <= 0.6501 }
	above := func(least float64) func(float64) bool { return func(use float64) bool { return use > least } }
	high := use(120*time.Second, "slack raises the use beyond the target", "", above(0.75))
	config, err := os.ReadFile(lab.ConfigPath)
	t.Do(err)
	set := func(most string) {
		t.Write(lab.ConfigPath, strings.Replace(string(config), "most: 2ms", "most: "+most, 1))
		t.Do(d.Cmd.Process.Signal(syscall.SIGHUP))
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
	use(120*time.Second, "a value that is no number does not count, and the target applies", "unread", target)
	t.Alive(d)
	d.Kill9()
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	backAs(t, "undone after kill -9,", before, web, encode)
	t.Textf("use %.2f at a limit of 2 ms, %.2f at 1 ms; the target without an answer, without a result, with a "+
		"constant "+
		"and with NaN", high, low)
}
