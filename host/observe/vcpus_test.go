package observe

import (
	"fmt"
	"hash/maphash"
	"strings"
	"testing"
)

// Memory is told by the node that it was asked for, wherever it lies.
func TestAskedMemory(t *testing.T) {
	m, err := newMapsParser(maphash.MakeSeed()).parse(strings.NewReader(`7f0000000000 prefer (many):1 anon=10 dirty=10 N0=4 N1=6 kernelpagesize_kB=4
7f1000000000 bind:0 anon=3 N0=3 kernelpagesize_kB=4
7f2000000000 prefer=static:1 anon=1 N1=1 kernelpagesize_kB=4
7f3000000000 bind:0-1 anon=5 N0=5 kernelpagesize_kB=4
7f4000000000 interleave:1 anon=5 N0=5 kernelpagesize_kB=4
7f5000000000 default anon=5 N0=5 kernelpagesize_kB=4
7f6000000000 bind:3
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range m.asked {
		got = append(got, fmt.Sprintf("%d:%v", a.node, a.all.list()))
	}
	if want := "1:[{0 16} {1 28}] 0:[{0 12}] 3:[]"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", strings.Join(got, " "), want)
	}
}
