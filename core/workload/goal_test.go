package workload_test

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/workload"
)

func TestParseGoal(t *testing.T) {
	for _, x := range []struct{ text, want, bad string }{
		{text: "most=5%", want: "wait 5 % or less (kernel)"},
		{text: " most=12.5% , window=30s ", want: "wait 12.5 % or less (kernel)"},
		{text: "of=baseline", want: "harm at its baseline"},
		{text: "of=kernel,most=5%,metric=queue", want: "queue 5 % or less (kernel)"},
		{text: "", bad: "want most="},
		{text: "most=0.1%", bad: "1% or more"},
		{text: "most=5ms", bad: "percentage"},
		{text: "most=NaN%", bad: "above 0"},
		{text: "most=5%,window=forever", bad: "duration"},
		{text: "most=5%,window=1ms", bad: "window"},
		{text: "of=command,most=5ms", bad: "only the operator's configuration"},
		{text: "of=file,most=5ms", bad: "only the operator's configuration"},
		{text: "of=query,most=5ms", bad: "only the operator's configuration"},
		{text: "of=\x1b[31m,most=5%", bad: `"\x1b[31m"`},
		{text: "command=reboot", bad: "unknown"},
		{text: "most=5%,metric=" + strings.Repeat("x", 300), bad: "longer than"},
		{text: "most=5%,metric=a\nb", bad: "metric"},
	} {
		g, err := workload.ParseGoal(x.text)
		switch {
		case x.bad != "":
			if err == nil || !strings.Contains(err.Error(), x.bad) {
				t.Errorf("%q: %v; want %q", x.text, err, x.bad)
			}
		case err != nil || g.String() != x.want:
			t.Errorf("%q: %q, %v; want %q", x.text, g, err, x.want)
		}
	}
}

// FuzzParseGoal: what its author may write is within bounds, and never names a command, a file or a query.
func FuzzParseGoal(f *testing.F) {
	f.Add("most=5%,window=30s")
	f.Add("of=baseline")
	f.Add("of=command,most=1ms")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := workload.ParseGoal(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%q: %q", text, err)
			}
			return
		}
		if g.From.Named() || g.Text != "" || g.Match != "" {
			t.Errorf("%q names %q", text, g.Text)
		}
		if g.From == workload.FromKernel && !(g.Most >= 1 && g.Most <= 100) {
			t.Errorf("%q: most %v", text, g.Most)
		}
		if g.Check() != nil {
			t.Errorf("%q: %v", text, g.Check())
		}
	})
}

// TestGoalNeedsAGrant: a pod's goal is followed where the operator grants slo, and refused elsewhere.
func TestGoalNeedsAGrant(t *testing.T) {
	goal, err := workload.ParseGoal("most=5%")
	if err != nil {
		t.Fatal(err)
	}
	wish := workload.Wishes{Goal: &goal}
	for _, granted := range []bool{false, true} {
		var spec workload.Spec
		refused := wish.Over(&spec, &workload.Asked{}, workload.Backing{}, func(p workload.Permission) bool { return granted && p == workload.MayHaveGoal })
		if (len(spec.Goals) == 1) != granted || (len(refused) == 0) != granted {
			t.Errorf("granted %t: %v, refused %v", granted, spec.Goals, refused)
		}
	}
}

// TestGoalOfARuleStands: a grant lets a pod's author set a goal where the operator has set none.
func TestGoalOfARuleStands(t *testing.T) {
	goal, err := workload.ParseGoal("most=50%")
	if err != nil {
		t.Fatal(err)
	}
	ruled, err := workload.ParseGoal("most=2%")
	if err != nil {
		t.Fatal(err)
	}
	spec := workload.Spec{Goals: []workload.Goal{ruled}}
	wish := workload.Wishes{Goal: &goal}
	refused := wish.Over(&spec, &workload.Asked{}, workload.Backing{}, func(workload.Permission) bool { return true })
	if len(spec.Goals) != 1 || spec.Goals[0] != ruled {
		t.Errorf("goals %v, want that of the rule, %v", spec.Goals, ruled)
	}
	if len(refused) != 1 || !strings.Contains(refused[0].String(), "a rule of the configuration") {
		t.Errorf("refused %v", refused)
	}
	same := workload.Wishes{Goal: &ruled}
	refused = same.Over(&spec, &workload.Asked{}, workload.Backing{}, func(workload.Permission) bool { return true })
	if len(refused) > 0 {
		t.Errorf("the goal of the rule, wished for again: refused %v", refused)
	}
}

// TestWithUnit: three digits, and no exponent where people know the number.
func TestWithUnit(t *testing.T) {
	for want, x := range map[string]float64{"2440 us": 2437.9, "1.5 us": 1.5, "0.0123 us": 0.01234, "0 us": 0,
		"12300 us": 12345, "-0.5 us": -0.5, "1.23e+09 us": 1.23e9, "1e-07 us": 1e-7} {
		if got := workload.WithUnit(x, "us"); got != want {
			t.Errorf("%v: %q, want %q", x, got, want)
		}
	}
}
