//go:build linux

package share

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/homenode/homenode/bench/openloop"
	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/guest/runtimes"
)

// stackRate is the requests a second to each service: 200 in a window.
const stackRate = 40

// stackService is a service that is asked at a constant rate.
type stackService struct {
	name    string // of its metric, too
	program runtimes.Program
	dial    func() (net.Conn, error)
	ask     openloop.Ask
	group   lab.Group
	limit   time.Duration

	mu      sync.Mutex
	answers []answered
	fault   string // of its metric: "" is none
}

// answered is one answer.
type answered struct {
	at   time.Time
	took time.Duration
}

// begin asks until the test ends.
func (x *stackService) begin(t *lab.T) {
	load := openloop.Load{
		Dial: x.dial, Until: openloop.SleepTo, Ask: x.ask, Rate: stackRate, Conns: 4, Count: time.Hour,
		Each: func(took time.Duration) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.answers = append(x.answers, answered{time.Now(), took})
		},
	}
	go func() { t.Logf("%s is not asked any more: %v", x.name, load.Run().Err) }()
}

// percentile of the answers since then; 0 where there is none.
func (x *stackService) percentile(p int, since time.Time) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	var took []time.Duration
	for _, a := range slices.Backward(x.answers) {
		if a.at.Before(since) {
			break
		}
		took = append(took, a.took)
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)*p/100]
}

// breaks sets what is wrong with the metric: it hangs, stops, or is a value behind "=".
func (x *stackService) breaks(fault string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fault = fault
}

// answer is the value of the metric. A CPU of this guest has a fiftieth of the speed of a real one and shares it with
// the others, so that a scan of the daemon delays one answer of twenty: the p99 says more of scans than of ffmpeg.
func (x *stackService) answer() (value string, hangs bool) {
	x.mu.Lock()
	fault := x.fault
	x.mu.Unlock()
	switch {
	case fault == "hangs":
		return "", true
	case fault == "stops":
		return "", false
	case fault != "":
		return strings.TrimPrefix(fault, "="), false
	}
	p90 := x.percentile(90, time.Now().Add(-stackWindow))
	if p90 == 0 {
		return "", false
	}
	return fmt.Sprintf("%.6f", p90.Seconds()), false
}

// nginxService compresses a page for each request.
func nginxService(t *lab.T) *stackService {
	const folder, address = "/tmp/stack-nginx", "127.0.0.1:8080"
	config := fmt.Sprintf(`user root; daemon off; worker_processes 2; pid %[1]s/pid; error_log stderr error;
events { worker_connections 64; }
http { access_log off; keepalive_requests 1000000; keepalive_timeout 1h; sendfile on; tcp_nodelay on;
  client_body_temp_path %[1]s/t1; proxy_temp_path %[1]s/t2; fastcgi_temp_path %[1]s/t3;
  uwsgi_temp_path %[1]s/t4; scgi_temp_path %[1]s/t5;
  gzip on; gzip_min_length 1; gzip_comp_level 1; gzip_types *;
  server { listen %[2]s; root %[1]s/www; } }
`, folder, address)
	t.Do(os.MkdirAll(folder+"/www", 0o755))
	t.Do(os.WriteFile(folder+"/nginx.conf", []byte(config), 0o644))
	t.Do(os.WriteFile(folder+"/www/index.html", []byte(strings.Repeat("homenode\n", 450)), 0o644))
	dial := func() (net.Conn, error) { return net.Dial("tcp", address) }
	return &stackService{name: "nginx", dial: dial, program: runtimes.Program{
		Name: "e2e-nginx",
		Argv: []string{"/usr/sbin/nginx", "-e", folder + "/error.log", "-p", folder, "-c", folder + "/nginx.conf"},
		Ready: func() bool {
			c, err := dial()
			if err == nil {
				c.Close()
			}
			return err == nil
		},
	}}
}

// stackRows are the rows of PostgreSQL's table.
const stackRows = 20000

// postgresService reads a row by its key for each request.
func postgresService(t *lab.T) *stackService {
	p := runtimes.PostgresServer(t)
	sql := fmt.Sprintf("create table t as select i, repeat('homenode', 20) s from generate_series(1, %d) i; "+
		"create unique index on t (i)", stackRows)
	p.Fill = runtimes.AsPostgres(runtimes.PostgresBin(t)+"/psql", "-h", "/tmp", "-d", "postgres", "-Atc", sql)
	return &stackService{name: "postgres", program: p, dial: dialPostgres, ask: askPostgres}
}

// dialPostgres opens a session: protocol 3.0, which needs no password here.
func dialPostgres() (net.Conn, error) {
	c, err := net.Dial("unix", "/tmp/.s.PGSQL.5432")
	if err != nil {
		return nil, err
	}
	words := "user\x00postgres\x00database\x00postgres\x00\x00"
	hello := binary.BigEndian.AppendUint32(nil, uint32(8+len(words)))
	hello = binary.BigEndian.AppendUint32(hello, 3<<16)
	_, err = c.Write(append(hello, words...))
	if err == nil {
		// Unbuffered: what follows the last message belongs to the requests.
		_, err = untilReady(c)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("open a session: %w", err)
	}
	return c, nil
}

// askPostgres reads one row.
func askPostgres(c io.Writer, r *bufio.Reader, n int) (ok bool, err error) {
	sql := fmt.Sprintf("select s from t where i = %d\x00", 1+n*7919%stackRows)
	query := binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(4+len(sql)))
	_, err = c.Write(append(query, sql...))
	if err != nil {
		return false, fmt.Errorf("send a query: %w", err)
	}
	rows, err := untilReady(r)
	return rows == 1, err
}

// untilReady reads messages up to ReadyForQuery, and counts rows.
func untilReady(r io.Reader) (rows int, err error) {
	for {
		var head [5]byte
		_, err = io.ReadFull(r, head[:])
		if err != nil {
			return 0, fmt.Errorf("read an answer: %w", err)
		}
		text := make([]byte, int(binary.BigEndian.Uint32(head[1:]))-4)
		_, err = io.ReadFull(r, text)
		if err != nil {
			return 0, fmt.Errorf("read an answer: %w", err)
		}
		switch head[0] {
		case 'D':
			rows++
		case 'E':
			return 0, fmt.Errorf("PostgreSQL answers %q", text)
		case 'Z':
			return rows, nil
		}
	}
}

const encoderProgress = "/tmp/stack-encode"

// encoderOptions name libraries that Debian's scripts would have linked.
var encoderOptions = []string{
	"--setenv=LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/blas:/usr/lib/x86_64-linux-gnu/lapack",
}

// encoder is ffmpeg, which encodes a picture of its own for ever.
func encoder(cpus int) runtimes.Program {
	return runtimes.Program{
		Name: "e2e-encode",
		Argv: []string{
			"/usr/bin/ffmpeg", "-nostdin", "-loglevel", "error", "-progress", encoderProgress, "-stats_period", "1",
			"-f", "lavfi", "-i", "testsrc2=size=320x180:rate=30", "-c:v", "libx264", "-preset", "medium",
			"-threads", strconv.Itoa(2 * cpus), "-f", "null", "-",
		},
		Ready: func() bool { return strings.Contains(lab.ReadText(encoderProgress), "frame=") },
	}
}

// encoded is the number of frames so far.
func encoded(t *lab.T) int {
	text := lab.ReadText(encoderProgress)
	at := strings.LastIndex(text, "frame=")
	if at < 0 {
		return 0
	}
	line, _, _ := strings.Cut(text[at+len("frame="):], "\n")
	n, err := strconv.Atoi(strings.TrimSpace(line))
	t.Do(err)
	return n
}
