package runs

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// The journal of a user has what the living runs have set, part by part, and loses what was restored. What a
// version before 0.2 wrote is read too.
func TestJournal(t *testing.T) {
	s := &Source{Registry: &Registry{Dir: t.TempDir(), Boot: "boot", Processes: ended{}}, User: os.Geteuid()}
	os.Chmod(s.Dir, 0o700)
	now := map[int]topology.CPUSet{10: topology.CPUs(2), 11: topology.CPUs(3), 12: topology.CPUs(0, 1, 2, 3), 13: topology.CPUs(1)}
	s.Affinity = func(pid int) (topology.CPUSet, error) { return now[pid], nil }
	at := "/homenode.slice/homenode-13.scope"
	s.Cgroup = func(int) string { return at }
	s.Host = func() (*topology.Host, error) { return topology.FromSynthetic("node:1 core:4 pu:1") }
	put := func(pid int, run Run) workload.Process {
		run.Process, run.Had = workload.Process{PID: pid, Start: 7}, topology.CPUs(0, 1, 2, 3)
		run.Placement = workload.Placement{Workload: control.ProcessID(pid), Class: workload.Dedicated, CPUs: now[pid], Start: 7}
		if err := s.Put(run); err != nil {
			t.Fatal(err)
		}
		return run.Process
	}
	scoped := put(10, Run{Name: "a", Scope: &Scope{Unit: "homenode-10.scope", CPUs: topology.CPUs(2), Mems: topology.Nodes(0)}})
	put(11, Run{Name: "b", Ledger: true})
	restored := put(12, Run{Name: "c"})
	old := put(13, Run{Name: "d", Scope: &Scope{Unit: "homenode-13.scope", Batch: true, From: "/user.slice"}})
	file := filepath.Join(s.Dir, plan.ProcessPath(old))
	text, _ := os.ReadFile(file)
	before := bytes.Replace(text, []byte(`"batch":true`), []byte(`"offline":true`), 1)
	if err := os.WriteFile(file, before, 0o600); err != nil || bytes.Equal(before, text) {
		t.Fatalf("%s: %v", text, err)
	}
	entries := func(part Part) (out []string) {
		t.Helper()
		j, err := s.Open(part)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		for _, e := range j.Entries() {
			out = append(out, string(e.Kind)+" "+string(e.Workload)+" "+e.Path+" "+e.Old+" > "+e.New)
		}
		return out
	}
	for part, want := range map[Part][]string{
		Cgroups: {
			"AllowedMemoryNodes pid:10 homenode-10.scope  > 0", "AllowedCPUs pid:10 homenode-10.scope  > 2",
			"cgroup pid:13 13@7 homenode-13-online.scope > homenode-13.scope",
		},
		Affinities: {"affinity pid:10 10@7 0-3 > 2", "affinity pid:13 13@7 0-3 > 1"},
		Every:      {"affinity pid:10 10@7 0-3 > 2", "affinity pid:11 11@7 0-3 > 3", "affinity pid:13 13@7 0-3 > 1"},
	} {
		got := entries(part)
		if len(got) != len(want) {
			t.Errorf("part %d: %q", part, got)
			continue
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("part %d: %q, want %q", part, got[i], want[i])
			}
		}
		for _, a := range s.Own(part) { // an undo takes what a command had for an entry: it must be one
			has := false
			for _, text := range want {
				has = has || text == "affinity "+string(a.Placement.Workload)+" "+plan.ProcessPath(a.Process)+" 0-3 > "+a.Placement.CPUs.String()
			}
			if has == a.Had.Empty() {
				t.Errorf("part %d: %s had %q", part, a.Placement.Workload, a.Had)
			}
		}
	}
	for name, want := range map[workload.ID]workload.ID{"homenode-10": "pid:10", "homenode-13.scope": "pid:13", "pid:77": "pid:77", "a": "", "12": "12"} {
		if got, ok := s.Named(name); got != want || ok != (want != "") {
			t.Errorf("%s means %q", name, got)
		}
	}
	seen, err := Observer{s}.Look(context.Background(), control.Attention{})
	if err != nil || len(seen.Observations) != 4 || seen.Observations[2].Name != "c" || seen.Observations[2].Processes[0] != restored {
		t.Errorf("%+v, %v", seen.Observations, err)
	}

	at = "/user.slice"
	if got := entries(Cgroups); len(got) != 2 {
		t.Errorf("batch work that is in no cgroup of its own: %q", got)
	}
	at = "/homenode-13.scope"
	j, err := s.Open(Cgroups)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range j.Entries() {
		if err := j.Restored(e); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	if got := entries(Cgroups); got != nil {
		t.Errorf("restored, and it still has %q", got)
	}
	if got := entries(Every); len(got) != 3 {
		t.Errorf("the affinities are %q", got)
	}
	if j, err = s.Open(Every); err != nil {
		t.Fatal(err)
	}
	if err := j.Restored(j.Entries()[0]); err != nil {
		t.Fatal(err)
	}
	j.Close()
	if _, err := s.read(plan.ProcessPath(scoped)); !os.IsNotExist(err) {
		t.Errorf("it holds nothing any more, and its file is there: %v", err)
	}
}

// An undo of one workload takes that run off the registry, and no other: those still hold what they have booked.
func TestForget(t *testing.T) {
	all := topology.CPUs(0, 1)
	for _, c := range []struct {
		name  string
		which control.Which
		part  Part
		want  []int
	}{
		{"one", control.Which{ID: "pid:10"}, Affinities, []int{11, 12}},
		{"one that it still holds CPUs of", control.Which{ID: "pid:12"}, Affinities, []int{10, 11, 12}},
		{"one that is not known", control.Which{}, Affinities, []int{10, 11, 12}},
		{"all", control.Which{All: true}, Every, []int{12}},
		{"dry", control.Which{All: true, DryRun: true}, Every, []int{10, 11, 12}},
		{"cgroups", control.Which{All: true}, Cgroups, []int{10, 11, 12}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Source{Registry: &Registry{Dir: t.TempDir(), Boot: "boot", Processes: ended{}}, User: os.Geteuid()}
			os.Chmod(s.Dir, 0o700)
			now := map[int]topology.CPUSet{10: all, 11: all, 12: topology.CPUs(0)}
			for pid, cpus := range now {
				p := workload.Process{PID: pid, Start: 7}
				placed := workload.Placement{Workload: control.ProcessID(pid), CPUs: cpus, Start: 7}
				if err := s.Put(Run{Process: p, Had: all, Placement: placed}); err != nil {
					t.Fatal(err)
				}
			}
			s.Forget(c.which, c.part, func(pid int) (topology.CPUSet, error) { return now[pid], nil })
			var got []int
			for _, run := range s.Living() {
				got = append(got, run.Process.PID)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("left are %v, want %v", got, c.want)
			}
		})
	}
}
