package replay

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
)

const small = `{"name":"small","host":{"name":"h","nodes":[
	{"id":0,"socket":0,"cpus":[0,1,4,5],"mem_mib":4096},
	{"id":1,"socket":1,"cpus":[2,3,6,7],"mem_mib":4096}],
	"cores":[[0,4],[1,5],[2,6],[3,7]],"l3":[[0,1,4,5],[2,3,6,7]],"slit":[[10,21],[21,10]],
	"reserved_cpus":[0],"devices":[{"id":"nic0","node":1}]},
	"events":[
	{"op":"preplace","vm":"p","cpus":[2,6],"mem":{"1":1024}},
	{"op":"arrive","vm":"a","vcpus":2,"mem_mib":1024,"dev":"nic0","t":0.5},
	{"op":"arrive","vm":"b","vcpus":4,"mem_mib":1024,"bw":"high"},
	{"op":"depart","vm":"a"},
	{"op":"depart","vm":"b"},
	{"op":"arrive","vm":"c","vcpus":2,"mem_mib":8192},
	{"op":"arrive","vm":"d","vcpus":1,"mem_mib":512,"class":"shared"}]}`

func TestRun(t *testing.T) {
	c, err := Read(strings.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	ticks := int64(0)
	err = Run(c, Options{
		Peer: "homenode",
		Now:  func() int64 { ticks += 7; return ticks },
		Answered: func(a *Answer, l *place.Ledger) error {
			line, err := json.Marshal(a)
			got = append(got, string(line))
			if v := plan.Check(plan.State{Host: c.Host, Policy: c.Policy}, l.Placements()); v != nil {
				t.Errorf("%s: %v", a.VM, v)
			}
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"peer":"homenode","case":"small","i":1,"vm":"a","op":"arrive","ok":true,"cpus":[3,7],"mem":{"1":1024},"ns":7}`,
		`{"peer":"homenode","case":"small","i":2,"vm":"b","op":"arrive","ok":false,"ns":7}`,
		`{"peer":"homenode","case":"small","i":5,"vm":"c","op":"arrive","ok":false,"ns":7}`,
		`{"peer":"homenode","case":"small","i":6,"vm":"d","op":"arrive","ok":true,"cpus":[1,4,5],"mem":{"0":512},"ns":7}`,
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

func TestReadRefuses(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"not JSON", small, "host:", "line 1 column 1: invalid character"},
		{"cut short", small, small[:len(small)-3], "the input ends here"},
		{"no object", small, "[]", "the case is an array; give an object"},
		{"more after", small, small + "{}", "after top-level value"},
		{"unknown key", `"name":"small",`, `"name":"small","nmae":1,`, `line 1 column 17: unknown key "nmae"; did you mean name?`},
		{"unknown key in an event", `"bw":"high"`, `"bandwidth":"high"`, `line 9 column 51: unknown key "bandwidth" in events[2]; known are op, vm,`},
		{"key twice", `"vcpus":4`, `"vcpus":4,"vcpus":8`, `key "vcpus" is there twice in events[2]; keep one`},
		{"no nodes", small, `{"name":"x","host":{},"events":[]}`, "host.nodes holds no node"},
		{"negative CPU", `"cpus":[0,1,4,5]`, `"cpus":[0,1,4,-5]`, "line 2 column 35: host.nodes[0].cpus[3] is -5; give 0 to 65535"},
		{"huge CPU", `"cpus":[0,1,4,5]`, `"cpus":[0,1,4,99999999]`, "is 99999999; give 0 to 65535"},
		{"CPU on two nodes", `"cpus":[2,3,6,7]`, `"cpus":[2,3,6,5]`, "host.nodes[1].cpus CPUs 5 are on another node too; give them to one"},
		{"CPU twice on a node", `"cpus":[2,3,6,7]`, `"cpus":[2,3,6,6]`, "host.nodes[1].cpus[3] CPU 6 is there twice"},
		{"node twice", `{"id":1`, `{"id":0`, "host.nodes[1].id is 0 after 0; IDs rise, and each is there once"},
		{"negative memory", `"mem_mib":4096},`, `"mem_mib":-1},`, "host.nodes[0].mem_mib is -1; give 0 to"},
		{"huge memory", `"mem_mib":4096},`, `"mem_mib":1e30},`, "host.nodes[0].mem_mib is 1e30; give a whole number"},
		{"core of an unknown CPU", `[[0,4],[1,5]`, `[[0,9],[1,5]`, "host.cores[0][1] CPU 9 is on no node"},
		{"CPU in two cores", `[[0,4],[1,5]`, `[[0,4],[1,4]`, "host.cores[1] CPUs 4 are in an earlier entry too"},
		{"slit too small", `[[10,21],[21,10]]`, `[[10,21]]`, "host.slit has 1 rows for 2 nodes; give one a node"},
		{"slit ragged", `[[10,21],[21,10]]`, `[[10,21],[21]]`, "host.slit[1] has 1 columns for 2 nodes; give one a node"},
		{"slit below zero", `[[10,21],[21,10]]`, `[[10,-21],[21,10]]`, "line 4 column 75: host.slit[0][1] is -21; give 1 to 255"},
		{"unknown CPU reserved", `"reserved_cpus":[0]`, `"reserved_cpus":[8]`, "host.reserved_cpus[0] CPU 8 is on no node"},
		{"device on no node", `"node":1}]`, `"node":2}]`, "host.devices[0].node there is no node 2"},
		{"device twice", `[{"id":"nic0","node":1}]`, `[{"id":"nic0","node":1},{"id":"nic0","node":0}]`, `host.devices[1].id "nic0" is there twice`},
		{"unknown op", `"op":"depart","vm":"a"`, `"op":"resize","vm":"a"`, `line 10 column 8: events[3].op is "resize"; give arrive, depart or preplace`},
		{"arrives twice", `"vm":"b"`, `"vm":"a"`, `events[2].vm "a" is there already`},
		{"departs without having come", `"op":"depart","vm":"a"`, `"op":"depart","vm":"z"`, `line 10 column 22: events[3].vm "z" is not there; it can depart only after it arrived`},
		{"departs twice", `"op":"depart","vm":"b"`, `"op":"depart","vm":"a"`, `events[4].vm "a" is not there`},
		{"no vCPUs", `"vcpus":4`, `"vcpus":0`, `events[2].vcpus is 0; give 1 to 65535`},
		{"half a vCPU", `"vcpus":4`, `"vcpus":4.5`, `events[2].vcpus is 4.5; give a whole number`},
		{"huge vCPUs", `"vcpus":4`, `"vcpus":1000000`, `events[2].vcpus is 1000000; give 1 to 65535`},
		{"negative size", `"vcpus":4,"mem_mib":1024`, `"vcpus":4,"mem_mib":-1024`, `events[2].mem_mib is -1024; give 0 to`},
		{"unknown bandwidth", `"bw":"high"`, `"bw":"low"`, `events[2].bw is "low"; give high or leave it out`},
		{"unknown class", `"class":"shared"`, `"class":"best"`, `events[6].class is "best"; give dedicated, shared or batch`},
		{"unknown device", `"dev":"nic0"`, `"dev":"nic1"`, `events[1].dev "nic1" is no device of this host`},
		{"negative time", `"t":0.5`, `"t":-0.5`, `events[1].t is -0.5; give 0 or more`},
		{"memory on no node", `"mem":{"1":1024}`, `"mem":{"x":1024}`, `events[0].mem.x is for a node that is not there`},
		{"memory on an unknown node", `"mem":{"1":1024}`, `"mem":{"2":1024}`, `line 7 column 52: events[0].mem[2] is for a node that is not there`},
		{"memory beyond the node", `"mem":{"1":1024}`, `"mem":{"1":5000}`, `events[0].mem[1] is 5000; give 0 to 4096`},
		{"memory on a node of two lines", `"mem":{"1":1024}`, `"mem":{"a\n":1024}`, `events[0].mem["a\n"] is for a node`},
		{"memory of a node twice", `"mem":{"1":1024}`, `"mem":{"1":1024,"1":1}`, `key "1" is there twice in events[0].mem`},
		{"preplaced on no CPU", `"cpus":[2,6],`, ``, `events[0] has no cpus`},
		{"preplaced on an unknown CPU", `"cpus":[2,6]`, `"cpus":[2,66]`, `events[0].cpus[1] CPU 66 is on no node`},
		{"preplaced on held CPUs", `{"op":"arrive","vm":"a"`, `{"op":"preplace","vm":"q","cpus":[6]},{"op":"arrive","vm":"a"`, `events[1].cpus CPUs 6 are held by another already`},
		{"nameless", `"vm":"p"`, `"vm":""`, "events[0].vm has no name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(strings.Replace(small, tt.old, tt.new, 1)))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
			oneLine(t, err)
		})
	}
}

func oneLine(t *testing.T, err error) {
	t.Helper()
	if err != nil && (strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "read case: line ")) {
		t.Errorf("want one line with a position: %q", err)
	}
}

// FuzzRun: no case, however odd, makes the engine fail or break a rule.
func FuzzRun(f *testing.F) {
	f.Add(small)
	f.Add(strings.ReplaceAll(small, `"mem_mib":4096`, `"mem_mib":0`))
	f.Add(strings.ReplaceAll(small, `"cores":[[0,4],[1,5],[2,6],[3,7]]`, `"cores":[[0,4,2]]`))
	f.Add(strings.ReplaceAll(small, `"vcpus":2`, `"vcpus":-2`))
	f.Add(strings.ReplaceAll(small, `"mem":{"1":1024}`, `"mem":{"1":99999999999999}`))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Read(strings.NewReader(text))
		if err != nil {
			oneLine(t, err)
			return
		}
		st := plan.State{Host: c.Host, Policy: c.Policy}
		var foreign bool // preplaced work may hold what we would never give
		for i := range c.Events {
			foreign = foreign || c.Events[i].CPUs.Intersects(c.Policy.Reserved)
		}
		Run(c, Options{Answered: func(a *Answer, l *place.Ledger) error {
			if v := plan.Check(st, l.Placements()); v != nil && !foreign {
				t.Fatalf("event %d: %v", a.I, v)
			}
			return nil
		}})
	})
}
