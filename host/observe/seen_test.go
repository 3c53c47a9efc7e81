package observe

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

var update = flag.Bool("update", false, "write the golden file anew")

// TestSeen is the life of a machine with something of everything, second by second: what is
// seen of it that was not so the second before, and how many files of a name each look reads.
func TestSeen(t *testing.T) {
	var b strings.Builder
	for _, mode := range []string{"cgroups", "cgroups, counted", "processes"} {
		b.WriteString("== " + mode + "\n")
		live(t, &b, mode == "processes", mode == "cgroups, counted")
	}
	const golden = "testdata/seen.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); diff != "" {
		t.Errorf("(-want +got; to take it over: go test -run TestSeen -update)\n%s", diff)
	}
}

func live(t *testing.T, b *strings.Builder, processes, counted bool) {
	m := working(processes)
	m.group("/user.slice", fakeGroup{})
	m.group("/user.slice/user-1000.slice", fakeGroup{})
	m.group("/user.slice/user-1000.slice/session-2.scope", fakeGroup{})
	for pid := 130; pid < 132; pid++ { // that share memory
		m.proc(pid, 1, fmt.Sprint("twin", pid), "/user.slice/user-1000.slice/session-2.scope", 0).uid = 1000
		m.shares(pid, 20*mib, 7, 100*mib)
	}
	vm, qemu := m.service("/machine-vm.scope", 140, "qemu", 200*mib)
	qemu.maps += "7f10 bind:1 file=/dev/hugepages/guest huge dirty=512 N1=512 kernelpagesize_kB=2048\n"
	qemu.threads = []fakeThread{{cpus: "2"}, {cpus: "3", cpu: 3}, {cpus: "0-7", cpu: 5}}
	vm.cpus, vm.mems = "0-3", "0"
	m.pool = []topology.HugePool{hugePool(2<<10, 1024, 512)}
	qemu.huge = 1024 * mib
	cached, _ := m.service("/cache.service", 150, "cache", 50*mib)
	cached.anon, cached.mapped, cached.shmem = byNode{30 * mib, 20 * mib}, byNode{40 * mib, 0}, byNode{0, 10 * mib}
	more := map[string]string{
		"proc/cpuinfo": xeon, "proc/sys/kernel/numa_balancing": "1\n", "proc/pressure/cpu": "some avg10=7.00 avg60=0.00 avg300=0.00 total=5\n",
		"proc/pressure/io": "some avg10=1.50 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=3\n",
	}
	if m.more == nil {
		m.more = map[string]string{}
	}
	maps.Copy(m.more, more)
	for cpu := range 8 {
		m.more[fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache/index3/id", cpu)] = fmt.Sprintln(cpu / 4)
	}
	for _, pid := range []int{100, 101, 110, 120, 121, 122, 130, 140, 141, 142, 150} {
		m.more[fmt.Sprintf("proc/%d/task/%d/sched", pid/10*10, pid)] = schedFile(9, pid%2, 3*pid, 200)
	}
	pmu := &fakePMU{tick: func(dir string) (float64, float64, error) { return 1000 * float64(len(dir)), 5000, nil }}
	r := newRig(t, m, Options{SelfPID: 199}).expecting("pid:121", topology.CPUs(0, 1))
	r.with.Registered = []workload.Process{{PID: 150, Start: 150}}
	if counted {
		pmu.on = 1 << 20
		for name, text := range map[string]string{
			"type": "17\n", "cpumask": "0,4\n", "format/event": "config:0-7\n", "format/umask": "config:8-15\n",
			"events/cas_count_read": "event=0x04,umask=0x03\n", "events/cas_count_read.scale": "6.103515625e-5\n", "events/cas_count_read.unit": "MiB\n",
		} {
			m.more["sys/bus/event_source/devices/uncore_imc_0/"+name] = text
		}
		r.o.counters.opener = pmu
	}
	read := map[string]int{}
	number := regexp.MustCompile(`[0-9]+`)
	r.fs.fail = func(name string) error {
		read[number.ReplaceAllString(path.Base(name), "N")]++
		return nil
	}
	told := map[string]bool{} // the second before
	for second := range 30 {
		for pid, p := range m.procs {
			if pid < 100 {
				continue
			}
			for k := range p.threads {
				p.threads[k].ticks += uint64(10 + pid%7 + 5*k)
			}
			if g := m.groups[p.cgroup]; g != nil {
				g.usage += time.Duration(200+pid%7*30) * time.Millisecond
			}
		}
		m.more["proc/vmstat"] = fmt.Sprintf("numa_hint_faults %d\nnuma_hint_faults_local %d\n", 1000*second, 700*second)
		stat := "cpu  1 2 3 4 5 6 7 8 9 10\n"
		for cpu := range 8 {
			stat += fmt.Sprintf("cpu%d %d 0 %d %d 0 0 0 0 0 0\n", cpu, 1000+second*10*cpu, second*5, 9000+second*(95-10*cpu))
		}
		m.more["proc/stat"] = stat
		for i, cache := range []string{"00", "01"} {
			m.more["sys/fs/resctrl/mon_data/mon_L3_"+cache+"/mbm_local_bytes"] = fmt.Sprintln((100 + 20*i) * second << 20)
			m.more["sys/fs/resctrl/mon_data/mon_L3_"+cache+"/mbm_total_bytes"] = fmt.Sprintln((160 + 10*i) * second << 20)
		}
		r.group("mon_groups/m", "140\n141\n142\n", 30*second, 40*second, "")
		switch second {
		case 4:
			m.groups["/system.slice/b.service"].cpus = "4-7"
			r.o.Changed("/system.slice/b.service")
			vm.anon = byNode{60 * mib, 140 * mib}
		case 6:
			r.o.Stale("/machine-vm.scope")
			qemu.maps = strings.Replace(qemu.maps, "N0=", "N1=", 1)
			m.procs[121].threads[0].cpus = "0-1"
		case 8:
			delete(m.procs, 101)
			m.service("/docker-0123456789abcdef0123456789abcdef.scope", 160, "web", 70*mib)
			m.used += 1 << 20
		case 9:
			m.procs[110].threads = append(m.procs[110].threads, fakeThread{cpus: "4-7", cpu: 6, ticks: 3})
			m.groups["/system.slice/b.service"].anon[0] += 8 * mib
		case 11:
			cached.cpus, cached.mems = "6-7", "1"
			m.procs[150].mems = "1"
		case 13:
			m.online = "0-6"
			delete(m.procs, 160)
			delete(m.groups, "/docker-0123456789abcdef0123456789abcdef.scope")
		}
		clear(read)
		s := r.after(time.Second)
		lines := seen(&s, second%10 == 9)
		var files []string
		for _, name := range slices.Sorted(maps.Keys(read)) {
			files = append(files, fmt.Sprintf("%d %s", read[name], name))
		}
		lines = append(lines, "reads "+strings.Join(files, ", "))
		fmt.Fprintf(b, "-- %d s\n", second)
		now := map[string]bool{}
		for _, line := range lines {
			if now[line] = true; !told[line] {
				fmt.Fprintln(b, line)
			}
		}
		told = now
	}
}

// seen is a snapshot in lines.
func seen(s *workload.Snapshot, times bool) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	say("unmanaged %v, %d small, shrunk %v, problems %v", s.Unmanaged, s.Small, s.Shrunk, s.Problems)
	for _, o := range s.Observations {
		var ran []string
		for _, x := range o.RanOn {
			ran = append(ran, fmt.Sprintf("%d: %.3f", x.Node, x.Share))
		}
		say("%s %q %s of %d, %d threads %v", o.ID, o.Name, o.Kind, o.UID, o.Threads, o.Processes)
		say("    %s: %.3f CPUs over %v, ran on %v by %s, %d MiB/s, %.3f local of %.0f/s by %q", o.ID, o.CPUUse, o.Window, ran, o.RanOnFrom, o.Bandwidth, o.Accesses.Local, o.Accesses.PerSecond, o.Accesses.From)
		say("    %s: memory %v, anonymous %v, movable %v, unread %v, policy %q", o.ID, o.Memory, o.Anon, o.Movable, o.MemoryUnread, o.OwnPolicy)
		say("    %s: CPUs %v, nodes %v, pinned %v %s", o.ID, o.CPUs, o.Mems, o.Pinned, o.PinnedWhy)
		if times {
			say("    %s: %v of CPU time", o.ID, o.CPUTime)
		}
	}
	for _, n := range s.Nodes {
		say("node %d: %.3f CPUs, %d MiB/s by %q", n.Node, n.CPUUse, n.Bandwidth, n.BandwidthFrom)
	}
	for _, x := range s.Sources {
		say("%s %v: %s", x.Source, x.Used, x.Text)
	}
	say("pressure %v", s.Pressure)
	return out
}
