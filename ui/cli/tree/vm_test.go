package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
)

// hypervisor is a libvirt that notes what it is told.
type hypervisor struct {
	guests []guest.Guest
	unread []guest.Unread
	fail   error  // of every change
	failOf string // the call that begins so fails
	calls  []string
	locked bool // others may not change guests
}

func (v *hypervisor) New(_ *topology.Host, o *guest.Order, home guest.Home, _ string, _ bool) ([]byte, error) {
	return fmt.Appendf(nil, "<%s on %v/>\n", o.Name, home.Placement.CPUs), nil
}

func (v *hypervisor) Guest(*topology.Host, []byte) (guest.Guest, error) {
	return guest.Guest{}, errors.New("not asked")
}

func (v *hypervisor) Wants(*topology.Host, []byte) (workload.Spec, guest.Emulator, bool, error) {
	return workload.Spec{}, "", false, errors.New("not asked")
}

func (v *hypervisor) Rehome(*topology.Host, []byte, guest.Home) ([]byte, error) {
	return nil, errors.New("not asked")
}

func (v *hypervisor) Connect(_ context.Context, change bool) (cli.Hypervisor, error) {
	v.calls, v.locked = append(v.calls, fmt.Sprint("connect ", change)), change
	return v, nil
}

func (v *hypervisor) Guests(context.Context, *topology.Host) ([]guest.Guest, []guest.Unread, error) {
	return v.guests, v.unread, nil
}

func (v *hypervisor) Define(_ context.Context, xml []byte) error {
	return v.call("define " + strings.TrimSpace(string(xml)))
}

func (v *hypervisor) call(what string) error {
	v.calls = append(v.calls, what)
	if v.failOf != "" && strings.HasPrefix(what, v.failOf) {
		return errors.New(v.failOf + " fails")
	}
	return v.fail
}

func (v *hypervisor) Unlock() error {
	v.locked = false
	return nil
}

// journal is what carries out steps without a daemon.
type journal struct {
	api.Backend
	*hypervisor
}

func (j journal) Change(_ context.Context, c api.Change) ([]error, error) {
	errs := make([]error, len(c.Steps))
	for i, s := range c.Steps {
		if s.Target.Kind != guest.Kind || s.Reason.None() || !c.Together || j.locked {
			return nil, fmt.Errorf("step %+v of %+v, locked %v", s, c, j.locked)
		}
		if errs[i] = j.call(fmt.Sprintf("%s %s %s", s.Kind, guest.NameOf(s.Workload), s.To)); errs[i] != nil {
			break
		}
	}
	return errs, nil
}

func (v *hypervisor) Limits(context.Context, string, guest.Limits) ([]string, error) {
	return []string{"NIC x: limited"}, nil
}

func (v *hypervisor) Close() error {
	v.calls = append(v.calls, "close")
	return nil
}

// eightCPUs is a machine of two nodes with four CPUs each.
func eightCPUs() fstest.MapFS {
	m := fstest.MapFS{}
	file := func(name, text string) { m[name] = &fstest.MapFile{Data: []byte(text + "\n")} }
	file("sys/devices/system/cpu/online", "0-7")
	file("sys/devices/system/cpu/possible", "0-7")
	file("sys/devices/system/cpu/present", "0-7")
	file("sys/devices/system/node/online", "0-1")
	for n, cpus := range []string{"0-3", "4-7"} {
		dir := fmt.Sprintf("sys/devices/system/node/node%d/", n)
		file(dir+"cpulist", cpus)
		file(dir+"distance", []string{"10 21", "21 10"}[n])
		file(dir+"meminfo", fmt.Sprintf("Node %d MemTotal: 33554432 kB\nNode %d MemFree: 33554432 kB", n, n))
	}
	for c := range 8 {
		file(fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", c), fmt.Sprint(c))
	}
	return m
}

func floating(name string, placed bool, manual string, cpus ...topology.CPUID) guest.Guest {
	s := guest.Guest{Name: name, Placed: placed, Manual: manual, Running: true, Emulator: guest.Share, Mode: "restrictive", BoundCPUs: topology.CPUs(cpus...), BoundNodes: topology.Nodes(0),
		Spec: workload.Spec{ID: guest.ID(name), Name: name, Class: workload.Shared, CPUs: 1, Memory: 1 << 20, Importance: 50, Given: true}}
	s.Home.Placement = plan.Placement{Workload: s.Spec.ID, Class: workload.Shared, VCPUs: 1, Home: topology.Nodes(0), CPUs: topology.CPUs(cpus...),
		Memory: []workload.NodeMemory{{Node: 0, KiB: 1 << 20}}, Asked: 1 << 20}
	return s
}

const testFlavors = `flavors:
  - {name: d, class: dedicated, vcpus: 2, memory: 1GiB, max_nodes: 1}
`

func vmRun(v *hypervisor, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	e := &cli.Env{Stdin: strings.NewReader(testFlavors), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }, Root: eightCPUs(), Libvirt: v,
		DefaultSocket: "/nonexistent/socket",
		Local: func(context.Context, string) (api.Backend, func() error, error) {
			return journal{hypervisor: v}, func() error { return nil }, nil
		},
		Policy: func(*topology.Host) (plan.Policy, error) {
			p := plan.DefaultPolicy()
			p.Reserved = topology.CPUs(0)
			return p, nil
		}}
	status = Main(context.Background(), e, append([]string{"vm"}, args...))
	return status, out.String(), errs.String()
}

// Floating guests leave the CPUs of a dedicated one before it is there to be started.
func TestDefineClearsItsCPUsFirst(t *testing.T) {
	v := &hypervisor{guests: []guest.Guest{floating("ours", true, "", 1, 2, 3)}}
	status, out, errs := vmRun(v, "define", "--flavors", "-", "--flavor", "d", "--name", "new", "--nodes", "0")
	if status != 0 || errs != "" || !strings.HasPrefix(out, "new is defined: node 0, CPUs 1-2. Start it with") {
		t.Fatalf("%d: %s%s", status, out, errs)
	}
	want := []string{"connect true", "set-cpus ours 3", "set-next ours 3/0", "define <new on 1-2/>", "close"}
	if !slices.Equal(v.calls, want) {
		t.Errorf("calls %q\nwant %q", v.calls, want)
	}
}

func TestDefineTellsOfDisksThatAreNotThere(t *testing.T) {
	status, out, errs := vmRun(&hypervisor{}, "define", "--flavors", "-", "--flavor", "d", "--name", "new", "--dry-run", "--disk", "/images/none.qcow2",
		"--disk", "/sys/devices/system/cpu/online")
	if want := "homenode: --disk /images/none.qcow2 is not there; the guest needs it to start\n"; status != 0 || errs != want || out == "" {
		t.Errorf("%d: %s%s, want %s", status, out, errs, want)
	}
	status, _, errs = vmRun(&hypervisor{}, "define", "--flavors", "-", "--flavor", "d", "--name", "new", "--dry-run", "--disk", "/images/none.qcow2",
		"--reserve", "0", "--synthetic", "node:2(memory=8GiB) core:4")
	if status != 0 || errs != "" {
		t.Errorf("another host: %d: %s", status, errs)
	}
}

// Who made room goes back when nobody comes.
func TestDefineThatFailsMovesNobody(t *testing.T) {
	for _, tt := range []struct {
		fails string
		calls []string
	}{
		{"define", []string{"connect true", "set-cpus ours 3", "set-next ours 3/0", "set-cpus theirs 3", "set-next theirs 3/0", "define <new on 1-2/>",
			"set-cpus ours 1-3", "set-next ours 1-3/0", "set-cpus theirs 1-3", "set-next theirs 1-3/0", "close"}},
		{"set-next theirs", []string{"connect true", "set-cpus ours 3", "set-next ours 3/0", "set-cpus theirs 3", "set-next theirs 3/0", "set-cpus theirs 1-3",
			"set-cpus ours 1-3", "set-next ours 1-3/0", "close"}},
	} {
		v := &hypervisor{guests: []guest.Guest{floating("ours", true, "", 1, 2, 3), floating("theirs", true, "", 1, 2, 3)}, failOf: tt.fails}
		status, out, errs := vmRun(v, "define", "--flavors", "-", "--flavor", "d", "--name", "new", "--nodes", "0")
		if status != 3 || !strings.Contains(errs, tt.fails+" fails") || strings.Count(errs, "\n") != 1 || out != "" {
			t.Errorf("%d: %s%s", status, out, errs)
		}
		if !slices.Equal(v.calls, tt.calls) {
			t.Errorf("calls %q\nwant %q", v.calls, tt.calls)
		}
	}
}

func TestDefineSaysWhoStays(t *testing.T) {
	later := floating("later", true, "", 1, 2, 3)
	later.Mode = "strict"
	v := &hypervisor{guests: []guest.Guest{floating("by-hand", false, "bound by hand", 1, 2, 3), later}}
	status, _, errs := vmRun(v, "define", "--flavors", "-", "--flavor", "d", "--name", "new", "--nodes", "0")
	if status != 0 || !strings.Contains(errs, "by-hand may run on CPUs of new too") || !strings.Contains(errs, "later leaves CPUs of new at its next start only") {
		t.Errorf("%d: %s", status, errs)
	}
	if slices.ContainsFunc(v.calls, func(c string) bool { return strings.Contains(c, " by-hand ") }) {
		t.Errorf("calls %q", v.calls)
	}
}

func TestNothingIsChangedBesideTheUnknown(t *testing.T) {
	v := &hypervisor{unread: []guest.Unread{{Name: "odd", Running: true, Text: `domain "odd": what`}}}
	define := []string{"define", "--flavors", "-", "--flavor", "d", "--name", "new"}
	status, _, errs := vmRun(v, define...)
	if status != 3 || !strings.Contains(errs, `domain "odd": what; it runs`) || !slices.Equal(v.calls, []string{"connect true", "close"}) {
		t.Errorf("%d: %s%q", status, errs, v.calls)
	}
	// Asking is not changing, and what does not run is only named.
	if status, _, errs = vmRun(v, append(define, "--dry-run")...); status != 0 || !strings.Contains(errs, "it does not count") {
		t.Errorf("dry run: %d: %s", status, errs)
	}
	v.unread[0].Running = false
	if status, _, errs = vmRun(v, define...); status != 0 || !strings.Contains(errs, "it does not count") {
		t.Errorf("off: %d: %s", status, errs)
	}
}

func TestMoveAdoptRelease(t *testing.T) {
	plain, transient := floating("plain", false, "", 0, 1, 2, 3), floating("transient", false, "", 0, 1, 2, 3)
	plain.Mode, transient.Mode, transient.Transient = "", "", true
	v := &hypervisor{guests: []guest.Guest{floating("held", true, "bound by hand", 1, 2, 3), floating("ours", true, "", 1, 2, 3), plain, transient}}
	tests := []struct {
		args   []string
		status int
		say    string
		calls  []string
	}{
		{[]string{"move", "ours", "--nodes", "1"}, 0, "ours goes from node 0, CPUs 1-3, to node 1, CPUs 4-7.", []string{"connect true", "set-cpus ours 4-7", "set-mems ours 1", "set-next ours 4-7/1", "close"}},
		{[]string{"move", "ours", "--nodes", "1", "--dry-run"}, 0, "ours would go from", []string{"connect false", "close"}},
		{[]string{"move", "ours", "--nodes", "5"}, 1, "vm:ours is refused", []string{"connect true", "close"}},
		{[]string{"move", "held"}, 1, "held is left alone: bound by hand", []string{"connect true", "close"}},
		{[]string{"move", "plain"}, 1, "plain was not placed by homenode", []string{"connect true", "close"}},
		{[]string{"place", "ours", "--near", "eth9", "--nodes", "0"}, 0, "ours stays on node 0, CPUs 1-3; near: eth9.", []string{"connect true", "set-next ours 1-3/0 near=eth9", "close"}},
		{[]string{"place", "ours", "--near", "process=a", "--near", "device=eth9", "--nodes", "1"}, 0, "to node 1, CPUs 4-7; near: process=a eth9.", []string{"connect true", "set-cpus ours 4-7", "set-mems ours 1", "set-next ours 4-7/1 near=process=a near=eth9", "close"}},
		{[]string{"place", "ours", "--near", "none", "--nodes", "0"}, 0, "ours stays on node 0, CPUs 1-3; near: nothing.", []string{"connect true", "set-next ours 1-3/0 near=", "close"}},
		{[]string{"place", "ours", "--near", "eth9,policy=required"}, 1, "must be near eth9, but this host has no such device", []string{"connect true", "close"}},
		{[]string{"place", "transient", "--class", "shared", "--near", "eth9"}, 1, "transient has no definition, and --near is stored there", []string{"connect true", "close"}},
		{[]string{"place", "ours", "--near", "eth9", "--near", "policy=x"}, 2, "want required, socket or preferred", nil},
		{[]string{"place", "ours", "--near", "eth9", "--near", "none"}, 2, "--near none: only homenode vm place takes it, and with no other --near", nil},
		{[]string{"place", "ours", "--near", "device=none", "--nodes", "0"}, 0, "near: none.", nil},
		{[]string{"adopt", "plain", "ours"}, 0, "plain goes at its next start from node 0", nil},
		{[]string{"adopt", "transient"}, 1, "transient has no definition, and as it runs its memory stays", []string{"connect true", "close"}},
		{[]string{"release", "ours"}, 0, "ours is released at its next start.", []string{"connect true", "set-next ours ", "close"}},
		{[]string{"release", "plain"}, 1, "plain is not homenode's", []string{"connect true", "close"}},
		{[]string{"list"}, 0, "held", []string{"connect false", "close"}},
	}
	for _, tt := range tests {
		v.calls = nil
		status, out, errs := vmRun(v, tt.args...)
		if status != tt.status || !strings.Contains(out+errs, tt.say) || tt.calls != nil && !slices.Equal(v.calls, tt.calls) {
			t.Errorf("%q: %d, calls %q\n%s%s", tt.args, status, v.calls, out, errs)
		}
	}
	if status, out, errs := vmRun(&hypervisor{guests: []guest.Guest{floating("ours", true, "", 1, 2, 3)}}, "adopt", "--all"); status != 0 || !strings.HasPrefix(out, "There is no guest to adopt") {
		t.Errorf("adopt --all of none: %d, %q %q", status, out, errs)
	}
	// One that goes between the look and the change is not there: the answer is no.
	v.fail = fmt.Errorf("guest: %w", guest.ErrGone)
	for _, args := range [][]string{{"move", "ours", "--nodes", "1"}, {"adopt", "plain"}, {"release", "ours"}, {"limit", "ours", "--network", "0"}} {
		if status, _, errs := vmRun(v, args...); status != 1 || !strings.Contains(errs, "no such guest") {
			t.Errorf("%q: %d: %s", args, status, errs)
		}
	}
	v.fail = errors.New("libvirt says no")
	if status, _, errs := vmRun(v, "move", "ours", "--nodes", "1"); status != 3 || !strings.Contains(errs, "libvirt says no") {
		t.Errorf("%d: %s", status, errs)
	}
}

// placing is a daemon that has placed something.
type placing struct {
	api.Backend
	status api.Status
}

func (p *placing) Status(context.Context) (api.Status, error) { return p.status, nil }

// socket is where a daemon answers until the test ends.
func (p *placing) socket(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "s")
	l, err := api.Listen(name, api.Access{Group: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- api.Serve(ctx, l, p, api.Access{Group: -1}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return name
}

// What the daemon placed is not given to a guest.
func TestGuestsMindTheDaemon(t *testing.T) {
	define := []string{"define", "--flavors", "-", "--flavor", "d", "--name", "new", "--nodes", "0"}
	dedicated := api.Workload{ID: "/db", Class: workload.Dedicated, CPUs: 2, Home: "0", CPUSetPlanned: "1-2", MemoryByNode: []api.NodeKiB{{Node: 0, KiB: 1 << 20}}}
	floats := api.Workload{ID: "/web", Class: workload.Shared, CPUs: 1, Home: "0", CPUSetPlanned: "1-3"}
	broken := api.Workload{ID: "/odd", Class: workload.Shared, CPUs: 1, Home: "0", CPUSetPlanned: "x"}
	tests := []struct {
		name, mode string
		placed     api.Workload
		status     int
		say        string
	}{
		{"its own CPUs", "enforce", dedicated, 1, "vm:new is refused"},
		{"observes only", "observe", dedicated, 0, "new is defined: node 0, CPUs 1-2."},
		{"floats", "enforce", floats, 0, "homenode: CPUs of new overlap with /web for now"},
		{"not understood", "enforce", broken, 3, "/odd: CPUs: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &placing{status: api.Status{Mode: tt.mode, Workloads: []api.Workload{tt.placed}}}
			v := &hypervisor{}
			status, out, errs := vmRun(v, append(define, "--socket", d.socket(t))...)
			if status != tt.status || !strings.Contains(out+errs, tt.say) || v.calls[len(v.calls)-1] != "close" {
				t.Errorf("%d, want %d with %q: %s%s%q", status, tt.status, tt.say, out, errs, v.calls)
			}
		})
	}
	t.Run("gone", func(t *testing.T) {
		if status, out, errs := vmRun(&hypervisor{}, define...); status != 0 {
			t.Errorf("none by default: %d: %s%s", status, out, errs)
		}
		status, out, errs := vmRun(&hypervisor{}, append(define, "--socket", filepath.Join(t.TempDir(), "none"))...)
		if status != 3 || !strings.Contains(errs, "no daemon is running on ") {
			t.Errorf("none where it is said to be: %d: %s%s", status, out, errs)
		}
	})
	t.Run("another host", func(t *testing.T) {
		d := &placing{status: api.Status{Mode: "enforce", Workloads: []api.Workload{broken}}}
		status, out, errs := vmRun(&hypervisor{}, append(define, "--socket", d.socket(t), "--dry-run", "--synthetic", "node:2 core:4 pu:1")...)
		if status != 0 {
			t.Errorf("%d: %s%s", status, out, errs)
		}
	})
}

// The partition is the daemon's, which host partition sets, not the one in the configuration.
func TestGuestsMindTheDaemonsPartition(t *testing.T) {
	define := []string{"define", "--flavors", "-", "--flavor", "d", "--name", "new", "--nodes", "0"}
	d := &placing{status: api.Status{Mode: "observe", Partition: &api.Partition{Partition: plan.OnlyShared, Split: true}}}
	if status, out, errs := vmRun(&hypervisor{}, append(define, "--socket", d.socket(t))...); status != 1 || !strings.Contains(errs, "vm:new is refused") {
		t.Errorf("a dedicated guest on a host for shared ones: %d: %s%s", status, out, errs)
	}
	if status, out, errs := vmRun(&hypervisor{}, append(define, "--partition", "any", "--socket", d.socket(t))...); status != 0 {
		t.Errorf("with a partition of its own: %d: %s%s", status, out, errs)
	}
}

func TestLimitFlags(t *testing.T) {
	tests := []struct {
		args   []string
		status int
		call   string // or part of the message
	}{
		{[]string{"--flavor", "c1.xlarge"}, 0, "set-limits a network=524288 iops="},
		{[]string{"--network", "100MiB"}, 0, "set-limits a network=102400"},
		{[]string{"--network", "0", "--rate", "0"}, 0, "set-limits a network=0 iops=0 rate=0"},
		{[]string{"--flavor", "c1.xlarge", "--iops", "7", "--rate", "1MiB"}, 0, "set-limits a network=524288 iops=7 rate=1024"},
		{nil, 2, "say what to limit"},
		{[]string{"--network", "fast"}, 2, `--network "fast"`},
		{[]string{"--network", "5TiB"}, 2, "up to 4TiB"},
		{[]string{"--iops", "-1"}, 2, "--iops -1"},
		{[]string{"--flavor", "none"}, 2, "none"},
	}
	for _, tt := range tests {
		v := &hypervisor{}
		status, _, stderr := vmRun(v, append([]string{"limit", "a"}, tt.args...)...)
		got := stderr
		if tt.status == 0 {
			got = strings.Join(v.calls, "; ")
		}
		if status != tt.status || !strings.Contains(got, tt.call) {
			t.Errorf("%v: status %d, %s", tt.args, status, got)
		}
	}
}
