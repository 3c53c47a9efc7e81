package proxmox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// machine is a made-up host with Proxmox VE.
type machine struct {
	t    *testing.T
	root string
	at   time.Time
}

func newMachine(t *testing.T) *machine {
	// The path of a socket has 107 bytes at most.
	root, err := os.MkdirTemp("", "pve")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	m := &machine{t, root, time.Unix(1e9, 0)}
	m.write("etc/pve/nodes/pve1/qemu-server/.keep", "")
	for link, to := range map[string]string{"etc/pve/local": "nodes/pve1", "etc/pve/qemu-server": "nodes/pve1/qemu-server"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *machine) write(path, text string) {
	m.t.Helper()
	file := filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// guest starts a QEMU: its process is 1000 times the number, its vCPU threads follow, one that
// is none is last.
func (m *machine) guest(vmid, vcpus int, config string) {
	m.t.Helper()
	pid := 1000 * vmid
	m.write(fmt.Sprintf("etc/pve/nodes/pve1/qemu-server/%d.conf", vmid), config)
	m.write(fmt.Sprintf("sys/fs/cgroup/qemu.slice/%d.scope/cgroup.procs", vmid), fmt.Sprintf("%d\n%d\n", pid-1, pid))
	m.write(fmt.Sprintf("run/qemu-server/%d.pid", vmid), fmt.Sprintln(pid))
	m.write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (kvm) S 1 %d %d 0 -1 4194560 0 0 0 0 7 7 0 0 20 0 %d 0 %d 0 0 0%s", pid, pid, pid, vcpus+2, 70+vmid, strings.Repeat(" 0", 27)))
	m.thread(pid, pid, "kvm", "0-7")
	for i := range vcpus {
		m.thread(pid, pid+1+i, fmt.Sprintf("CPU %d/KVM", i), "0-7")
	}
	m.thread(pid, pid+1+vcpus, "vhost-"+strconv.Itoa(pid), "0-7")
}

func (m *machine) thread(pid, tid int, name, cpus string) {
	m.write(fmt.Sprintf("proc/%d/task/%d/comm", pid, tid), name+"\n")
	m.write(fmt.Sprintf("proc/%d/task/%d/status", pid, tid), "Name:\t"+name+"\nCpus_allowed_list:\t"+cpus+"\n")
}

func (m *machine) source(o Options) *Source {
	o.Root = m.root
	if o.Manage == "" {
		o.Manage = Every
	}
	o.Now = func() time.Time { return m.at }
	return New(o)
}

// joined returns a source with a daemon, which stands still.
func (m *machine) joined(now control.Attention) *Source {
	s := m.source(Options{})
	s.Join(standing(now))
	return s
}

// standing is a daemon that admits nothing.
type standing control.Attention

func (s standing) Attention() control.Attention { return control.Attention(s) }
func (standing) Admit(context.Context, control.PlaceRequest) (p workload.Placement, err error) {
	return p, errors.New("nothing is admitted")
}

func (m *machine) look(s *Source) (map[workload.ID]workload.Claim, []string) {
	m.t.Helper()
	if err := s.Refresh(context.Background()); err != nil {
		m.t.Fatal(err)
	}
	h, err := topology.FromSynthetic("package:2 node:1(memory=16GiB) core:4 pu:1")
	if err != nil {
		m.t.Fatal(err)
	}
	claims, problems := s.Claims(h)
	out := map[workload.ID]workload.Claim{}
	for _, c := range claims {
		out[c.ID] = c
	}
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Subject+": "+p.Text)
	}
	return out, texts
}

// qmp listens on the socket of a guest, as a QEMU does: one client at a time. serve gets each.
func (m *machine) qmp(vmid int, serve func(net.Conn)) {
	m.t.Helper()
	l, err := net.Listen("unix", filepath.Join(m.root, fmt.Sprintf("run/qemu-server/%d.qmp", vmid)))
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			c.Close()
		}
	}()
}

const hello = `{"QMP": {"version": {"qemu": {"micro": 0, "minor": 1, "major": 10}, "package": "pve-qemu-kvm_10.1.2-3"}, "capabilities": ["oob"]}}`

// answers serves QMP from a table; an event is in between.
func answers(table map[string]string) func(net.Conn) {
	return func(c net.Conn) {
		fmt.Fprintln(c, hello)
		lines := bufio.NewScanner(c)
		for lines.Scan() {
			var q struct{ Execute, ID string }
			if json.Unmarshal(lines.Bytes(), &q) != nil {
				return
			}
			fmt.Fprintln(c, `{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "RTC_CHANGE", "data": {"offset": 0}}`)
			reply, ok := table[q.Execute]
			if !ok {
				fmt.Fprintf(c, `{"id": %q, "error": {"class": "CommandNotFound", "desc": "The command %s has not been found"}}`+"\n", q.ID, q.Execute)
				continue
			}
			fmt.Fprintf(c, `{"id": %q, "return": %s}`+"\n", q.ID, reply)
		}
	}
}

// qemu is the answers of one with some vCPU threads and memory.
func qemu(mib int, tids ...int) map[string]string {
	var cpus []string
	for i, tid := range tids {
		cpus = append(cpus, fmt.Sprintf(`{"thread-id": %d, "props": {"core-id": %d, "thread-id": 0, "socket-id": 0}, "qom-path": "/machine/unattached/device[%d]", "cpu-index": %d, "target": "x86_64"}`, tid, i, i, i))
	}
	return map[string]string{
		"qmp_capabilities": "{}", "query-cpus-fast": "[" + strings.Join(cpus, ", ") + "]",
		"query-memory-size-summary": fmt.Sprintf(`{"base-memory": %d, "plugged-memory": 0}`, mib<<20),
		"query-memdev":              `[{"id": "ram-node0", "host-nodes": [], "policy": "default", "size": 1, "merge": true, "dump": true, "prealloc": false}]`,
	}
}

// A guest is known by its cgroup, its configuration and what its QEMU says.
func TestGuestIsKnown(t *testing.T) {
	m := newMachine(t)
	m.guest(100, 4, "#homenode%3A class=dedicated importance=80 near=eth0,0000%3A41%3A00.0 max-nodes=1 smt=isolate\n#of the shop\ncores: 2\nsockets: 2\nmemory: 4096\nname: shop-db\nnuma: 1\ntags: homenode-shared;prod\n\n[PENDING]\ncores: 8\n\n[before]\nname: old\naffinity: 1\n")
	m.guest(101, 2, "cores: 4\nvcpus: 2\nmemory: current=1024,max=4096\ncpulimit: 1.5\nhugepages: 2\n")
	m.qmp(100, answers(qemu(3072, 100001, 100002, 100003, 100004)))
	s := m.joined(control.Attention{})
	claims, problems := m.look(s)
	c := claims["vm:100"]
	if c.Spec == nil || c.Name != "shop-db" || !slices.Equal(c.Also, []string{"100"}) || !slices.Equal(c.Cgroups, []string{"/qemu.slice/100.scope"}) || !c.Alone.None() || len(c.Holds) > 0 {
		t.Fatalf("%+v", c)
	}
	if w := c.Spec; w.Class != workload.Dedicated || w.CPUs != 4 || w.Memory != 3<<20 || w.Importance != 80 || w.MaxNodes != 1 || w.SMT != workload.SMTIsolate ||
		len(w.Near) != 2 || w.Near[1].Device != "0000:41:00.0" || !w.Given {
		t.Errorf("%+v", w)
	}
	// Nobody listens: what its threads are called tells.
	c = claims["vm:101"]
	if w := c.Spec; c.Name != "vm101" || w.Class != workload.Shared || w.CPUs != 2 || w.Memory != 1<<20 || w.HugePage != 2<<10 || w.Importance != workload.DefaultImportance {
		t.Errorf("%+v", w)
	}
	if len(problems) != 1 || !strings.HasPrefix(problems[0], "vm:101: QMP: ") || !strings.HasSuffix(problems[0], "; its vCPU threads are told by their names") {
		t.Error(problems)
	}
	// A QEMU that were observed by itself would get its CPUs past the driver of its scope.
	if got := s.Processes(); len(got) != 0 {
		t.Error(got)
	}
	// It ends.
	if err := os.RemoveAll(filepath.Join(m.root, "sys/fs/cgroup/qemu.slice/100.scope")); err != nil {
		t.Fatal(err)
	}
	if claims, _ = m.look(s); len(claims) != 1 {
		t.Error(claims)
	}
}

// What its owner has bound is the owner's, and what that takes is nobody else's.
func TestOwnersSettingsStand(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		do     func(*machine)
		want   words.Code
		holds  string
		fixed  bool
	}{
		"nothing":              {config: "cores: 2"},
		"affinity, one a vCPU": {config: "cores: 2\naffinity: 2,6", want: words.ProxmoxAffinity, holds: "2,6", fixed: true},
		"affinity, a fence":    {config: "cores: 2\naffinity: 0-3", want: words.ProxmoxAffinity},
		"affinity pending":     {config: "cores: 2\n[PENDING]\naffinity: 2,6"},
		"memory on a node":     {config: "cores: 2\nnuma: 1\nnuma0: cpus=0-1,hostnodes=0,memory=512,policy=bind", want: words.ProxmoxNodes},
		"cells without nodes":  {config: "cores: 2\nnuma: 1\nnuma0: cpus=0-1,memory=512"},
		"a device":             {config: "cores: 2\nhostpci0: 0000:41:00.0,pcie=1", want: words.GuestDevices},
		"off":                  {config: "cores: 2\ntags: homenode-off;homenode-dedicated", want: words.ProxmoxOff},
		"it goes away":         {config: "cores: 2\nlock: migrate", want: words.ProxmoxMigrates, fixed: true},
		"it is backed up":      {config: "cores: 2\nlock: backup"},
		"pinned by a hookscript": {config: "cores: 2", do: func(m *machine) {
			m.thread(100000, 100001, "CPU 0/KVM", "3")
			m.thread(100000, 100002, "CPU 1/KVM", "4")
		}, want: words.ProxmoxPinned, holds: "3-4", fixed: true},
		"no configuration": {config: "cores: 2", do: func(m *machine) {
			if err := os.Remove(filepath.Join(m.root, "etc/pve/qemu-server/100.conf")); err != nil {
				m.t.Fatal(err)
			}
		}, want: words.ProxmoxNoConfig},
		"its QEMU is not in its cgroup": {config: "cores: 2", do: func(m *machine) { m.write("run/qemu-server/100.pid", "7\n") }, want: words.GuestNoProcess},
		"QEMU bound its memory": {config: "cores: 2", do: func(m *machine) {
			a := qemu(512, 100001, 100002)
			a["query-memdev"] = `[{"id": "ram-node0", "host-nodes": [1], "policy": "bind"}]`
			m.qmp(100, answers(a))
		}, want: words.ProxmoxNodes},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.guest(100, 2, c.config+"\n")
			if c.do != nil {
				c.do(m)
			}
			claims, _ := m.look(m.joined(control.Attention{}))
			got := claims["vm:100"]
			holds := ""
			for _, p := range got.Holds {
				holds += p.CPUs.String()
			}
			if got.Alone.Code != c.want || holds != c.holds || got.Fixed != c.fixed {
				t.Errorf("alone %q (%v), holds %q, fixed %t; want %q, %q, %t", got.Alone.Code, got.Alone, holds, got.Fixed, c.want, c.holds, c.fixed)
			}
		})
	}
}

// The source tells what each vCPU may use, by vCPU, and anew as soon as it was changed.
func TestVCPUSets(t *testing.T) {
	m := newMachine(t)
	m.guest(100, 2, "cores: 2\ntags: homenode-dedicated\n")
	m.thread(100000, 100001, "CPU 0/KVM", "4")
	m.thread(100000, 100002, "CPU 1/KVM", "3")
	s := m.source(Options{})
	has := func(want string) {
		t.Helper()
		claims, _ := m.look(s)
		if got := fmt.Sprint(claims["vm:100"].VCPUSets); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	has("[4 3]")
	m.thread(100000, 100001, "CPU 0/KVM", "0-7")
	m.thread(100000, 100002, "CPU 1/KVM", "0-7")
	has("[4 3]") // threads are read every ten seconds
	d := s.Driver(&cgroups{}, &threads{now: "3-4;100001=4;100002=3"})
	step := plan.Step{Kind: plan.SetCPUs, Workload: "vm:100", To: "0-7", Target: plan.Target{Kind: workload.InCgroup, Cgroup: "/qemu.slice/100.scope"}, Reason: words.Because(words.SharedCPUs, topology.Nodes(0))}
	if err := d.Apply(context.Background(), step, nil); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if err := s.Refresh(ended); err == nil { // it leaves what has changed to the next one
		t.Fatal("it is not ended")
	}
	has("[0-7 0-7]")
}

// Pins that the journal has are homenode's.
func TestOwnPinsAreNotSomebodys(t *testing.T) {
	m := newMachine(t)
	m.guest(100, 2, "cores: 2\ntags: homenode-dedicated\n")
	m.thread(100000, 100000, "kvm", "3-4")
	m.thread(100000, 100001, "CPU 0/KVM", "3")
	m.thread(100000, 100002, "CPU 1/KVM", "4")
	e := plan.Entry{Kind: plan.Affinity, Path: "100000@170", New: "3-4;100001=3;100002=4"}
	for _, c := range []struct {
		entry plan.Entry
		alone bool
	}{{e, false}, {plan.Entry{Kind: plan.Affinity, Path: "100000@171", New: e.New}, true}, {plan.Entry{Kind: plan.Affinity, Path: e.Path, New: "3-4;100001=4;100002=4"}, true}} {
		claims, _ := m.look(m.joined(control.Attention{Journal: []plan.Entry{c.entry}}))
		if got := claims["vm:100"].Alone; got.None() == c.alone {
			t.Errorf("%+v: %v", c.entry, got)
		}
	}
}

func TestOnlyMarkedGuests(t *testing.T) {
	m := newMachine(t)
	m.guest(100, 1, "cores: 1\n")
	m.guest(101, 1, "cores: 1\ntags: homenode-shared\n")
	m.guest(102, 1, "cores: 1\ndescription: homenode%3A importance=90\n")
	claims, _ := m.look(m.source(Options{Manage: Marked}))
	if claims["vm:100"].Alone.Code != words.ProxmoxUnmarked || !claims["vm:101"].Alone.None() || !claims["vm:102"].Alone.None() || claims["vm:102"].Spec.Importance != 90 {
		t.Errorf("%+v", claims)
	}
	if claims, _ := m.look(m.source(Options{Manage: None})); len(claims) > 0 {
		t.Error(claims)
	}
	empty := newMachine(t)
	if claims, problems := empty.look(empty.source(Options{})); len(claims)+len(problems) > 0 {
		t.Error(claims, problems)
	}
}

// A QEMU that lies, hangs, is busy or answers rubbish costs its guest nothing but the answer,
// and is asked again later.
func TestStrangeQEMUs(t *testing.T) {
	lie := func(command, answer string) func(net.Conn) {
		a := qemu(1024, 100001, 100002)
		a[command] = answer
		return answers(a)
	}
	for name, c := range map[string]struct {
		serve func(net.Conn)
		want  string
	}{
		"busy":                     {func(net.Conn) { time.Sleep(2 * askWithin) }, "busy with another client"},
		"hangs after its greeting": {func(c net.Conn) { fmt.Fprintln(c, hello); time.Sleep(2 * askWithin) }, "qmp_capabilities: no answer within 500 ms"},
		"hangs up":                 {func(net.Conn) {}, "greeting: it ended in the middle"},
		"rubbish":                  {func(c net.Conn) { fmt.Fprintln(c, "SSH-2.0-OpenSSH\x1b[31m") }, "greeting: invalid character"},
		"no QMP":                   {func(c net.Conn) { fmt.Fprintln(c, `{"hello": 1}`) }, "greeting: not QMP"},
		"events for ever": {func(c net.Conn) {
			fmt.Fprintln(c, hello)
			for {
				if _, err := fmt.Fprintln(c, `{"event": "X"}`); err != nil {
					return
				}
			}
		}, "qmp_capabilities: "},
		"an answer for ever": {func(c net.Conn) {
			fmt.Fprintln(c, hello)
			fmt.Fprint(c, `{"return": "`)
			for {
				if _, err := fmt.Fprint(c, strings.Repeat("a", 4096)); err != nil {
					return
				}
			}
		}, "qmp_capabilities: "},
		"what was not asked": {func(c net.Conn) {
			fmt.Fprintln(c, hello)
			fmt.Fprintln(c, `{"id": "quit", "return": {}}`)
			time.Sleep(askWithin)
		}, "it answers what was not asked"},
		"a command it has not":      {lie("query-cpus-fast", ""), "query-cpus-fast: "},
		"threads of others":         {lie("query-cpus-fast", `[{"cpu-index": 0, "thread-id": 1}, {"cpu-index": 1, "thread-id": 100002}]`), "thread 1 is none of QEMU's"},
		"more vCPUs than are its":   {lie("query-cpus-fast", `[{"cpu-index": 0, "thread-id": 100001}, {"cpu-index": 1, "thread-id": 100001}, {"cpu-index": 2, "thread-id": 100001}]`), ""},
		"no threads":                {lie("query-cpus-fast", `[]`), "no vCPU"},
		"a vCPU twice":              {lie("query-cpus-fast", `[{"cpu-index": 0, "thread-id": 100001}, {"cpu-index": 0, "thread-id": 100002}]`), "vCPU 0 twice"},
		"a vCPU without number":     {lie("query-cpus-fast", `[{"thread-id": 100001}]`), "without a number"},
		"a vCPU beyond all":         {lie("query-cpus-fast", `[{"cpu-index": 99999999, "thread-id": 100001}]`), "without a number"},
		"another type":              {lie("query-cpus-fast", `{"cpu-index": "\u001b[2J"}`), "query-cpus-fast: json: "},
		"memory of another machine": {lie("query-memory-size-summary", `{"base-memory": 18446744073709551615}`), ""},
		"memory of half the host":   {lie("query-memory-size-summary", `{"base-memory": 536870912, "plugged-memory": 8589934592}`), ""},
		"policy with escapes":       {lie("query-memdev", `[{"policy": "\u001b[31mbind", "host-nodes": [0]}]`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.guest(100, 2, "cores: 2\nmemory: 1024\n")
			m.qmp(100, c.serve)
			s := m.source(Options{})
			claims, problems := m.look(s)
			g := claims["vm:100"]
			if g.Spec.CPUs != 2 || g.Spec.Memory != 1<<20 {
				t.Errorf("%+v", g.Spec)
			}
			all := strings.Join(problems, "\n") + g.Alone.String()
			if c.want == "" && len(problems) > 0 || !strings.Contains(all, c.want) || strings.ContainsRune(all, '\x1b') {
				t.Errorf("%q; want %q", all, c.want)
			}
			if c.want == "" {
				return
			}
			asked := s.known()[0].retry
			m.at = m.at.Add(rereadEvery)
			m.look(s)
			if again := s.known()[0]; again.fails != 2 || !again.retry.After(asked) {
				t.Errorf("asked again: %d, %v", again.fails, again.retry)
			}
		})
	}
}

// Of a QEMU without a configuration what is seen of it counts, not its word.
func TestNoConfigurationNoWord(t *testing.T) {
	m := newMachine(t)
	m.guest(100, 2, "cores: 2\nmemory: 1024\n"+strings.Repeat("#", mostConfig)) // too long to be one
	m.qmp(100, answers(qemu(1<<20, 100001, 100002, 100001, 100001)))
	claims, _ := m.look(m.source(Options{}))
	if c := claims["vm:100"]; c.Spec.CPUs != 0 || c.Spec.Memory != 0 || c.Alone.Code != words.ProxmoxNoConfig {
		t.Errorf("%d CPUs, %d KiB, alone %v", c.Spec.CPUs, c.Spec.Memory, c.Alone)
	}
}

// Once it has told, a QEMU is left alone until its vCPUs change: its socket is Proxmox'.
func TestSocketIsLeftAlone(t *testing.T) {
	m := newMachine(t)
	m.guest(100, 2, "cores: 4\nvcpus: 2\n")
	asked := make(chan bool, 100)
	tids := []int{100001, 100002, 100009}
	var vcpus atomic.Int32
	vcpus.Store(2)
	m.qmp(100, func(c net.Conn) { asked <- true; answers(qemu(512, tids[:vcpus.Load()]...))(c) })
	s := m.source(Options{})
	for range 20 {
		m.look(s)
		m.at = m.at.Add(rereadEvery / 3)
	}
	if n := len(asked); n != 1 {
		t.Errorf("asked %d times", n)
	}
	vcpus.Store(3)
	m.thread(100000, 100009, "CPU 2/KVM", "0-7")
	m.at = m.at.Add(rereadEvery)
	if claims, _ := m.look(s); claims["vm:100"].Spec.CPUs != 3 || len(asked) != 2 {
		t.Errorf("%+v, asked %d times", claims["vm:100"].Spec, len(asked))
	}
}

// Nothing that is no guest's is read as one, and no name leaves its line.
func TestHostileNames(t *testing.T) {
	m := newMachine(t)
	for _, name := range []string{"100.service", "0100.scope", "-1.scope", "+5.scope", "..scope", "99999999999999999999.scope", "a.scope", "100.scope.d"} {
		m.write("sys/fs/cgroup/qemu.slice/"+name+"/cgroup.procs", "1\n")
	}
	m.guest(102, 1, "name: \x1b]0;x\x07\u202eevil\ntags: homenode-\x1b[31m\ncores: \x1b[31m\nmemory: -1\naffinity: 0-99999999\ncpulimit: NaN\nhugepages: \x1b\nnuma0: hostnodes\n"+strings.Repeat("cores: x\n", 1000))
	claims, problems := m.look(m.source(Options{}))
	if len(claims) != 1 {
		t.Fatal(claims)
	}
	c := claims["vm:102"]
	all := c.Name + strings.Join(problems, "")
	if strings.ContainsFunc(all, func(r rune) bool { return r < ' ' || r == 0x202e }) || c.Spec.CPUs != 1 || c.Spec.Memory != 512<<10 || len(problems) > 9 {
		t.Errorf("%q %+v %d", all, c.Spec, len(problems))
	}
}

func TestIsScope(t *testing.T) {
	for cgroup, want := range map[string]bool{"/qemu.slice/100.scope": true, "/qemu.slice": false, "100.scope": false, "/qemu.slice/0100.scope": false, "/qemu.slice/100.scope/a": false, "/x/100.scope": false} {
		if got := IsScope(cgroup); got != want {
			t.Errorf("%s: %v", cgroup, got)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("cores: 2\nsockets: 2\n#homenode%3A class=dedicated near=eth0\nnuma0: cpus=0,hostnodes=0,policy=bind\n[PENDING]\n")
	f.Add("memory: current=16\naffinity: 0-3\ntags: homenode-dedicated\nhostpci0: mapping=gpu\ncpulimit: 1e400\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := readConfig(text)
		if c.vcpus < 1 || c.vcpus > mostVCPUs || c.memory < 16<<10 || c.limit < 0 || len(c.bad) > 8 || len(c.devices) > 16 {
			t.Fatalf("%+v", c)
		}
		s := New(Options{Manage: Every})
		if spec := s.spec(&guest{vmid: 100, config: c}); spec.CPUs < 1 || spec.Name == "" {
			t.Fatalf("%+v", spec)
		}
	})
}

func FuzzQMP(f *testing.F) {
	f.Add([]byte(hello + "\n" + `{"id":"qmp_capabilities","return":{}}{"id":"query-cpus-fast","return":[{"cpu-index":0,"thread-id":7}]}`))
	f.Add([]byte(`{"QMP":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := conversation(struct {
			*strings.Reader
			discard
		}{strings.NewReader(string(text)), discard{}})
		if err == nil && len(r.vcpus) == 0 {
			t.Fatal("no vCPU")
		}
	})
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// cgroups and threads are drivers that note what they are asked for.
type cgroups struct {
	Cgroups
	wrote    []string
	restored []plan.Entry
}

func (c *cgroups) Changes(_ context.Context, s plan.Step) ([]plan.Change, error) {
	return []plan.Change{{Setting: plan.Setting{Kind: plan.CgroupCPUs, Path: s.Target.Cgroup, Value: "0-7"}, Will: s.To}}, nil
}

func (c *cgroups) Apply(_ context.Context, s plan.Step, _ func(plan.Move)) error {
	c.wrote = append(c.wrote, s.Target.Cgroup+" "+s.To)
	return nil
}

func (c *cgroups) Restore(_ context.Context, entries []plan.Entry) []error {
	c.restored = append(c.restored, entries...)
	return make([]error, len(entries))
}

type threads struct {
	Processes
	now    string
	pinned []string
	fails  error
}

func (p *threads) Changes(_ context.Context, s plan.Step) (out []plan.Change, err error) {
	for _, x := range s.Target.Processes {
		out = append(out, plan.Change{Setting: plan.Setting{Kind: plan.Affinity, Path: plan.ProcessPath(x), Value: p.now}, Will: s.To})
	}
	return out, nil
}

func (p *threads) Pin(_ context.Context, x workload.Process, value string) error {
	p.pinned = append(p.pinned, plan.ProcessPath(x)+" "+value)
	return p.fails
}

// The vCPUs of a dedicated guest have a CPU each, all else of it their CPUs; a shared guest's
// cgroup says it all.
func TestThreadsFollow(t *testing.T) {
	m := newMachine(t)
	m.guest(100, 2, "cores: 2\ntags: homenode-dedicated\n")
	m.qmp(100, answers(qemu(512, 100002, 100001))) // vCPU 0 is the later thread
	home := workload.Placement{Workload: "vm:100", Class: workload.Dedicated, CPUs: topology.CPUs(5, 6), Pins: []topology.CPUID{6, 5}}
	s := m.joined(control.Attention{Homes: []workload.Placement{home}})
	m.look(s)
	c, p := &cgroups{}, &threads{now: "0-7"}
	d := s.Driver(c, p)
	step := plan.Step{Kind: plan.SetCPUs, Workload: "vm:100", To: "5-6", Target: plan.Target{Kind: workload.InCgroup, Cgroup: "/qemu.slice/100.scope"}, Reason: words.Because(words.DedicatedCPUs, 2, topology.Nodes(1))}
	changes, err := d.Changes(context.Background(), step)
	if err != nil || len(changes) != 2 || changes[1].Kind != plan.Affinity || changes[1].Path != "100000@170" || changes[1].Value != "0-7" || changes[1].Will != "5-6;100001=5;100002=6" {
		t.Fatalf("%+v %v", changes, err)
	}
	if err := d.Apply(context.Background(), step, nil); err != nil || !slices.Equal(c.wrote, []string{"/qemu.slice/100.scope 5-6"}) || !slices.Equal(p.pinned, []string{"100000@170 5-6;100001=5;100002=6"}) {
		t.Fatal(err, c.wrote, p.pinned)
	}
	p.fails = errors.New("no")
	if err := d.Apply(context.Background(), step, nil); !errors.Is(err, p.fails) || len(c.restored) != 1 || c.restored[0].Old != "0-7" {
		t.Error(err, c.restored)
	}
	p.fails, p.pinned = nil, nil
	// Shared: nothing is set but the cgroup, unless the threads still have CPUs of their own.
	step.Reason, step.To = words.Because(words.SharedCPUs, topology.Nodes(0)), "0-3"
	if changes, err := d.Changes(context.Background(), step); err != nil || len(changes) != 1 {
		t.Errorf("%+v %v", changes, err)
	}
	p.now = "5-6;100001=5;100002=6"
	if changes, err := d.Changes(context.Background(), step); err != nil || len(changes) != 2 || changes[1].Will != "0-3" {
		t.Errorf("%+v %v", changes, err)
	}
	if err := d.Apply(context.Background(), step, nil); err != nil || !slices.Equal(p.pinned, []string{"100000@170 0-3"}) {
		t.Error(err, p.pinned)
	}
	// Once its threads have CPUs by homenode they are set each time: no cgroup gives them more.
	p.now = "0-3"
	s.Join(standing(control.Attention{Journal: []plan.Entry{{Kind: plan.Affinity, Path: "100000@170", New: "0-3"}}}))
	step.To = "0-7"
	if changes, err := d.Changes(context.Background(), step); err != nil || len(changes) != 2 || changes[1].Will != "0-7" {
		t.Errorf("%+v %v", changes, err)
	}
	// Too few threads: nothing is changed.
	step.Reason, step.To = words.Because(words.DedicatedCPUs, 3, topology.Nodes(1)), "5-7"
	wrote := len(c.wrote)
	if err := d.Apply(context.Background(), step, nil); err == nil || len(c.wrote) != wrote {
		t.Error(err, c.wrote)
	}
	// Another QEMU since, and other cgroups, are the driver of cgroups' alone.
	m.write("run/qemu-server/100.pid", "7\n")
	if changes, err := d.Changes(context.Background(), step); err != nil || len(changes) != 1 {
		t.Errorf("%+v %v", changes, err)
	}
}

// What a guest is to be near to is said as everywhere, and what cannot be read is a problem.
func TestNearInNotes(t *testing.T) {
	m := newMachine(t)
	m.guest(100, 1, "#homenode%3A near=eth0,service=ceph-osd@1,policy=required\n")
	m.guest(101, 1, "#homenode%3A near=policy=required\n")
	claims, problems := m.look(m.source(Options{}))
	if near := claims["vm:100"].Spec.Near; len(near) != 2 || near[0].Device != "eth0" || near[0].Required || near[1].Service != "ceph-osd@1" || !near[1].Required {
		t.Errorf("%+v", near)
	}
	if !slices.ContainsFunc(problems, func(p string) bool {
		return strings.HasPrefix(p, "vm:101: notes, homenode: near=policy=required; want ")
	}) {
		t.Error(problems)
	}
}
