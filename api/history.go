package api

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// historyValues is the query as it goes over the wire.
func historyValues(q *HistoryQuery) url.Values {
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

// historyQuery reads what historyValues wrote.
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
