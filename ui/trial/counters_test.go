package trial

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/workload"
)

// fakeCycles counts 3 cycles for 2 instructions, and a third of the cycles stalled.
type fakeCycles struct {
	stalls bool
	n      float64
	closed *int
}

func (f *fakeCycles) Stalls() bool { return f.stalls }

func (f *fakeCycles) Read() (cycles, instructions, stalled, stalledOf float64, err error) {
	f.n++
	cycles, instructions = 300*f.n, 200*f.n
	if f.stalls {
		stalled, stalledOf = 100*f.n, 300*f.n
	}
	return cycles, instructions, stalled, stalledOf, nil
}

func (f *fakeCycles) Close() error { *f.closed++; return nil }

func names(all []trial.Metric) (out []string) {
	for _, m := range all {
		out = append(out, m.Name)
	}
	return out
}

func TestCyclesOfTheHost(t *testing.T) {
	closed, opened := 0, 0
	c := &Counters{Root: fstest.MapFS{}, Now: time.Now, Status: func(context.Context) (api.Status, error) { return api.Status{}, nil },
		Cycles: func(cgroups []string) (CycleCounter, error) {
			if opened++; len(cgroups) > 0 {
				t.Errorf("opened for %v", cgroups)
			}
			return &fakeCycles{stalls: true, closed: &closed}, nil
		}}
	metrics, sources := c.All(t.Context(), 1)
	if want := []string{"ipc", "stalled"}; !slices.Equal(names(metrics), want) {
		t.Fatalf("counters %v, want %v", names(metrics), want)
	}
	for i, want := range []float64{2. / 3, 1. / 3} {
		if v, ok, err := sources[i].Read(t.Context()); v != want || !ok || err != nil {
			t.Errorf("%s: %v, %v, %v; want %v", metrics[i].Name, v, ok, err, want)
		}
	}
	if c.Close(); opened != 1 || closed != 1 {
		t.Errorf("opened %d times, closed %d times", opened, closed)
	}
}

// A CPU without a counter of stalled cycles has the other one; a guest without counters has none.
func TestCyclesThatAreNotThere(t *testing.T) {
	closed := 0
	status := func(context.Context) (api.Status, error) { return api.Status{}, nil }
	c := &Counters{Root: fstest.MapFS{}, Now: time.Now, Status: status, Cycles: func([]string) (CycleCounter, error) { return &fakeCycles{closed: &closed}, nil }}
	if metrics, _ := c.All(t.Context(), 1); !slices.Equal(names(metrics), []string{"ipc"}) {
		t.Errorf("%v", names(metrics))
	}
	c.Cycles = func([]string) (CycleCounter, error) { return nil, errors.New("no such event") }
	if metrics, _ := c.All(t.Context(), 1); len(metrics) > 0 {
		t.Errorf("%v", names(metrics))
	}
}

// Counters follow the workloads: when one comes or goes they are opened again, and the reading
// that would span both is left out.
func TestCyclesFollowWorkloads(t *testing.T) {
	var opened [][]string
	closed := 0
	now := time.Unix(1, 0)
	all := []api.Workload{{ID: "/b", Name: "b", Kind: workload.InCgroup, Cgroup: "/b"}, {ID: "/a", Name: "a", Kind: workload.InCgroup, Cgroup: "/a"},
		{ID: "pid:7", Name: "c", Kind: workload.InProcess, Cgroup: "/shared"}}
	c := &Counters{Root: fstest.MapFS{}, Now: func() time.Time { return now }, Names: []string{"a", "b", "c"},
		Status: func(context.Context) (api.Status, error) { return api.Status{Workloads: all}, nil },
		Cycles: func(cgroups []string) (CycleCounter, error) {
			opened = append(opened, cgroups)
			return &fakeCycles{closed: &closed}, nil
		}}
	c.executed = &executed{c: c}
	r := &ratio{executed: c.executed}
	read := func(want bool) {
		t.Helper()
		now = now.Add(time.Second)
		if _, ok, err := r.Read(t.Context()); ok != want || err != nil {
			t.Errorf("read %v, %v; want %v", ok, err, want)
		}
	}
	read(false)
	read(true)
	all = all[1:]
	read(false)
	read(true)
	if want := [][]string{{"/a", "/b"}, {"/a"}}; !slices.EqualFunc(opened, want, slices.Equal) || closed != 1 {
		t.Errorf("opened %v, %d closed; want %v", opened, closed, want)
	}
	all = all[1:]
	now = now.Add(time.Second)
	if _, _, err := r.Read(t.Context()); !errors.Is(err, errShared) {
		t.Errorf("without a cgroup of its own: %v", err)
	}
}
