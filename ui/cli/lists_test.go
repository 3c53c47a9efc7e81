package cli

import (
	"bytes"
	"fmt"
	"testing"
)

func TestShortLists(t *testing.T) {
	for _, x := range []struct{ text, want string }{
		{"CPUs 7-11,20-23,31-35,44-47,53-59,68-71 of nodes 0-7", "CPUs 7-11,20-23,31-35,… (29 CPUs) of nodes 0-7"},
		{"CPUs 0-3,8-11,16", "CPUs 0-3,8-11,16"},
		{"0-191 → 0,2,4,6,8 (applied)", "0-191 → 0,2,4,… (5 CPUs) (applied)"},
		{"1,2,3,99999999999,5", "1,2,3,99999999999,5"}, // no CPU list
		{"", ""},
	} {
		var out bytes.Buffer
		n, err := fmt.Fprint(ShortLists{W: &out}, x.text)
		if err != nil || n != len(x.text) || out.String() != x.want {
			t.Errorf("%q: %q, %d, %v; want %q", x.text, out.String(), n, err, x.want)
		}
	}
}
