package workload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Goal is the most that a metric of a workload may be (a service level objective). Batch work gives
// way so that it holds.
type Goal struct {
	Metric string        `json:"metric"` // name for people, such as p99
	From   GoalSource    `json:"from"`
	Text   string        `json:"text,omitempty"`    // of GoalSource: the command, the path or the query
	Match  string        `json:"pattern,omitempty"` // of a file: a regular expression whose first group is the number
	Most   float64       `json:"most,omitempty"`    // limit, in Unit; 0 with FromBaseline
	Unit   string        `json:"unit,omitempty"`    // ms, s, us, ns, % or ""
	Window time.Duration `json:"window,omitempty"`  // over which the metric is computed
}

// GoalSource is where the metric of a goal is read.
type GoalSource string

// Sources. Only the configuration of the operator may name the last three: they are read with the rights of
// the daemon.
const (
	FromKernel   GoalSource = "kernel"   // share of time that it waits for a CPU, percent
	FromBaseline GoalSource = "baseline" // its cycles per instruction or waiting time, against its own baseline
	FromCommand  GoalSource = "command"
	FromFile     GoalSource = "file"
	FromQuery    GoalSource = "query" // of Prometheus
)

// Named reports whether the source is something that a person named: a command, a file or a query.
func (s GoalSource) Named() bool { return s == FromCommand || s == FromFile || s == FromQuery }

// Key names what the metric is read from: goals with one key share a reading.
func (g *Goal) Key() string {
	return strings.Join([]string{string(g.From), g.Text, g.Match, g.Unit, g.Window.String()}, "\x00")
}

// String returns a goal in one line.
func (g Goal) String() string {
	if g.From == FromBaseline {
		return g.Metric + " at its baseline"
	}
	return fmt.Sprintf("%s %s or less (%s)", g.Metric, g.Limit(g.Most), g.From)
}

// Limit returns a value of the metric with its unit.
func (g *Goal) Limit(x float64) string { return WithUnit(x, g.Unit) }

// WithUnit returns a number of three digits with its unit, without an exponent from 0.0001 to a million.
func WithUnit(x float64, unit string) string {
	text := strconv.FormatFloat(x, 'g', 3, 64)
	if size := math.Abs(x); size >= 1e-4 && size < 1e6 {
		if rounded, err := strconv.ParseFloat(text, 64); err == nil {
			text = strconv.FormatFloat(rounded, 'f', -1, 64)
		}
	}
	if unit == "" {
		return text
	}
	return text + " " + unit
}

// MostGoals is how many goals a workload may have.
const MostGoals = 8

const (
	leastWindow, mostWindow = time.Second, time.Hour
	defaultWindow           = 10 * time.Second
	// leastWait is the least limit, in percent, that a workload's own author may set: a limit of nothing
	// would stop all batch work.
	leastWait = 1
)

// goalUnits are the units of a limit, longest first.
var goalUnits = []string{"ms", "us", "µs", "ns", "s", "%"}

// ParseLimit reads a limit such as 2ms, 5% or 1.5.
func ParseLimit(text string) (most float64, unit string, err error) {
	number := strings.TrimSpace(text)
	for _, u := range goalUnits {
		if rest, ok := strings.CutSuffix(number, u); ok {
			number, unit = strings.TrimSpace(rest), u
			break
		}
	}
	if unit == "µs" {
		unit = "us"
	}
	most, err = strconv.ParseFloat(number, 64)
	if err != nil || !(most > 0) || most > 1e15 {
		return 0, "", fmt.Errorf("most: %.40q; want a number above 0 with its unit, such as 2ms or 5%%", text)
	}
	return most, unit, nil
}

// Check completes a goal and returns what is wrong with it.
func (g *Goal) Check() error {
	if g.From == FromKernel && g.Metric == "" {
		g.Metric = "wait"
	}
	if g.From == FromBaseline && g.Metric == "" {
		g.Metric = "harm"
	}
	g.Window = cmp.Or(g.Window, defaultWindow)
	switch {
	case !OneLine(g.Metric) || g.Metric == "" || len(g.Metric) > 40:
		return fmt.Errorf("metric: %.40q; want a name of at most 40 bytes, such as p99", g.Metric)
	case g.Window < leastWindow || g.Window > mostWindow:
		return fmt.Errorf("window: %v; want %v to %v", g.Window, leastWindow, mostWindow)
	case g.From.Named() && strings.TrimSpace(g.Text) == "":
		return fmt.Errorf("of.%s: empty", g.From)
	case g.From == FromFile && !strings.HasPrefix(g.Text, "/"):
		return fmt.Errorf("of.file: %.80q; want a path from /", g.Text)
	case g.Match != "" && g.From != FromFile:
		return errors.New("of.pattern: goes with of.file")
	case g.From == FromBaseline && g.Most != 0:
		return errors.New("most: the limit of baseline is learned; leave it out")
	case g.From == FromBaseline:
		return nil
	case !(g.Most > 0):
		return errors.New("most: not given; want the most that the metric may be, such as 2ms")
	case g.From == FromKernel && (g.Unit != "%" || g.Most > 100):
		const want = "of: kernel is the share of time that the workload waits for a CPU; want a percentage such as 5%"
		return fmt.Errorf("most: %s; %s", g.Limit(g.Most), want)
	}
	return nil
}

// ParseGoal reads a goal as the author of a pod or a user writes it: most=5%,window=30s for run-queue wait, or
// of=baseline. Commands, files and queries are for the configuration alone.
func ParseGoal(text string) (g Goal, err error) {
	g.From = FromKernel
	if len(text) > 256 {
		return g, errors.New("longer than 256 bytes")
	}
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		value = strings.TrimSpace(value)
		if !ok {
			return g, fmt.Errorf("%.40q; want most=5%% or of=baseline, and window=30s after it if wanted", part)
		}
		switch key {
		case "most":
			g.Most, g.Unit, err = ParseLimit(value)
		case "window":
			g.Window, err = time.ParseDuration(value)
		case "metric":
			g.Metric = value
		case "of":
			g.From = GoalSource(value)
			if g.From.Named() {
				const why = "only the operator's configuration names commands, files and queries: want kernel or " +
					"baseline"
				return g, fmt.Errorf("of=%s; %s", value, why)
			}
			if g.From != FromKernel && g.From != FromBaseline {
				return g, fmt.Errorf("of=%.40q; want kernel or baseline", value)
			}
		default:
			return g, fmt.Errorf("%.40q is unknown; want most, window, metric or of", key)
		}
		if err != nil {
			return g, err
		}
	}
	if err := g.Check(); err != nil {
		return g, err
	}
	if g.From == FromKernel && g.Most < leastWait {
		const why = "a limit of next to nothing would stop all batch work"
		return g, fmt.Errorf("most: %s; want %d%% or more: %s", g.Limit(g.Most), leastWait, why)
	}
	return g, nil
}

// MetricReading is the newest value of the metric of a goal, as the daemon has read it outside its loop.
type MetricReading struct {
	Key    string
	Value  float64
	Known  bool      // Value was read at least once
	At     time.Time `json:",omitzero"` // of Value
	Failed string    `json:",omitempty"`
}

// MetricOf returns the reading of a goal's metric, or nil.
func (s *Snapshot) MetricOf(g *Goal) *MetricReading {
	key := g.Key()
	i := slices.IndexFunc(s.Metrics, func(m MetricReading) bool { return m.Key == key })
	if i < 0 {
		return nil
	}
	return &s.Metrics[i]
}
