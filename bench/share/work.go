package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// startIn starts a command in a cgroup.
func startIn(cgroup string, c *exec.Cmd) error {
	dir, err := os.Open(cgroup)
	if err != nil {
		return err
	}
	defer dir.Close()
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if err := c.Start(); err != nil {
		return fmt.Errorf("start %s: %w", strings.Join(c.Args, " "), err)
	}
	return nil
}

// answerSize is what a request is answered with: a small page.
const answerSize = 4096

// online is the online work.
type online struct {
	Name    string `json:"name"`              // nginx, own or step
	Threads int    `json:"threads,omitempty"` // of a step
	Command string `json:"command"`
	command func() *exec.Cmd
	address string
}

const (
	stepName = "step"
	stepRate = 20                   // steps a second, unless the user names a rate
	stepWork = 2 * time.Millisecond // of CPU time, for each thread
)

// chooseOnline prepares the online work: kind is auto, nginx, own or step.
func chooseOnline(kind, dir, self string, cpus int) (*online, error) {
	if kind == stepName {
		n := max(2, cpus*2/3)
		return &online{Name: stepName, Threads: n, Command: fmt.Sprintf("%s step %d", self, n)}, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &online{address: l.Addr().String()}
	l.Close()
	nginx, missing := exec.LookPath("nginx")
	if kind == "nginx" && missing != nil {
		return nil, cannot("nginx is not installed")
	}
	var argv []string
	if missing == nil && kind != "own" {
		config := fmt.Sprintf(`user root; daemon off; worker_processes %d; worker_rlimit_nofile 65536; pid %[2]s/nginx.pid; error_log stderr error;
events { worker_connections 8192; }
http { access_log off; keepalive_requests 1000000000; keepalive_timeout 1h; sendfile on; tcp_nodelay on;
  client_body_temp_path %[2]s/t1; proxy_temp_path %[2]s/t2; fastcgi_temp_path %[2]s/t3; uwsgi_temp_path %[2]s/t4; scgi_temp_path %[2]s/t5;
  gzip on; gzip_min_length 1; gzip_comp_level 6; gzip_types *;
  server { listen %[3]s backlog=65535; root %[2]s/www; } }
`, cpus, dir, o.address)
		if err := os.MkdirAll(filepath.Join(dir, "www"), 0o755); err != nil {
			return nil, err
		}
		for name, text := range map[string]string{"nginx.conf": config,
			"www/index.html": strings.Repeat("homenode\n", answerSize/9)} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				return nil, err
			}
		}
		o.Name, argv = "nginx", []string{nginx, "-p", dir, "-c", filepath.Join(dir, "nginx.conf")}
	} else {
		o.Name, argv = "own", []string{self, "serve", o.address}
	}
	o.Command = strings.Join(argv, " ")
	o.command = func() *exec.Cmd { return exec.Command(argv[0], argv[1:]...) }
	return o, nil
}

// start starts the server and waits until it answers. Steps have none.
func (o *online) start(ctx context.Context, cgroup string) error {
	if o.command == nil {
		return nil
	}
	c := o.command()
	c.Stderr = os.Stderr
	if err := startIn(cgroup, c); err != nil {
		return err
	}
	ctx, ended := context.WithCancelCause(ctx)
	go func() {
		c.Wait()
		ended(fmt.Errorf("it ended: %v", c.ProcessState))
	}()
	err := wait(ctx, 20*time.Millisecond, patience, func() bool {
		conn, err := net.Dial("tcp", o.address)
		if err == nil {
			conn.Close()
		}
		return err == nil && conn.LocalAddr().String() != o.address // it may meet itself where nobody listens
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// serve is the server of our own: it works some 20 µs for an answer of 4 KiB.
func serve(address string) error {
	body := []byte(strings.Repeat("homenode\n", answerSize/9))
	return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sum := uint32(1)
		for range 5 {
			for _, b := range body {
				sum = sum*16777619 ^ uint32(b)
			}
		}
		w.Header().Set("X-Sum", strconv.Itoa(int(sum)))
		w.Write(body)
	}))
}

// batch is the batch work.
type batch struct {
	Name    string `json:"name"` // ffmpeg, stress-ng or own
	Command string `json:"command"`
	Unit    string `json:"unit"` // of its progress
	argv    []string
	key     string // of its lines of progress; "" where it writes none
}

// chooseBatch is work that keeps so many CPUs busy: kind is auto, ffmpeg, stress-ng or own.
// Where no figure counts, ffmpeg's first frame must come soon: small is a small picture.
func chooseBatch(kind, self string, cpus int, small bool) (*batch, error) {
	n := strconv.Itoa(cpus)
	is := func(name string) bool {
		if kind != "auto" && kind != name {
			return false
		}
		_, err := exec.LookPath(name)
		return err == nil
	}
	b := &batch{}
	switch {
	case is("ffmpeg"):
		size, preset := "1280x720", "medium"
		if small {
			size, preset = "160x90", "ultrafast"
		}
		// One encoder does not fill many CPUs. They are one tree of processes, as of one job.
		b.Name = "ffmpeg"
		b.Unit = "frames"
		b.key = "frame="
		b.argv = []string{self, "crowd", strconv.Itoa((cpus + 7) / 8), b.key, "ffmpeg", "-nostdin", "-loglevel",
			"error", "-progress", "pipe:1", "-stats_period", "0.2",
			"-f", "lavfi", "-i", "testsrc2=size=" + size + ":rate=30", "-c:v", "libx264", "-preset", preset, "-threads",
			strconv.Itoa(min(cpus, 8) * 2), "-f", "null", "-"}
	case is("stress-ng"):
		// It tells its bogo-ops at its end alone; until then there is its CPU time.
		b.Name, b.Unit = "stress-ng", "CPU seconds"
		b.argv = []string{"stress-ng", "--cpu", n, "--cpu-method", "matrixprod", "--timeout", "0", "--quiet"}
	case kind == "auto" || kind == "own":
		b.Name = "own"
		b.Unit = "rounds"
		b.key = "rounds="
		b.argv = []string{self, "burn", n}
	default:
		return nil, cannot("%s is not installed", kind)
	}
	b.Command = strings.Join(b.argv, " ")
	return b, nil
}

// working is batch work that runs.
type working struct {
	of     *batch
	cgroup string
	done   atomic.Uint64
}

// errBatchEnded is how batch work ended, which never ends by itself.
type errBatchEnded struct{ how string }

func (e errBatchEnded) Error() string { return "the batch work ended: " + e.how }

// start starts the batch work in a cgroup; ended is called when it ends.
func (b *batch) start(cgroup string, ended func(error)) (*working, error) {
	w := &working{of: b, cgroup: cgroup}
	c := exec.Command(b.argv[0], b.argv[1:]...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := startIn(cgroup, c); err != nil {
		return nil, err
	}
	go func() {
		progressOf(out, b.key, w.done.Store)
		c.Wait()
		ended(errBatchEnded{b.Name + ": " + c.ProcessState.String()})
	}()
	return w, nil
}

// progressOf reads lines of progress to their end.
func progressOf(r io.Reader, key string, tell func(uint64)) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		text, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), key)
		if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64); ok && key != "" && err == nil {
			tell(n)
		}
	}
}

// progress is what was done so far, in the batch's unit.
func (w *working) progress() float64 {
	switch {
	case w == nil:
		return 0
	case w.of.key == "":
		return cpuSeconds(w.cgroup)
	}
	return float64(w.done.Load())
}

// crowd runs a command n times at once and prints the sum of their progress, until one of them ends. The others
// are killed then, and have ended when it returns.
func crowd(n int, key string, argv []string, out io.Writer) error {
	ctx, kill := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer kill()
	done := make([]uint64, n)
	var mu sync.Mutex
	ended := make(chan string, n)
	for i := range n {
		c := exec.CommandContext(ctx, argv[0], argv[1:]...)
		c.Stderr = os.Stderr
		lines, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			return err
		}
		running.Go(func() {
			progressOf(lines, key, func(x uint64) {
				mu.Lock()
				defer mu.Unlock()
				done[i] = x
				sum := uint64(0)
				for _, d := range done {
					sum += d
				}
				fmt.Fprintf(out, "%s%d\n", key, sum)
			})
			c.Wait()
			ended <- c.ProcessState.String()
		})
	}
	return fmt.Errorf("%s ended: %s", argv[0], <-ended)
}

// cpuSeconds is what the processes of a cgroup have used.
func cpuSeconds(cgroup string) float64 {
	b, err := os.ReadFile(filepath.Join(cgroup, "cpu.stat"))
	if err != nil {
		return 0
	}
	var us float64
	for line := range strings.Lines(string(b)) {
		fmt.Sscanf(line, "usage_usec %f", &us)
	}
	return us / 1e6
}

// burn keeps n CPUs busy and tells five times a second how many rounds it has done.
func burn(n int, out io.Writer) error {
	runtime.GOMAXPROCS(n + 1)
	var rounds atomic.Int64
	var sink atomic.Uint64
	for range n {
		go func() {
			for x := uint64(1); ; rounds.Add(1) {
				for range 100_000 {
					x = x*6364136223846793005 + 1442695040888963407
				}
				sink.Store(x)
			}
		}()
	}
	for {
		time.Sleep(200 * time.Millisecond)
		if _, err := fmt.Fprintf(out, "rounds=%d\n", rounds.Load()); err != nil {
			return err
		}
	}
}

// patience is how long something that begins is waited for.
const patience = 30 * time.Second

// wait looks until f holds, for so long at most.
func wait(ctx context.Context, every, limit time.Duration, f func() bool) error {
	for end := time.Now().Add(limit); !f(); time.Sleep(every) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(end) {
			return fmt.Errorf("nothing within %v", limit)
		}
	}
	return nil
}
