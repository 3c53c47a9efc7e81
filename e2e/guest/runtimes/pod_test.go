//go:build linux

package runtimes

import (
	"slices"
	"testing"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// A container runs a program, nothing, or a walker that answers by FIFOs; its first program saves its status.
func TestContainerCommand(t *testing.T) {
	const note = "cat /proc/self/status >/control/first; "
	w := &lab.Walker{WalkerSpec: small("c", 3).WalkerSpec}
	for name, c := range map[string]struct {
		spec ContainerSpec
		want []string
	}{
		"a program": {
			ContainerSpec{Program: &Program{Argv: []string{"/usr/bin/redis-server", "--save", ""}}},
			[]string{
				"/bin/sh", "-c", note + `export PATH=/usr/sbin:/usr/bin:/bin; exec "$@"`, "sh",
				"/usr/bin/redis-server", "--save", "",
			},
		},
		"nothing": {ContainerSpec{idle: true}, []string{"/bin/sh", "-c", note + "exec sleep 2147483647"}},
		"a walker": {ContainerSpec{}, []string{
			"/bin/sh", "-c", note + "export GODEBUG=asyncpreemptoff=1; exec /e2e/walker --slot 3 --mib 24 --threads 1 " +
				"--place local </control/c.in >/control/c.out 2>/control/c.err",
		}},
	} {
		k := &Container{Walker: w, spec: c.spec}
		if got := k.command(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
