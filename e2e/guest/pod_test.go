//go:build linux

package main

import (
	"slices"
	"testing"
)

// A container runs a program, nothing, or a walker that answers by FIFOs; its first program saves its status.
func TestContainerCommand(t *testing.T) {
	const note = "cat /proc/self/status >/control/first; "
	w := &walker{walkerSpec: small("c", 3).walkerSpec}
	for name, c := range map[string]struct {
		spec containerSpec
		want []string
	}{
		"a program": {
			containerSpec{program: &program{argv: []string{"/usr/bin/redis-server", "--save", ""}}},
			[]string{
				"/bin/sh", "-c", note + `export PATH=/usr/sbin:/usr/bin:/bin; exec "$@"`, "sh",
				"/usr/bin/redis-server", "--save", "",
			},
		},
		"nothing": {containerSpec{idle: true}, []string{"/bin/sh", "-c", note + "exec sleep 2147483647"}},
		"a walker": {containerSpec{}, []string{
			"/bin/sh", "-c", note + "export GODEBUG=asyncpreemptoff=1; exec /e2e/walker --slot 3 --mib 24 --threads 1 " +
				"--place local </control/in >/control/out 2>/control/err",
		}},
	} {
		k := &container{walker: w, spec: c.spec}
		if got := k.command(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
