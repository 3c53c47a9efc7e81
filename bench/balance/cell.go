package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"

	"github.com/homenode/homenode/sim"
)

// within is how near to the best the daemon must be.
const within = 0.01

// judged is at how many instants of a run the simulated queues score it too.
const judged = 8

// cell is one scenario on one size of host, under all policies.
type cell struct {
	Scenario string   `json:"scenario"`
	Nodes    int      `json:"nodes"`
	Seeds    int      `json:"seeds"`
	Broken   []string `json:"broken,omitempty"` // rules that the daemon broke
	Rows     []row    `json:"policies"`
}

// row is one policy's figures, one of each for every seed, from seed 1. What is 0
// for all seeds is left out.
type row struct {
	Policy    string    `json:"policy"`
	Felt      []float64 `json:"felt_ns"`
	Stretch   []float64 `json:"stretch"`
	Access    []float64 `json:"access_ns"`
	Utility   []float64 `json:"utility"`
	Important []float64 `json:"important_slowdown,omitempty"`
	Homes     []float64 `json:"homes_changed,omitempty"`
	Back      []float64 `json:"changed_back,omitempty"`
	Moved     []float64 `json:"moved_gib,omitempty"`
	Refused   []float64 `json:"refused,omitempty"`
}

func (c *cell) fill(ctx context.Context) error {
	rows := make([]row, len(policies))
	for seed := uint64(1); seed <= uint64(c.Seeds); seed++ {
		trace, err := sim.Scenario(c.Scenario, c.Nodes, seed)
		if err != nil {
			return err
		}
		result, err := sim.Run(ctx, sim.Options{Trace: trace, Seed: seed, Policies: policies, Judge: judged})
		if err != nil {
			return err
		}
		for k := range result.Policies {
			rows[k].add(&result.Policies[k])
		}
		for _, b := range trace.Breaks(&result.Policies[0]) {
			c.Broken = append(c.Broken, fmt.Sprintf("seed %d: %s", seed, b))
		}
		if f := result.Failed(); f != nil && f.Policy != policies[0] {
			return f
		}
	}
	for k := range rows {
		rows[k].trim()
	}
	c.Rows = rows
	return nil
}

func (r *row) add(s *sim.Score) {
	round := func(x float64, digits int) float64 { p := math.Pow10(digits); return math.Round(x*p) / p }
	r.Policy = s.Policy
	r.Felt = append(r.Felt, round(s.FeltNs, 2))
	r.Stretch = append(r.Stretch, round(s.Stretch, 4))
	r.Access = append(r.Access, round(s.AccessNs, 2))
	r.Utility = append(r.Utility, round(s.Utility, 2))
	r.Important = append(r.Important, round(s.Important, 4))
	r.Homes = append(r.Homes, float64(s.Rehomed))
	r.Back = append(r.Back, float64(s.Returned))
	r.Moved = append(r.Moved, round(float64(s.MovedBytes)/(1<<30), 1))
	r.Refused = append(r.Refused, float64(s.Refused))
}

// trim drops what is always 0.
func (r *row) trim() {
	for _, v := range []*[]float64{&r.Important, &r.Homes, &r.Back, &r.Moved, &r.Refused} {
		if mean(*v) == 0 {
			*v = nil
		}
	}
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(max(1, len(v)))
}

func felt(r *row) float64    { return mean(r.Felt) }
func stretch(r *row) float64 { return mean(r.Stretch) }
func access(r *row) float64  { return mean(r.Access) }

// of is the row of one policy.
func (c *cell) of(policy string) *row {
	for k := range c.Rows {
		if c.Rows[k].Policy == policy {
			return &c.Rows[k]
		}
	}
	return &row{}
}

// best is the peer with the least mean, and by how much the daemon is behind it, as
// part of that; below zero it is ahead.
func (c *cell) best(figure func(*row) float64) (peer string, behind float64) {
	least := math.Inf(1)
	for k := range c.Rows {
		r := &c.Rows[k]
		if r.Policy != policies[0] && figure(r) < least {
			peer, least = r.Policy, figure(r)
		}
	}
	return peer, figure(c.of(policies[0]))/least - 1
}

func (c *cell) verdict() string {
	peer, behind := c.best(felt)
	text := fmt.Sprintf("%.1f ns, %s behind %s", felt(c.of(policies[0])), percent(behind), peer)
	peer, queued := c.best(stretch)
	text += fmt.Sprintf("; by queues × %.3f, %s behind %s", stretch(c.of(policies[0])), percent(queued), peer)
	if behind > within {
		text += "  BEHIND"
	}
	if len(c.Broken) > 0 {
		text += fmt.Sprintf("  %d rules broken, first: %s", len(c.Broken), c.Broken[0])
	}
	return text
}

// header is the first line of the raw file.
type header struct {
	Machine string `json:"machine"`
	Command string `json:"command"`
}

func thisRun() header {
	model := "unknown CPU"
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return header{
		Machine: fmt.Sprintf("%s, %d CPUs; Linux %s; %s", model, runtime.NumCPU(), strings.TrimSpace(string(kernel)),
			runtime.Version()),
		Command: "go run ./bench/balance " + strings.Join(os.Args[1:], " "),
	}
}

// rawFile is where cells go as they are done.
type rawFile struct{ file *os.File }

// openRaw begins a raw file, or reads what one has already into the cells.
func openRaw(name string, resume bool, cells []*cell) (*rawFile, error) {
	flags := os.O_RDWR | os.O_CREATE
	if !resume {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(name, flags, 0o644)
	if err != nil {
		return nil, err
	}
	r := &rawFile{f}
	for dec := json.NewDecoder(f); ; {
		var c cell
		if err := dec.Decode(&c); err != nil { // the end, or a line cut off by a crash
			break
		}
		for _, x := range cells {
			if x.Scenario == c.Scenario && x.Nodes == c.Nodes && x.Seeds == c.Seeds {
				*x = c
			}
		}
	}
	return r, r.sort(cells)
}

func (r *rawFile) add(c *cell) error { return json.NewEncoder(r.file).Encode(c) }

// sort writes all that is done, in order.
func (r *rawFile) sort(cells []*cell) error {
	if err := r.file.Truncate(0); err != nil {
		return err
	}
	if _, err := r.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := json.NewEncoder(r.file).Encode(thisRun()); err != nil {
		return err
	}
	for _, c := range cells {
		if c.Rows != nil {
			if err := r.add(c); err != nil {
				return err
			}
		}
	}
	return nil
}
