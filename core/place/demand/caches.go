package demand

import "github.com/homenode/homenode/core/topology"

// CacheRoom is a last-level cache for shared work, and the work that it has.
type CacheRoom struct {
	ID   topology.CacheID
	CPUs int  // that shared work may use
	Load Load // of the work that is there
	Free bool // no work is kept there: work whose vCPUs it has fits, however many threads it has
}

// Fits reports whether a cache has CPUs for more work.
func (r *CacheRoom) Fits(more Load) bool {
	both := r.Load.Plus(more)
	if r.Free && both.Busy <= Fills*float64(r.CPUs) {
		return true
	}
	return both.Wants() <= float64(r.CPUs)+tiny
}

// room is the CPUs that the work of a cache leaves idle.
func (r *CacheRoom) room() float64 { return float64(r.CPUs) - r.Load.Wants() }

// ChooseCaches returns the fewest caches that have room for work which wants so many CPUs to run on: those with
// most room first and of equal ones the lowest; none where all together have not.
func ChooseCaches(rooms []CacheRoom, vcpus int, work Load) (in topology.CacheSet) {
	cpus := 0
	taken := make([]bool, len(rooms))
	for range rooms {
		best := -1
		for i := range rooms {
			if !taken[i] && rooms[i].room() > tiny && (best < 0 || rooms[i].room() > rooms[best].room()+tiny) {
				best = i
			}
		}
		if best < 0 {
			return topology.CacheSet{}
		}
		taken[best] = true
		cpus += rooms[best].CPUs
		in.Add(rooms[best].ID)
		if cpus >= vcpus && fitAll(rooms, taken, cpus, work) {
			return in
		}
	}
	return topology.CacheSet{}
}

// fitAll reports whether each of the caches that are taken has room for its part of some work, by its CPUs.
func fitAll(rooms []CacheRoom, taken []bool, cpus int, work Load) bool {
	for i := range rooms {
		if taken[i] && !rooms[i].Fits(work.Part(float64(rooms[i].CPUs)/float64(cpus))) {
			return false
		}
	}
	return true
}
