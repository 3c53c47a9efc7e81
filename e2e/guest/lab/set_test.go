//go:build linux

package lab

import "testing"

func TestSetText(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{"", ""}, {"0", "0"}, {"0-3,8", "0-3,8"}, {"1,2,3", "1-3"}, {"63", "63"}, {" 4-5\n", "4-5"},
	} {
		s, err := ParseSet(c.in)
		if err != nil || s.String() != c.out {
			t.Errorf("%q: %q, %v", c.in, s, err)
		}
	}
	for _, bad := range []string{"a", "3-1", "64", "-1", "1,,2"} {
		if s, err := ParseSet(bad); err == nil {
			t.Errorf("%q: taken as %s", bad, s)
		}
	}
}
