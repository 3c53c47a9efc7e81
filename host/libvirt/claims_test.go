package libvirt

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// boundXML is a guest of two vCPUs with what others or homenode wrote into it.
func boundXML(name string, run int, inside string) string {
	return strings.Replace(plainXML(name, run), "<vcpu>2</vcpu>", inside, 1)
}

func marked(class, cpus, nodes string) string {
	return fmt.Sprintf("<metadata><homenode:guest xmlns:homenode='https://github.com/homenode/homenode/libvirt/1' class='%s' cpus='%s' nodes='%s'/></metadata>", class, cpus, nodes)
}

var (
	sharedOn0    = marked("shared", "0-3", "0") + "<vcpu cpuset='0-3'>2</vcpu><numatune><memory mode='restrictive' nodeset='0'/></numatune>"
	dedicatedOn0 = marked("dedicated", "4-5", "0") + "<vcpu>2</vcpu><cputune><vcpupin vcpu='0' cpuset='4'/><vcpupin vcpu='1' cpuset='5'/></cputune><numatune><memory mode='strict' nodeset='0'/></numatune>"
	dedicatedOn1 = marked("dedicated", "8-9", "1") + "<vcpu>2</vcpu><cputune><vcpupin vcpu='0' cpuset='8'/><vcpupin vcpu='1' cpuset='9'/></cputune><numatune><memory mode='strict' nodeset='1'/></numatune>"
	byHand       = "<vcpu>2</vcpu><cputune><vcpupin vcpu='0' cpuset='6'/><vcpupin vcpu='1' cpuset='7'/></cputune>"
	// As Nova has them: one vCPU floats and one has its own CPU; an emulator set apart.
	mixed     = "<vcpu>2</vcpu><cputune><vcpupin vcpu='0' cpuset='0-3'/><vcpupin vcpu='1' cpuset='12'/></cputune>"
	emulator  = "<vcpu>2</vcpu><cputune><vcpupin vcpu='0' cpuset='4'/><vcpupin vcpu='1' cpuset='5'/><emulatorpin cpuset='13'/></cputune>"
	strictOn1 = marked("shared", "8-11", "1") + "<vcpu cpuset='8-11'>2</vcpu><numatune><memory mode='strict' nodeset='1'/></numatune>"
	plain2    = "<vcpu>2</vcpu>"
)

// brief is a claim in one line.
func brief(c workload.Claim) string {
	place := func(p plan.Placement) string { return fmt.Sprintf("%s %s %s/%s", p.Workload, p.Class, p.CPUs, p.Home) }
	var b strings.Builder
	fmt.Fprintf(&b, "%s", c.ID)
	if !c.Running {
		b.WriteString(" off")
	}
	fmt.Fprintf(&b, " %s/%s", c.CPUs, c.Mems)
	if c.Home != nil {
		fmt.Fprintf(&b, " home(%s)", place(*c.Home))
	}
	for _, p := range c.Holds {
		fmt.Fprintf(&b, " holds(%s)", place(p))
	}
	if c.Fixed {
		b.WriteString(" fixed")
		if c.Driver == InGuest && c.MovedBy == "" {
			b.WriteString(" and no command that moves it")
		}
	}
	if !c.Alone.None() {
		fmt.Fprintf(&b, " alone=%s", c.Alone.Code)
	}
	if n := c.Next; n != nil {
		fmt.Fprintf(&b, " next %s/%s", n.CPUs, n.Mems)
		if n.Ours {
			b.WriteString(" ours")
		}
		if n.Home != nil {
			fmt.Fprintf(&b, " home(%s)", place(*n.Home))
		}
		if !n.Alone.None() {
			fmt.Fprintf(&b, " alone=%s", n.Alone.Code)
		}
	}
	return b.String()
}

func TestClaims(t *testing.T) {
	tests := []struct {
		name         string
		live, config string // what is inside, "" for not
		manage       Managed
		want         string
	}{
		{"nobody's", plain2, plain2, Marked, "vm:a / alone=guest-unmarked next / alone=guest-unmarked"},
		{"nobody's, all are to be placed", plain2, plain2, Every, "vm:a / next /"},
		{"placed", sharedOn0, sharedOn0, Marked, "vm:a 0-3/0 home(vm:a shared 0-3/0) next 0-3/0 ours home(vm:a shared 0-3/0)"},
		{"placed, off", "", sharedOn0, Marked, "vm:a off 0-3/0 next 0-3/0 ours home(vm:a shared 0-3/0)"},
		{"adopted as it runs", plain2, sharedOn0, Marked, "vm:a / next 0-3/0 ours home(vm:a shared 0-3/0)"},
		{"released as it runs", sharedOn0, plain2, Marked, "vm:a 0-3/0 home(vm:a shared 0-3/0) alone=guest-released next / alone=guest-released"},
		{"without a definition", sharedOn0, "", Marked, "vm:a 0-3/0 home(vm:a shared 0-3/0)"},
		{"strict", strictOn1, "", Marked, "vm:a 8-11/1 home(vm:a shared 8-11/1) alone=guest-memory-mode"},
		{"dedicated", dedicatedOn0, dedicatedOn0, Marked, "vm:a 4-5/0 home(vm:a dedicated 4-5/0) fixed next 4-5/0 ours home(vm:a dedicated 4-5/0) alone=guest-dedicated"},
		{"dedicated, off", "", dedicatedOn0, Marked, "vm:a off 4-5/0 holds(vm:a dedicated 4-5/0) next 4-5/0 ours home(vm:a dedicated 4-5/0) alone=guest-dedicated"},
		{"dedicated elsewhere next", dedicatedOn0, dedicatedOn1, Marked,
			"vm:a 4-5/0 home(vm:a dedicated 4-5/0) holds(vm:a/next dedicated 8-9/1) fixed next 8-9/1 ours home(vm:a dedicated 8-9/1) alone=guest-dedicated"},
		{"pinned by others", byHand, "", Marked, "vm:a 6-7/ home(vm:a dedicated 6-7/0) fixed alone=guest-bound"},
		{"partly pinned by others", mixed, "", Marked, "vm:a 0-3,12/ holds(vm:a/pinned dedicated 12/1) alone=guest-bound"},
		{"partly pinned by others, off", "", mixed, Marked, "vm:a off 0-3,12/ holds(vm:a/pinned dedicated 12/1) alone=guest-bound next 0-3,12/ alone=guest-bound"},
		{"emulator apart by others", emulator, "", Marked, "vm:a 4-5/ home(vm:a dedicated 4-5/0) holds(vm:a/emulator dedicated 13/1) fixed alone=guest-bound"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := startFake(t)
			var live, config string
			if tt.live != "" {
				live = boundXML("a", 7, tt.live)
			}
			if tt.config != "" {
				config = boundXML("a", 0, tt.config)
			}
			f.add(t, "a", live, config)
			w := watch(t, func(o *WatchOptions) { o.Manage = tt.manage })
			if err := w.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			claims, problems := w.Claims(twoNodes())
			if len(claims) != 2 || len(problems) != 0 {
				t.Fatalf("%+v, %v", claims, problems)
			}
			c := claims[0]
			if got := brief(c); got != tt.want {
				t.Error(cmp.Diff(tt.want, got))
			}
			want := workload.Caps{MemoryFollows: true, AtOnce: 256 << 10, Rebinds: true, NextStart: tt.config != ""}
			if c.Driver != InGuest || c.Caps != want || c.Spec == nil || !c.Spec.Given || c.Spec.CPUs != 2 {
				t.Errorf("%+v", c)
			}
			for _, p := range append(c.Holds, homeOf(c)...) {
				if bad := plan.Check(plan.State{Host: twoNodes(), Policy: plan.DefaultPolicy()}, []plan.Placement{p}); len(bad) > 0 {
					t.Errorf("%s: %v", p.Workload, bad)
				}
			}
		})
	}
}

func homeOf(c workload.Claim) []plan.Placement {
	if c.Home == nil {
		return nil
	}
	return []plan.Placement{*c.Home}
}

// Two guests pinned to one CPU by others hold it once.
func TestClaimsHoldACPUOnce(t *testing.T) {
	f := startFake(t)
	f.add(t, "a", boundXML("a", 7, mixed), "")
	f.add(t, "b", boundXML("b", 8, mixed), "")
	w := watch(t)
	look(t, w)
	claims, _ := w.Claims(twoNodes())
	if len(claims[0].Holds) != 1 || len(claims[1].Holds) != 0 {
		t.Errorf("a holds %+v, b holds %+v", claims[0].Holds, claims[1].Holds)
	}
}

func TestClaimsOfWhatIsNotUnderstood(t *testing.T) {
	f := startFake(t)
	f.add(t, "odd", "<domain id='2'><name>odd</name><vcpu>many</vcpu></domain>", "")
	f.edit(func() { f.guests[0].live = "<domain id='2'><name>odd</name><vcpu>9999999</vcpu></domain>" })
	f.add(t, "off", "", "<domain><name>off</name><vcpu>0</vcpu></domain>")
	w := watch(t, func(o *WatchOptions) { o.Process = nil })
	if err := w.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	claims, problems := w.Claims(twoNodes())
	if len(claims) != 2 || brief(claims[0]) != "vm:odd / alone=guest-unread" || len(problems) != 2 || problems[0].Subject != "guest odd" || problems[1].Subject != "guest off" {
		t.Fatalf("%+v, %+v", claims, problems)
	}
	for cgroup, i := range map[string]int{
		`/machine.slice/machine-qemu\x2d2\x2dodd.scope/libvirt`:  0,
		`/machine.slice/machine-qemu\x2d21\x2dodd.scope/libvirt`: 1,
		"/machine/qemu-2-odd.libvirt-qemu":                       0,
		"/machine/qemu-3-odd.libvirt-qemu/vcpu0":                 1,
	} {
		if claims[0].Covers(cgroup) != (i == 0) || !claims[1].Covers(cgroup) {
			t.Errorf("%s: %t, %t", cgroup, claims[0].Covers(cgroup), claims[1].Covers(cgroup))
		}
	}
	if c := claims[1]; c.ID != "" || c.Alone.Code != words.GuestForeignCgroup || c.Covers("/system.slice/libvirtd.service") || c.Running {
		t.Errorf("the rest: %+v", c)
	}
}

// A libvirt that does not answer: the last claims stand, and nothing is moved.
func TestClaimsWithoutAnAnswer(t *testing.T) {
	f := startFake(t)
	f.add(t, "a", boundXML("a", 7, sharedOn0), boundXML("a", 0, sharedOn0))
	f.add(t, "b", boundXML("b", 8, mixed), "")
	w := watch(t)
	look(t, w)
	f.edit(func() { f.refuse["GetAllDomainStats"] = libvirtError("Failed to connect socket to 'x'") })
	if err := w.Refresh(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
	claims, problems := w.Claims(twoNodes())
	var got []string
	for _, c := range claims {
		got = append(got, brief(c))
	}
	want := []string{
		"vm:a 0-3/0 home(vm:a shared 0-3/0) fixed alone=guest-silent next 0-3/0 ours home(vm:a shared 0-3/0) alone=guest-silent",
		"vm:b 0-3,12/ holds(vm:b/pinned dedicated 12/1) alone=guest-silent", " off / alone=guest-cgroup",
	}
	if d := cmp.Diff(want, got); d != "" || len(problems) > 0 {
		t.Error(d, problems)
	}
	if text := claims[0].Alone.String(); !strings.Contains(text, "Failed to connect socket") {
		t.Error(text)
	}
}

// A host without libvirt is in order, unless guests are known or seen, or all are to be
// placed.
func TestRefreshWithoutLibvirt(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus")
	for _, tt := range []struct {
		manage  Managed
		running bool
		want    error
	}{{None, true, nil}, {Marked, false, nil}, {Marked, true, ErrUnavailable}, {Every, false, ErrUnavailable}} {
		w := watch(t, func(o *WatchOptions) { o.Manage, o.Running = tt.manage, func() bool { return tt.running } })
		if err := w.Refresh(t.Context()); !errors.Is(err, tt.want) {
			t.Errorf("%s, running %t: %v", tt.manage, tt.running, err)
		}
		if claims, problems := w.Claims(twoNodes()); len(claims) != 1 || len(problems) != 0 {
			t.Errorf("%+v, %v", claims, problems)
		}
	}
}

// A guest pinned to CPUs that the host lacks is its own problem.
func TestGuestOfAnotherHost(t *testing.T) {
	f := startFake(t)
	f.add(t, "a", boundXML("a", 7, "<vcpu>2</vcpu><cputune><vcpupin vcpu='0' cpuset='3'/><vcpupin vcpu='1' cpuset='525'/></cputune><numatune><memory mode='strict' nodeset='0,9'/></numatune>"), "")
	w := watch(t)
	look(t, w)
	claims, problems := w.Claims(twoNodes())
	if got := brief(claims[0]); got != "vm:a 3/0 holds(vm:a/pinned dedicated 3/0) alone=guest-bound" || len(problems) > 0 {
		t.Errorf("%s, %v", got, problems)
	}
	if text := claims[0].Alone.String(); !strings.Contains(text, "CPUs 525 and nodes 9, which this host does not have") {
		t.Error(text)
	}
	var nodes topology.NodeSet
	if nodes = claims[0].Mems; nodes.String() != "0" {
		t.Error(nodes)
	}
}
