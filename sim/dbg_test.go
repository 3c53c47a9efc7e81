package sim
import ("testing";"fmt";"os";"strconv";"strings"; "github.com/homenode/homenode/core/plan";"github.com/homenode/homenode/core/workload")
func TestDbg(t *testing.T){
 n,_:=strconv.Atoi(os.Getenv("N")); seed,_:=strconv.Atoi(os.Getenv("S"))
 tr,err:=Scenario(os.Getenv("SC"),n,uint64(seed)); if err!=nil {t.Fatal(err)}
 pol := os.Getenv("P"); if pol=="" {pol="homenode"}
 r:=sound(t, Options{Trace:tr,Seed:uint64(seed),Policies:[]string{pol}, breakHomenode: func(h *homenode) { h.look = func(s workload.Snapshot) workload.Snapshot { if int(h.m.now.Seconds())%20==0 { fmt.Printf("%8.1f true %.2f\n", h.m.now.Seconds(), h.m.busy) }; return s }; h.listen = func(e plan.Event){ if strings.Contains(e.Text,"alanc")||os.Getenv("ALL")!="" { fmt.Printf("%8.1f %s %s %s\n", e.Time.Sub(epoch).Seconds(), e.Kind, e.Workload, e.Text)} } }})
 p:=r.Policies[0]; fmt.Printf("felt %.2f access %.2f util %.2f imp %.3f rehomed %d moved %d\n", p.FeltNs,p.AccessNs,p.Utility,p.Important,p.Rehomed,p.MovedBytes>>30)
}
