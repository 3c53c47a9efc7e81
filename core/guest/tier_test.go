package guest

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/workload"
)

// TestTier: a flavor says who gives way, by name, by the numbers of others, or as its class.
func TestTier(t *testing.T) {
	for text, want := range map[string]struct {
		class workload.Class
		tier  workload.Tier
		err   string
	}{
		"tier: batch":                   {workload.Shared, workload.BatchTier, ""},
		"class: batch":                  {workload.Shared, workload.BatchTier, ""},
		"tier: -1":                      {workload.Shared, workload.BatchTier, ""},
		"class: dedicated, tier: 2":     {workload.Dedicated, workload.OnlineStrict, ""},
		"class: offline":                {workload.Shared, workload.BatchTier, ""}, // as before version 0.2
		"tier: offline":                 {workload.Shared, workload.BatchTier, ""},
		"class: dedicated":              {workload.Dedicated, "", ""},
		"class: dedicated, tier: batch": {"", "", "tier: batch does not go with class dedicated"},
		"tier: gold":                    {"", "", `tier: "gold"; want online-strict`},
		"class: batch, tier: online":    {"", "", `class: "batch"`},
	} {
		c, err := ReadCatalogue(strings.NewReader("flavors: [{name: a, vcpus: 2, memory: 1GiB, "+text+"}]"), "f.yaml")
		switch {
		case want.err != "":
			if err == nil || !strings.Contains(err.Error(), want.err) {
				t.Errorf("%s: %v; want %q", text, err, want.err)
			}
		case err != nil:
			t.Errorf("%s: %v", text, err)
		case c[0].Class != want.class || c[0].Tier != want.tier:
			t.Errorf("%s: class %q, tier %q", text, c[0].Class, c[0].Tier)
		default:
			o := Order{Name: "x", Flavor: c[0]}
			if o.Spec().Tier != want.tier {
				t.Errorf("%s: its guests have tier %q", text, o.Spec().Tier)
			}
		}
	}
}
