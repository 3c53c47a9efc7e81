package homes

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/workload"
)

// host returns homes on a host of two nodes with eight CPUs each, on which nothing runs.
func host(t testing.TB) *Homes {
	t.Helper()
	h := New(nil, nil, nil)
	h.Facts = plan.State{Host: plantest.Grid(2, 8, 1, 16*plantest.GiB, func(i, j int) int {
		if i == j {
			return 10
		}
		return 20
	}), Policy: plan.DefaultPolicy()}
	return &h
}

// run returns a request of a process with two vCPUs.
func run(pid int) *Placing {
	return &Placing{
		PlaceRequest: &PlaceRequest{Process: workload.Process{PID: pid, Start: uint64(pid)}},
		As: workload.Spec{
			ID: scene.ProcessID(pid), Name: "job", Class: workload.Shared,
			CPUs: 2, Memory: 4 << 10, Given: true,
		},
	}
}

func placed(t testing.TB, h *Homes, pid int) Result {
	t.Helper()
	r := h.Place(&Now{}, run(pid))
	if r.Refused != nil {
		t.Fatalf("%d: %s", pid, r.Refused.Why)
	}
	return r
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPlacementsStand: a reader's placements stay as they were whatever is asked later.
func TestPlacementsStand(t *testing.T) {
	h := host(t)
	placed(t, h, 1)
	placed(t, h, 2)
	all, why := h.Placements(), h.Decisions()
	saved := h.SavePlacements()
	was := []string{asJSON(t, all), asJSON(t, saved)}
	placed(t, h, 3)
	h.Exited(&Now{}, []workload.Process{{PID: 1, Start: 1}}, nil)
	h.Live(&Scanned{}, &Scanned{}, 1, h.Admissions[scene.ProcessID(2)].Until)
	if diff := cmp.Diff(was, []string{asJSON(t, all), asJSON(t, saved)}); diff != "" {
		t.Errorf("(-was +now):\n%s", diff)
	}
	if _, ok := why.Of(scene.ProcessID(3)); ok {
		t.Error("an older answer has a newer decision")
	}
	if n := len(h.Placements()); n != 2 {
		t.Errorf("%d placements", n)
	}
}

// TestAdmittedIsWhatIsKept: what was saved last is what is kept, after any change.
func TestAdmittedIsWhatIsKept(t *testing.T) {
	h := host(t)
	disk := map[workload.ID]Admission{}
	write := func(s Save) {
		if s.Admissions != nil {
			disk = map[workload.ID]Admission{}
			if err := json.Unmarshal([]byte(asJSON(t, s.Admissions)), &disk); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(what string) {
		t.Helper()
		if diff := cmp.Diff(asJSON(t, h.Admissions), asJSON(t, disk)); diff != "" {
			t.Errorf("%s (-kept +saved):\n%s", what, diff)
		}
		admitted := h.Admitted()
		now := admitted.All()
		for id := range h.Admissions {
			if _, ok := now[id]; !ok {
				t.Errorf("%s: %s is not among those saved", what, id)
			}
		}
	}
	for pid := 1; pid <= 7; pid++ {
		write(placed(t, h, pid).Save)
		check(fmt.Sprint("placed ", pid))
	}
	write(h.Exited(&Now{}, []workload.Process{{PID: 3, Start: 3}, {PID: 4, Start: 40}}, nil))
	check("exited")
	if len(h.Admissions) != 6 {
		t.Errorf("%d are kept: of another process with the PID", len(h.Admissions))
	}
	hold := run(0)
	hold.As.ID, hold.Hold = "/soon", 1
	write(h.Place(&Now{}, hold).Save)
	check("held")
	write(h.Release("/soon"))
	check("released")
}

// TestOneMoreCopiesNothing: what one home more costs does not grow with how many there are.
func TestOneMoreCopiesNothing(t *testing.T) {
	const times = 50
	h := host(t)
	h.Facts.Policy.Overcommit = 10000
	for pid := 1; pid <= 2000; pid++ {
		id := scene.ProcessID(pid)
		h.Admissions[id] = Admission{Placement: workload.Placement{Workload: id}}
		h.Plan.Placements = append(h.Plan.Placements, workload.Placement{Workload: id})
	}
	slices.SortFunc(h.Plan.Placements, ByWorkload)
	h.SaveAdmissions()
	placed(t, h, 5000) // makes the ledger
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for pid := range times {
		placed(t, h, 6000+pid)
	}
	runtime.ReadMemStats(&after)
	bytes := (after.TotalAlloc - before.TotalAlloc) / times
	copied := 2000 * uint64(unsafe.Sizeof(workload.Placement{}))
	if bytes > copied/4 {
		t.Errorf("one home more takes %d bytes; a copy of all homes has %d", bytes, copied)
	}
}
