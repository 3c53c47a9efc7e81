package daemon

import (
	"context"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload/specfile"
)

// WhatIf says on the newest View what would be. One question is answered at a time, beside the
// loop: it takes a CPU for up to a second.
func (d *Daemon) WhatIf(ctx context.Context, q api.WhatIf) (api.WhatIfAnswer, error) {
	if (q.Spec == "") == (q.Workload == "") || (q.Workload == "") != q.To.Empty() {
		return api.WhatIfAnswer{},
			&api.Error{Code: api.BadRequest, Text: "want a spec, or a workload and the nodes to move it to"}
	}
	v, err := d.looked(ctx)
	if err != nil {
		return api.WhatIfAnswer{}, err
	}
	select {
	case d.asking <- struct{}{}:
		defer func() { <-d.asking }()
	case <-ctx.Done():
		return api.WhatIfAnswer{}, ctx.Err()
	}
	a := api.WhatIfAnswer{Schema: "homenode-what-if/2", Workloads: []api.RepackAnswer{}}
	if q.Spec == "" {
		moved, f := v.WouldMove(q.Workload, q.To, d.lineage(string(q.Workload)))
		if f == nil {
			a.Move = v.forecast(moved)
		}
		return a, wireError(f)
	}
	specs, err := specfile.Parse([]byte(q.Spec))
	if err != nil {
		return a, &api.Error{Code: api.BadRequest, Text: "spec: " + err.Error()}
	}
	fits, f := v.WouldFit(specs)
	for i := range fits {
		a.Workloads = append(a.Workloads, api.Repacked(fits[i].Spec.ID, &fits[i].Repacking))
	}
	return a, wireError(f)
}

// forecast is the wire form of what an order would lead to.
func (v *View) forecast(m *control.Moved) *api.MoveForecast {
	out := &api.MoveForecast{Workload: m.Workload, Outcome: m.Outcome, From: m.From, FromCPUs: m.FromCPUs, To: m.To,
		CPUs:     m.CPUs,
		Decision: m.Decision, Steps: append([]plan.Step{}, m.Steps...)}
	for i := range v.Snapshot.Observations {
		if o := &v.Snapshot.Observations[i]; o.ID == m.Workload {
			if share, _, ok := o.LocalShare(); ok {
				out.Locality = &share
			}
		}
	}
	for i := range m.Steps {
		s := &m.Steps[i]
		out.Bytes += s.Cost.Bytes
		out.Seconds += s.Cost.Seconds
		out.LocalityAfter = &s.Gain.LocalityAfter
	}
	return out
}
