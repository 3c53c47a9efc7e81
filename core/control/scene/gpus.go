package scene

import (
	"slices"

	"github.com/homenode/homenode/core/place/inside"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Workers returns the processes of a workload that each have GPUs of one node open.
func (s *Scene) Workers(id workload.ID) []inside.Worker {
	return WorkersOf(s.Snapshot.Host, s.Links[id])
}

// WorkersOf returns the processes that each have GPUs of one node open, by the links of a workload.
func WorkersOf(h *topology.Host, all []Link) []inside.Worker {
	if h == nil {
		return nil
	}
	var links []workload.Link
	for i := range all {
		if l := &all[i].Link; l.Kind == workload.ByGPU {
			links = append(links, *l)
		}
	}
	return inside.Workers(h, links)
}

// gpusOf returns the GPUs that a workload was found to use, by number.
func (s *Scene) gpusOf(id workload.ID) (out []string) {
	for i := range s.Links[id] {
		l := &s.Links[id][i]
		if l.Kind != workload.ByGPU && l.Kind != workload.ByVFIO {
			continue
		}
		d := s.Snapshot.Host.Device(l.Device)
		if d != nil && d.GPU != "" && !slices.Contains(out, d.GPU) {
			out = append(out, d.GPU)
		}
	}
	return out
}

// nameGPUs gives GPUs that a runtime named by the numbers of a device file the names that people know.
func (s *Scene) nameGPUs(spec *workload.Spec) {
	if s.Snapshot.Host == nil {
		return
	}
	for i := range spec.Near {
		n := &spec.Near[i]
		if !n.Learned || n.Device == "" {
			continue
		}
		d := s.Snapshot.Host.Device(n.Device)
		if d != nil && d.GPU != "" {
			n.Device = d.GPU
		}
	}
	seen := map[string]bool{}
	spec.Near = slices.DeleteFunc(spec.Near, func(n workload.Near) bool {
		again := n.Learned && n.Device != "" && seen[n.Device]
		seen[n.Device] = true
		return again
	})
}

// byGPUs puts the GPUs that a workload was found to use in the place of the wish to be near them,
// and widens the home of one whose workers have GPUs on several nodes. There each worker is near
// its own, and the workload as a whole near none.
func (s *Scene) byGPUs(by *Basis, spec *workload.Spec, o *workload.Observation) {
	if len(spec.Near) == 0 { // nearly always
		return
	}
	s.nameGPUs(spec)
	isAuto := func(n workload.Near) bool { return n.Device == workload.AnyGPU }
	auto := slices.IndexFunc(spec.Near, isAuto)
	id, _ := workload.PartOf(o.ID)
	if s.Snapshot.Host == nil || len(s.Links[id]) == 0 {
		return
	}
	isGPU := func(n workload.Near) bool {
		d := s.Snapshot.Host.Device(n.Device)
		return n.Learned && d != nil && d.GPU != ""
	}
	if auto < 0 && !slices.ContainsFunc(spec.Near, isGPU) {
		return
	}
	if by.Settings.Spreads {
		wide, ok := inside.Beside(s.Snapshot.Host, *spec, s.Workers(o.ID))
		if ok {
			others := func(n workload.Near) bool { return isGPU(n) || isAuto(n) }
			wide.Near = slices.DeleteFunc(slices.Clone(spec.Near), others)
			*spec = wide
			return
		}
	}
	found := s.gpusOf(id)
	if auto < 0 || len(found) == 0 {
		return
	}
	wish := spec.Near[auto]
	near := slices.DeleteFunc(slices.Clone(spec.Near), isAuto)
	for _, gpu := range found {
		n := wish
		n.Device = gpu
		near = append(near, n)
	}
	spec.Near = near
}
