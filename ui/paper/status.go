package paper

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/workload"
)

// Status is one look as a page; host is the name of the machine, "" when unknown.
func Status(s api.Status, host string) (string, error) {
	title := "NUMA status"
	if host != "" {
		title += ": " + host
	}
	v := statusView{Status: s, Title: title}
	v.Workloads = slices.Clone(s.Workloads)
	slices.SortStableFunc(v.Workloads,
		func(a, b api.Workload) int { return cmp.Or(last(&a)-last(&b), cmp.Compare(remote(&b), remote(&a))) })
	return fill(statusPage(), title, &v)
}

// remote is how many CPUs work on remote memory.
func remote(w *api.Workload) float64 {
	if w.Locality == nil {
		return -1
	}
	return w.CPUUse * (1 - *w.Locality)
}

// statusView is a status with what the page works out of it.
type statusView struct {
	api.Status
	Title string
}

// Local is the share of local accesses; nil unknown.
func (s statusView) Local() *float64 { now, _ := s.Locality(); return now }

// ByPlan is what it would be by plan.
func (s statusView) ByPlan() *float64 { _, after := s.Locality(); return after }

// Taken is the share of a node's memory that is in use and cannot be given back; nil unknown.
func (s statusView) Taken(n api.Node) *float64 {
	used, known := n.UsedKiB()
	if !known {
		return nil
	}
	return new(float64(used) / float64(n.MemoryKiB))
}

// OneNodeSays is the sentence for a host of one NUMA node.
func (s statusView) OneNodeSays() string { return s.Status.OneNodeSays().String() }

// Moving is the progress of a move under way, or nil.
func (s statusView) Moving(w api.Workload) *float64 {
	if m := w.Move; m != nil && m.State == "running" && m.Planned > 0 {
		return new(float64(m.Moved) / float64(m.Planned))
	}
	return nil
}

var statusPage = templateOf("status.html")

// last puts batch work, which has no home, below online work.
func last(w *api.Workload) int {
	if w.Class == workload.Batch {
		return 1
	}
	return 0
}
