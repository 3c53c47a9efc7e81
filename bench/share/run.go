package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/homenode/homenode/core/topology"
)

// A case is one way to run both.
type way struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

var ways = []way{
	{"B", "alone"},
	{"C", "nothing done"},
	{"W", "cpu.weight 10000 : 1"},
	{"T", "homenode share"},
	{"P", "homenode share, sched_ext"},
}

// sample is one run of one case.
type sample struct {
	Case       string  `json:"case"`
	Sent       int     `json:"sent"`
	Bad        int     `json:"bad"`         // answers that were no 200
	Latency    []byte  `json:"latency"`     // HdrHistogram V2, compressed, µs from when a request was due
	Late       int64   `json:"late_p99_us"` // the generator's own lateness
	Seconds    float64 `json:"seconds"`
	Busy       float64 `json:"busy"`        // of the experiment's CPUs, 0 to 1
	OnlineCPUs float64 `json:"online_cpus"` // CPUs that the server kept busy
	Batch      float64 `json:"batch"`       // what batch work did in a second, in its unit
	BatchCPU   float64 `json:"batch_cpus"`
	// rescheduling and function calls on the experiment's CPUs
	IPIs     float64  `json:"ipis_a_second"`
	Expelled *float64 `json:"expulsions_a_second,omitempty"` // by homenode's counters, where it has some
	// CPUs that the server and batch work might use at the end
	Server string `json:"online_may"`
	Given  string `json:"batch_may"`

	took *hdrhistogram.Histogram
}

func (s *sample) at(percentile float64) float64 { return float64(s.took.ValueAtQuantile(percentile)) }

// lab is what all runs share.
type lab struct {
	groups     *cgroups
	experiment topology.CPUSet
	generator  topology.CPUSet
	online     *online
	batch      *batch
	self       string
	homenode   string
	dir        string // for what is thrown away afterwards
	rate       float64
	warm, run  time.Duration
	conns      int
	smoke      bool // CPU sets are as they are: nothing is long enough for them
}

// measure is one run of one case. Whatever happens, nothing of it runs or stays set afterwards.
func (l *lab) measure(ctx context.Context, id string) (s sample, err error) {
	s.Case = id
	defer func() {
		for _, name := range []string{"generator", "bench/batch", "bench/online", "daemon"} {
			err = errors.Join(err, l.groups.kill(context.Background(), name))
		}
		err = errors.Join(err, l.weights("100", "100"), l.confine(true))
	}()
	// Figures beside batch work that has ended would say nothing.
	ctx, ended := context.WithCancelCause(ctx)
	defer ended(nil)
	defer func() {
		if over := (errBatchEnded{}); errors.As(context.Cause(ctx), &over) {
			err = over
		}
	}()
	if id == "T" || id == "P" {
		// Where the user has chosen the CPUs of a cgroup, homenode leaves it alone: here it is
		// homenode that keeps both on the experiment's. Most kernels clear a CPU set only while the cgroup is empty.
		if err := l.confine(false); err != nil {
			return s, err
		}
	}
	if err := l.online.start(ctx, l.groups.at("bench/online")); err != nil {
		return s, fmt.Errorf("the server: %w", err)
	}
	var w *working
	if id != "B" {
		if w, err = l.batch.start(l.groups.at("bench/batch"), ended); err != nil {
			return s, fmt.Errorf("the batch work: %w", err)
		}
	}
	var d *daemon
	switch id {
	case "W":
		err = l.weights("10000", "1")
	case "T", "P":
		d, err = l.startDaemon(ctx, id == "P")
	}
	if err != nil {
		return s, err
	}
	if d != nil {
		defer func() { err = errors.Join(err, d.stop()) }()
	}
	var before, after counters
	out, err := l.load(ctx, l.rate, l.warm, l.run, func() { before = l.count(w, d) })
	if err != nil {
		return s, err
	}
	after = l.count(w, d)
	s.Latency = out.Latency
	s.Late = out.Late
	s.Sent = out.Sent
	s.Bad = out.Bad
	if s.took, err = hdrhistogram.Decode(s.Latency); err != nil {
		return s, fmt.Errorf("latencies of the generator: %w", err)
	}
	s.fill(before, after)
	s.Server, s.Given = l.may("bench/online"), l.may("bench/batch")
	for _, may := range []string{s.Server, s.Given} {
		if c, err := topology.ParseCPUSet(may); id != "B" && !l.smoke && (err != nil || !c.SubsetOf(l.experiment)) {
			return s, fmt.Errorf("work may run on CPUs %s, the experiment has %s", may, l.experiment)
		}
	}
	return s, nil
}

func (s *sample) fill(before, after counters) {
	s.Seconds = after.at.Sub(before.at).Seconds()
	s.Busy = (after.busy - before.busy) / max(1, after.all-before.all)
	s.OnlineCPUs = (after.online - before.online) / s.Seconds
	s.BatchCPU = (after.batch - before.batch) / s.Seconds
	s.Batch = (after.done - before.done) / s.Seconds
	s.IPIs = (after.ipis - before.ipis) / s.Seconds
	if before.expelled != nil && after.expelled != nil {
		x := (*after.expelled - *before.expelled) / s.Seconds
		s.Expelled = &x
	}
}

// confine keeps both on the experiment's CPUs, or lets them run anywhere.
func (l *lab) confine(on bool) error {
	cpus := "\n" // those of the cgroup above
	if on {
		cpus = l.experiment.String()
	}
	return write(filepath.Join(l.groups.at("bench"), "cpuset.cpus"), cpus)
}

// may is which CPUs a cgroup may use, in list format.
func (l *lab) may(name string) string {
	b, _ := os.ReadFile(filepath.Join(l.groups.at(name), "cpuset.cpus.effective"))
	return strings.TrimSpace(string(b))
}

func (l *lab) weights(online, batch string) error {
	return errors.Join(write(filepath.Join(l.groups.at("bench/online"), "cpu.weight"), online),
		write(filepath.Join(l.groups.at("bench/batch"), "cpu.weight"), batch))
}

// counters are what is read at both ends of a run.
type counters struct {
	at            time.Time
	busy, all     float64 // ticks of the experiment's CPUs
	online, batch float64 // CPU seconds
	done          float64
	ipis          float64
	expelled      *float64
}

func (l *lab) count(w *working, d *daemon) counters {
	c := counters{at: time.Now(), online: cpuSeconds(l.groups.at("bench/online")),
		batch: cpuSeconds(l.groups.at("bench/batch")), done: w.progress()}
	if b, err := os.ReadFile("/proc/stat"); err == nil {
		c.busy, c.all = busyTicks(string(b), l.experiment)
	}
	if b, err := os.ReadFile("/proc/interrupts"); err == nil {
		c.ipis = interprocessor(string(b), l.experiment)
	}
	if d != nil {
		c.expelled = d.expelled()
	}
	return c
}

// busyTicks sums the lines of some CPUs of /proc/stat (proc_stat(5)): all but idle and iowait
// is busy; guest time is in user time already.
func busyTicks(stat string, cpus topology.CPUSet) (busy, all float64) {
	for line := range strings.Lines(stat) {
		f := strings.Fields(line)
		if len(f) < 9 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		if n, err := strconv.Atoi(f[0][3:]); err != nil || !cpus.Has(topology.CPUID(n)) {
			continue
		}
		for i, v := range f[1:9] {
			n, _ := strconv.ParseFloat(v, 64)
			all += n
			if i != 3 && i != 4 {
				busy += n
			}
		}
	}
	return busy, all
}

// interprocessor sums what the rows RES and CAL of /proc/interrupts say of some CPUs:
// rescheduling and function call interrupts (x86; arm64 has them as IPI0 and IPI1).
func interprocessor(text string, cpus topology.CPUSet) (sum float64) {
	var column []int
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case column == nil:
			column = []int{}
			for _, name := range f {
				n, err := strconv.Atoi(strings.TrimPrefix(name, "CPU"))
				if err != nil {
					return 0
				}
				column = append(column, n)
			}
		case len(f) > len(column) && (f[0] == "RES:" || f[0] == "CAL:" || f[0] == "IPI0:" || f[0] == "IPI1:"):
			for i, cpu := range column {
				if cpus.Has(topology.CPUID(cpu)) {
					n, _ := strconv.ParseFloat(f[1+i], 64)
					sum += n
				}
			}
		}
	}
	return sum
}

// told is what the generator's process says at its end.
type told struct {
	Sent    int    `json:"sent"`
	Bad     int    `json:"bad"`
	Latency []byte `json:"latency"`
	Late    int64  `json:"late_p99_us"`
	Error   string `json:"error,omitempty"`
}

const beganLine = "counting"

// load runs the generator in its cgroup, or the steps in that of online work. begun is called when it begins to count.
func (l *lab) load(ctx context.Context, rate float64, warm, run time.Duration, begun func()) (out told, err error) {
	cgroup := "generator"
	var env []string // nil: this process's
	argv := []string{"load", l.online.address, fmt.Sprint(rate), warm.String(), run.String(), strconv.Itoa(l.conns)}
	if l.online.Name == stepName {
		cgroup = "bench/online"
		argv = []string{stepName, strconv.Itoa(l.online.Threads), fmt.Sprint(rate), warm.String(), run.String()}
		env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	}
	c := exec.CommandContext(ctx, l.self, argv...)
	c.Env = env
	c.Stderr = os.Stderr
	pipe, err := c.StdoutPipe()
	if err != nil {
		return out, err
	}
	if err := startIn(l.groups.at(cgroup), c); err != nil {
		return out, err
	}
	r := bufio.NewReader(pipe)
	first, err := r.ReadString('\n')
	if strings.TrimSpace(first) == beganLine {
		begun()
		err = json.NewDecoder(r).Decode(&out)
	} else if err == nil {
		err = fmt.Errorf("the generator says %q", first)
	}
	io.Copy(io.Discard, r)
	err = errors.Join(c.Wait(), err, ctx.Err())
	if err == nil && out.Error != "" {
		err = errors.New(out.Error)
	}
	if err != nil {
		return out, fmt.Errorf("the load: %w", err)
	}
	return out, nil
}

// choose finds the rate at which the server alone keeps wanted of the experiment's CPUs busy.
func (l *lab) choose(ctx context.Context, wanted float64) error {
	if err := l.online.start(ctx, l.groups.at("bench/online")); err != nil {
		return err
	}
	defer l.groups.kill(context.Background(), "bench/online")
	for rate, try := 500.0, 0; ; try++ {
		var before counters
		if _, err := l.load(ctx, rate, time.Second/2, 2*time.Second,
			func() { before = l.count(nil, nil) }); err != nil {
			return err
		}
		after := l.count(nil, nil)
		busy := (after.online - before.online) / after.at.Sub(before.at).Seconds() / float64(l.experiment.Len())
		if l.rate = rate; try == 3 || (busy > wanted*0.9 && busy < wanted*1.1) {
			return nil
		}
		rate = min(200_000, max(50, rate*min(20, wanted/max(busy, 0.001))))
	}
}

// daemon is homenode, about the experiment's cgroups alone.
type daemon struct {
	cmd            *exec.Cmd
	program, state string
	socket         string
	kernel         bool // with its scheduler
	done           chan struct{}
}

func (l *lab) startDaemon(ctx context.Context, kernel bool) (*daemon, error) {
	dir, err := os.MkdirTemp(l.dir, "homenode")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte(l.config(kernel)), 0o600); err != nil {
		return nil, err
	}
	d := &daemon{kernel: kernel, program: l.homenode, state: filepath.Join(dir, "state"),
		socket: filepath.Join(dir, "sock"), done: make(chan struct{})}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d.cmd = exec.Command(l.homenode, "daemon", "--mode", "enforce", "--config", config, "--state-dir", d.state,
		"--socket", d.socket)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err := startIn(l.groups.at("daemon"), d.cmd); err != nil {
		return nil, err
	}
	go func() {
		d.cmd.Wait()
		close(d.done)
	}()
	var now sharing
	ready := func() bool {
		now, err = d.status()
		return d.ended() || (err == nil && now.On && len(now.Workloads) > 0 && (!kernel || now.Scheduler.Enabled))
	}
	if err = wait(ctx, 500*time.Millisecond, patience, ready); err != nil && kernel && now.Scheduler.loading() {
		err = wait(ctx, 500*time.Millisecond, 5*patience, ready)
	}
	switch text, _ := os.ReadFile(log.Name()); {
	case err != nil && kernel && now.On && len(now.Workloads) > 0:
		return nil, errors.Join(errNoScheduler{now.Scheduler.Why}, d.stop())
	case err != nil || d.ended():
		return nil, fmt.Errorf("homenode does not share with batch work: %w; it says: %s", errors.Join(err, d.stop()),
			strings.TrimSpace(string(text)))
	}
	return d, nil
}

// errNoScheduler is why homenode's scheduler does not run here, in its words.
type errNoScheduler struct{ why string }

func (e errNoScheduler) Error() string { return "homenode's scheduler does not run: " + e.why }

// config is about the experiment's cgroups and CPUs alone.
func (l *lab) config(kernel bool) string {
	all, err := topology.FromSysfs(os.DirFS("/"))
	others, scheduler := "", "off"
	if kernel {
		scheduler = "auto"
	}
	if err == nil {
		others = all.Online.Minus(l.experiment).String()
	}
	online, batch := l.groups.path("bench/online"), l.groups.path("bench/batch")
	return fmt.Sprintf(`manage: {include: [%[1]q, %[2]q]}
reserve: {cpus: %[3]q}
restore_on_stop: true
libvirt: {manage: none}
containers: {manage: none}
irq: "off"
share: {enabled: true, sched_ext: %[4]s}
workloads:
  - {match: %[1]q, tier: online-strict}
  - {match: %[2]q, tier: batch}
`, online, batch, others, scheduler)
}

func (d *daemon) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// stop ends it and puts back what it has set. A scheduler would outlive it.
func (d *daemon) stop() error {
	if d.kernel {
		exec.Command(d.program, "share", "off", "--socket", d.socket).Run()
		wait(context.Background(), 200*time.Millisecond, patience, func() bool { return d.ended() || !schedExtRuns() })
	}
	d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(20 * time.Second):
		d.cmd.Process.Kill()
		<-d.done
	}
	if out, err := exec.Command(d.program, "undo", "--all", "--state-dir", d.state, "--socket",
		d.socket).CombinedOutput(); err != nil && !strings.Contains(string(out), "no journal") {
		return fmt.Errorf("homenode undo --all: %w: %s", err, strings.TrimSpace(string(out)))
	}
	if d.kernel && schedExtRuns() {
		return errors.New("a sched_ext scheduler still runs: homenode share off")
	}
	return nil
}

// schedExtRuns reports whether any scheduler of sched_ext runs (sched-ext.rst).
func schedExtRuns() bool {
	b, _ := os.ReadFile("/sys/kernel/sched_ext/state")
	return strings.TrimSpace(string(b)) == "enabled"
}

// sharing is what is read of `homenode share status --json`.
type sharing struct {
	On        bool              `json:"on"`
	Workloads []json.RawMessage `json:"workloads"`
	Scheduler scheduler         `json:"scheduler"`
}

type scheduler struct {
	Enabled  bool       `json:"enabled"`
	Why      string     `json:"why"`
	Newest   string     `json:"newest"`
	Other    string     `json:"other"`
	Ended    *time.Time `json:"ended"`
	Counters []struct {
		Name  string  `json:"name"`
		Value float64 `json:"value"`
	} `json:"counters"`
}

// loading reports whether it may still come: nothing stands in its way.
func (s scheduler) loading() bool {
	return !s.Enabled && s.Newest != "" && s.Other == "" && s.Ended == nil
}

func (d *daemon) status() (s sharing, err error) {
	b, err := exec.Command(d.program, "share", "status", "--json", "--socket", d.socket, "--state-dir",
		d.state).Output()
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// expelled is how often batch work left a CPU for its sibling; nil where nothing counts it.
func (d *daemon) expelled() *float64 {
	s, err := d.status()
	if err != nil {
		return nil
	}
	for _, c := range s.Scheduler.Counters {
		if c.Name == "kicks_expel" {
			return &c.Value
		}
	}
	return nil
}
