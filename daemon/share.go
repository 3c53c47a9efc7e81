package daemon

import (
	"cmp"
	"context"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Share turns sharing on or off. What batch work may have then is decided at the next look.
func (d *Daemon) Share(ctx context.Context, order api.ShareOrder) (api.Sharing, error) {
	r, err := d.request(ctx, control.Request{Share: &control.ShareOrder{On: order.On}, DryRun: order.DryRun})
	if r.Share == nil {
		return api.Sharing{}, err
	}
	out := d.View().sharing()
	out.On = r.Share.On
	return out, err
}

// UpgradeScheduler puts another version in the place of the kernel's scheduler.
func (d *Daemon) UpgradeScheduler(ctx context.Context, order api.UpgradeOrder) (api.Upgraded, error) {
	var want control.UpgradeOrder
	if order.Object != "" {
		if d.o.Scheduler == nil {
			return api.Upgraded{},
				&api.Error{Code: api.Forbidden,
					Text: words.Because(words.SchedulerNotRunning, words.Because(words.SchedulerNoKernel)).String()}
		}
		var err error
		if want.Version, err = d.keepScheduler(ctx, &order); err != nil {
			return api.Upgraded{}, &api.Error{Code: api.BadRequest, Text: err.Error()}
		}
	}
	r, err := d.request(ctx, control.Request{Upgrade: &want, DryRun: order.DryRun})
	if r.Upgrade == nil {
		return api.Upgraded{}, err
	}
	out := api.Upgraded{Schema: "homenode-share-upgrade/1", From: r.Upgrade.From, To: r.Upgrade.To,
		DryRun: order.DryRun, Why: r.Upgrade.Why}
	if !order.DryRun && out.From != out.To {
		out.Trial = wireTrial(d.View().Scheduler.Trial)
	}
	return out, err
}

func (d *Daemon) keepScheduler(ctx context.Context, order *api.UpgradeOrder) (version string, err error) {
	defer d.caught("reading a scheduler", &err)
	return d.o.Scheduler.Keep(ctx, order.Object, order.DryRun)
}

// wireTrial is the wire form of a probation; nil for none.
func wireTrial(t *share.Trial) *api.ShareTrial {
	if t == nil {
		return nil
	}
	out := &api.ShareTrial{From: t.From, To: t.To, Began: t.Began, Until: t.Until,
		GapMS: float64(t.Gap.Microseconds()) / 1000, Before: t.Before, Worst: t.Worst, Held: t.Held,
		Why: t.Why.String()}
	if !t.Ended.IsZero() {
		out.Ended = &t.Ended
	}
	return out
}

// scheduler is the wire form of how the kernel's scheduler is.
func (v *View) scheduler() *api.ShareScheduler {
	k := &v.Scheduler
	out := &api.ShareScheduler{Enabled: k.Seen.Loaded != "", Why: k.Why.String(), Version: k.Seen.Loaded,
		Newest: k.Seen.Newest, Generation: k.Seen.Generation, Other: cmp.Or(k.Seen.Other, k.Seen.Under),
		Loads: len(k.Loads), MostLoads: share.MostLoads, End: k.End, Counters: k.Seen.Counters,
		Trial: wireTrial(k.Trial), Upgrade: wireTrial(k.Upgrade)}
	if out.Counters == nil {
		out.Counters = []share.Counter{}
	}
	for _, n := range k.Seen.Left {
		out.Threads += n
	}
	out.Untiered = len(k.Untiered)
	for at, to := range map[*time.Time]**time.Time{&k.Since: &out.Since, &k.Ended: &out.Ended} {
		if !at.IsZero() {
			*to = at
		}
	}
	if !out.Enabled && k.Next.After(v.At) {
		out.Next = &k.Next
	}
	switch {
	case out.Why != "":
	case !v.Settings.Share.Scheduler:
		out.Why = words.Because(words.SchedulerOff).String()
	default:
		out.Why = words.Because(words.SchedulerUnknown).String()
	}
	return out
}

// sharing is the wire form of what batch work may have.
func (v *View) sharing() api.Sharing {
	out := api.Sharing{Schema: "homenode-share/1", On: v.Sharing.On, Mode: v.Settings.Mode(),
		Target: v.Settings.Share.Target, Rest: v.Sharing.Rest.String(), Lacks: v.Sharing.Lacks.String(),
		Nodes: []api.ShareNode{}, Workloads: []api.ShareWork{}, LeftAlone: []api.ShareLeft{},
		Important: []api.ShareHarm{}, Signals: append([]workload.SourceStatus{}, v.Snapshot.Signals...)}
	v.goals(&out)
	for i := range v.Sharing.Nodes {
		b := &v.Sharing.Nodes[i]
		var use *float64
		if s := v.Sharing.Steering.Of(b.Node); s != nil {
			use = &s.Use
		}
		out.Nodes = append(out.Nodes, api.ShareNode{Node: b.Node, Use: use, CPUs: b.CPUs, Given: b.Given.String(),
			Pool: b.Pool, Used: b.Used, Online: b.Online, System: b.System, Idle: b.Idle,
			Why: words.Sentences(b.Why)})
	}
	for i := range v.Sharing.Work {
		g := &v.Sharing.Work[i]
		w := api.ShareWork{ID: g.Workload, CPUs: g.CPUs.String(), For: g.For, Why: g.Why.String(),
			Hurts: words.Sentences(v.Sharing.Interference.Hurts(g.Workload))}
		if g.Frozen || !g.Asked.IsZero() {
			w.Why = whyGrant(g)
		}
		switch {
		case g.Frozen:
			w.Frozen = &g.Since
		case g.Cut:
			w.Cut = &g.Since
		case !g.Asked.IsZero():
			w.Asked = &g.Asked
		}
		out.Workloads = append(out.Workloads, w)
	}
	for i := range v.Sharing.Left {
		l := &v.Sharing.Left[i]
		out.LeftAlone = append(out.LeftAlone, api.ShareLeft{ID: l.Workload, Why: words.Join(l.Why)})
	}
	out.Scheduler = v.scheduler()
	if c := &v.Sharing.Cache; len(c.Why) > 0 {
		out.Cache = &api.ShareCache{Schemata: c.Schemata, Ways: c.Limit.Cache, Bandwidth: c.Limit.Bandwidth,
			Why: words.Sentences(c.Why)}
	}
	harms := v.Sharing.Interference.Harms()
	for i := range harms {
		out.Important = append(out.Important, shareHarm(&harms[i]))
	}
	return out
}

// goals adds the latency goals and what they led to.
func (v *View) goals(out *api.Sharing) {
	g := v.Sharing.Steering
	if g == nil {
		return
	}
	out.Use = &g.Use
	out.Busy = &g.Busy
	out.Next = g.Next.String()
	for i := range g.Goals {
		x := &g.Goals[i]
		w := api.ShareGoal{ID: x.Workload, Metric: x.Metric, Unit: x.Unit, Most: x.Most, State: x.State,
			Why: x.Why.String(), Limits: i == g.Worst}
		if x.Known {
			w.Value, w.Age = &x.Value, new(v.At.Sub(x.At).Seconds())
		}
		if x.Why.None() {
			w.Slack = &x.Slack
		}
		out.Goals = append(out.Goals, w)
	}
}

// whyGrant is why a batch workload has what it has. What its memory traffic is matters to the order
// of squeezing alone.
func whyGrant(g *share.Grant) string {
	if g.Traffic == 0 {
		return g.Why.String()
	}
	return words.Join([]words.Reason{g.Why, words.Because(words.ShareTraffic, float64(g.Traffic))})
}

// sharingOf is what sharing has to do with one workload, in sentences.
func (v *View) sharingOf(id workload.ID) []string {
	if g := v.Sharing.Of(id); g != nil {
		return append([]string{whyGrant(g)}, words.Sentences(v.Sharing.Interference.Hurts(id))...)
	}
	if v.Sharing.Leaves(id) {
		return []string{words.Because(words.ShareLeft).String()}
	}
	out := v.goalsOf(id)
	for _, h := range v.Sharing.Interference.Harms() {
		if h.Workload == id {
			return append(out, words.Sentences(h.Why)...)
		}
	}
	return out
}

// goalsOf returns the goals of one workload in sentences.
func (v *View) goalsOf(id workload.ID) (out []string) {
	if v.Sharing.Steering == nil {
		return nil
	}
	for i := range v.Sharing.Steering.Goals {
		x := &v.Sharing.Steering.Goals[i]
		if x.Workload != id {
			continue
		}
		most := workload.WithUnit(x.Most, x.Unit)
		if x.Why.None() {
			now := workload.WithUnit(x.Value, "")
			out = append(out, words.Because(words.GoalNow, x.Metric, now, most, x.Slack).String())
		} else {
			out = append(out, words.Because(words.GoalIs, x.Metric, most, x.Why).String())
		}
	}
	return out
}

func shareHarm(h *share.Harm) api.ShareHarm {
	out := api.ShareHarm{ID: h.Workload, Signal: h.Signal, Learned: h.Learned, Hurt: h.Hurt, By: h.By,
		Samples: h.Samples, Why: words.Sentences(h.Why)}
	if h.Value >= 0 {
		out.Value = &h.Value
	}
	if h.Limit > 0 {
		out.Usual = &h.Usual
		out.Deviation = &h.Deviation
		out.Limit = &h.Limit
	}
	if h.By != "" {
		out.Score = &h.Score
	}
	return out
}
