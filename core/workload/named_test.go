package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const containerID = "3fa85f6457174562b3fc2c963f66afa63fa85f6457174562b3fc2c963f66afa6"

// host is a host with one of everything that has a name.
func host() []Named {
	return []Named{
		{ID: "/system.slice/nginx.service", Name: "nginx", Cgroup: "/system.slice/nginx.service", Whole: true, Processes: []Process{{PID: 50}, {PID: 51}}},
		{ID: "/system.slice/docker-" + containerID + ".scope", Name: "redis-server 3fa85f645717", Cgroup: "/system.slice/docker-" + containerID + ".scope", Whole: true, Processes: []Process{{PID: 60}}},
		{ID: "/system.slice/srv\\x2ddata.mount", Name: "srv-data", Cgroup: "/system.slice/srv\\x2ddata.mount", Whole: true},
		{ID: "/machine.slice/machine-web.scope", Name: "web", Cgroup: "/machine.slice/machine-web.scope", Whole: true},
		{ID: "/lxc.payload.mail", Name: "lxc.payload.mail", Cgroup: "/lxc.payload.mail", Whole: true},
		{ID: "pid:70", Name: "db", Cgroup: "/user.slice/session-1.scope", Processes: []Process{{PID: 70}, {PID: 71}}},
		{ID: "pid:80", Name: "walker", Cgroup: "/user.slice/session-1.scope", Processes: []Process{{PID: 80}}},
		{ID: "pid:90", Name: "walker", Cgroup: "/user.slice/session-2.scope", Processes: []Process{{PID: 90}}},
		{ID: "vm:app", Name: "app", Also: []string{"6695eb01-f6a4-8304-79aa-97f2502e193f"}, Cgroup: "/machine.slice/machine-qemu\\x2d1\\x2dapp.scope/libvirt", Processes: []Process{{PID: 100}}},
	}
}

func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		asked string
		of    Lineage
		want  string
	}{
		"ID":                           {asked: "pid:70", want: "pid:70"},
		"ID of a cgroup":               {asked: "/system.slice/nginx.service", want: "/system.slice/nginx.service"},
		"name":                         {asked: "db", want: "pid:70"},
		"bare PID":                     {asked: "70", want: "pid:70"},
		"PID of a member":              {asked: "71", want: "pid:70"},
		"pid:N of a member":            {asked: "pid:71", want: "pid:70"},
		"PID of a process of a cgroup": {asked: "51", want: "/system.slice/nginx.service"},
		"thread":                       {asked: "73", of: Lineage{PIDs: []int{71, 70}, Cgroup: "/user.slice/session-1.scope"}, want: "pid:70"},
		"a new child":                  {asked: "79", of: Lineage{PIDs: []int{79, 71, 70, 1}, Cgroup: "/user.slice/session-1.scope"}, want: "pid:70"},
		"a new child elsewhere":        {asked: "79", of: Lineage{PIDs: []int{79, 71, 70, 1}, Cgroup: "/system.slice/other.service"}},
		"a new process of a cgroup":    {asked: "59", of: Lineage{PIDs: []int{59, 1}, Cgroup: "/system.slice/nginx.service/worker"}, want: "/system.slice/nginx.service"},
		"a process that is not there":  {asked: "12345"},
		"cgroup with its mount":        {asked: "/sys/fs/cgroup/system.slice/nginx.service", want: "/system.slice/nginx.service"},
		"cgroup of a hybrid host":      {asked: "/sys/fs/cgroup/unified/system.slice/nginx.service/", want: "/system.slice/nginx.service"},
		"cgroup without a slash":       {asked: "system.slice/nginx.service", want: "/system.slice/nginx.service"},
		"cgroup below one":             {asked: "/system.slice/nginx.service/worker", want: "/system.slice/nginx.service"},
		"cgroup above one":             {asked: "/machine.slice/machine-qemu\\x2d1\\x2dapp.scope", want: "vm:app"},
		"cgroup above several":         {asked: "/user.slice", want: "pid:70 pid:80 pid:90"},
		"the root":                     {asked: "/"},
		"the mount":                    {asked: "/sys/fs/cgroup"},
		"unit":                         {asked: "nginx.service", want: "/system.slice/nginx.service"},
		"unit without suffix":          {asked: "nginx", want: "/system.slice/nginx.service"},
		"unit, escaped":                {asked: "srv\\x2ddata.mount", want: "/system.slice/srv\\x2ddata.mount"},
		"unit, as it is read":          {asked: "srv-data.mount", want: "/system.slice/srv\\x2ddata.mount"},
		"unit that is shared":          {asked: "session-1.scope", want: "pid:70 pid:80"},
		"slice":                        {asked: "user.slice", want: "pid:70 pid:80 pid:90"},
		"slice without suffix":         {asked: "user"},
		"container":                    {asked: containerID, want: "/system.slice/docker-" + containerID + ".scope"},
		"container, short":             {asked: containerID[:12], want: "/system.slice/docker-" + containerID + ".scope"},
		"container, begin":             {asked: containerID[:5], want: "/system.slice/docker-" + containerID + ".scope"},
		"container, too little":        {asked: "3fa"},
		"machine":                      {asked: "web", want: "/machine.slice/machine-web.scope"},
		"LXC":                          {asked: "mail", want: "/lxc.payload.mail"},
		"guest":                        {asked: "app", want: "vm:app"},
		"guest by UUID":                {asked: "6695EB01-F6A4-8304-79AA-97F2502E193F", want: "vm:app"},
		"two of a name":                {asked: "walker", want: "pid:80 pid:90"},
		"nothing":                      {asked: ""},
		"sign":                         {asked: "+70"},
		"negative":                     {asked: "-70"},
		"too large":                    {asked: "99999999999999999999"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Trim(fmt.Sprint(Find(host(), c.asked, c.of)), "[]"); got != c.want {
				t.Errorf("Find(%q) is %q, want %q", c.asked, got, c.want)
			}
		})
	}
}

// What a user calls a process takes nobody's place: IDs, PIDs and UUIDs go before names.
func TestFindHostile(t *testing.T) {
	all := append(host(),
		Named{ID: "pid:200", Name: "pid:70", Processes: []Process{{PID: 200}}},
		Named{ID: "pid:201", Name: "71", Processes: []Process{{PID: 201}}},
		Named{ID: "pid:202", Name: "/system.slice/nginx.service", Processes: []Process{{PID: 202}}},
		Named{ID: "pid:203", Name: "6695eb01-f6a4-8304-79aa-97f2502e193f", Processes: []Process{{PID: 203}}},
		Named{ID: "pid:204", Name: "nginx", Processes: []Process{{PID: 204}}},
		Named{ID: "pid:205", Name: "\x1b[31m", Processes: []Process{{PID: 205}}},
		Named{ID: "pid:206", Name: "device:eth0", Processes: []Process{{PID: 206}}},
	)
	for asked, want := range map[string]string{
		"pid:70":                               "pid:70",
		"70":                                   "pid:70",
		"71":                                   "pid:70",
		"/system.slice/nginx.service":          "/system.slice/nginx.service",
		"system.slice/nginx.service":           "/system.slice/nginx.service",
		"6695eb01-f6a4-8304-79aa-97f2502e193f": "vm:app",
		"nginx":                                "/system.slice/nginx.service pid:204", // told, not chosen
		"nginx.service":                        "/system.slice/nginx.service",
		"\x1b[31m":                             "pid:205",
		"device:eth0":                          "",
	} {
		if got := strings.Trim(fmt.Sprint(Find(all, asked, Lineage{})), "[]"); got != want {
			t.Errorf("Find(%q) is %q, want %q", asked, got, want)
		}
	}
}

func TestAlike(t *testing.T) {
	for asked, want := range map[string]string{
		"ngnix":         "/system.slice/nginx.service",
		"nginx.servce":  "/system.slice/nginx.service",
		"wlker":         "pid:80 pid:90",
		"redis":         "/system.slice/docker-" + containerID + ".scope",
		"vm:ap":         "vm:app",
		"99":            "",
		"nothing alike": "",
		"":              "",
	} {
		if got := strings.Trim(fmt.Sprint(Alike(host(), asked)), "[]"); got != want {
			t.Errorf("Alike(%q) is %q, want %q", asked, got, want)
		}
	}
}

var (
	drawnPart = rapid.OneOf(rapid.StringMatching(`[a-z]{1,4}(\.service|\.scope|\.slice|\.mount)?`), rapid.StringMatching(`docker-[0-9a-f]{64}\.scope`),
		rapid.StringMatching(`[0-9a-f]{32}`), rapid.SampledFrom([]string{"machine-a", "lxc.payload.b", "a\\x2db.service", "\\x", "-", ".service"}))
	drawnName = rapid.OneOf(rapid.StringMatching(`[a-d]{1,2}`), rapid.String(), rapid.SampledFrom([]string{"pid:1", "pid:2", "1", "2", "/a", "vm:a", "device:a", "a.service"}))
)

// drawnHost is a host with any workloads. No two have an ID, a process or another name in common.
func drawnHost(t *rapid.T) []Named {
	n := rapid.IntRange(0, 8).Draw(t, "workloads")
	seen := map[ID]bool{}
	var all []Named
	for i := range n {
		w := Named{Name: drawnName.Draw(t, "name")}
		for range rapid.IntRange(0, 3).Draw(t, "depth") {
			w.Cgroup += "/" + drawnPart.Draw(t, "part")
		}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			w.Whole, w.ID = true, ID(w.Cgroup)
		case 1:
			w.ID = ID("vm:" + w.Name)
			w.Also = []string{fmt.Sprintf("%08d-0000-0000-0000-000000000000", i)}
		default:
			w.ID = ID(fmt.Sprintf("pid:%d", 10*i+1))
		}
		for k := range rapid.IntRange(0, 2).Draw(t, "processes") {
			w.Processes = append(w.Processes, Process{PID: 10*i + 1 + k})
		}
		if w.ID != "" && !seen[w.ID] {
			seen[w.ID] = true
			all = append(all, w)
		}
	}
	return all
}

// Every ID finds itself, every name all that have it; the order of the workloads does not
// matter, and no name panics.
func TestFindProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawnHost(t)
		isID := func(name string) bool {
			return slices.ContainsFunc(all, func(n Named) bool { return string(n.ID) == name })
		}
		for i := range all {
			n := &all[i]
			if got := Find(all, string(n.ID), Lineage{}); !slices.Equal(got, []ID{n.ID}) {
				t.Fatalf("%q finds %q", n.ID, got)
			}
			for _, p := range n.Processes {
				if got := Find(all, fmt.Sprint(p.PID), Lineage{}); !isID(fmt.Sprint(p.PID)) && !slices.Equal(got, []ID{n.ID}) {
					t.Fatalf("process %d of %q finds %q", p.PID, n.ID, got)
				}
			}
			for _, name := range n.Also {
				if got := Find(all, name, Lineage{}); !slices.Equal(got, []ID{n.ID}) {
					t.Fatalf("%q of %q finds %q", name, n.ID, got)
				}
			}
			_, isPID := PIDOf(n.Name)
			if n.Name == "" || isID(n.Name) || isPID || strings.Contains(n.Name, "/") || strings.HasPrefix(n.Name, "device:") {
				continue // stronger things may have it
			}
			got := Find(all, n.Name, Lineage{})
			for k := range all {
				if all[k].Name == n.Name && !slices.Contains(got, all[k].ID) {
					t.Fatalf("name %q finds %q, without %q", n.Name, got, all[k].ID)
				}
			}
			same := slices.ContainsFunc(all, func(o Named) bool { return o.ID != n.ID && (o.Name == n.Name || o.called(n.Name)) })
			if !same && !slices.Equal(got, []ID{n.ID}) {
				t.Fatalf("name %q, which only %q has, finds %q", n.Name, n.ID, got)
			}
		}
		asked := rapid.OneOf(drawnName, drawnPart, rapid.String()).Draw(t, "asked")
		of := Lineage{PIDs: rapid.SliceOfN(rapid.IntRange(-1, 80), 0, 4).Draw(t, "lineage"), Cgroup: drawnName.Draw(t, "cgroup")}
		found, near := Find(all, asked, of), Alike(all, asked)
		if len(near) > mostNear || !slices.IsSorted(found) {
			t.Fatal(near, found)
		}
		slices.Reverse(all)
		if again := Find(all, asked, of); !slices.Equal(found, again) {
			t.Fatalf("%q finds %q, in another order %q", asked, found, again)
		}
	})
}

func TestNamedByID(t *testing.T) {
	all := []Named{NamedByID("pid:7"), NamedByID("/system.slice/db.service"), NamedByID("vm:app"), NamedByID("device:eth0"), NamedByID("host")}
	for asked, want := range map[string]ID{"7": "pid:7", "db": "/system.slice/db.service", "app": "vm:app", "eth0": "device:eth0", "host": "host"} {
		if got := Find(all, asked, Lineage{}); !slices.Equal(got, []ID{want}) {
			t.Errorf("%q finds %q, want %q", asked, got, want)
		}
	}
}

// A name that a user gives is printable text of at most 255 bytes.
func TestOneLine(t *testing.T) {
	for name, want := range map[string]bool{
		"": true, "web 1": true, "büro/Ω": true, "*": true, strings.Repeat("a", 255): true,
		strings.Repeat("a", 256): false, "a\nb": false, "\x1b[31mred": false, "a\xff": false, "a\u202eb": false,
	} {
		if OneLine(name) != want {
			t.Errorf("%q: %t, want %t", name, !want, want)
		}
	}
}
