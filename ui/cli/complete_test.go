package cli

import "testing"

// Users choose the names of their cgroups; bash puts what two of them begin with onto root's
// command line without quotes, and evaluates it with the next key.
func TestCompletionOffersNoShellCode(t *testing.T) {
	for _, name := range []string{"/$(touch x)a", "/`id`", "/a;b", "/a b", "/a\nb", "/a\tb", "/a'b", `/a"b`, "/{a,b}", "/a&", "/a|b", "/a>b", "/~a", "/*", "!!", "--all", "-h"} {
		if PlainToType(name) {
			t.Errorf("%q is offered", name)
		}
	}
	for _, name := range []string{"/system.slice/db@1.service", `dev-disk\x2dby.slice`, "pid:12", "vm/web-1", "é"} {
		if !PlainToType(name) {
			t.Errorf("%q is not offered", name)
		}
	}
}
