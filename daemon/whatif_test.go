package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// TestWhatIf: what would be is said, and nothing comes of it: not a booking, not an event.
func TestWhatIf(t *testing.T) {
	m := newMachine(t, 2, 4)
	m.add("a", 2, 1<<20, 0)
	m.add("b", 2, 1<<20, 1)
	r := newRig(t, m, true)
	r.ticks(1)
	before := state(t, r)

	ask := func(q api.WhatIf) api.WhatIfAnswer {
		t.Helper()
		a, err := r.WhatIf(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := ask(api.WhatIf{Spec: "- {name: web, cpus: 1, memory: 1GiB}\n- {name: db, class: dedicated, cpus: 3, max_nodes: 1}"})
	if len(a.Workloads) != 2 || a.Workloads[0].Outcome != "fits" || a.Workloads[0].Place == nil || len(a.Workloads[0].Decision.Reasons) == 0 || a.Move != nil {
		t.Errorf("web: %+v", a.Workloads)
	}
	if db := &a.Workloads[1]; db.Workload != "db" || db.Outcome != "moves" && db.Outcome != "fits" {
		t.Errorf("db: %+v", db)
	}
	a = ask(api.WhatIf{Spec: "{name: huge, cpus: 64}"})
	if a.Workloads[0].Outcome != "refused" || a.Workloads[0].Place != nil {
		t.Errorf("huge: %+v", a.Workloads)
	}

	a = ask(api.WhatIf{Workload: "a", To: topology.Nodes(1)})
	if f := a.Move; f == nil || f.Outcome != plan.Placed || !f.From.Equal(topology.Nodes(0)) || !f.To.Equal(topology.Nodes(1)) ||
		f.Bytes != 1<<30 || f.Seconds != 4 || f.LocalityAfter == nil || *f.LocalityAfter != 1 || len(f.Steps) == 0 {
		t.Errorf("a to node 1: %+v", f)
	}
	a = ask(api.WhatIf{Workload: "a", To: topology.Nodes(0)})
	if f := a.Move; f.Outcome != plan.Kept || f.Bytes != 0 || f.LocalityAfter != nil {
		t.Errorf("a to where it is: %+v", f)
	}
	a = ask(api.WhatIf{Workload: "a", To: topology.Nodes(7)})
	if f := a.Move; f.Outcome != plan.Refused || len(f.Decision.Reasons) == 0 {
		t.Errorf("a to a node that is not there: %+v", f)
	}

	var many strings.Builder
	for i := range control.MostAsked + 1 {
		fmt.Fprintf(&many, "- {name: x%d, cpus: 1}\n", i)
	}
	for _, bad := range []struct {
		q    api.WhatIf
		code api.Code
		want string
	}{
		{api.WhatIf{}, api.BadRequest, "want a spec, or a workload and the nodes"},
		{api.WhatIf{Workload: "a"}, api.BadRequest, "want a spec, or"},
		{api.WhatIf{Spec: "name: x", Workload: "a", To: topology.Nodes(0)}, api.BadRequest, "want a spec, or"},
		{api.WhatIf{Spec: "name: x"}, api.BadRequest, "spec: line 1 column 5: workload \"x\": it has no cpus"},
		{api.WhatIf{Spec: "{name: /a, cpus: 1}"}, api.BadRequest, "/a is already running; give the new workload another name"},
		{api.WhatIf{Spec: many.String()}, api.BadRequest, "spec: 33; want 32 workloads or fewer"},
		{api.WhatIf{Workload: "nobody", To: topology.Nodes(0)}, api.NotFound, "nobody"},
	} {
		var e *api.Error
		if _, err := r.WhatIf(t.Context(), bad.q); !errors.As(err, &e) || e.Code != bad.code || !strings.Contains(e.Text, bad.want) {
			t.Errorf("%+v: %v; want %q, %q", bad.q, err, bad.code, bad.want)
		}
	}
	if after := state(t, r); after != before {
		t.Errorf("something came of it:\n%s\nbefore:\n%s", after, before)
	}
}

// state is all that status and history tell.
func state(t *testing.T, r *rig) string {
	t.Helper()
	s, err := r.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal([]any{s, r.history(t), r.View().Held()})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
