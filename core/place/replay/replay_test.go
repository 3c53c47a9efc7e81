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
		{"not JSON", small, "host:", "invalid character"},
		{"unknown key", `"name":"small",`, `"name":"small","nmae":1,`, `unknown field "nmae"`},
		{"no nodes", small, `{"name":"x","host":{},"events":[]}`, "no nodes"},
		{"negative CPU", `"cpus":[0,1,4,5]`, `"cpus":[0,1,4,-5]`, "node 0: CPU ID -5; want 0 to 65535"},
		{"CPU on two nodes", `"cpus":[2,3,6,7]`, `"cpus":[2,3,6,5]`, "node 1: CPUs 5 are on another node too"},
		{"node twice", `{"id":1`, `{"id":0`, "node 0 after node 0: IDs rise"},
		{"negative memory", `"mem_mib":4096},`, `"mem_mib":-1},`, "node 0: -1 MiB of memory"},
		{"slit too small", `[[10,21],[21,10]]`, `[[10,21]]`, "slit has 1 rows for 2 nodes"},
		{"slit ragged", `[[10,21],[21,10]]`, `[[10,21],[21]]`, "slit row 1 has 1 columns for 2 nodes"},
		{"unknown op", `"op":"depart","vm":"a"`, `"op":"resize","vm":"a"`, `event 3 (resize "a"): unknown op`},
		{"arrives twice", `"vm":"b"`, `"vm":"a"`, `event 2 (arrive "a"): it is there already`},
		{"no vCPUs", `"vcpus":4`, `"vcpus":0`, `event 2 (arrive "b"): 0 vcpus; want 1 or more`},
		{"negative size", `"vcpus":4,"mem_mib":1024`, `"vcpus":4,"mem_mib":-1024`, `-1024 MiB; want 0 or more`},
		{"unknown bandwidth", `"bw":"high"`, `"bw":"low"`, `bw "low"; want high`},
		{"unknown class", `"class":"shared"`, `"class":"best"`, `class "best"`},
		{"memory on no node", `"mem":{"1":1024}`, `"mem":{"x":1024}`, `mem "x"`},
		{"nameless", `"vm":"p"`, `"vm":""`, "no vm"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(strings.Replace(small, tt.old, tt.new, 1)))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

// FuzzRun: no case, however odd, makes the engine fail or break a rule.
func FuzzRun(f *testing.F) {
	f.Add(small)
	f.Add(strings.ReplaceAll(small, `"mem_mib":4096`, `"mem_mib":0`))
	f.Add(strings.ReplaceAll(small, `"cores":[[0,4],[1,5],[2,6],[3,7]]`, `"cores":[[0,4,2],[1,9]]`))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		st := plan.State{Host: c.Host, Policy: c.Policy}
		for i := range c.Events {
			if c.Events[i].Op == Preplace {
				return // preplaced work may break any rule by itself
			}
		}
		Run(c, Options{Answered: func(a *Answer, l *place.Ledger) error {
			if v := plan.Check(st, l.Placements()); v != nil {
				t.Fatalf("event %d: %v", a.I, v)
			}
			return nil
		}})
	})
}
