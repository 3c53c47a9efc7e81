package perf

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"
)

func TestPairs(t *testing.T) {
	for _, tt := range []struct {
		name, cpuinfo string
		want          string // of the first pair
		whole         bool
		second        uint64 // config of the last pair's second event
		n             int
	}{
		{"Skylake-SP", "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\nmodel name : x\n\nvendor_id : Other\n", "node-loads", false, 0x2d3, 2},
		{"Broadwell-EP", "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 79\n", "node-loads", false, 0x4d3, 2},
		{"Sandy Bridge-EP", "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 45\n", "node-loads", true, 0x10006, 1},
		{"a desktop", "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 158\n", "", false, 0, 0},
		{"Zen 5", "vendor_id : AuthenticAMD\ncpu family : 26\nmodel : 2\n", "ls_any_fills", false, 0x4043, 2},
		{"Zen 2", "vendor_id : AuthenticAMD\ncpu family : 23\nmodel : 49\n", "ls_dmnd_fills", false, 0x4043, 1},
		{"Neoverse", "processor : 0\nBogoMIPS : 50\nCPU implementer : 0x41\nCPU part : 0xd0c\n\n", "ll_cache_miss_rd", true, 0x31, 1},
		{"nothing", "", "", false, 0, 0},
	} {
		pairs := Pairs(ParseCPU(tt.cpuinfo))
		if len(pairs) != tt.n {
			t.Errorf("%s: %d pairs, want %d", tt.name, len(pairs), tt.n)
			continue
		}
		if tt.n == 0 {
			continue
		}
		if p := pairs[0]; !strings.HasPrefix(p.Name, tt.want) || p.Whole != tt.whole {
			t.Errorf("%s: %q, whole %v", tt.name, p.Name, p.Whole)
		}
		if got := pairs[tt.n-1].Second.Config; got != tt.second {
			t.Errorf("%s: second event %#x, want %#x", tt.name, got, tt.second)
		}
		for _, p := range pairs {
			if p.Source == "" || p.First == p.Second {
				t.Errorf("%s: %q has no source, or one event twice", tt.name, p.Name)
			}
		}
	}
}

func TestSince(t *testing.T) {
	for _, tt := range []struct {
		name        string
		before, now raw
		want        [2]float64
	}{
		{"all the time", raw{}, raw{10, 10, [2]uint64{100, 7}}, [2]float64{100, 7}},
		{"a quarter of the time", raw{10, 10, [2]uint64{100, 7}}, raw{50, 20, [2]uint64{200, 8}}, [2]float64{400, 4}},
		{"never on the PMU", raw{10, 10, [2]uint64{100, 7}}, raw{50, 10, [2]uint64{100, 7}}, [2]float64{}},
	} {
		if got := tt.now.since(tt.before); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	p := Pair{Whole: true}
	if l, r := p.Split(10, 4); l != 6 || r != 4 {
		t.Errorf("of 10, 4 remote: %v local", l)
	}
	if l, _ := p.Split(3, 4); l != 0 {
		t.Errorf("%v local", l)
	}
}

func TestControllers(t *testing.T) {
	dir := Devices + "/uncore_imc_3/"
	files := map[string]string{
		dir + "type": "14\n", dir + "cpumask": "0,24\n",
		dir + "format/event": "config:0-7\n", dir + "format/umask": "config:8-15,32\n", dir + "format/edge": "config:18\n", dir + "format/far": "config1:0-7\n",
		dir + "events/cas_count_read": "event=0x04,umask=0x103,edge\n", dir + "events/cas_count_read.scale": "6.1e-5\n", dir + "events/cas_count_read.unit": "MiB\n",
		dir + "events/cas_count_write": "event=0x04,umask=0x0c\n", dir + "events/cas_count_write.scale": "6.1e-5\n", dir + "events/cas_count_write.unit": "MiB\n",
		Devices + "/cpu/type": "4\n",
	}
	read := func(change string, text string) []Controller {
		fsys := fstest.MapFS{}
		for name, text := range files {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if change != "" {
			fsys[dir+change] = &fstest.MapFile{Data: []byte(text)}
		}
		return Controllers(fsys)
	}
	got := read("", "")
	if len(got) != 1 || got[0].CPUs.String() != "0,24" || got[0].Events[0] != (Event{14, 1<<32 | 1<<18 | 0x0304}) || got[0].Events[1] != (Event{14, 0x0c04}) || got[0].MiB[0] != 6.1e-5 {
		t.Errorf("%+v", got)
	}
	for change, text := range map[string]string{
		"events/cas_count_write": "event=4,far=1", "events/cas_count_read": "event=0x104", "events/cas_count_read.unit": "KiB",
		"events/cas_count_read.scale": "much", "type": "-1", "cpumask": "", "format/umask": "config:9-8",
	} {
		if got := read(change, text); len(got) != 0 {
			t.Errorf("%s = %q gives %+v", change, text, got)
		}
	}
}

// soft is a pair that every kernel has.
var soft = Pair{Name: "task-clock, page-faults", First: Event{unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK}, Second: Event{unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS}}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(all)
}

func TestKernelCounts(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := descriptors(t)
	c, err := Kernel{}.Cgroup("", nil, &soft)
	if err != nil {
		t.Skipf("no perf events here: %v", err)
	}
	for began := time.Now(); time.Since(began) < 5*time.Millisecond; {
		b := make([]byte, 1<<20)
		b[len(b)-1] = 1
	}
	ns, faults, err := c.Read()
	if err != nil || ns <= 0 || faults <= 0 {
		t.Errorf("%v ns, %v faults, %v", ns, faults, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n := descriptors(t); n != before {
		t.Errorf("%d descriptors, %d before", n, before)
	}
}

// rootCgroup is where cgroup v2 is, as systemd mounts it; the second in hybrid mode.
func rootCgroup() string {
	const dir = "/sys/fs/cgroup"
	if _, err := os.Stat(dir + "/cgroup.controllers"); err != nil {
		return dir + "/unified"
	}
	return dir
}

// TestKernelCountsCgroup watches the root cgroup, in which everything runs.
func TestKernelCountsCgroup(t *testing.T) {
	before := descriptors(t)
	dir := rootCgroup()
	c, err := Kernel{}.Cgroup(dir, []int{0}, &soft)
	if err != nil {
		t.Skipf("cgroups are not counted here: %v", err)
	}
	if _, _, err := c.Read(); err != nil {
		t.Error(err)
	}
	c.Close()

	// The second CPU does not exist: what was open by then is given back.
	if _, err := (Kernel{}).Cgroup(dir, []int{0, 1 << 20}, &soft); err == nil {
		t.Error("counts on a CPU that does not exist")
	}
	if _, err := (Kernel{}).Cgroup(dir+"/no/such/cgroup", []int{0}, &soft); !errors.Is(err, unix.ENOENT) {
		t.Errorf("of a cgroup that does not exist: %v", err)
	}
	if n := descriptors(t); n != before {
		t.Errorf("%d descriptors, %d before", n, before)
	}
}

func TestReason(t *testing.T) {
	for err, want := range map[error]string{
		unix.ENOENT: "no such event", unix.EACCES: "kernel.perf_event_paranoid than 4", unix.ENOSYS: "built without", unix.EINVAL: "invalid argument",
	} {
		if got := Reason(os.NewSyscallError("perf_event_open", err), "4"); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// BenchmarkKernel opens, reads and closes a pair of software events of a cgroup on each
// CPU: what the system calls cost. Hardware events add an interrupt of the CPU to a reading.
func BenchmarkKernel(b *testing.B) {
	dir := rootCgroup()
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	b.Run("open-close", func(b *testing.B) {
		// The first event of a machine has the kernel patch its scheduler; others do not.
		first, err := Kernel{}.Cgroup(dir, cpus, &soft)
		if err != nil {
			b.Skip(err)
		}
		defer first.Close()
		b.ResetTimer()
		for b.Loop() {
			c, err := Kernel{}.Cgroup(dir, cpus, &soft)
			if err != nil {
				b.Skip(err)
			}
			c.Close()
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(cpus)), "µs/CPU")
	})
	b.Run("read", func(b *testing.B) {
		c, err := Kernel{}.Cgroup(dir, cpus, &soft)
		if err != nil {
			b.Skip(err)
		}
		defer c.Close()
		for b.Loop() {
			if _, _, err := c.Read(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(cpus)), "µs/CPU")
	})
}
