package daemon

import (
	"context"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/words"
)

// Share turns sharing on or off. What offline work may have then is decided at the next look.
func (d *Daemon) Share(ctx context.Context, order api.ShareOrder) (api.Sharing, error) {
	r, err := d.request(ctx, control.Request{Share: &control.ShareOrder{On: order.On}, DryRun: order.DryRun})
	if r.Share == nil {
		return api.Sharing{}, err
	}
	out := d.View().sharing()
	out.On = r.Share.On
	return out, err
}

// sharing is the wire form of what offline work may have.
func (v *View) sharing() api.Sharing {
	out := api.Sharing{Schema: "homenode-share/1", On: v.Sharing.On, Mode: v.Settings.Mode(), Target: v.Settings.Share.Target, Rest: v.Sharing.Rest.String(),
		Nodes: []api.ShareNode{}, Workloads: []api.ShareWork{}}
	for i := range v.Sharing.Nodes {
		b := &v.Sharing.Nodes[i]
		out.Nodes = append(out.Nodes, api.ShareNode{Node: b.Node, CPUs: b.CPUs, Given: b.Given.String(), Pool: b.Pool, Online: b.Online, System: b.System, Idle: b.Idle,
			Why: words.Sentences(b.Why)})
	}
	for i := range v.Sharing.Work {
		g := &v.Sharing.Work[i]
		w := api.ShareWork{ID: g.Workload, CPUs: g.CPUs.String(), For: g.For, Why: g.Why.String()}
		if g.Frozen {
			w.Frozen = &g.Since
		}
		out.Workloads = append(out.Workloads, w)
	}
	return out
}
