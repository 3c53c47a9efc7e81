package tree

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
)

func (s *screen) Small(context.Context) (api.Small, error) {
	return api.Small{Schema: "homenode-small/1", Workloads: []api.SmallWorkload{{ID: "/system.slice/cron.service", Name: "cron.service", CPUUse: 0.01, MemoryKiB: 2400}}}, nil
}

func (s *screen) whereabouts() (cli.Whereabouts, error) {
	all := s.host.Nodes[0].CPUs
	for _, n := range s.host.Nodes {
		all = all.Union(n.CPUs)
	}
	return cli.Whereabouts{CPUs: all, Now: all, Policy: "interleave", OfNodes: topology.Nodes(0)}, nil
}

// figures is rows of a table by node: a name and what the first node has; each further one
// has half of that of the node before.
func (s *screen) figures(unit string, rows ...any) (out workload.Figures) {
	for _, n := range s.host.Nodes {
		out.Nodes = append(out.Nodes, n.ID)
	}
	for i := 0; i < len(rows); i += 2 {
		r := workload.Figure{Name: rows[i].(string), Unit: unit}
		for k := range out.Nodes {
			v := rows[i+1].(int)
			if v > 0 {
				v >>= k
			}
			r.ByNode = append(r.ByNode, int64(v))
		}
		out.Rows = append(out.Rows, r)
	}
	return out
}

// screenFigures is the memory of a screen as numastat has it.
type screenFigures struct{ *screen }

func (s screenFigures) Nodes() (workload.Figures, error) {
	f := s.figures(workload.InKiB, "total", 256<<20, "free", 9<<20, "used", 247<<20, "file", 120<<20, "anonymous", 90<<20, "shared memory", 8900, "huge pages of 2 MiB", 8<<20,
		"huge pages of 2 MiB free", 0, "huge pages of 1 GiB", -1)
	f.Rows = append(f.Rows, s.figures(workload.InPages, "hit", 548904291, "miss", 1200345, "foreign", 0, "from this node's CPUs", 548904291).Rows...)
	return f, nil
}

func (s screenFigures) Processes(_ context.Context, pids []int) (workload.Figures, []workload.Unread) {
	if pids[0] == 1 {
		return workload.Figures{}, []workload.Unread{{PID: 1, Why: "no permission to read it"}}
	}
	return s.figures(workload.InKiB, "heap", 130<<10, "stack", 136, "private", 3<<20, "shared memory", 0, "file", 20<<10, "huge pages", 2<<20, "total", 5<<20), nil
}

// measured is what a probe of this host found.
func (s *screen) measured() *measure.Document {
	n := len(s.host.Nodes)
	d := &measure.Document{Schema: measure.Schema, SLIT: measure.NewTable(n, n), Host: measure.Host{ID: "Example Board", CPU: "Example 9000", Kernel: "6.12.0", CPUs: 8 * n, Packages: []measure.Package{{ID: 0, CPUs: topology.CPUs(0, 1)}}},
		Run: &measure.Run{Started: "2026-11-22T18:04:05Z", Seconds: 12.3, Profile: "quick", Tool: "1.2.3", Load1: 0.2, Rejected: 1, Sigma: 0.01}}
	l := &measure.Latency{Unit: "ns", From: "node", Pages: "thp", Median: measure.NewTable(n, n), Adjacent: measure.Unknown, Prefetchers: measure.Unknown}
	b := measure.Bandwidth{Mix: "r", Kernel: "avx2", Unit: "MB/s", Median: measure.NewTable(n, n), Total: measure.Value(119_000 * n)}
	for i, a := range s.host.Nodes {
		d.Nodes = append(d.Nodes, measure.Node{ID: i, CPUs: a.CPUs, ChannelMBs: measure.Unknown, HMATLatency: measure.Unknown, HMATMBs: measure.Unknown})
		l.Samples, l.Rejected = append(l.Samples, slices.Repeat([]int{11}, n)), append(l.Rejected, make([]int, n))
		ci, flags := []measure.Interval{}, make([]string, n)
		for j := range n {
			far := measure.Value(s.host.Distances[i][j]) / 10
			l.Median[i][j], b.Median[i][j], d.SLIT[i][j] = 82.3*far, 119_000/far, 10*far
			ci = append(ci, measure.Interval{81 * far, 83.5 * far})
		}
		if n > 1 && i == n-1 {
			flags[0] = "~"
		}
		l.CI95, l.Flags = append(l.CI95, ci), append(l.Flags, flags)
		l.Rows, l.Cols = append(l.Rows, i), append(l.Cols, i)
	}
	b.Rows, b.Cols = l.Rows, l.Cols
	d.Latency, d.Bandwidth = l, []measure.Bandwidth{b}
	for _, to := range []int{0, n - 1} {
		far := d.Latency.Median[0][to] / 82.3
		curve := measure.Loaded{From: 0, To: to, Mix: "r", Load: 7}
		for i, gap := range measure.Gaps(6) {
			x := measure.Value(i) / 5
			p := measure.LoadedPoint{Gap: gap, NS: far * (82.3 + 400*x*x*x), MBps: 111_000 * x / far}
			if i == 4 {
				p.Flag = "~"
			}
			curve.Points = append(curve.Points, p)
		}
		measure.FinishLoaded(&curve)
		if d.Loaded = append(d.Loaded, curve); n == 1 {
			break
		}
	}
	lv := measure.Levels{Caches: []measure.Cache{{Name: "L1d", Bytes: 48 << 10}, {Name: "L2", Bytes: 1 << 20}, {Name: "L3", Bytes: 32 << 20}}}
	for size, ns := 16<<10, measure.Value(1.1); size <= 64<<20; size *= 4 {
		if ns *= 2.1; size > 16<<20 {
			ns = 82.3
		}
		lv.Points = append(lv.Points, measure.LevelPoint{Bytes: int64(size), NS: ns, CI95: measure.Interval{ns * .99, ns * 1.01}})
	}
	lv.Knees = measure.Knees(lv.Points)
	lv.NameKnees()
	d.Levels = []measure.Levels{lv}
	return d
}

// A measuring machine that measures nothing; something was measured before.
func (s *screen) Memory() int64       { return 64 << 30 }
func (s *screen) Load() measure.Value { return 0.1 }
func (s *screen) Run(_ context.Context, _ measure.Plan, d *measure.Document, _ func(float64)) error {
	m := s.measured()
	d.Run, d.Latency = m.Run, m.Latency
	return nil
}
func (s *screen) Cached(string) (*measure.Document, error) { return s.measured(), nil }
func (s *screen) Keep(*measure.Document) (string, error)   { return "", nil }

// flight is the log of a daemon that looked twenty times; of name "other", of one that
// decided otherwise.
func (s *screen) flight(name string) (cli.Flight, error) {
	settings := control.Settings{Enforce: true, Policy: plan.DefaultPolicy(), Balance: balance.DefaultSettings(), Arrange: arrange.Options{MinMemory: 64 << 10, MinCPU: 0.2}, Interrupts: control.InterruptsOff}
	state, log := control.New(settings, control.Saved{}), &tape{torn: name == "other"}
	turn := func(in control.Input) error {
		var before json.RawMessage
		if in.Started != nil {
			before = state.Checkpoint()
		}
		in.At = moment0.Add(time.Duration(len(log.lines)) * 2 * time.Second)
		var out control.Output
		state, out = control.Next(state, in)
		line, err := json.Marshal(control.Recorded{Before: before, Input: in, Output: out})
		if name == "other" && len(log.lines) == 3 {
			line = bytes.Replace(line, []byte(`"output":{`), []byte(`"output":{"odd":1,`), 1)
		}
		log.lines = append(log.lines, line)
		return err
	}
	err := turn(control.Input{Started: &control.Started{Version: "1.2.3", Period: 2 * time.Second}})
	for i := range 20 {
		look := workload.Snapshot{Host: s.host}
		for k := range 2 * len(s.host.Nodes) {
			n := s.host.Nodes[0] // all of it on one node: too much for it
			look.Observations = append(look.Observations, workload.Observation{ID: workload.ID(fmt.Sprintf("pid:%d", 100+k)), Name: "work", Kind: workload.InProcess, Threads: 6, Window: 2 * time.Second,
				CPUUse: 5.5, RanOn: []workload.NodeShare{{Node: n.ID, Share: 1}}, Memory: []workload.NodeMemory{{Node: n.ID, KiB: 1 << 20}}, CPUs: n.CPUs, Mems: topology.Nodes(n.ID),
				Processes: []workload.Process{{PID: 100 + k, Start: uint64(k + 1)}}})
		}
		err = errors.Join(err, turn(control.Input{Scan: &control.Scan{Number: uint64(i + 1), Began: moment0, Snapshot: look}}))
	}
	return log, err
}

// records is that log as it stands in files.
func (s *screen) records(string, time.Time) (cli.Records, error) {
	log, err := s.flight("")
	if err != nil {
		return nil, err
	}
	out := &recordTape{}
	for _, line := range log.(*tape).lines {
		var l control.Logged
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, err
		}
		if l.Before != nil {
			out.records = append(out.records, [2][]byte{l.Before, nil})
		}
		out.records = append(out.records, [2][]byte{nil, line})
	}
	return out, nil
}

// recordTape is Records in memory.
type recordTape struct{ records [][2][]byte }

func (x *recordTape) Next() (checkpoint, line []byte, err error) {
	if len(x.records) == 0 {
		return nil, nil, io.EOF
	}
	r := x.records[0]
	x.records = x.records[1:]
	return r[0], r[1], nil
}
func (x *recordTape) Notes() []words.Reason { return nil }
func (x *recordTape) Close() error          { return nil }

// tape is a flight log in memory.
type tape struct {
	lines [][]byte
	torn  bool
}

func (x *tape) Next() (l control.Logged, err error) {
	if len(x.lines) == 0 {
		return l, io.EOF
	}
	err = json.Unmarshal(x.lines[0], &l)
	x.lines = x.lines[1:]
	return l, err
}
func (x *tape) Torn() bool   { return x.torn }
func (x *tape) Close() error { return nil }

// files makes a folder with the files that the command lines name, and goes there.
func (s *screen) files(t testing.TB) {
	dir := t.TempDir()
	type changesFolder interface{ Chdir(string) }
	t.(changesFolder).Chdir(dir)
	write := func(name string, doc func(io.Writer) error) {
		var text bytes.Buffer
		if err := errors.Join(doc(&text), os.WriteFile(name, text.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("machine.json", s.host.WriteJSON)
	slower := s.measured()
	for i, row := range slower.Latency.Median {
		for j := range row {
			if i != j {
				slower.Latency.Median[i][j] *= 1.3
				slower.Latency.CI95[i][j][0], slower.Latency.CI95[i][j][1] = 1.29*slower.Latency.CI95[i][j][0], 1.31*slower.Latency.CI95[i][j][1]
			}
		}
	}
	for name, d := range map[string]*measure.Document{"before.json": s.measured(), "after.json": slower} {
		write(name, func(w io.Writer) error { return json.NewEncoder(w).Encode(d) })
	}
}
