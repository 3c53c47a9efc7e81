package sim
import ("testing";"fmt";"strings";"github.com/homenode/homenode/core/plan")
func TestZZ(t *testing.T){
	trace := generated(t, Generation{Kind: "mixed", Host: synthetic(t, "package:2 node:2 core:4 pu:2"), Seed: 3, Events: 120, Found: DefaultFound})
	var hh *homenode
	o := Options{Trace: trace, Seed: 3, Policies: []string{"homenode"}}
	o.breakHomenode = func(h *homenode){ hh = h; dbg = func(e plan.Event){ if strings.Contains(e.Text,"balancing") && e.Workload!="" || e.Kind==plan.EventMove { fmt.Println(e.Time.Sub(epoch), e.Workload, e.Text) } } }
	r,_ := Run(t.Context(), o)
	fmt.Printf("%+v\n", r.Policies[0])

_ = hh
}
