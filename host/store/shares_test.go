package store

import (
	"fmt"
	"math/rand/v2"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// audit is a store, and events in it by kind and owner.
type audit struct {
	*Store
	t   *testing.T
	seq uint64
}

// add writes n events, each of the owner that of returns.
func (a *audit) add(kind plan.EventKind, n int, of func(i int) workload.Owner) {
	a.t.Helper()
	for i := 0; i < n; {
		var b plan.Batch
		for ; i < n && len(b.Events) < 1000; i++ {
			a.seq++
			b.Events = append(b.Events, plan.Event{
				Seq: a.seq, Time: t0, Kind: kind, Workload: workload.ID(fmt.Sprintf(`/w/"owner":"user:0"/%d`, i)), Owner: of(i), Text: `cpus "0-3"`,
			})
		}
		commit(a.t, a.Store, b)
	}
}

func (a *audit) addOne(kind plan.EventKind, n int, o workload.Owner) {
	a.t.Helper()
	a.add(kind, n, func(int) workload.Owner { return o })
}

// kept returns how many events of a kind each owner has, and all together.
func (a *audit) kept(kind plan.EventKind) (by map[workload.Owner]int, all int) {
	a.t.Helper()
	events, err := a.History(plan.EventQuery{Kinds: []plan.EventKind{kind}})
	if err != nil {
		a.t.Fatal(err)
	}
	by = map[workload.Owner]int{}
	for i := range events {
		by[events[i].Owner]++
	}
	return by, len(events)
}

// 40,000 pods, and a user with as many processes, push out nothing that was done to root's
// services, to another user or to the pods of a quiet host, nor what root ordered.
func TestAuditIsKeptPerOwner(t *testing.T) {
	a := &audit{Store: opened(t, t.TempDir()), t: t}
	bob, eve := workload.UserOwner(1001), workload.UserOwner(1000)
	a.addOne(plan.EventStep, 1, workload.SystemOwner)
	a.addOne(plan.EventUndo, 20, bob)
	a.addOne(plan.EventOrder, 1, workload.SystemOwner)
	a.addOne(plan.EventOrder, 20, bob)
	a.add(plan.EventStep, 46_000, func(i int) workload.Owner { return workload.PodOwner(fmt.Sprint(i)) })
	a.addOne(plan.EventStep, 46_000, eve)
	a.addOne(plan.EventOrder, 12_000, eve)
	by, all := a.kept(plan.EventStep)
	if by[workload.SystemOwner] != 1 {
		t.Error("the step of root's service was pushed out")
	}
	if all > keepSteps+keepSteps/8 {
		t.Errorf("%d steps are kept", all)
	}
	if pods := all - by[workload.SystemOwner] - by[eve]; pods < keepSteps/4 {
		t.Errorf("a user left the pods %d of %d entries", pods, keepSteps)
	}
	if by, _ := a.kept(plan.EventUndo); by[bob] != 20 {
		t.Errorf("another user has %d of 20 entries", by[bob])
	}
	by, all = a.kept(plan.EventOrder)
	if by[workload.SystemOwner] != 1 || by[bob] != 20 {
		t.Errorf("orders: root has %d of 1, another user %d of 20", by[workload.SystemOwner], by[bob])
	}
	if all > keepOrders+keepOrders/8 {
		t.Errorf("%d orders are kept", all)
	}
	a.addOne(plan.EventStep, 25_000, workload.SystemOwner) // a free share is the others' until it is wanted
	if by, _ := a.kept(plan.EventStep); by[workload.SystemOwner] < keepSteps/2 {
		t.Errorf("the system has %d of its share of %d", by[workload.SystemOwner], keepSteps/2)
	}
}

// Whatever was written: a share is never cut below its part, owners of one share end up
// equal, the oldest goes first, and a store of an older version, which names no owners, is read.
func TestTrim(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		a := &audit{Store: opened(t, t.TempDir()), t: t}
		a.keepSteps, a.keepEvents = 64, 1
		before := map[workload.Owner]int{}
		owners := []workload.Owner{workload.SystemOwner, workload.UserOwner(1000), workload.UserOwner(1001), workload.UserOwner(1002), workload.PodOwner("a"), workload.PodOwner("b"), "namespace:7"}
		owners = owners[:1+random.IntN(len(owners))]
		for range 1 + random.IntN(6) {
			o, n := owners[random.IntN(len(owners))], random.IntN(60)
			a.addOne(plan.EventStep, n, o)
		}
		events, _ := a.History(plan.EventQuery{})
		for i := range events {
			before[events[i].Owner]++
		}
		err := a.update("trim", func(tx *bolt.Tx) error {
			table, err := openTable(tx, bucketSteps)
			if err == nil {
				err = table.trim(a.keepSteps - a.keepSteps/8 - 1)
			}
			if err == nil {
				err = table.save()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		after, all := a.kept(plan.EventStep)
		if all > a.keepSteps {
			t.Fatalf("%d of %d kept", all, a.keepSteps)
		}
		var had, has [shareholders]int
		largest := map[shareholder]int{}
		for o, n := range before {
			had[shareholderOf(o)] += n
			has[shareholderOf(o)] += after[o]
			largest[shareholderOf(o)] = max(largest[shareholderOf(o)], after[o])
		}
		for of := range shareholders {
			if has[of] < had[of] && has[of] < (a.keepSteps-a.keepSteps/8-1)*parts[of]/8-1 {
				t.Errorf("shareholder %d was cut from %d to %d: %v, now %v", of, had[of], has[of], before, after)
			}
		}
		for o, n := range before {
			if after[o] < n && after[o] < largest[shareholderOf(o)]-1 {
				t.Errorf("%s was cut from %d to %d, another one has %d: %v, now %v", o, n, after[o], largest[shareholderOf(o)], before, after)
			}
		}
		a.Close()
	}
}
