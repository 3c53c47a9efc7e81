package api

import (
	"fmt"
	"net/url"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// A query comes over the wire as it was asked.
func TestHistoryQuery(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		when := rapid.Custom(func(t *rapid.T) time.Time {
			if rapid.Bool().Draw(t, "none") {
				return time.Time{}
			}
			return time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).UTC()
		})
		q := HistoryQuery{Limit: rapid.IntRange(0, 1000).Draw(t, "limit"), Workload: workload.ID(rapid.String().Draw(t, "workload")),
			Kinds: rapid.SliceOfN(rapid.SampledFrom(plan.EventKinds), 0, 3).Draw(t, "kinds"), Since: when.Draw(t, "since"), Until: when.Draw(t, "until")}
		if len(q.Kinds) == 0 {
			q.Kinds = nil
		}
		text, err := url.ParseQuery(historyValues(&q).Encode())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := historyQuery(text); err != nil || !reflect.DeepEqual(got, q) {
			t.Fatalf("%+v, %v; want %+v", got, err, q)
		}
	})
	for _, text := range []string{"", "limit=-1", "limit=x", "limit=1&kind=fun", "limit=1&since=noon", "limit=1&until=1h"} {
		v, _ := url.ParseQuery(text)
		if _, err := historyQuery(v); err == nil {
			t.Errorf("%q is no query", text)
		}
	}
}

func TestHistoryOf(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 11, 22, 10, minute, 0, 0, time.UTC) }
	all := []plan.Event{
		{Seq: 1, Time: at(1), Kind: plan.EventDaemon}, {Seq: 2, Time: at(2), Kind: plan.EventStep, Workload: "/a"},
		{Seq: 3, Time: at(3), Kind: plan.EventMove, Workload: "/b"}, {Seq: 4, Time: at(4), Kind: plan.EventStep, Workload: "/b"},
	}
	for want, q := range map[string]HistoryQuery{
		"[1 2 3 4]": {}, "[3 4]": {Limit: 2}, "[4]": {Limit: 1, Workload: "/b"}, "[2 4]": {Kinds: []plan.EventKind{plan.EventStep}},
		"[2 3]": {Since: at(2), Until: at(4)}, "[]": {Since: at(5)}, "[1]": {Until: at(2), Limit: 9},
	} {
		seqs := []uint64{}
		for _, ev := range q.Of(all) {
			seqs = append(seqs, ev.Seq)
		}
		if got := fmt.Sprint(seqs); got != want {
			t.Errorf("%+v: %s, want %s", q, got, want)
		}
	}
}
