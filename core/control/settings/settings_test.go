package settings

import (
	"reflect"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/workload"
)

// TestParts: each part of the configuration reaches the package that reads it.
func TestParts(t *testing.T) {
	s := Settings{
		Rules:       []workload.Rule{{Match: "/x/**", Tier: workload.Online}, {Match: "/y", Class: workload.Batch}},
		Include:     []string{"/in"},
		Exclude:     []string{"/out"},
		MinAge:      3 * time.Second,
		Policy:      plan.Policy{Overcommit: 4},
		HelpersStay: true,
		Divide:      true,
		Recognise:   RecogniseApply,
		Share:       share.Settings{Target: 0.5},
		Base:        share.Base{IOWeight: 7},
	}
	sc := s.Scene()
	if !reflect.DeepEqual(sc.Rules, s.Rules) || sc.Include[0] != "/in" || sc.Exclude[0] != "/out" || sc.MinAge != 3*time.Second ||
		sc.Overcommit != 4 || !sc.HelpersStay || !sc.Spreads || !sc.Weighs {
		t.Errorf("%+v", sc)
	}
	for _, r := range []Recognise{"", RecogniseOff, RecogniseSuggest} {
		s.Recognise = r
		if s.Scene().Weighs {
			t.Errorf("recognise %q gives work an importance", r)
		}
	}
	if of := s.Sharing(); of.Share.Target != 0.5 || of.Base.IOWeight != 7 {
		t.Errorf("%+v", of)
	}
	if s.Mode() != "observe" || !s.ReadsThreads() {
		t.Errorf("mode %s, threads %v", s.Mode(), s.ReadsThreads())
	}
	s.Enforce, s.Divide = true, false
	if s.Mode() != "enforce" || s.ReadsThreads() || s.Scene().Spreads {
		t.Errorf("mode %s, threads %v", s.Mode(), s.ReadsThreads())
	}
	for cgroup, want := range map[string]bool{"/x/a": true, "/y": true, "/z": false} {
		if got := s.Names(cgroup, "name"); got != want {
			t.Errorf("a rule names %s: %v", cgroup, got)
		}
	}
}
