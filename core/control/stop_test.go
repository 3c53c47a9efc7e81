package control

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/topology"
)

// A daemon that is about to end carries out what has begun, and begins no more.
func TestStopBeginsNothing(t *testing.T) {
	f := scattered(t)
	f.scan(0)
	f.keeping(EffectRead)
	f.scan(1)
	before := f.all()
	scan := f.begin()
	f.turn(Input{Stopped: true})
	f.release()
	f.end(scan)
	f.scan(2)
	if diff := cmp.Diff(before, f.all()); diff != "" || len(f.s.Tasks) != 0 {
		t.Errorf("%d under way\n%s", len(f.s.Tasks), diff)
	}
}

// Before it is known which other managers there are, nothing begins, whoever asks.
func TestNothingBeginsBeforeManagersAreKnown(t *testing.T) {
	f := scattered(t, placing, func(s *Settings) { s.Surveys = append(s.Surveys, Managers) })
	f.addCard()
	f.keep = func(e *Effect) bool { return e.Survey == Managers }
	f.scan(2)
	to := topology.Nodes(1)
	if f.home("/a") == "1" {
		to = topology.Nodes(0)
	}
	if r := f.ask(Request{Move: &MoveRequest{ID: "/a", To: to}}); r.Failed != nil {
		t.Error(r.Failed)
	}
	if n := f.count(EffectRead, ""); n != 0 {
		t.Errorf("%d begun", n)
	}
	f.release()
	if f.scan(8); !f.settled("/a") || f.home("/a") != to.String() {
		t.Errorf("on %s", f.home("/a"))
	}
}
