package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/sim"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/see"
	"github.com/homenode/homenode/ui/view"
)

// screen is a machine of so many nodes, eight CPUs and 32 GiB each, with work on it.
type screen struct {
	nodes int
	host  *topology.Host
	tree  fstest.MapFS
	tty   *terminal // what it shows goes there, too; nil is a pipe
}

func newScreen(t testing.TB, nodes int) *screen {
	m := fstest.MapFS{}
	file := func(name, text string) { m[name] = &fstest.MapFile{Data: []byte(text + "\n")} }
	last := fmt.Sprintf("0-%d", nodes*8-1)
	for _, name := range []string{"online", "possible", "present"} {
		file("sys/devices/system/cpu/"+name, last)
	}
	file("sys/devices/system/node/online", strings.TrimSuffix(fmt.Sprintf("0-%d", nodes-1), "-0"))
	file("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory")
	file("sys/fs/cgroup/cpuset.cpus.effective", last)
	file("sys/fs/cgroup/system.slice/cgroup.procs", "1")
	file("proc/irq/9/smp_affinity_list", last)
	file("sys/kernel/irq/9/actions", "acpi")
	file("proc/cmdline", "quiet")
	for n := range nodes {
		dir := fmt.Sprintf("sys/devices/system/node/node%d/", n)
		file(dir+"cpulist", fmt.Sprintf("%d-%d", n*8, n*8+7))
		var distances []string
		for k := range nodes {
			d := 10
			if k != n {
				d = 12 + 9*((k/4)^(n/4)) + 4*(k/2^n/2)%9
			}
			distances = append(distances, fmt.Sprint(d))
		}
		file(dir+"distance", strings.Join(distances, " "))
		file(dir+"meminfo", fmt.Sprintf("Node %d MemTotal: 33554432 kB\nNode %d MemFree: %d kB", n, n, 33554432>>(n%3)))
	}
	for c := range nodes * 8 {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", c)
		file(dir+"thread_siblings_list", fmt.Sprintf("%d-%d", c&^1, c|1))
		file(dir+"core_id", fmt.Sprint(c/2))
		file(dir+"physical_package_id", fmt.Sprint(c/32))
	}
	h, err := topology.FromSysfs(m)
	if err != nil {
		t.Fatal(err)
	}
	return &screen{nodes: nodes, host: h, tree: m}
}

// workloads is work as hosts have it: services, containers, processes, guests.
func (s *screen) workloads() []api.Workload {
	share := func(x float64) *float64 { return &x }
	node := func(n int) string { return fmt.Sprint(n % s.nodes) }
	cpus := func(n int) string { return fmt.Sprintf("%d-%d", n%s.nodes*8, n%s.nodes*8+7) }
	return []api.Workload{
		{ID: "/system.slice/postgresql@14-main.service", Name: "postgresql@14-main.service", Class: workload.Dedicated, CPUs: 8, Home: node(1), CPUSet: cpus(1), CPUSetPlanned: cpus(1),
			CPUUse: 6.31, MemoryKiB: 17 << 20, Locality: share(0.998), LocalityExpected: share(1), LocalityFrom: workload.Counters, State: api.StateAtHome},
		{ID: "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod5a0ee6ae_93c1.slice/cri-containerd-0d1f2c.scope", Name: "cri-containerd-0d1f2c.scope", Class: workload.Shared, CPUs: 2,
			Home: node(0), CPUSet: "0-" + fmt.Sprint(s.nodes*8-1), CPUSetPlanned: cpus(0), CPUUse: 1.2, MemoryKiB: 3 << 20, Locality: share(0.514), LocalityExpected: share(0.97),
			LocalityFrom: workload.Residence, State: api.StateMoving, Move: &plan.Move{Home: node(0), Planned: 3 << 30, Moved: 1 << 30, State: "running"}},
		{ID: "pid:4711", Name: "java", Class: workload.Shared, CPUs: 1, Home: node(2), CPUSetPlanned: cpus(2), CPUUse: 0.02, MemoryKiB: 850 << 10, State: api.StatePaused,
			Why: "pid:4711 waits for memory 23 % of the time; it goes on below 10 %"},
		{ID: "vm:web1", Name: "web1", Class: workload.Dedicated, CPUs: 4, Home: node(3), CPUUse: 3.97, MemoryKiB: 16 << 20, Locality: share(1), LocalityExpected: share(1),
			LocalityFrom: workload.Residence, State: api.StateHeld},
		{ID: "pid:99", Name: "stress-ng", Class: workload.Batch, CPUUse: 0.5, MemoryKiB: 30 << 10, State: api.StateLeftAlone},
	}
}

func (s *screen) Status(context.Context) (api.Status, error) {
	out := api.Status{Schema: "homenode-status/3", Version: "1.2.3", Mode: "enforce", Time: moment0, Workloads: s.workloads(), Small: 1,
		Problems: []string{"/system.slice/backup.service: set-mems: the kernel did not answer within 10 s; it is left alone for 5 minutes and tried again then"},
		Managers: []api.Manager{{Name: "irqbalance", Does: "spreads interrupts over CPUs", Owns: "the affinity of interrupts"}},
		Sources: []workload.SourceStatus{{Source: workload.Counters, Used: true, Text: "node-loads"}, {Source: workload.Hints, Text: "kernel.numa_balancing is 0"},
			{Source: workload.Residence, Used: true}},
		Devices: []api.Device{{Name: "eth0", Kind: "nic", Interrupts: 9, AtHome: 2, Fixed: 1, Steps: 6, State: api.StateWouldSpread},
			{Name: "nvme0n1", Kind: "nvme", Interrupts: 3, AtHome: 3, State: api.StateAsPlanned, Why: "It has as many queues as its node has CPUs."}}}
	sharing, _ := s.Share(context.Background(), api.ShareOrder{On: true})
	out.Sharing = &sharing
	for _, n := range s.host.Nodes {
		busy := 7.6 / float64(1+int(n.ID)%3)
		traffic := int64(1200)
		out.Nodes = append(out.Nodes, api.Node{ID: n.ID, CPUs: n.CPUs.String(), MemoryKiB: int64(n.Memory), FreeKiB: int64(n.Free) >> (4 * (int(n.ID) % 3)), BookedKiB: 8 << 20, VCPUs: 5.5,
			CPUUse: &busy, Bandwidth: &traffic})
	}
	return out, nil
}

var moment0 = time.Date(2026, 11, 22, 18, 4, 5, 0, time.UTC)

func (s *screen) events() []plan.Event {
	return []plan.Event{
		{Seq: 1, Time: moment0, Kind: plan.EventPlan, Workload: "pid:4711", Text: "node 0, for there it has 8 CPUs and 20 GiB free, and its memory is there already"},
		{Seq: 2, Time: moment0.Add(time.Second), Kind: plan.EventStep, Workload: "/system.slice/postgresql@14-main.service", Text: "set-cpus: all → 0-7"},
		{Seq: 3, Time: moment0.Add(time.Minute), Kind: plan.EventStep, Workload: "pid:4711", Text: "set-mems: device or resource busy", Error: true},
	}
}

func (s *screen) entries() []plan.Entry {
	return []plan.Entry{{Seq: 1, Workload: "/system.slice/postgresql@14-main.service", Kind: plan.CgroupCPUs, Path: "/sys/fs/cgroup/system.slice/postgresql@14-main.service", New: "8-15", State: plan.Applied}}
}

// decision is what the placement says of a workload on this host.
func (s *screen) decision() plan.Decision {
	st := plan.State{Host: s.host, Policy: plan.DefaultPolicy()}
	spec := workload.Spec{ID: "x", Name: "x", Class: workload.Dedicated, CPUs: 4, Memory: 4 << 20}
	return place.NewLedger(st).Place(place.Request{Spec: spec}).Decision
}

func (s *screen) Explain(_ context.Context, id workload.ID) (api.Explanation, error) {
	if id == "nobody" {
		return api.Explanation{}, &api.Error{Code: api.NotFound, Text: `no workload "nobody"; homenode status lists them`}
	}
	return api.Explanation{Schema: "homenode-explain/3", Mode: "enforce", Workload: s.workloads()[1], Decision: s.decision(), Journal: s.entries(), Events: s.events()}, nil
}
func (s *screen) History(_ context.Context, q api.HistoryQuery) (api.History, error) {
	events := slices.DeleteFunc(s.events(), func(ev plan.Event) bool { return !q.Has(&ev) })
	return api.History{Schema: "homenode-history/2", Workload: q.Workload, Events: events}, nil
}
func (s *screen) Undo(_ context.Context, w api.Which) (api.UndoResult, error) {
	out := api.UndoResult{Schema: "homenode-undo/2", Workload: w.ID, Restored: s.entries()}
	if w.ID == "java" {
		out.Restored = nil
	}
	return out, nil
}
func (s *screen) Resume(context.Context, api.Which) (api.Resumed, error) {
	return api.Resumed{Schema: "homenode-resume/2", All: true}, nil
}
func (s *screen) Place(context.Context, api.Want) (api.Home, error) {
	d := s.decision()
	return api.Home{Schema: "homenode-home/3", Nodes: topology.Nodes(0), CPUs: topology.CPUs(0, 1, 2, 3), Bound: true, Ledger: true, Why: "It has the most room.", Decision: d}, nil
}
func (s *screen) Partition(_ context.Context, p api.Partition) (api.Partition, error) {
	p.Split, p.Dedicated = true, "4-7"
	return p, nil
}
func (s *screen) UpgradeScheduler(_ context.Context, o api.UpgradeOrder) (api.Upgraded, error) {
	up := api.Upgraded{Schema: "homenode-share-upgrade/1", From: "5c0f00ba4711", To: "0123456789ab", DryRun: o.DryRun}
	if !o.DryRun {
		up.Trial = &api.ShareTrial{From: up.From, To: up.To, Began: moment0, Until: moment0.Add(time.Minute), GapMS: 8.4}
	}
	return up, nil
}
func (s *screen) Share(_ context.Context, o api.ShareOrder) (api.Sharing, error) {
	out := api.Sharing{Schema: "homenode-share/1", On: o.On, Mode: "enforce", Target: 0.65, Nodes: []api.ShareNode{}, Workloads: []api.ShareWork{
		{ID: "/system.slice/encode.service", CPUs: "4-7", Why: words.Because(words.ShareSet, topology.CPUs(4, 5, 6, 7), topology.Nodes(0), 0.65).String()},
		{ID: "/system.slice/thumbnails.service", CPUs: "4-7", Frozen: &moment0, For: "/system.slice/postgresql@14-main.service",
			Why: words.Because(words.ShareFreeze, "/system.slice/postgresql@14-main.service").String()},
		{ID: "/system.slice/train.service", CPUs: "7", Cut: &moment0, For: "/system.slice/nginx.service",
			Why: words.Because(words.ShareCut, 5*time.Minute, "/system.slice/nginx.service").String(), Hurts: []string{words.Because(words.ShareHurts, "/system.slice/nginx.service", 0.61, 48).String()}}},
		LeftAlone: []api.ShareLeft{{ID: "/machine.slice/render", Why: words.Because(words.SetByOthers, topology.CPUs(2, 3)).String()}},
		Signals: []workload.SourceStatus{
			{Source: workload.PSI, Used: true, Text: "cpu.pressure of each important cgroup: share of the last ten seconds in which a task waited for a CPU"},
			{Source: workload.CPI, Text: "it takes root or CAP_PERFMON, or a lower kernel.perf_event_paranoid than 4"}}}
	value, usual, deviation, limit, score := 0.31, 0.02, 0.01, 0.05, 0.61
	out.Important = []api.ShareHarm{{ID: "/system.slice/nginx.service", Signal: workload.PSI, Value: &value, Usual: &usual, Deviation: &deviation, Limit: &limit, Learned: 180, Hurt: true,
		By: "/system.slice/train.service", Score: &score, Samples: 48, Why: words.Sentences(words.Reasons(words.Because(words.ShareWait, value, "psi"), words.Because(words.ShareUsualWait, usual, 180, limit),
			words.Because(words.ShareHurt, 3, 5), words.Because(words.ShareOffender, "/system.slice/train.service", score, 48, 0.35), words.Because(words.ShareIsCut, "/system.slice/train.service", 4*time.Minute)))},
		{ID: "/system.slice/postgresql@14-main.service", Why: words.Sentences(words.Reasons(words.Because(words.ShareNoSignal)))}}
	out.Scheduler = &api.ShareScheduler{Enabled: true, Why: words.Because(words.SchedulerRuns).String(), Version: "5c0f00ba4711", Newest: "0123456789ab", Generation: "v2", Since: &moment0,
		Threads: 2, Untiered: 3616, Loads: 1, MostLoads: 3, Ended: &moment0, End: &share.SchedulerEnd{Kind: share.EndStalled, Text: "runnable task stall: encode[4711] failed to run for 30.1s"},
		Counters: []share.Counter{{Name: "starts", Value: 48213}, {Name: "refused_expelled", Value: 912}, {Name: "guard_slices", Value: 3}},
		Upgrade:  &api.ShareTrial{From: "5c0f00ba4711", To: "0badc0ffee00", Began: moment0, Until: moment0, Ended: &moment0, Why: "The kernel ended it (error: scx_bpf_error)."}}
	for _, n := range s.host.Nodes {
		out.Nodes = append(out.Nodes, api.ShareNode{Node: n.ID, CPUs: 3.1, Given: topology.CPUs(n.CPUs.Max()-1, n.CPUs.Max()).String(), Pool: 8, Online: 2, System: 0.1, Idle: 1,
			Why: words.Sentences(words.Reasons(words.Because(words.ShareBudget, 8, 2, 0.1, 1, 0.65, 3.1), words.Because(words.ShareSettling, 10*time.Second)))})
	}
	return out, nil
}
func (s *screen) Move(_ context.Context, o api.MoveOrder) (api.MoveAnswer, error) {
	return api.MoveAnswer{Schema: "homenode-move/3", Workload: o.ID, Outcome: plan.Placed, From: topology.Nodes(0), FromCPUs: topology.CPUs(0, 1, 2, 3), To: o.To, CPUs: topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7),
		Steps: []plan.Step{{Kind: plan.MovePages, Bytes: 3 << 30, Cost: plan.Cost{Seconds: 12}}}, Decision: s.decision()}, nil
}
func (s *screen) Change(_ context.Context, c api.Change) ([]error, error) {
	return make([]error, len(c.Steps)), nil
}

// show runs a command line on the machine, on a screen of so many columns.
func (s *screen) show(t testing.TB, columns int, env map[string]string, args []string, stdin string) (out, errs string, code int) {
	var o, e bytes.Buffer
	v := &hypervisor{guests: []guest.Guest{floating("web1", true, "", 1, 2, 3), floating("a-guest-with-a-rather-long-name-of-its-own", false, "bound by hand", 0, 1)}}
	getenv := func(name string) string {
		if name == "COLUMNS" && columns > 0 {
			return fmt.Sprint(columns)
		}
		return env[name]
	}
	to := io.Writer(&o)
	if s.tty != nil {
		to = s.tty.program
	}
	code = Main(context.Background(), &cli.Env{Stdin: strings.NewReader(stdin), Stdout: to, Stderr: &e, Getenv: getenv, Root: s.tree, Version: "1.2.3", Libvirt: v, Host: &preparer{},
		After:         func(time.Duration, func()) func() bool { return func() bool { return true } }, // what waits is not shown: a slow machine shows the same
		DefaultSocket: "/nonexistent/socket", DefaultState: "/var/lib/homenode", Sim: sim.Run,
		Demo: func(_ context.Context, o cli.DemoOptions) error {
			o.Ended("kernel", told("observe", 0.41, 0.63, 0))
			o.Ended("homenode", told("enforce", 0.41, 0.99, 31))
			o.Ready(cli.DemoPlace{Socket: "/tmp/homenode-demo-3351921654/socket", Page: "http://127.0.0.1:8080/"})
			return nil
		},
		Local: func(context.Context, string) (api.Backend, func() error, error) {
			return s, func() error { return nil }, nil
		},
		Journal: func(string) error { return nil }, Probe: func(*topology.Host, string) cli.Prober { return s },
		Policy: func(*topology.Host) (plan.Policy, error) { return plan.DefaultPolicy(), nil },
		Flight: s.flight, Records: s.records, Remote: s.remote, Memory: screenFigures{s}, Where: s.whereabouts, Exec: func(cli.Start, string, []string) error { return nil },
		Self: func() (workload.Process, error) { return workload.Process{}, nil },
	}, args)
	if s.tty != nil {
		return s.tty.shown(t), e.String(), code
	}
	return o.String(), e.String(), code
}

const screenSpecs = `
- {name: db, class: dedicated, cpus: 4, memory: 8GiB}
- {name: web-frontend-of-the-shop, cpus: 6, memory: 2GiB}
- {name: too-large, class: dedicated, cpus: 4000, memory: 1GiB}
`

const screenRunning = `
- {name: far, class: dedicated, cpus: 3, memory: 4GiB, at: {cpus: "0-2", memory: {0: 4GiB}}}
`

// screens is what every command shows, by the name of its golden file.
var screens = []struct{ name, args, stdin string }{
	{"status", "status", ""},
	{"explain", "explain cri-containerd-0d1f2c.scope", ""},
	{"explain-unknown", "explain nobody", ""},
	{"status-all", "status --all --sort memory", ""},
	{"status-filters", "status --class shared --home 0 --state moving,paused --name *", ""},
	{"status-name", "status web1 java", ""},
	{"status-none", "status --class batch --home 0", ""},
	{"stat", "stat", ""},
	{"stat-process", "stat 4711", ""},
	{"stat-unread", "stat 1", ""},
	{"run", "run --cpus 4 --memory 2GiB -- sh", ""},
	{"run-dry-run", "run --cpus 4 --memory 2GiB --dry-run -- sh", ""},
	{"run-exact", "run --cpus-list 0-3 --membind 0 --dry-run -- sh", ""},
	{"run-show", "run --show", ""},
	{"run-wrong", "run --cpus-list 900 -- sh", ""},
	{"replay", "replay", ""},
	{"replay-differs", "replay other", ""},
	{"replay-what-if", "replay --what-if homes-kept,eager", ""},
	{"gather", "gather captured.tar.gz", ""},
	{"history", "history", ""},
	{"report", "report --since 2026-11-22T00:00:00Z --until 2026-11-23T00:00:00Z --out report.html", ""},
	{"report-none", "report --since 2025-11-22T00:00:00Z --until 2025-11-23T00:00:00Z", ""},
	{"fleet", "fleet web1 web2 root@db down1.example.org old7 --sort worst", ""},
	{"fleet-fit", "fleet fit web1 web2 root@db down1.example.org --cpus 4 --memory 8GiB", ""},
	{"status-html", "status --html status.html", ""},
	{"history-since", "history pid:4711 --since 2026-11-22T18:04 --kind move,step -n 20", ""},
	{"move", "move pid:4711 --to 0 --dry-run", ""},
	{"undo", "undo --all", ""},
	{"undo-nothing", "undo java", ""},
	{"resume", "resume --all", ""},
	{"topology", "topology", ""},
	{"doctor", "doctor --no-measure", ""},
	{"probe-all", "probe all --dry-run", ""},
	{"probe-latency", "probe latency", ""},
	{"probe-latency-dry-run", "probe latency --dry-run", ""},
	{"probe-bandwidth-dry-run", "probe bandwidth --dry-run", ""},
	{"probe-loaded-dry-run", "probe loaded --dry-run", ""},
	{"probe-levels-dry-run", "probe levels --dry-run", ""},
	{"probe-c2c-dry-run", "probe c2c --dry-run", ""},
	{"probe-show", "probe show", ""},
	{"probe-diff", "probe diff before.json after.json", ""},
	{"probe-diff-all", "probe diff before.json after.json --all", ""},
	{"probe-export", "probe export", ""},
	{"probe-export-csv", "probe export --format csv", ""},
	{"host-report", "host report --reserve 0-1", ""},
	{"host-undo", "host prepare --undo --dry-run", ""},
	{"undo-dry-run", "undo --all --dry-run", ""},
	{"resume-dry-run", "resume --all --dry-run", ""},
	{"host-prepare", "host prepare --dry-run", ""},
	{"host-partition", "host partition", ""},
	{"host-partition-set", "host partition 50% --dry-run", ""},
	{"share-status", "share status", ""},
	{"share-explain", "share explain", ""},
	{"share-on", "share on --dry-run", ""},
	{"share-off", "share off --dry-run", ""},
	{"share-upgrade", "share upgrade --no-wait", ""},
	{"share-upgrade-dry", "share upgrade --dry-run", ""},
	{"plan", "plan --spec - --host machine.json", screenSpecs},
	{"plan-admit", "plan --admit - --host machine.json", screenSpecs},
	{"plan-restore", "plan --restore --running - --host machine.json", screenRunning},
	{"sim", "sim --generate churn --events 60 --host machine.json --policy homenode,first-fit,none", ""},
	{"top", "top", ""},
	{"top-once", "top --once", ""},
	{"demo", "demo", ""},
	{"demo-wrong", "demo --nodes 100", ""},
	{"vm-flavors", "vm flavors", ""},
	{"vm-capacity", "vm capacity", ""},
	{"vm-capacity-repack", "vm capacity --repack", ""},
	{"vm-list", "vm list", ""},
	{"vm-define", "vm define --flavor g1.small --name new --dry-run --why", ""},
	{"vm-move", "vm move web1 --nodes 0 --dry-run", ""},
	{"vm-place", "vm place web1 --class shared --dry-run", ""},
	{"vm-adopt", "vm adopt a-guest-with-a-rather-long-name-of-its-own --dry-run", ""},
	{"vm-release", "vm release web1 --dry-run", ""},
	{"vm-limit", "vm limit web1 --flavor c1.xlarge --dry-run", ""},
	{"vm-hook-install", "vm hook --install --hooks hooks --dry-run", ""},
	{"vm-hook-uninstall", "vm hook --uninstall --hooks hooks --dry-run", ""},
	{"version", "version", ""},
}

func checkWidth(t testing.TB, what, text string, columns int) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := ansi.StringWidth(strings.TrimSuffix(line, "\n")); n > columns {
			t.Errorf("%s: %d of %d columns: %s", what, n, columns, line)
		}
	}
}

// What every command shows on screens of 80 and 200 columns, of machines with 1, 2, 4 and 8 nodes,
// is as in testdata/screens, and no line is wider than the screen.
func TestScreens(t *testing.T) {
	defer func(was *time.Location) { time.Local = was }(time.Local)
	time.Local = time.UTC
	goldens, err := filepath.Abs("testdata/screens")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range screens {
		t.Run(c.name, func(t *testing.T) {
			var all strings.Builder
			for _, nodes := range []int{1, 2, 4, 8} {
				s := newScreen(t, nodes)
				for _, columns := range []int{80, 200} {
					s.files(t)
					out, errs, code := s.show(t, columns, nil, strings.Fields(c.args), c.stdin)
					checkWidth(t, c.args, out+errs, columns)
					fmt.Fprintf(&all, "==== %s, %d columns: homenode %s\n%s%s", words.Count(nodes, "node"), columns, c.args, out, errs)
					if code != 0 {
						fmt.Fprintf(&all, "==== exit status %d\n", code)
					}
				}
			}
			golden(t, filepath.Join(goldens, c.name+".txt"), []byte(all.String()))
		})
	}
}

// A page on standard output is the one in a file, whatever the locale and the width are.
func TestPageOnStdout(t *testing.T) {
	s, name := newScreen(t, 2), filepath.Join(t.TempDir(), "status.html")
	env := map[string]string{"LANG": "C", "COLUMNS": "40"}
	if _, errs, code := s.show(t, 0, env, []string{"status", "--html", name}, ""); code != 0 {
		t.Fatal(errs)
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if out, errs, code := s.show(t, 0, env, []string{"status", "--html", "-"}, ""); code != 0 || out != string(want) {
		t.Errorf("exit status %d %s: on standard output\n%s\nin a file\n%s", code, errs, out, want)
	}
}

// noScreen is the commands that have no golden screen, and why.
var noScreen = map[string]string{
	"homenode config check":          "a line; cmd/homenode/testdata/script/config.txtar",
	"homenode config show":           "a file; cmd/homenode/testdata/script/config.txtar",
	"homenode trial":                 "runs for minutes; cmd/homenode/testdata/script/trial.txtar",
	"homenode numactl":               "lines of numactl; cmd/homenode/testdata/script/numactl.txtar",
	"homenode numastat":              "as numactl",
	"homenode taskset":               "as numactl",
	"homenode migratepages":          "as numactl",
	"homenode numad":                 "a line; cmd/homenode/testdata/script/numad.txtar",
	"homenode daemon":                "writes a log until it ends",
	"homenode metrics":               "for a program; golden in ui/metrics",
	"homenode openstack export":      "files, golden in cmd/homenode/testdata/script/openstack.txtar",
	"homenode help":                  "screens of help are in testdata/screens/help",
	"homenode completion":            "prints its help",
	"homenode completion bash":       "a script, no screen",
	"homenode completion fish":       "a script, no screen",
	"homenode completion powershell": "a script, no screen",
	"homenode completion zsh":        "a script, no screen",
}

// Every command that does something has a golden screen, and one of --dry-run where it has that.
func TestEveryCommandHasAScreen(t *testing.T) {
	shown := func(c *cobra.Command, flag string) bool {
		return slices.ContainsFunc(screens, func(s struct{ name, args, stdin string }) bool {
			found, _, err := c.Root().Find(strings.Fields(s.args))
			return err == nil && found == c && strings.Contains(s.args, flag)
		})
	}
	everyCommand(func(c *cobra.Command) {
		path := c.CommandPath()
		switch why := noScreen[path]; {
		case why != "" && shown(c, ""):
			t.Errorf("%s has a screen and need not say that it %s", path, why)
		case why != "", c.HasSubCommands():
		case !shown(c, ""):
			t.Errorf("%s: no screen shows it; add one to screens, or a reason to noScreen", path)
		case c.Flags().Lookup("dry-run") != nil && !shown(c, "--dry-run"):
			t.Errorf("%s --dry-run: no screen shows it", path)
		}
	})
}

// The same of what --help says.
func TestHelpScreens(t *testing.T) {
	everyCommand(func(c *cobra.Command) {
		if c.Name() == "help" && c.HasParent() && c.Parent().HasParent() {
			return
		}
		var all strings.Builder
		for _, columns := range []int{80, 200} {
			fmt.Fprintf(&all, "==== %d columns\n%s", columns, helpText(c, view.Paint{Width: columns}))
		}
		golden(t, filepath.Join("testdata/screens/help", strings.ReplaceAll(c.CommandPath(), " ", "-")+".txt"), []byte(all.String()))
	})
}

// In a locale that is not UTF-8 no command writes anything but ASCII, and every sign of a
// screen has one that stands for it.
func TestASCII(t *testing.T) {
	goldens, err := filepath.Glob("testdata/screens/*.txt")
	help, err2 := filepath.Glob("testdata/screens/help/*.txt")
	if err := errors.Join(err, err2); err != nil || len(goldens) < len(screens) || len(help) == 0 {
		t.Fatalf("%d screens, %d of help; %v", len(goldens), len(help), err)
	}
	for _, name := range append(goldens, help...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if plain := view.ASCII(line); strings.Count(plain, "?") > strings.Count(line, "?") {
				t.Errorf("%s: %q would be %q", name, line, plain)
			}
		}
	}
	s := newScreen(t, 2)
	check := func(args []string, stdin string) {
		for _, columns := range []int{0, 80} {
			out, errs, _ := s.show(t, columns, map[string]string{"LC_ALL": "C"}, args, stdin)
			for i, r := range out + errs {
				if r > 126 {
					t.Errorf("%q: %q in %.60q", args, r, (out + errs)[max(0, i-30):])
					return
				}
			}
		}
	}
	s.files(t)
	for _, c := range screens {
		check(strings.Fields(c.args), c.stdin)
	}
	everyCommand(func(c *cobra.Command) { check(append(strings.Fields(c.CommandPath())[1:], "--help"), "") })
}

// At any width and with any work, no line is wider than the screen.
func TestStatusFitsAnyScreen(t *testing.T) {
	base := newScreen(t, 4)
	rapid.Check(t, func(r *rapid.T) {
		status, _ := base.Status(context.Background())
		for i := range status.Workloads {
			w := &status.Workloads[i]
			w.ID = workload.ID(rapid.StringMatching(`/[a-zé.@:/-]{0,150}`).Draw(r, "id"))
			w.CPUs, w.CPUUse, w.MemoryKiB = rapid.IntRange(0, 4096).Draw(r, "cpus"), rapid.Float64Range(0, 4096).Draw(r, "use"), rapid.Int64Range(-1, 1<<45).Draw(r, "memory")
			w.Why = rapid.StringMatching(`([a-z0-9]{1,12} ){0,30}`).Draw(r, "why")
		}
		columns := rapid.IntRange(40, 250).Draw(r, "columns")
		var out bytes.Buffer
		o := view.NewOutput(&out, func(name string) string { return map[string]string{"COLUMNS": fmt.Sprint(columns)}[name] })
		see.PrintStatus(&cli.Env{Stdout: o, Getenv: func(name string) string { return map[string]string{"COLUMNS": fmt.Sprint(columns)}[name] }}, status)
		o.Close()
		checkWidth(t, "status", out.String(), columns)
		if t.Failed() {
			r.FailNow()
		}
	})
}

// told is the last status of a story of a demo that lasted two and a half minutes.
func told(mode string, first, last float64, moves int) api.Status {
	s := api.Status{Mode: mode, Time: moment0, Nodes: []api.Node{{ID: 0, CPUs: "0-23"}, {ID: 1, CPUs: "24-47"}},
		Workloads: []api.Workload{{ID: "a", CPUUse: 3, MemoryKiB: 42 << 20, Locality: &last}},
		Trend:     &api.Trend{Since: moment0.Add(-150 * time.Second), First: &first, Moves: moves, MovedBytes: int64(moves) << 31, From: moment0.Add(-150 * time.Second), StepS: 5}}
	for i := range 30 {
		local := min(last, first+float64(i)*0.04)
		s.Trend.Local = append(s.Trend.Local, &local)
	}
	if mode == "enforce" {
		waited, cycles := 0.02, 1.4
		s.Sharing = &api.Sharing{Nodes: []api.ShareNode{{Node: 0, Used: 6}, {Node: 1, Used: 4.2}},
			Important: []api.ShareHarm{{ID: "vm:db1", Signal: workload.PSI, Value: &waited}, {ID: "vm:web1", Signal: workload.CPI, Value: &cycles}}}
	}
	return s
}
