package api

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// values is the query as it goes over the wire.
func (q *HistoryQuery) values() url.Values {
	v := url.Values{"limit": {strconv.Itoa(q.Limit)}}
	if q.Workload != "" {
		v.Set("workload", string(q.Workload))
	}
	for _, kind := range q.Kinds {
		v.Add("kind", string(kind))
	}
	for key, t := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !t.IsZero() {
			v.Set(key, t.Format(time.RFC3339Nano))
		}
	}
	return v
}

// historyQuery reads what values wrote.
func historyQuery(v url.Values) (q HistoryQuery, err error) {
	if q.Limit, err = strconv.Atoi(v.Get("limit")); err != nil || q.Limit < 0 {
		return q, &Error{BadRequest, "limit: want a number, 0 for all"}
	}
	q.Workload = workload.ID(v.Get("workload"))
	for _, name := range v["kind"] {
		kind := plan.EventKind(name)
		if !slices.Contains(plan.EventKinds, kind) {
			return q, &Error{BadRequest, fmt.Sprintf("kind: no kind of event %q; known are %v", name, plan.EventKinds)}
		}
		q.Kinds = append(q.Kinds, kind)
	}
	for key, t := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if text := v.Get(key); text != "" {
			if *t, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return q, &Error{BadRequest, fmt.Sprintf("%s: %q; want a time such as 2026-11-22T10:00:00Z", key, text)}
			}
		}
	}
	return q, nil
}

// Of is the events that are asked for, of all there are. Workload must be an ID.
func (q *HistoryQuery) Of(all []plan.Event) []plan.Event {
	out := []plan.Event{}
	for i := range all {
		if q.Has(&all[i]) {
			out = append(out, all[i])
		}
	}
	return out[len(out)-min(len(out), cmp.Or(q.Limit, len(out))):]
}

// all reports whether every event fits.
func (q *HistoryQuery) all() bool {
	return q.Workload == "" && len(q.Kinds) == 0 && q.Since.IsZero() && q.Until.IsZero()
}

// Read is how many of the newest events must be read to answer; 0 is all.
func (q *HistoryQuery) Read() int {
	if q.all() {
		return q.Limit
	}
	return 0
}
