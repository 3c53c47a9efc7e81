package replay

import (
	"strings"
	"testing"
)

func TestDifference(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, tt := range []struct{ was, now, want string }{
		{"abc", "abd", "recorded …abc…, now …abd…"},
		{"abc", "ab", "recorded …abc…, now …ab…"},
		{"", "ab", "recorded ……, now …ab…"},
		{long + "a" + long, long + "b" + long, "recorded …" + long[:20] + "a" + long[:59] + "…, now …" + long[:20] + "b" + long[:59] + "…"},
	} {
		if got := Difference([]byte(tt.was), []byte(tt.now)); got != tt.want {
			t.Errorf("%q and %q: %s", tt.was, tt.now, got)
		}
	}
}

// TestSame: names and wording of another version are no difference; another decision is one.
func TestSame(t *testing.T) {
	for name, tt := range map[string]struct {
		was, now string
		same     bool
	}{
		"the same text":     {"{", "{", true},
		"another wording":   {`{"save":{"Events":[1],"Seq":2}}`, `{"save":{"Events":[],"Seq":2}}`, true},
		"another decision":  {`{"save":{"Events":[1],"Seq":2}}`, `{"save":{"Events":[1],"Seq":3}}`, false},
		"a name of before":  {`{"save":{},"step":{"to":"offline"}}`, `{"save":{},"step":{"to":"ext"}}`, true},
		"another name":      {`{"save":{},"step":{"to":"offline"}}`, `{"save":{},"step":{"to":"idle"}}`, false},
		"a key of before":   {`{"save":{},"x":{"offline":3}}`, `{"save":{},"x":{"batch":3}}`, true},
		"a sentence beside": {`{"save":{},"to":"offline","x":{"code":"a","text":"b"}}`, `{"save":{},"to":"ext","x":{"code":"a","text":"c"}}`, true},
	} {
		if got := Same([]byte(tt.was), []byte(tt.now)); got != tt.same {
			t.Errorf("%s: %v", name, got)
		}
	}
}
