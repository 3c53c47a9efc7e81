package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/core/workload/specfile"
)

// MaxSpec bounds a file of workloads: some ten thousand of them.
const MaxSpec = 1 << 20

// ReadSpecs reads workloads as people write them, YAML or JSON, one or a list.
// An error is one line with the file, the position and what to give instead.
func ReadSpecs(e *Env, name string) ([]workload.Spec, error) {
	text, err := ReadInput(e, name, MaxSpec)
	if err != nil {
		return nil, err
	}
	specs, err := specfile.Parse(text)
	if err != nil {
		return nil, Usagef("%s: %w", InputName(name), err)
	}
	return specs, nil
}

// InputName is a file as errors call it.
func InputName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// ReadInput reads a file of at most so many bytes.
func ReadInput(e *Env, name string, most int64) ([]byte, error) {
	return FromFile(e, name, func(in io.Reader) ([]byte, error) {
		text, err := io.ReadAll(io.LimitReader(in, most+1))
		if err == nil && int64(len(text)) > most {
			err = fmt.Errorf("larger than %s", words.Bytes(most))
		}
		return text, err
	})
}

// ReadRunning reads a file of running workloads. Those that do not say where
// they are go where the engine puts them, one after the other.
func ReadRunning(e *Env, name string, st plan.State) (*place.Ledger, []place.Runner, error) {
	text, err := ReadInput(e, name, MaxSpec)
	if err != nil {
		return nil, nil, err
	}
	all, err := specfile.ParseRunning(text)
	if err != nil {
		return nil, nil, Usagef("%s: %w", InputName(name), err)
	}
	out := make([]place.Runner, len(all))
	for i := range all {
		out[i] = place.Runner{Spec: all[i].Spec, Stay: all[i].Stay}
		if all[i].At == nil {
			continue
		}
		p, err := placementAt(all[i].At, st.Host, all[i].Spec)
		if err != nil {
			return nil, nil, Usagef("%s: %s: workload %q: %w", InputName(name), all[i].Where, all[i].Spec.Name, err)
		}
		st.Placements = append(st.Placements, p)
	}
	slices.SortFunc(st.Placements,
		func(a, b plan.Placement) int { return strings.Compare(string(a.Workload), string(b.Workload)) })
	l := place.NewLedger(st)
	// What floats has the CPU sets that dedicated work leaves it only now.
	if v := plan.Check(st, l.Placements()); v != nil {
		return nil, nil, Usagef("%s: this cannot be: %s", InputName(name), v[0].Text)
	}
	for i := range all {
		if all[i].At != nil {
			continue
		}
		r := l.Place(place.Request{Spec: out[i].Spec, Must: true})
		if !r.Placed() {
			return nil, nil, Usagef("%s: %s: %s has no place on this host: %s", InputName(name), all[i].Where,
				all[i].Spec.Name, words.Join(r.Decision.Reasons))
		}
		l.Commit(r.Placement)
	}
	return l, out, nil
}

// placementAt is where a running workload is, as the ledger holds it.
func placementAt(s *specfile.Location, h *topology.Host, spec workload.Spec) (plan.Placement, error) {
	p := plan.Placement{
		Workload: spec.ID, Class: spec.Class, Importance: spec.Importance, VCPUs: spec.CPUs, Asked: spec.Memory,
		HugePage: spec.HugePage, Bandwidth: spec.Bandwidth,
	}
	p.CPUs = s.CPUs
	on := h.NodesOf(p.CPUs)
	p.Home = on.Clone()
	switch {
	case spec.Class == workload.Batch:
		return p, errors.New("at: batch work is wherever dedicated work is not")
	case on.Empty():
		return p, fmt.Errorf("at: cpus: %q; want CPUs of this host (%v)", s.CPUs.String(), h.Online)
	case spec.Class == workload.Dedicated && p.CPUs.Len() != spec.CPUs:
		return p, fmt.Errorf("at: cpus: %s for %d vCPUs; a dedicated workload has one for each", s.CPUs, spec.CPUs)
	case s.Memory == nil && spec.Memory > 0 && on.Len() > 1:
		return p, errors.New("at: memory: say how much lies on each node, such as {0: 8GiB, 1: 4GiB}")
	}
	if spec.Class == workload.Dedicated {
		p.Pins, p.Bound = p.CPUs.Slice(), true
		p.Idle = plan.Idle(h, spec.SMT, p.CPUs)
	}
	if s.Memory == nil && spec.Memory > 0 {
		p.Memory = []workload.NodeMemory{{Node: on.Slice()[0], KiB: plan.RoundUp(spec.Memory, spec.HugePage)}}
	}
	for _, id := range slices.Sorted(maps.Keys(s.Memory)) {
		if !slices.ContainsFunc(h.Nodes, func(n topology.Node) bool { return n.ID == id }) {
			return p, fmt.Errorf("at: memory: this host has no node %d", id)
		}
		if m := s.Memory[id]; m > 0 {
			p.Memory = append(p.Memory, workload.NodeMemory{Node: id, KiB: topology.KiB(m)})
			p.Home.Add(id)
		}
	}
	return p, nil
}

// RunningNow is what homenode has placed on this machine.
func RunningNow(b api.Status, st plan.State) (*place.Ledger, []place.Runner, error) {
	out, err := PlacedNow(b, &st)
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(st.Placements,
		func(a, b plan.Placement) int { return strings.Compare(string(a.Workload), string(b.Workload)) })
	return place.NewLedger(st), out, nil
}

// PlacedNow adds what homenode has placed on this machine to a state. Memory that
// the placed hold is booked, and so is not counted as in use a second time.
func PlacedNow(b api.Status, st *plan.State) ([]place.Runner, error) {
	var out []place.Runner
	for i := range b.Workloads {
		w := &b.Workloads[i]
		home, err := topology.ParseNodeSet(w.Home)
		if err != nil {
			return nil, fmt.Errorf("%s: home: %w", w.ID, err)
		}
		cpus, err := topology.ParseCPUSet(w.CPUSetPlanned)
		if err != nil {
			return nil, fmt.Errorf("%s: CPUs: %w", w.ID, err)
		}
		if home.Empty() || w.Class == workload.Batch {
			continue
		}
		p := plan.Placement{Workload: w.ID, Class: w.Class, Importance: w.Importance, VCPUs: w.CPUs, Home: home,
			CPUs: cpus}
		if w.Class == workload.Dedicated {
			p.Pins, p.Bound = cpus.Slice(), true
			if p.Idle, err = topology.ParseCPUSet(w.Idle); err != nil {
				return nil, fmt.Errorf("%s: idle CPUs: %w", w.ID, err)
			}
		}
		for _, m := range w.MemoryByNode {
			if !home.Has(m.Node) || m.KiB <= 0 {
				continue // what lies elsewhere is in use there
			}
			for k := range st.Unmanaged {
				if st.Unmanaged[k].Node == m.Node {
					st.Unmanaged[k].KiB = max(0, st.Unmanaged[k].KiB-topology.KiB(m.KiB))
				}
			}
			p.Memory = append(p.Memory, workload.NodeMemory{Node: m.Node, KiB: topology.KiB(m.KiB)})
			p.Asked += topology.KiB(m.KiB)
		}
		st.Placements = append(st.Placements, p)
		spec := workload.Spec{
			ID: w.ID, Name: w.Name, Class: w.Class, Importance: w.Importance, CPUs: w.CPUs, Memory: p.Asked, SMT: w.SMT,
		}
		for _, text := range w.Near {
			near, _ := workload.ParseNear(text)
			spec.Near = append(spec.Near, near...)
		}
		out = append(out, place.Runner{Spec: spec})
	}
	return out, nil
}
