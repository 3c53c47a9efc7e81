package incus

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// fake is a machine with an Incus whose answers the test chooses.
type fake struct {
	t      *testing.T
	root   string
	server string
	answer http.HandlerFunc // of the instances

	projects string // in JSON
	asked    int
	now      time.Time
}

func newFake(t *testing.T) *fake {
	t.Helper()
	root, err := os.MkdirTemp("", "incus") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	f := &fake{t: t, root: root, now: time.Unix(1000, 0), server: `{"type":"sync","metadata":{"environment":{"server_name":"one","server_clustered":false}}}`}
	f.mkdir("sys/fs/cgroup")
	f.mkdir("var/lib/incus")
	l, err := net.Listen("unix", filepath.Join(root, "var/lib/incus/unix.socket"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /1.0", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, f.server) })
	mux.HandleFunc("GET /1.0/instances", func(w http.ResponseWriter, r *http.Request) {
		f.asked++
		if r.URL.RawQuery != "recursion=2&all-projects=true" {
			t.Errorf("asked for %s", r.URL)
		}
		f.answer(w, r)
	})
	mux.HandleFunc("GET /1.0/projects", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"type":"sync","metadata":[%s]}`, f.projects)
	})
	s := &http.Server{Handler: mux}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return f
}

func (f *fake) mkdir(name string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Join(f.root, name), 0o755); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) write(name, text string) {
	f.t.Helper()
	f.mkdir(filepath.Dir(name))
	if err := os.WriteFile(filepath.Join(f.root, name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// process is one of the machine.
func (f *fake) process(pid int, comm, cgroup string) {
	f.write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (%s) S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 %d%s\n", pid, comm, 1000+pid, strings.Repeat(" 0", 30)))
	f.write(fmt.Sprintf("proc/%d/cgroup", pid), "0::"+cgroup+"\n")
	if strings.HasPrefix(cgroup, "/lxc.payload.") {
		f.mkdir("sys/fs/cgroup/" + strings.Split(cgroup, "/")[1])
	}
}

// says has the server answer with instances, in JSON.
func (f *fake) says(instances string) {
	f.answer = func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"type":"sync","status":"Success","status_code":200,"metadata":[%s]}`, instances)
	}
}

func (f *fake) source(o Options) *Source {
	o.Root, o.Now = f.root, func() time.Time { return f.now }
	if o.Manage == "" {
		o.Manage = Every
	}
	return New(o)
}

func instanceJSON(name, kind string, pid int, config map[string]string) string {
	text, _ := json.Marshal(config)
	called, _ := json.Marshal(name)
	return fmt.Sprintf(`{"name":%s,"type":%q,"project":"default","location":"none","status":"Running","expanded_config":%s,"expanded_devices":{},"state":{"status":"Running","pid":%d}}`, called, kind, text, pid)
}

// claimsOf refreshes a source and returns its claims by ID and its problems.
func (f *fake) claimsOf(s *Source) (map[workload.ID]workload.Claim, []string) {
	f.t.Helper()
	out := map[workload.ID]workload.Claim{}
	var texts []string
	if err := s.Refresh(f.t.Context()); err != nil {
		texts = append(texts, err.Error())
	}
	claims, problems := s.Claims(nil)
	for _, c := range claims {
		if c.ID != "" { // all containers, while nothing is known
			out[c.ID] = c
		}
	}
	for _, p := range problems {
		texts = append(texts, p.Subject+": "+p.Text)
	}
	return out, texts
}

func TestInstances(t *testing.T) {
	f := newFake(t)
	f.process(100, "systemd", "/lxc.payload.web/init.scope")
	f.process(200, "qemu-system-x86", "/system.slice/incus.service")
	f.process(300, "init", "/lxc.payload.limited")
	f.process(400, "systemd", "/lxc.payload.asks")
	f.says(strings.Join([]string{
		instanceJSON("web", "container", 100, nil),
		instanceJSON("vm1", "virtual-machine", 200, map[string]string{"limits.cpu": "4", "limits.memory": "8GiB", "user.homenode.importance": "20"}),
		instanceJSON("limited", "container", 300, map[string]string{"limits.cpu": "2"}),
		instanceJSON("asks", "container", 400, map[string]string{"user.homenode.cpus": "3", "user.homenode.class": "dedicated", "user.homenode.memory": "2GiB"}),
		instanceJSON("off", "container", 0, nil),
		`{"name":"elsewhere","type":"container","project":"default","state":null}`,
	}, ","))
	s := f.source(Options{})
	got, problems := f.claimsOf(s)
	if len(got) != 4 {
		t.Fatalf("%v", got)
	}
	web, vm := got["incus:web"], got["incus:vm1"]
	if diff := cmp.Diff([]string{"/lxc.payload.web"}, web.Cgroups); diff != "" || web.Name != "web" || !web.Running || !web.Alone.None() {
		t.Errorf("%+v", web)
	}
	if vm.Process != (workload.Process{PID: 200, Start: 1200}) || vm.Spec.CPUs != 4 || vm.Spec.Memory != 8<<20 || vm.Spec.Importance != 20 || !vm.Alone.None() {
		t.Errorf("%+v %+v", vm, vm.Spec)
	}
	if why := got["incus:limited"].Alone; why.Code != words.IncusLimits {
		t.Errorf("%v", why)
	}
	if asks := got["incus:asks"]; asks.Spec.CPUs != 3 || asks.Spec.Class != workload.Shared || asks.Asked.CPUs != workload.Own {
		t.Errorf("%+v %+v", asks, asks.Spec)
	}
	if len(problems) != 1 || !strings.Contains(problems[0], "class dedicated") || !strings.Contains(problems[0], "memory") {
		t.Errorf("%q", problems)
	}
	if p := s.Processes(); len(p) != 1 || p[0].PID != 200 {
		t.Errorf("%v", p)
	}

	// A grant allows the project some wishes.
	s = f.source(Options{Grants: []workload.Grant{{Allow: []workload.Permission{workload.MayBeDedicated, workload.MayBookMemory}, Namespaces: []string{"incus/*"}}}})
	got, problems = f.claimsOf(s)
	if asks := got["incus:asks"].Spec; len(problems) != 0 || asks.Class != workload.Dedicated || asks.CPUs != 3 || asks.Memory != 2<<20 {
		t.Errorf("%+v %q", asks, problems)
	}
	s = f.source(Options{Manage: Marked})
	if got, _ = f.claimsOf(s); got["incus:web"].Alone.Code != words.IncusUnmarked || !got["incus:vm1"].Alone.None() {
		t.Errorf("%+v", got)
	}
	s = f.source(Options{Manage: None})
	if got, _ = f.claimsOf(s); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestRuleVouchesForItsWishes: a rule that says nothing of CPUs does not make those of a key the operator's word.
func TestRuleVouchesForItsWishes(t *testing.T) {
	f := newFake(t)
	f.process(100, "systemd", "/lxc.payload.web")
	f.says(instanceJSON("web", "container", 100, map[string]string{"user.homenode.cpus": "64"}))
	rule := &workload.Rule{Match: "incus:*", Tier: workload.Normal}
	s := f.source(Options{Rule: func([]string, map[string]string) *workload.Rule { return rule }})
	got, _ := f.claimsOf(s)
	if asked := got["incus:web"].Asked; asked.CPUs != workload.Own || asked.Tier != workload.Operator {
		t.Errorf("%+v", asked)
	}
	rule.CPUs = 2
	got, _ = f.claimsOf(s)
	if web := got["incus:web"]; web.Asked.CPUs != workload.Operator || web.Spec.CPUs != 2 {
		t.Errorf("%+v, %d CPUs", web.Asked, web.Spec.CPUs)
	}
}

// TestLimitsOfRestrictedProjects: the users of a restricted project choose the limits of its virtual machines: these
// count up to the ceiling, except for limits that the administrator has set for the whole project.
func TestLimitsOfRestrictedProjects(t *testing.T) {
	f := newFake(t)
	f.projects = `{"name":"default","config":{}},{"name":"prod","config":{"restricted":"false"}},
		{"name":"user-1000","config":{"restricted":"true"}},
		{"name":"sized","config":{"restricted":"true","limits.cpu":"8","limits.memory":"16GiB"}}`
	var all []string
	for i, project := range []string{"default", "prod", "user-1000", "sized", "unknown"} {
		pid := 200 + i
		f.process(pid, "qemu-system-x86", "/system.slice/incus.service")
		limits := map[string]string{"limits.cpu": "4", "limits.memory": "8GiB"}
		vm := instanceJSON("vm", "virtual-machine", pid, limits)
		all = append(all, strings.Replace(vm, `"project":"default"`, `"project":"`+project+`"`, 1))
	}
	f.says(strings.Join(all, ","))
	own := workload.Asked{CPUs: workload.Own, Memory: workload.Own}
	got, problems := f.claimsOf(f.source(Options{}))
	for id, want := range map[workload.ID]workload.Asked{
		"incus:vm": {}, "incus:prod/vm": {}, "incus:user-1000/vm": own, "incus:sized/vm": {}, "incus:unknown/vm": own,
	} {
		c := got[id]
		if c.Asked != want || c.Spec == nil || c.Spec.CPUs != 4 || c.Spec.Memory != 8<<20 {
			t.Errorf("%s: %+v, want %+v", id, c, want)
		}
	}
	if len(problems) > 0 {
		t.Errorf("%q", problems)
	}
	grant := workload.Grant{Allow: []workload.Permission{workload.MayBookMemory}, Namespaces: []string{"incus/user-*"}}
	got, _ = f.claimsOf(f.source(Options{Grants: []workload.Grant{grant}}))
	if asked := got["incus:user-1000/vm"].Asked; asked.Memory != workload.Operator || asked.CPUs != workload.Own {
		t.Errorf("with a grant: %+v", asked)
	}
}

// TestAskedSeldom: an answer counts until an instance comes or goes, or it is old; after a failure the next question
// comes later each time, and the older answer counts.
func TestAskedSeldom(t *testing.T) {
	f := newFake(t)
	f.process(100, "systemd", "/lxc.payload.web")
	f.says(instanceJSON("web", "container", 100, nil))
	s := f.source(Options{})
	look := func(pass time.Duration, asked, known int) {
		t.Helper()
		f.now = f.now.Add(pass)
		got, _ := f.claimsOf(s)
		if f.asked != asked || len(got) != known {
			t.Fatalf("%v: asked %d times, %d known; want %d, %d", f.now, f.asked, len(got), asked, known)
		}
	}
	look(0, 1, 1)
	look(2*time.Second, 1, 1)
	f.process(200, "systemd", "/lxc.payload.new")
	f.says(instanceJSON("web", "container", 100, nil) + "," + instanceJSON("new", "container", 200, nil))
	look(2*time.Second, 2, 2)
	look(askEvery, 3, 2)
	fine := f.answer
	f.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }
	look(askEvery, 4, 2)
	look(2*time.Second, 4, 2)
	look(retryFirst, 5, 2)
	look(retryFirst, 5, 2)
	look(retryFirst, 6, 2)
	f.answer = fine
	look(retryMost, 7, 2)
	os.RemoveAll(filepath.Join(f.root, "proc/200"))
	look(time.Second, 7, 1)
	os.Remove(filepath.Join(f.root, "var/lib/incus/unix.socket"))
	look(time.Second, 7, 0)
}

// TestManyWrongKeys: the author of an instance has one line of bounded length.
func TestManyWrongKeys(t *testing.T) {
	f := newFake(t)
	f.process(100, "systemd", "/lxc.payload.web")
	config := map[string]string{"user.homenode.class": "dedicated", "user.homenode.importance": "99"}
	for k := range 1000 {
		config[fmt.Sprint("user.homenode.", k, strings.Repeat("x", 1000))] = strings.Repeat("\n", 1000)
	}
	f.says(instanceJSON("web", "container", 100, config))
	_, problems := f.claimsOf(f.source(Options{}))
	if len(problems) != 1 || len(problems[0]) > 1500 || !strings.Contains(problems[0], " more") {
		t.Errorf("%q", problems)
	}
}

// TestLaterProcess: while the server does not answer, another process with the PID of an instance is not that instance.
func TestLaterProcess(t *testing.T) {
	f := newFake(t)
	f.process(100, "systemd", "/lxc.payload.web")
	f.says(instanceJSON("web", "container", 100, nil))
	s := f.source(Options{})
	if got, _ := f.claimsOf(s); len(got) != 1 {
		t.Fatal(got)
	}
	f.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }
	f.process(100, "systemd", "/lxc.payload.other")
	stat := "100 (systemd) S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 77777" + strings.Repeat(" 0", 30)
	f.write("proc/100/stat", stat)
	if got, _ := f.claimsOf(s); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestHostileAnswers(t *testing.T) {
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) }
	}
	list := func(s string) http.HandlerFunc { return text(`{"type":"sync","metadata":[` + s + `]}`) }
	f := newFake(t)
	f.process(100, "systemd", "/lxc.payload.web")
	f.process(300, "bash", "/user.slice/lxc.payload/x")
	f.process(400, "sshd", "/system.slice/ssh.service")
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   string // in the one line; "" for none
		known  int
	}{
		{"no JSON", text("<html>"), "no JSON of Incus", 0},
		{"nothing", text(""), "no JSON of Incus", 0},
		{"an error", text(`{"type":"error","error":"not\u001b[31m authorized` + strings.Repeat("x", 1000) + `","error_code":403}`), "not", 0},
		{"another type", text(`{"type":"sync","metadata":{"a":1}}`), "is not understood", 0},
		{"types that do not fit", list(`{"name":7}`), "is not understood", 0},
		{"a PID that is text", list(`{"name":"web","state":{"pid":"100"}}`), "is not understood", 0},
		{"too many", list(strings.Repeat(`{"name":"a"},`, mostInstances) + `{"name":"b"}`), "more than 10000", 0},
		{"a name with escapes", list(instanceJSON("\x1b[2J", "container", 100, nil)), "is ignored", 0},
		{"a name with slashes", list(instanceJSON("../../etc", "container", 100, nil)), "is ignored", 0},
		{"a PID of init", list(instanceJSON("web", "container", 1, nil)), "", 0},
		{"a negative PID", list(instanceJSON("web", "container", -5, nil)), "", 0},
		{"a PID that has ended", list(instanceJSON("web", "container", 999, nil)), "", 0},
		{"a process outside of containers", list(instanceJSON("web", "container", 400, nil)), "", 0},
		{"a cgroup that only looks so", list(instanceJSON("web", "container", 300, nil)), "", 0},
		{"a guest that is no QEMU", list(instanceJSON("web", "virtual-machine", 400, nil)), "", 0},
		{"the same twice", list(instanceJSON("web", "container", 100, nil) + "," + instanceJSON("web", "container", 100, nil)), "", 1},
		{"keys that mean nothing", list(instanceJSON("web", "container", 100, map[string]string{"user.homenode.class": "\x1b[31mred", "user.homenode.x\n": "1"})), `x1b[31mred`, 1},
		{"no state", list(`{"name":"web"}`), "", 0},
		{"null", text(`{"type":"sync","metadata":null}`), "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.answer = tt.answer
			got, problems := f.claimsOf(f.source(Options{}))
			if len(got) != tt.known {
				t.Errorf("%d known, want %d: %+v", len(got), tt.known, got)
			}
			all := strings.Join(problems, " | ")
			if (all == "") != (tt.want == "") || !strings.Contains(all, tt.want) {
				t.Errorf("%q, want %q", all, tt.want)
			}
			for _, p := range problems {
				if strings.ContainsAny(p, "\x1b\n") || len(p) > 500 {
					t.Errorf("%d bytes: %q", len(p), p)
				}
			}
		})
	}
}

// TestAnswerWithoutEnd: no more is read of an answer than the bound.
func TestAnswerWithoutEnd(t *testing.T) {
	f := newFake(t)
	f.answer = func(w http.ResponseWriter, _ *http.Request) {
		spaces := []byte(strings.Repeat(" ", 1<<20))
		for range mostAnswer>>20 + 1 {
			if _, err := w.Write(spaces); err != nil {
				return
			}
		}
	}
	socket := filepath.Join(f.root, "var/lib/incus/unix.socket")
	_, err := instancesOf(t.Context(), socket)
	if err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Error(err)
	}
}

// TestSilentServer: a server that does not answer holds nothing up for longer than the caller waits.
func TestSilentServer(t *testing.T) {
	f := newFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.answer = func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}
	if err := f.source(Options{}).Refresh(ctx); err == nil {
		t.Error("no error")
	}
}

// TestServersWaitForNoOther: LXD is asked while Incus does not answer.
func TestServersWaitForNoOther(t *testing.T) {
	f := newFake(t)
	f.process(100, "systemd", "/lxc.payload.web")
	f.mkdir("var/lib/lxd")
	l, err := net.Listen("unix", filepath.Join(f.root, "var/lib/lxd/unix.socket"))
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	other := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/1.0" {
			close(asked)
		}
		io.WriteString(w, `{"type":"sync","metadata":null}`)
	})}
	go other.Serve(l)
	defer other.Close()
	f.answer = func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-asked:
			fmt.Fprintf(w, `{"type":"sync","metadata":[%s]}`, instanceJSON("web", "container", 100, nil))
		case <-r.Context().Done():
		}
	}
	if got, problems := f.claimsOf(f.source(Options{})); len(got) != 1 || len(problems) > 0 {
		t.Errorf("%+v, %q", got, problems)
	}
}

// TestSlowServer: a server that takes longer than a scan waits is not asked again meanwhile, and its answer counts at a
// later scan. Until the first one its containers are left alone: what they are and ask for is not known.
func TestSlowServer(t *testing.T) {
	f := newFake(t)
	f.process(100, "systemd", "/lxc.payload.web")
	f.says(instanceJSON("web", "container", 100, nil))
	fine, late := f.answer, make(chan bool)
	f.answer = func(w http.ResponseWriter, r *http.Request) {
		<-late
		fine(w, r)
	}
	s := f.source(Options{})
	for range 2 {
		s.patience = time.Millisecond
		got, problems := f.claimsOf(s)
		if len(got) != 0 || len(problems) != 1 || !strings.Contains(problems[0], "no answer yet") {
			t.Fatalf("%+v %q", got, problems)
		}
		claims, _ := s.Claims(nil)
		if len(claims) != 1 || claims[0].Alone.Code != words.SourceFailed || !claims[0].Covers("/lxc.payload.web/init.scope") || claims[0].Covers("/lxc.monitor.web") {
			t.Fatalf("%+v", claims)
		}
	}
	close(late)
	s.patience = time.Minute
	got, problems := f.claimsOf(s)
	if len(got) != 1 || len(problems) != 0 || f.asked != 1 {
		t.Fatalf("asked %d times: %+v %q", f.asked, got, problems)
	}
	if claims, _ := s.Claims(nil); len(claims) != 1 {
		t.Fatalf("%+v", claims)
	}

	// Later the older answer counts while another question is under way.
	late = make(chan bool)
	defer close(late)
	f.now = f.now.Add(askEvery)
	s.patience = time.Millisecond
	if got, problems := f.claimsOf(s); len(got) != 1 || len(problems) != 0 {
		t.Fatalf("%+v %q", got, problems)
	}
	if claims, _ := s.Claims(nil); len(claims) != 1 {
		t.Fatalf("%+v", claims)
	}
	// A container that has come since is left alone until the next answer.
	f.process(200, "systemd", "/lxc.payload.new")
	if got, problems := f.claimsOf(s); len(got) != 1 || len(problems) != 0 {
		t.Fatalf("%+v %q", got, problems)
	}
	claims, _ := s.Claims(nil)
	if len(claims) != 2 || !slices.ContainsFunc(claims, func(c workload.Claim) bool { return c.Covers("/lxc.payload.new") }) {
		t.Fatalf("%+v", claims)
	}
}

// TestCluster: instances of other members of a cluster are none of this host's.
func TestCluster(t *testing.T) {
	f := newFake(t)
	f.server = `{"type":"sync","metadata":{"environment":{"server_name":"one","server_clustered":true}}}`
	f.process(100, "systemd", "/lxc.payload.web")
	web := instanceJSON("web", "container", 100, nil)
	f.says(strings.Replace(web, `"none"`, `"two"`, 1))
	if got, _ := f.claimsOf(f.source(Options{})); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	f.says(strings.Replace(web, `"none"`, `"one"`, 1))
	if got, _ := f.claimsOf(f.source(Options{})); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// drives records the cgroups of steps.
type drives struct {
	plan.Driver
	at []string
}

func (d *drives) Apply(_ context.Context, step plan.Step, _ func(plan.Move)) error {
	d.at = append(d.at, step.Target.Cgroup)
	return nil
}

func (d *drives) Changes(_ context.Context, step plan.Step) ([]plan.Change, error) {
	d.at = append(d.at, step.Target.Cgroup)
	return nil, nil
}

func TestDriver(t *testing.T) {
	for _, tt := range []struct {
		kind     plan.StepKind
		at, want string
	}{
		{plan.SetCPUs, "/lxc.payload.web/system.slice/db.service", "/lxc.payload.web"},
		{plan.SetMems, "/lxc.payload.web/init.scope", "/lxc.payload.web"},
		{plan.SetCPUs, "/lxc.payload.web", "/lxc.payload.web"},
		{plan.SetCPUs, "/system.slice/db.service", "/system.slice/db.service"},
		{plan.SetCgroup, "/lxc.payload.web/init.scope", "/lxc.payload.web/init.scope"},
	} {
		d := &drives{}
		step := plan.Step{Kind: tt.kind, Target: plan.Target{Kind: workload.InCgroup, Cgroup: tt.at}}
		Driver{d}.Apply(t.Context(), step, nil)
		Driver{d}.Changes(t.Context(), step)
		if diff := cmp.Diff([]string{tt.want, tt.want}, d.at); diff != "" {
			t.Errorf("%s of %s: %s", tt.kind, tt.at, diff)
		}
	}
}

func FuzzInstance(f *testing.F) {
	f.Add(instanceJSON("web", "container", 100, map[string]string{"limits.cpu": "2", "user.homenode.near": "device=eth0"}))
	f.Add(instanceJSON("vm", "virtual-machine", 100, map[string]string{"limits.memory": "50%", "user.homenode.tier": "2", "user.homenode.class": "batch"}))
	f.Add(`{"name":"a","state":{"pid":2}}`)
	s := New(Options{Manage: Every})
	f.Fuzz(func(t *testing.T, text string) {
		var w wireInstance
		if json.Unmarshal([]byte(text), &w) != nil || w.State == nil {
			return
		}
		i, ok, _ := read("incus", &w)
		if !ok {
			return
		}
		c, bad := s.claim(&i)
		if c.Spec.CPUs < 0 || c.Spec.Memory < 0 || c.Spec.Class == workload.Dedicated || len(bad) > mostBad+4 {
			t.Errorf("%+v %q", c.Spec, bad)
		}
	})
}
