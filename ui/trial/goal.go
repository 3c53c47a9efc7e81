package trial

import (
	"context"
	"regexp"
	"sync"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// anyNumber matches the numbers of a file without a pattern.
var anyNumber = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?`)
})

// mostOfGoal bounds one reading of a file, bytes: the user of a service can fill the file with numbers, and each
// match takes some 100 bytes and a microsecond.
const mostOfGoal = 256 << 10

// OfGoal returns the source of a goal of the operator's configuration; nil for a goal that the kernel's own
// counters decide. A pod or a user can never set a command, a file or a query. Queries go to the Prometheus at
// url.
func OfGoal(g *workload.Goal, url string) Source {
	switch g.From {
	case workload.FromCommand:
		return &Command{Text: g.Text, Within: 8 * time.Second}
	case workload.FromFile:
		pattern := anyNumber()
		if g.Match != "" {
			pattern = regexp.MustCompile(g.Match) // the configuration was checked
		}
		return &File{Path: g.Text, Pattern: pattern, Most: mostOfGoal}
	case workload.FromQuery:
		return seconds{&Query{URL: url, Text: g.Text}, g.Unit}
	}
	return nil
}

// seconds is a query of Prometheus, whose unit of time is the second (Prometheus, "Metric and label
// naming"), in the unit of the goal.
type seconds struct {
	query *Query
	unit  string
}

// Read implements Source.
func (s seconds) Read(ctx context.Context) (float64, bool, error) {
	x, ok, err := s.query.Read(ctx)
	switch s.unit {
	case "ms":
		x *= 1e3
	case "us":
		x *= 1e6
	case "ns":
		x *= 1e9
	case "%": // a ratio
		x *= 100
	}
	return x, ok, err
}
