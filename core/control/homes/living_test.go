package homes

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// world is the running workloads with the start times of their processes, 0 for others.
type world map[workload.ID]uint64

// scan returns a scan of a world.
func (w world) scan() *Scanned {
	s := &Scanned{}
	for _, id := range sortedKeys(w) {
		s.Observations = append(s.Observations, workload.Observation{ID: id})
		s.Lives = append(s.Lives, workload.Life{ID: id, Start: w[id]})
	}
	return s
}

// same reports whether the same thing runs under an ID in both.
func (w world) same(id workload.ID, start uint64) bool {
	now, ok := w[id]
	return ok && now == start
}

var fewIDs = []workload.ID{"/a", "/b", "pid:1", "pid:2", "pid:3", "pid:4"}

func drawWorld(t *rapid.T, name string) world {
	w := world{}
	for _, id := range fewIDs {
		if rapid.Bool().Draw(t, name+string(id)) {
			w[id] = rapid.Uint64Range(1, 2).Draw(t, "start")
		}
	}
	return w
}

// changed draws a world in which one thing is another one, runs or does not.
func (w world) changed(t *rapid.T) world {
	w = maps.Clone(w)
	id := rapid.SampledFrom(fewIDs).Draw(t, "changed")
	start := rapid.Uint64Range(0, 2).Draw(t, "start")
	if w[id] = start; start == 0 {
		delete(w, id)
	}
	return w
}

// drawHomes has homes, admissions and affinities of some workloads.
func drawHomes(t *rapid.T, h *Homes, scan uint64) {
	h.Plan.Placements = nil
	for i, id := range fewIDs {
		if rapid.Bool().Draw(t, "has a home") {
			h.Plan.Placements = append(h.Plan.Placements, workload.Placement{Workload: id, Start: rapid.Uint64Range(1, 2).Draw(t, "start")})
		}
		if rapid.IntRange(0, 3).Draw(t, "is given") == 0 {
			h.Give(id, topology.CPUs(1))
		}
		a := Admission{Placement: workload.Placement{Workload: id, VCPUs: 9}, Scan: scan - rapid.Uint64Range(0, 2).Draw(t, "scans ago")}
		switch rapid.IntRange(0, 5).Draw(t, "admitted") {
		case 0:
			a.Process = workload.Process{PID: max(1, i-1), Start: rapid.Uint64Range(1, 2).Draw(t, "start")}
			h.Admissions[id] = a
		case 1:
			a.Until = time.Unix(rapid.Int64Range(99, 101).Draw(t, "until"), 0)
			h.Admissions[id] = a
		}
	}
}

// TestLive: Live keeps a home while its workload runs with the same start time, or while no scan could have seen it.
// A hold becomes the home of its workload, or ends with its time.
func TestLive(t *testing.T) {
	at := time.Unix(100, 0)
	rapid.Check(t, func(t *rapid.T) {
		h := New(nil, nil, nil)
		before := drawWorld(t, "before ")
		for seen := uint64(5); seen < 5+uint64(rapid.IntRange(1, 6).Draw(t, "scans")); seen++ {
			if rapid.Bool().Draw(t, "something came") {
				drawHomes(t, &h, seen)
			}
			after := before.changed(t)
			if rapid.Bool().Draw(t, "much has changed") {
				after = drawWorld(t, "after ")
			}
			placements, admissions, given := h.Placements(), maps.Clone(h.Admissions), maps.Clone(h.Given)
			l := h.Live(before.scan(), after.scan(), seen, at)

			fresh := func(id workload.ID) bool { a := admissions[id]; return a.Process.PID > 0 && a.Scan >= seen }
			var want []workload.Placement
			homes, another, left := map[workload.ID]bool{}, map[workload.ID]bool{}, []workload.ID{}
			for _, p := range placements {
				if after.same(p.Workload, p.Start) || fresh(p.Workload) {
					want = append(want, p)
					homes[p.Workload] = true
				} else if _, here := after[p.Workload]; here {
					another[p.Workload] = true
				}
			}
			for _, id := range sortedKeys(before) {
				if _, here := after[id]; !here {
					left = append(left, id)
				} else if after[id] != before[id] {
					another[id] = true
				}
			}
			kept := map[workload.ID]Admission{}
			for id, a := range admissions {
				_, here := after[id]
				switch {
				case fresh(id):
					kept[id] = a
				case a.Process.PID > 0:
					if after.same(id, a.Process.Start) {
						kept[id] = a
					} else {
						delete(given, id)
					}
				case !here:
					if at.Before(a.Until) {
						kept[id] = a
					}
				case !homes[id]:
					want = append(want, a.Placement)
				}
			}
			slices.SortFunc(want, ByWorkload)
			gone := func(id workload.ID) bool {
				_, here := after[id]
				return (another[id] || !here) && !fresh(id)
			}
			for _, id := range fewIDs {
				if l.Gone(id) != gone(id) || l.Another[id] != another[id] {
					t.Fatalf("%s: gone %v, want %v; another %v, want %v", id, l.Gone(id), gone(id), l.Another[id], another[id])
				}
			}
			maps.DeleteFunc(given, func(id workload.ID, _ topology.CPUSet) bool { return gone(id) })
			got := []workload.ID{}
			for _, o := range l.Left {
				got = append(got, o.ID)
			}
			if !slices.Equal(got, left) || l.Admissions != (len(kept) != len(admissions)) {
				t.Fatalf("left %v, want %v; admissions ended: %v", got, left, l.Admissions)
			}
			if diff := cmp.Diff(kept, h.Admissions); diff != "" {
				t.Fatalf("admissions (-want +got):\n%s", diff)
			}
			if !slices.Equal(sortedKeys(given), sortedKeys(h.Given)) {
				t.Fatalf("given %v, want %v", sortedKeys(h.Given), sortedKeys(given))
			}
			if l.Placements == nil || !slices.EqualFunc(l.Placements, want, func(x, y workload.Placement) bool { return samePlacement(x, y) }) {
				t.Fatalf("placements %+v, want %+v", l.Placements, want)
			}
			if slices.EqualFunc(want, placements, samePlacement) && len(want) > 0 && len(kept) == len(admissions) && &l.Placements[0] != &placements[0] {
				t.Fatal("copied for nothing")
			}
			h.Plan.Placements = l.Placements
			before = after
		}
	})
}

// TestGivenEndsWithWhatHasIt: the note of a given affinity ends with its process, also if another admission has the
// ID.
func TestGivenEndsWithWhatHasIt(t *testing.T) {
	scans := func(h *Homes, of ...world) {
		before := world{}
		for i, after := range of {
			h.Live(before.scan(), after.scan(), uint64(5+i), time.Unix(100, 0))
			before = after
		}
	}
	h := New(nil, nil, nil)
	h.Give("/a", topology.CPUs(1))
	h.Give("/b", topology.CPUs(1))
	scans(&h, world{"/a": 0, "/b": 0}, world{"/a": 0, "/b": 0}, world{"/b": 0})
	if got := sortedKeys(h.Given); !slices.Equal(got, []workload.ID{"/b"}) {
		t.Errorf("one of two left: %v", got)
	}
	h.Give("/a", topology.CPUs(1))
	scans(&h, world{"/a": 1, "/b": 0}, world{"/a": 1, "/b": 0}, world{"/a": 2, "/b": 0})
	if got := sortedKeys(h.Given); !slices.Equal(got, []workload.ID{"/b"}) {
		t.Errorf("one of two is another process: %v", got)
	}
	h.Give("pid:4", topology.CPUs(1))
	h.Admissions["pid:4"] = Admission{Process: workload.Process{PID: 4, Start: 4}, Scan: 5}
	scans(&h, world{"/b": 0})
	if len(h.Given) != 2 {
		t.Errorf("just started: %v", sortedKeys(h.Given))
	}
	h.Admissions["pid:4"] = Admission{Until: time.Unix(200, 0)} // something else under its ID
	h.Live(world{"/b": 0}.scan(), world{"/b": 0}.scan(), 6, time.Unix(100, 0))
	if got := sortedKeys(h.Given); !slices.Equal(got, []workload.ID{"/b"}) {
		t.Errorf("it never came: %v", got)
	}
}

// TestStartTimes: homes get the start times of the scan, and the list of earlier readers does not change.
func TestStartTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, "")
		var placements, want []workload.Placement
		for _, id := range fewIDs {
			if rapid.Bool().Draw(t, "has a home") {
				p := workload.Placement{Workload: id, Start: rapid.Uint64Range(0, 2).Draw(t, "start")}
				placements = append(placements, p)
				if start, ok := w[id]; ok {
					p.Start = start
				}
				want = append(want, p)
			}
		}
		was := slices.Clone(placements)
		got := WithStartTimes(placements, w.scan())
		if !slices.EqualFunc(got, want, samePlacement) || !slices.EqualFunc(placements, was, samePlacement) {
			t.Fatalf("%+v, want %+v; those before %+v", got, want, placements)
		}
		if slices.EqualFunc(was, want, samePlacement) && len(was) > 0 && &got[0] != &placements[0] {
			t.Fatal("copied for nothing")
		}
	})
}
