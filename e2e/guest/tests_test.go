//go:build linux

package main

import (
	"testing"

	"github.com/homenode/homenode/e2e/suite"
)

// Both sides of the rig must know the same tests.
func TestTestsMatchSuite(t *testing.T) {
	listed := map[string]bool{}
	for _, s := range suite.Tests {
		_, here := tests[s.Name]
		if elsewhere := s.OnHost || s.Alone; here == elsewhere {
			t.Errorf("%s: on the host %v, code in the guest %v", s.Name, s.OnHost, here)
		}
		listed[s.Name] = true
	}
	for name := range tests {
		if !listed[name] {
			t.Errorf("%s: not in package suite", name)
		}
	}
}

func TestSetText(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{"", ""}, {"0", "0"}, {"0-3,8", "0-3,8"}, {"1,2,3", "1-3"}, {"63", "63"}, {" 4-5\n", "4-5"},
	} {
		s, err := parseSet(c.in)
		if err != nil || s.String() != c.out {
			t.Errorf("%q: %q, %v", c.in, s, err)
		}
	}
	for _, bad := range []string{"a", "3-1", "64", "-1", "1,,2"} {
		if s, err := parseSet(bad); err == nil {
			t.Errorf("%q: taken as %s", bad, s)
		}
	}
}
