//go:build linux

package count

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/guest/runtimes"
)

// serviceCPUs is what each of the four programs asks for: with more, the kubelet's rule has no room for all of them.
const serviceCPUs = 1

// sqliteRows is how many rows of 250 bytes sqlite holds: 24 MiB, more than a program must have to be managed (install).
const sqliteRows = 90000

// bottleServices counts redis, sqlite, memcached and nginx, as services of systemd, each under clients that read:
// keys of redis, rows of a database in sqlite's memory, items in memcached's, and a page that nginx compresses for
// each client.
func bottleServices(t *lab.T) {
	runtimes.Install(t)
	runServers(t, "services", services(t, serviceCPUs), armsFor(t, serviceCPUs), fourServers(t))
}

// fourServers are redis, sqlite, memcached and nginx, each with its clients.
func fourServers(t *lab.T) []databaseServer {
	redis := runtimes.RedisServer()
	redis.Name = "e2e-redis"
	redis.Argv = append(redis.Argv, "--locale-collate", "C") // this disk has no other locale
	ask := []string{"redis-benchmark", "-s", "/tmp/redis.sock", "-q", "-c", "4", "-d", "500", "-r", "40000"}
	redis.Fill = append(ask[:len(ask):len(ask)], "-t", "set", "-n", "40000", "-P", "16")
	random := fmt.Sprintf("select count(*), sum(length(s)) from t where i in (select 1 + abs(random()) %% %d from "+
		"generate_series(1, 8000));", sqliteRows)
	return []databaseServer{
		{Program: redis, threads: 1, load: append(ask[:len(ask):len(ask)], "-t", "get", "-n", "5000")},
		{Program: sqliteServer(t), threads: 1, load: askSqlite(random)},
		{Program: memcachedServer(), threads: 2, load: []string{lab.Self, "ask-memcached", "get", "8000"}},
		{Program: nginxServer(t), threads: 2, load: []string{"ab", "-q", "-n", "12", "-c", "4", "-H",
			"Accept-Encoding: gzip", "http://127.0.0.1:8080/page.html"}, workers: true, busy: true},
	}
}

const (
	sqliteIn   = "/tmp/sqlite.in"
	sqliteDone = "/tmp/sqlite.done"
)

// sqliteServer is sqlite's own command line, which reads statements from a pipe. Its database is in memory that it
// allocates at once.
func sqliteServer(t *lab.T) runtimes.Program {
	t.Command("mkfifo", sqliteIn)
	return runtimes.Program{
		Name:  "e2e-sqlite",
		Argv:  []string{"/bin/sh", "-c", "exec sqlite3 -batch -pagecache 4400 8000 :memory: 0<>" + sqliteIn},
		Ready: func() bool { return lab.Capture(askSqlite("select 1;"), "").Exit == lab.ExitOK },
		Fill: askSqlite("create table t(i integer primary key, s text); insert into t select value, printf('%0250d', " +
			"value) from generate_series(1, " +
			strconv.Itoa(sqliteRows) + ");"),
	}
}

// askSqlite has sqlite run statements, and waits for their end.
func askSqlite(sql string) []string {
	script := fmt.Sprintf("rm -f %[1]s; printf '%%s\\n' \"$1\" '.shell touch %[1]s' >%[2]s; until [ -e %[1]s ]; do "+
		"sleep 0.1; done", sqliteDone, sqliteIn)
	return []string{"/bin/sh", "-c", script, "sh", sql}
}

const memcachedSocket = "/tmp/memcached.sock"

// memcachedServer has a name of its own, as the others have: the package brings a unit memcached.service.
func memcachedServer() runtimes.Program {
	return runtimes.Program{
		Name:  "e2e-memcached",
		Argv:  []string{"/usr/bin/memcached", "-u", "root", "-s", memcachedSocket, "-t", "2", "-m", "48"},
		Ready: memcachedListens,
		Fill:  []string{lab.Self, "ask-memcached", "set", "50000"},
	}
}

// memcachedListens is not whether the socket is there: that of an earlier one stays, and a new one binds before it
// listens.
func memcachedListens() bool {
	c, err := net.Dial("unix", memcachedSocket)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// AskMemcached sets so many items of 500 bytes, or gets so many of them, 50 in one request.
func AskMemcached(verb, number string) error {
	const (
		batch  = 50
		stored = 50000 // items there are
		stride = 7919  // a prime: requests go all over the memory
	)
	n, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("number of items: %w", err)
	}
	c, err := net.Dial("unix", memcachedSocket)
	if err != nil {
		return err
	}
	defer c.Close()
	answers := bufio.NewReader(c)
	value := strings.Repeat("x", 500)
	for i := 0; i < n; i += batch {
		var request strings.Builder
		for k := i; k < i+batch; k++ {
			if verb == "set" {
				fmt.Fprintf(&request, "set key%d 0 0 %d\r\n%s\r\n", k, len(value), value)
			} else {
				fmt.Fprintf(&request, "get key%d\r\n", k*stride%stored)
			}
		}
		if _, err := io.WriteString(c, request.String()); err != nil {
			return err
		}
		for range batch {
			if err := memcachedAnswer(answers, verb == "set", len(value)); err != nil {
				return err
			}
		}
	}
	return nil
}

// memcachedAnswer reads one answer (doc/protocol.txt of memcached).
func memcachedAnswer(r *bufio.Reader, set bool, size int) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	if set {
		if line != "STORED\r\n" {
			return fmt.Errorf("memcached answers %q", line)
		}
		return nil
	}
	if !strings.HasPrefix(line, "VALUE ") {
		return fmt.Errorf("memcached answers %q", line)
	}
	_, err = r.Discard(size + len("\r\nEND\r\n"))
	return err
}

// nginxServer compresses a page of 256 KiB anew for each client, in two workers.
func nginxServer(t *lab.T) runtimes.Program {
	const folder = "/tmp/nginx"
	t.Do(os.MkdirAll(folder, 0o755))
	t.Do(os.MkdirAll("/var/log/nginx", 0o755))
	var page strings.Builder
	for i := 0; page.Len() < 256<<10; i++ {
		fmt.Fprintf(&page, "<p>line %d of a page, and its square %d</p>\n", i, i*i)
	}
	t.Do(os.WriteFile(folder+"/page.html", []byte(page.String()), 0o644))
	t.Do(os.WriteFile(folder+"/nginx.conf", []byte(`daemon off;
user root;
worker_processes 2;
pid /tmp/nginx/pid;
error_log /tmp/nginx/error.log;
events {}
http {
	default_type text/html;
	access_log off;
	sendfile off;
	output_buffers 2 128k;
	limit_req_zone $binary_remote_addr zone=clients:4m rate=10000r/s;
	limit_req zone=clients burst=1000;
	gzip on;
	gzip_comp_level 1;
	client_body_temp_path /tmp/nginx/body;
	proxy_temp_path /tmp/nginx/proxy;
	fastcgi_temp_path /tmp/nginx/fastcgi;
	uwsgi_temp_path /tmp/nginx/uwsgi;
	scgi_temp_path /tmp/nginx/scgi;
	server {
		listen 127.0.0.1:8080;
		root /tmp/nginx;
	}
}
`), 0o644))
	return runtimes.Program{
		Name: "e2e-nginx",
		// Buffers are mapped each by themselves, where the plugin knows whose they are, and not in the heap.
		Argv: []string{"/usr/bin/env", "MALLOC_MMAP_THRESHOLD_=65536", "/usr/sbin/nginx", "-e", folder + "/error.log",
			"-c", folder + "/nginx.conf"},
		Ready: func() bool {
			page := []string{"ab", "-q", "-n", "1", "http://127.0.0.1:8080/page.html"}
			return lab.Capture(page, "").Exit == lab.ExitOK
		},
	}
}
