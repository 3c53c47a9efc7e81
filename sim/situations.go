package sim

import (
	"fmt"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// evenLoad is guests that keep every node half busy.
func (s *scenario) evenLoad() {
	s.guests(4, func(int) Demand { return guest(2, s.about(0.5), s.gib(4)) })
	s.trace.Until = 30 * time.Minute
}

// idleMany is many guests that do next to nothing.
func (s *scenario) idleMany() {
	s.guests(10, func(int) Demand { return guest(2, s.about(0.01), s.gib(1)) })
	s.trace.Until = 20 * time.Minute
}

// loadShift is calm guests, until those of one node all want everything and the
// others nearly nothing.
func (s *scenario) loadShift() {
	all := s.guests(4, func(int) Demand { return guest(4, s.about(0.3), s.gib(4)) })
	for k, d := range all {
		busy := s.about(0.1)
		if k%s.nodes == 0 {
			busy = 1
		}
		s.load(3*time.Minute, k, d, busy)
	}
	s.trace.Until = 30 * time.Minute
}

// dayAndNight is loads that change every twenty minutes or so, some at a time.
func (s *scenario) dayAndNight() {
	all := s.guests(4, func(int) Demand { return guest(4, s.about(0.3), s.gib(4)) })
	for at := 5 * time.Minute; at < time.Hour; at += time.Duration(s.about(20) * float64(time.Minute)) {
		hot := s.random.IntN(s.nodes)
		for k, d := range all {
			busy := s.about(0.15)
			if k%s.nodes == hot {
				busy = s.about(0.85)
			}
			s.load(at+time.Duration(s.random.IntN(60))*time.Second, k, d, busy)
		}
	}
	s.trace.Until = time.Hour
}

// important is a found guest of importance 90.
func (s *scenario) important(vcpus int, busy float64, memory topology.KiB) {
	d := guest(vcpus, busy, memory)
	d.Importance, d.Asks = 90, false
	s.add(0, Arrive, "important", d)
}

// noisyNeighbour is an important guest whose neighbours begin to want every CPU.
func (s *scenario) noisyNeighbour() {
	s.important(4, 0.7, s.gib(6))
	all := s.guests(3, func(int) Demand { return guest(4, s.about(0.2), s.gib(3)) })
	for k, d := range all {
		if k%s.nodes == 0 {
			s.load(3*time.Minute, k, d, s.about(0.9))
		} else {
			s.load(3*time.Minute, k, d, s.about(0.1))
		}
	}
	s.trace.Until = 30 * time.Minute
}

// bandwidthHogs is guests of which two a node begin to stream on some nodes, on
// a machine that counts memory traffic.
func (s *scenario) bandwidthHogs() {
	s.trace.Counters = true
	s.important(2, 0.7, s.gib(4))
	all := s.guests(3, func(int) Demand { return guest(2, s.about(0.6), s.gib(3)) })
	for k, d := range all {
		if k%s.nodes == 0 {
			d.Bandwidth = int64(s.about(110_000))
			s.add(3*time.Minute, Change, fmt.Sprintf("g%d", k), d)
		}
	}
	s.trace.Until = 30 * time.Minute
}

// memoryShortage is guests one of which grows until its node is full.
func (s *scenario) memoryShortage() {
	all := s.guests(3, func(int) Demand { return guest(2, s.about(0.5), s.gib(6)) })
	for step := range 18 {
		d := all[0]
		d.Memory += topology.KiB(step+1) << 20
		s.add(3*time.Minute+time.Duration(step)*time.Minute, Change, "g0", d)
	}
	s.trace.Until = 45 * time.Minute
}

// swap is nodes so full of memory that nothing more fits on any; two guests get
// busy, all others calm. Half of the seeds take two that share a node where guests
// go by load, half two that share one where they go in order.
func (s *scenario) swap() {
	all := s.guests(2, func(int) Demand { return guest(8, s.about(0.3), 14<<20) })
	other := s.nodes
	if s.random.IntN(2) == 0 {
		other = 1
	}
	for k, d := range all {
		busy := 0.1
		if k == 0 || k == other {
			busy = s.about(0.85)
		}
		s.load(3*time.Minute, k, d, busy)
	}
	s.trace.Until = 30 * time.Minute
}

// pingPong is two groups of guests that take turns every minute: whoever follows
// the load moves all day.
func (s *scenario) pingPong() {
	all := s.guests(4, func(int) Demand { return guest(4, s.about(0.3), s.gib(4)) })
	for turn := range 55 {
		for k, d := range all {
			busy := 0.1
			if k%s.nodes == turn%2 {
				busy = 0.9
			}
			s.load(5*time.Minute+time.Duration(turn)*time.Minute, k, d, busy)
		}
	}
	s.trace.Until = time.Hour
}

// heavyMigrant is a guest with most of a node's memory between small ones; when
// the node gets crowded the small ones should go.
func (s *scenario) heavyMigrant() {
	heavy := guest(4, 0.4, 22<<20)
	s.add(0, Arrive, "heavy", heavy)
	all := s.guests(3, func(int) Demand { return guest(4, s.about(0.3), s.gib(1.5)) })
	for k, d := range all {
		busy := 0.1
		if k%s.nodes == 1 {
			busy = 0.95
		}
		s.load(3*time.Minute, k, d, busy)
	}
	heavy.Busy = 0.9
	s.add(3*time.Minute, Change, "heavy", heavy)
	s.trace.Until = 30 * time.Minute
}

// wideGuest is a guest wider than a node that gets busy beside others.
func (s *scenario) wideGuest() {
	wide := guest(12, 0.3, s.gib(16))
	s.add(0, Arrive, "wide", wide)
	all := s.guests(2, func(int) Demand { return guest(4, s.about(0.4), s.gib(3)) })
	wide.Busy = 0.95
	s.add(3*time.Minute, Change, "wide", wide)
	for k, d := range all {
		s.load(3*time.Minute, k, d, s.about(0.2))
	}
	s.trace.Until = 30 * time.Minute
}

// fullHouse is every node asked for a third more CPU than it has, all alike.
func (s *scenario) fullHouse() {
	s.guests(4, func(int) Demand { return guest(4, 0.66, s.gib(4)) })
	s.trace.Until = 30 * time.Minute
}

// slowRamp is calm guests, of which those of one node want more every minute.
func (s *scenario) slowRamp() {
	all := s.guests(4, func(int) Demand { return guest(4, s.about(0.25), s.gib(4)) })
	for k, d := range all {
		for step := range 18 {
			if k%s.nodes == 0 {
				s.load(time.Duration(step+3)*time.Minute, k, d, s.about(0.25+0.035*float64(step+1)))
			}
		}
	}
	s.trace.Until = 40 * time.Minute
}

// shortSpikes is half busy guests, of which as many as a node has, drawn anew each
// minute, want everything for about eight seconds.
func (s *scenario) shortSpikes() {
	all := s.guests(4, func(int) Demand { return guest(4, s.about(0.25), s.gib(4)) })
	for at := 3 * time.Minute; at < 30*time.Minute; at += time.Minute {
		for _, k := range s.random.Perm(len(all))[:4] {
			s.load(at, k, all[k], 0.9)
			s.load(at+time.Duration(s.about(8)*float64(time.Second)), k, all[k], all[k].Busy)
		}
	}
	s.trace.Until = 32 * time.Minute
}

// shortLived is two steady guests a node, and between them a stream of busy ones
// that live for a minute or two.
func (s *scenario) shortLived() {
	s.guests(2, func(int) Demand { return guest(4, s.about(0.25), s.gib(4)) })
	every := 40 * time.Second / time.Duration(s.nodes)
	for k := range int(25 * time.Minute / every) {
		at, name := 2*time.Minute+time.Duration(k)*every, fmt.Sprintf("batch%d", k)
		life := min(10*time.Minute, time.Duration(s.random.ExpFloat64()*90*float64(time.Second))+5*time.Second)
		s.add(at, Arrive, name, guest(2, s.about(0.9), s.gib(1)))
		s.add(at+life, Depart, name, Demand{})
	}
	s.trace.Until = 30 * time.Minute
}

// arrivalBurst is calm guests, to which three a node more come within ten seconds,
// unequally busy, for ten minutes.
func (s *scenario) arrivalBurst() {
	s.guests(2, func(int) Demand { return guest(4, s.about(0.2), s.gib(4)) })
	for k := range 3 * s.nodes {
		at := 3*time.Minute + time.Duration(s.random.IntN(10_000))*time.Millisecond
		name := fmt.Sprintf("burst%d", k)
		s.add(at, Arrive, name, guest(4, 0.2+0.6*s.random.Float64(), s.gib(3)))
		s.add(at+time.Duration(s.about(10)*float64(time.Minute)), Depart, name, Demand{})
	}
	s.trace.Until = 20 * time.Minute
}

// departures is a well used machine from which all go but the guests of one node,
// and those then want more than their node has.
func (s *scenario) departures() {
	all := s.guests(4, func(int) Demand { return guest(4, s.about(0.4), s.gib(4)) })
	for k, d := range all {
		if k%s.nodes == 0 {
			s.load(5*time.Minute, k, d, s.about(0.75))
		} else {
			s.add(3*time.Minute+time.Duration(s.random.IntN(60))*time.Second, Depart, fmt.Sprintf("g%d", k), Demand{})
		}
	}
	s.trace.Until = 30 * time.Minute
}

// foundRunning is guests that nobody places: they run, and lie, where the kernel
// put them.
func (s *scenario) foundRunning() {
	s.guests(4, func(int) Demand {
		d := guest(4, s.about(0.35), s.gib(4))
		d.Asks = false
		return d
	})
	s.trace.Until = 30 * time.Minute
}

// importantPressed is an important guest that begins to want all of its CPUs on a
// machine that is busy everywhere, and most so around it.
func (s *scenario) importantPressed() {
	s.important(4, 0.3, s.gib(6))
	all := s.guests(3, func(int) Demand { return guest(4, s.about(0.3), s.gib(3)) })
	d := guest(4, 0.95, 0)
	d.Importance, d.Memory = 90, s.events[0].Demand.Memory
	s.add(3*time.Minute, Change, "important", d)
	for k, d := range all {
		busy := s.about(0.35)
		if k%s.nodes == 0 {
			busy = s.about(0.6)
		}
		s.load(3*time.Minute, k, d, busy)
	}
	s.trace.Until = 30 * time.Minute
}

// importantUntold is an important guest of which nobody has said so: it wakes up often and runs
// briefly. Then its neighbours want more, and most so around it.
func (s *scenario) importantUntold() {
	s.importantPressed()
	for i := range s.events {
		if e := &s.events[i]; e.Name == "important" {
			if e.Demand.Brief, e.Demand.Untold = true, true; e.Op == Change {
				e.Demand.Busy = 0.65
			}
		}
	}
	s.trace.Recognise = control.RecogniseApply
}

// memoryLost is a node whose free memory goes within a minute to something that
// cannot be moved (it is bound there), while the guests of all nodes grow.
func (s *scenario) memoryLost() {
	s.events = append(s.events, Event{Op: Preplace, Name: "hog", CPUs: topology.CPUs(0),
		MemoryOn: []workload.NodeMemory{{Node: 0, KiB: 1 << 20}},
		Demand: Demand{Class: workload.Dedicated, Importance: workload.DefaultImportance, VCPUs: 1, Busy: 0.1,
			Memory: 1 << 20, Bandwidth: 100, Asks: true}})
	all := s.guests(3, func(int) Demand {
		d := guest(2, s.about(0.5), s.gib(5))
		d.Asked = 7 << 20
		return d
	})
	hog := s.events[0].Demand
	for step := range 12 {
		hog.Memory += 1 << 20
		s.add(3*time.Minute+time.Duration(step)*5*time.Second, Change, "hog", hog)
	}
	for k, d := range all {
		for step := range 4 {
			d.Memory += 1 << 19
			s.add(5*time.Minute+time.Duration(step)*90*time.Second+time.Duration(s.random.IntN(60))*time.Second, Change,
				fmt.Sprintf("g%d", k), d)
		}
	}
	s.trace.Until = 40 * time.Minute
}

// caches is services that exchange cache lines, on nodes of four caches of 8 CPUs: some of few threads, some of many
// that seldom run, and one on each node whose threads all want to run at once, more of them than a cache has CPUs.
func (s *scenario) caches() {
	s.trace.Policy.Caches = plan.CachesPlace
	s.guests(7, func(k int) Demand {
		d := guest(4, s.about(0.4), s.gib(2))
		d.Exchange = 0.3
		switch k / s.nodes {
		case 5:
			d = guest(12, s.about(0.08), s.gib(2))
			d.Exchange = 0.3
		case 6:
			d = guest(12, s.about(0.15), s.gib(2))
			d.Exchange, d.Bursts = 0.3, true
		}
		d.Asks = k%2 == 0
		return d
	})
	s.trace.Until = 20 * time.Minute
}
