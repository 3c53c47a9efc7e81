package see

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/workload"
)

func TestRows(t *testing.T) {
	share := func(x float64) *float64 { return &x }
	all := api.Status{
		Workloads: []api.Workload{
			{ID: "/a.service", Name: "a", Kind: workload.InCgroup, Cgroup: "/a.service", Class: workload.Shared, Home: "1", CPUUse: 1, MemoryKiB: 30, Locality: share(0.9), State: api.StateAtHome, Processes: []int{5, 6}},
			{ID: "pid:7", Name: "walker", Kind: workload.InProcess, Cgroup: "/user.slice", Class: workload.Batch, CPUUse: 3, MemoryKiB: 20, State: api.StateLeftAlone, Processes: []int{7}},
			{ID: "pid:8", Name: "walker", Kind: workload.InProcess, Cgroup: "/user.slice", Class: workload.Dedicated, Home: "0,2", CPUUse: 2, MemoryKiB: 10, Locality: share(0.1), State: api.StateMoving, Processes: []int{8}},
		},
	}
	for name, c := range map[string]struct {
		rows rows
		want string
	}{
		"all":             {rows{}, "/a.service pid:7 pid:8"},
		"by CPU":          {rows{sort: "cpu"}, "pid:7 pid:8 /a.service"},
		"by memory":       {rows{sort: "memory"}, "/a.service pid:7 pid:8"},
		"least local":     {rows{sort: "local"}, "pid:8 /a.service pid:7"},
		"by name":         {rows{sort: "name"}, "/a.service pid:7 pid:8"},
		"by home":         {rows{sort: "home"}, "pid:8 /a.service pid:7"},
		"by state":        {rows{sort: "state"}, "/a.service pid:7 pid:8"},
		"strongest class": {rows{sort: "class"}, "pid:8 /a.service pid:7"},
		"of a class":      {rows{classes: []string{"shared", "batch"}}, "/a.service pid:7"},
		"on a node":       {rows{home: "2-3"}, "pid:8"},
		"in a state":      {rows{states: []string{api.StateLeftAlone}}, "pid:7"},
		"by pattern":      {rows{glob: "walk*"}, "pid:7 pid:8"},
		"by unit pattern": {rows{glob: "*.service"}, "/a.service"},
		"of one name":     {rows{names: []string{"walker", "6"}}, "/a.service pid:7 pid:8"},
		"by a member":     {rows{names: []string{"6"}}, "/a.service"},
		"of two criteria": {rows{names: []string{"walker"}, classes: []string{"batch"}}, "pid:7"},
		"nothing fits":    {rows{glob: "x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.rows.check(); err != nil {
				t.Fatal(err)
			}
			s, err := c.rows.of(t.Context(), nil, all)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, w := range s.Workloads {
				ids = append(ids, string(w.ID))
			}
			if got := strings.Join(ids, " "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	for _, key := range SortKeys {
		if orders[key] == nil {
			t.Errorf("no order %q", key)
		}
	}
	if len(orders) != len(SortKeys) {
		t.Error("help does not list all orders")
	}
}
