package plantest

import (
	"flag"
	"testing"
)

// Main runs the tests of a package with every property of the engine tried on thousands of cases, the same
// each time, unless flags say otherwise; rapid's own default is 100 that are new each time.
func Main(m *testing.M) int {
	flag.Parse()
	preset := map[string]string{"rapid.checks": "2000", "rapid.seed": "1"}
	flag.Visit(func(f *flag.Flag) { delete(preset, f.Name) })
	for name, value := range preset {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	return m.Run()
}
