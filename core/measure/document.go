package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// Schema names the form of a Document. New optional keys do not change it.
const Schema = "homenode-measure/1"

// maxDocument bounds input. A core to core matrix of 256 CPUs takes 600 KiB.
const maxDocument = 64 << 20

// Document is one measurement of one machine, with the facts that doctor needs
// to judge it. What was not measured is nil; what is not known is null.
type Document struct {
	Schema     string      `json:"schema"`
	Host       Host        `json:"host"`        // that was measured
	Run        *Run        `json:"run"`         // how it was measured; null when only facts were read
	Nodes      []Node      `json:"nodes"`       // by rising ID
	SLIT       Table       `json:"slit"`        // as the kernel tells it, by position in Nodes
	Firmware   *Firmware   `json:"firmware"`    // what its tables say; null when there are none
	Settings   *Settings   `json:"settings"`    // of the kernel that matter; null when they were not read
	Latency    *Latency    `json:"latency"`     // node × node
	CPULatency *Latency    `json:"cpu_latency"` // CPU × node
	Bandwidth  []Bandwidth `json:"bandwidth"`   // matrices, one for each mix of reads and writes
	Loaded     []Loaded    `json:"loaded"`      // latency under load, by pair of nodes
	Levels     []Levels    `json:"levels"`      // latency by size of buffer
	C2C        []C2C       `json:"c2c"`         // latency between two cores' caches
	Pages      []Page      `json:"pages"`       // what a page costs by its size
	Diagnosis  *Diagnosis  `json:"diagnosis"`   // of doctor; null without one
	// NotMeasured is why a measurement that was asked for could not be taken; ""
	// when none was asked for, and when it was taken.
	NotMeasured string `json:"not_measured,omitempty"`
}

// Host is the machine as far as a measurement depends on it.
type Host struct {
	ID          string    `json:"id"`           // of the machine, for people: vendor and product
	CPU         string    `json:"cpu"`          // model
	Arch        string    `json:"arch"`         // as Go names it, such as amd64
	Kernel      string    `json:"kernel"`       // release
	CmdlineNUMA []string  `json:"cmdline_numa"` // numa=…, acpi=off as booted; null when the command line is unknown
	Virt        string    `json:"virt"`         // "none", "kvm", "vm"; "" unknown
	THP         string    `json:"thp"`          // transparent_hugepage/enabled
	LLC         int64     `json:"llc_bytes"`    // of one last-level cache; 0 unknown
	CPUs        int       `json:"cpus"`         // online
	Packages    []Package `json:"packages"`     // by rising ID
	Fingerprint string    `json:"fingerprint"`  // of the hardware: measurements hold for the same one
}

// Package is one socket.
type Package struct {
	ID   int             `json:"id"`   // physical_package_id
	CPUs topology.CPUSet `json:"cpus"` // of the package
}

// Run tells how the measuring went.
type Run struct {
	Started  string   `json:"started"`       // RFC 3339
	Seconds  float64  `json:"seconds"`       // that it took
	Profile  string   `json:"profile"`       // quick, standard or thorough
	Tool     string   `json:"tool"`          // that measured, with its version
	Load1    Value    `json:"load1"`         // load average of a minute before it began
	Rejected Value    `json:"rejected_pct"`  // samples thrown out
	Sigma    Value    `json:"control_sigma"` // relative spread of the control measurement
	RT       bool     `json:"rt"`            // latencies were taken under SCHED_FIFO
	Partial  bool     `json:"partial"`       // ended by a signal or by its budget
	Clock    []Clock  `json:"clock"`         // of the CPUs that stand for the nodes
	LeftOut  []Left   `json:"left_out"`      // nodes that were not measured
	Notes    []string `json:"notes"`         // sentences on what was odd
}

// Clock is the clock of a CPU in MHz, by a chain of one-cycle operations and as
// cpufreq tells it, before the measurements and after.
type Clock struct {
	CPU        int   `json:"cpu"`                // that was timed
	Before     Value `json:"before_mhz"`         // MHz, as found by timed instructions before the measurement
	After      Value `json:"after_mhz"`          // MHz, the same after it
	FreqBefore Value `json:"cpufreq_before_mhz"` // MHz by cpufreq before the measurement
	FreqAfter  Value `json:"cpufreq_after_mhz"`  // MHz by cpufreq after it
}

// Left is a node that was not measured, and why.
type Left struct {
	Node int    `json:"node"` // that was left out
	Why  string `json:"why"`  // in a sentence
}

// Node is one NUMA node as it was at the time.
type Node struct {
	ID   int             `json:"id"`         // of the kernel
	CPUs topology.CPUSet `json:"cpus"`       // that are online
	Mem  *int64          `json:"mem_bytes"`  // bytes in all; null unknown
	Free *int64          `json:"free_bytes"` // bytes; null unknown
	Kind string          `json:"kind"`       // of memory, such as ram or cxl
	// DIMMs from SMBIOS, where its slot labels tell the package.
	Channels   *int   `json:"dimm_channels"`      // with memory in them
	MaxChannel *int   `json:"dimm_channel_slots"` // there are
	ChannelMBs Value  `json:"dimm_channel_mb_s"`  // one channel can do
	Pages      string `json:"pages"`              // kind of page measured on: thp, 4k, mixed; "" not measured
	// What the kernel took from the HMAT for the nearest initiators.
	HMATLatency Value `json:"hmat_read_latency_ns"`
	HMATMBs     Value `json:"hmat_read_mb_s"` // MB/s of local reads as the firmware says
}

// Firmware is what the ACPI tables say, nil when they cannot be read. Rows and
// columns of SLIT and HMAT go by Domains.
type Firmware struct {
	SRAT        bool  `json:"srat"`                 // the table is there
	Domains     []int `json:"domains"`              // proximity domains with CPUs or memory, rising
	Memory      []int `json:"memory_domains"`       // … with memory
	SLIT        Table `json:"slit"`                 // distances, 10 is local
	HMATLatency Table `json:"hmat_read_latency_ns"` // ns of a read, from row to column
	HMATMBs     Table `json:"hmat_read_mb_s"`       // MB/s of reads, from row to column
}

// Latency is idle read latency. Flags of a cell: "" good; "~" interval over
// 5 %; "llc-diluted", "4k", "unbound", "failed: …".
type Latency struct {
	Unit   string       `json:"unit"`   // ns
	Pages  string       `json:"pages"`  // that the buffers had: base or huge
	From   string       `json:"from"`   // node or cpu
	Rows   []int        `json:"rows"`   // IDs
	Cols   []int        `json:"cols"`   // node IDs
	Median Table        `json:"median"` // ns of a load, from row to column
	Best   Table        `json:"best"`   // 5th percentile
	Sigma  Table        `json:"sigma"`  // robust spread of the samples, ns
	CI95   [][]Interval `json:"ci95"`   // 95 % interval of the median, ns
	// Ratio is to the row's cheapest local cell, from pairs of samples of the same round.
	Ratio    Table        `json:"ratio"`
	RatioCI  [][]Interval `json:"ratio_ci95"` // 95 % interval of the ratio to local
	Samples  [][]int      `json:"samples"`    // that count, by cell
	Rejected [][]int      `json:"rejected"`   // samples, by cell
	Flags    [][]string   `json:"flags"`      // what is odd, by cell
	// Adjacent is how much lower the latency looks when neighbouring lines are
	// read close in time: what an adjacent-line prefetcher hides. Unknown when not run.
	Adjacent Value `json:"adjacent_line_effect"`
	// Prefetchers is how much lower it is with the hardware's prefetchers on than
	// with them off. Unknown when not run: they are switched on request only.
	Prefetchers Value `json:"prefetcher_effect"`
}

// Bandwidth is one mix over all pairs of nodes.
type Bandwidth struct {
	Mix    string `json:"mix"`    // r, 3:1, 2:1, 1:1, w, nt, triad, nt-triad
	Kernel string `json:"kernel"` // instructions used
	Unit   string `json:"unit"`   // MB/s, 10^6
	Rows   []int  `json:"rows"`   // nodes whose CPUs read or write
	Cols   []int  `json:"cols"`   // nodes whose memory it is
	Median Table  `json:"median"` // what the program loads and stores
	// Traffic adds the reads for ownership that ordinary stores cost.
	Traffic  Table        `json:"traffic"`
	CI95     [][]Interval `json:"ci95"`     // 95 % interval of the median, MB/s
	Threads  [][]int      `json:"threads"`  // that reached the median
	Knee     [][]int      `json:"knee"`     // threads that reach 90 % of it
	Total    Value        `json:"total"`    // all nodes at once, each local
	Samples  [][]int      `json:"samples"`  // that count, by cell
	Rejected [][]int      `json:"rejected"` // samples, by cell
	Flags    [][]string   `json:"flags"`    // what is odd, by cell
}

// Loaded is latency under load on one pair of nodes.
type Loaded struct {
	From   int           `json:"from"`      // node whose CPUs load
	To     int           `json:"to"`        // node whose memory it is
	Mix    string        `json:"mix"`       // of reads and writes
	Load   int           `json:"load_cpus"` // CPUs that make the load
	Points []LoadedPoint `json:"points"`    // by rising load
	Peak   Value         `json:"peak_mbps"` // MB/s, the most that was reached
	Knee   Value         `json:"knee_mbps"` // MB/s at which latency begins to climb
	At50   Value         `json:"ns_at_50"`  // ns at 50 % of the peak
	At75   Value         `json:"ns_at_75"`  // ns at 75 % of the peak
	At90   Value         `json:"ns_at_90"`  // ns at 90 % of the peak
}

// LoadedPoint is one injected pause.
type LoadedPoint struct {
	Gap  int   `json:"gap"`  // pause between bursts; -1: no load at all
	NS   Value `json:"ns"`   // of a load
	MBps Value `json:"mbps"` // MB/s at the same time
	// Ran is the share of the time, 0 to 1, for which the load's threads had a CPU; 0 when
	// unknown or without load. Below LoadRan the point has the flag "~": the load came in
	// spurts, and the point counts for nothing.
	Ran  float64 `json:"ran,omitempty"`
	Flag string  `json:"flag,omitempty"` // what is odd with it
}

// LoadRan is the least Ran of a point that says what its pause stands for.
const LoadRan = 0.9

// Levels is latency by working set.
type Levels struct {
	CPU    int          `json:"cpu"`              // that read
	Node   int          `json:"node"`             // whose memory it read
	Points []LevelPoint `json:"points"`           // by rising size
	Knees  []Knee       `json:"knees"`            // where latency climbs
	Caches []Cache      `json:"caches,omitempty"` // data caches of the CPU by sysfs, smallest first; nil unknown
}

// Cache is one data or unified cache of a CPU.
type Cache struct {
	Name  string `json:"name"`  // L1d, L2, L3
	Bytes int64  `json:"bytes"` // of size
}

// LevelPoint is one working set.
type LevelPoint struct {
	Bytes int64    `json:"bytes"` // of the buffer
	NS    Value    `json:"ns"`    // of a load
	CI95  Interval `json:"ci95"`  // 95 % interval of it, ns
}

// Knee is a step of the curve: the largest working set before latency rises.
type Knee struct {
	Level string `json:"level"` // the cache that ends there, or "step 2" when none does
	Bytes int64  `json:"bytes"` // at which a level ends
	NS    Value  `json:"ns"`    // of a load within the level
}

// KneeName tells a step of the curve: "L2 (1 MiB) ends at 708 KiB" or "step 2 at 180 KiB".
func (l *Levels) KneeName(k Knee) string {
	for _, c := range l.Caches {
		if c.Name == k.Level {
			return fmt.Sprintf("%s (%s) ends at %s", c.Name, words.Bytes(c.Bytes), words.Bytes(k.Bytes))
		}
	}
	return fmt.Sprintf("%s at %s", k.Level, words.Bytes(k.Bytes))
}

// C2C is one way latency between CPUs through one line.
type C2C struct {
	Unit     string  `json:"unit"`      // that the rows stand for
	LineHome string  `json:"line_home"` // "first", "A", "B"
	CPUs     []int   `json:"cpus"`      // that were measured, in the order of rows and columns
	Median   Table   `json:"median"`    // ns of a line's way from one to the other
	Flags    [][]int `json:"timeouts"`  // pairs that did not finish
}

// Page is the latency of one 2 MiB page from one CPU of every package.
type Page struct {
	NS []Value `json:"ns"` // in the order of Host.Packages
}

// maxSide bounds rows and columns of a table.
const maxSide = 1 << 13

// Read reads a Document and checks that its tables have the shape they claim.
func Read(r io.Reader) (*Document, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read measurement: %w", err)
	}
	if len(data) > maxDocument {
		return nil, fmt.Errorf("read measurement: more than %d MiB; this is not one", maxDocument>>20)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var d Document
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("read measurement: %w", explain(data, err))
	}
	if at := dec.InputOffset(); len(bytes.TrimSpace(data[at:])) > 0 {
		at += int64(len(data[at:]) - len(bytes.TrimLeft(data[at:], " \t\r\n")))
		return nil, fmt.Errorf("read measurement: %s: there is more after the end of the document; give one document", position(data, at))
	}
	if d.Schema != Schema {
		return nil, fmt.Errorf("read measurement: schema is %.40q; this program reads %q", d.Schema, Schema)
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("read measurement: %w", err)
	}
	for i := range d.Levels {
		d.Levels[i].NameKnees()
	}
	return &d, nil
}

func (d *Document) check() error {
	if err := d.checkNumbers(); err != nil {
		return err
	}
	if len(d.Nodes) == 0 || len(d.Nodes) > maxSide {
		return errors.New("nodes: want at least one")
	}
	seen := map[int]bool{}
	for i, n := range d.Nodes {
		if seen[n.ID] || n.ID < 0 || n.ID > topology.MaxID {
			return fmt.Errorf("nodes[%d].id: %d is there twice or no node ID", i, n.ID)
		}
		seen[n.ID] = true
	}
	if d.SLIT != nil {
		if err := square("slit", d.SLIT, len(d.Nodes), len(d.Nodes)); err != nil {
			return err
		}
	}
	if f := d.Firmware; f != nil {
		for name, t := range map[string]Table{"slit": f.SLIT, "hmat_read_latency_ns": f.HMATLatency, "hmat_read_mb_s": f.HMATMBs} {
			if t != nil {
				if err := square("firmware."+name, t, len(f.Domains), len(f.Domains)); err != nil {
					return err
				}
			}
		}
	}
	for name, l := range map[string]*Latency{"latency": d.Latency, "cpu_latency": d.CPULatency} {
		if err := l.check(name, seen); err != nil {
			return err
		}
	}
	for i, b := range d.Bandwidth {
		if err := square(fmt.Sprintf("bandwidth[%d].median", i), b.Median, len(b.Rows), len(b.Cols)); err != nil {
			return err
		}
	}
	for i, c := range d.C2C {
		if err := square(fmt.Sprintf("c2c[%d].median", i), c.Median, len(c.CPUs), len(c.CPUs)); err != nil {
			return err
		}
	}
	for i, p := range d.Pages {
		if len(p.NS) != len(d.Host.Packages) {
			return fmt.Errorf("pages[%d]: %d values for %d packages", i, len(p.NS), len(d.Host.Packages))
		}
	}
	return nil
}

func (l *Latency) check(name string, nodes map[int]bool) error {
	if l == nil {
		return nil
	}
	if l.From != "node" && l.From != "cpu" {
		return fmt.Errorf("%s.from: is %.40q; give node or cpu", name, l.From)
	}
	for _, c := range l.Cols {
		if !nodes[c] {
			return fmt.Errorf("%s.cols: node %d is not in nodes", name, c)
		}
	}
	if err := square(name+".median", l.Median, len(l.Rows), len(l.Cols)); err != nil {
		return err
	}
	for _, t := range []Table{l.Best, l.Sigma, l.Ratio} {
		if t != nil {
			if err := square(name, t, len(l.Rows), len(l.Cols)); err != nil {
				return err
			}
		}
	}
	if l.CI95 != nil && !shaped(l.CI95, len(l.Rows), len(l.Cols)) || l.RatioCI != nil && !shaped(l.RatioCI, len(l.Rows), len(l.Cols)) ||
		l.Samples != nil && !shaped(l.Samples, len(l.Rows), len(l.Cols)) || l.Rejected != nil && !shaped(l.Rejected, len(l.Rows), len(l.Cols)) ||
		l.Flags != nil && !shaped(l.Flags, len(l.Rows), len(l.Cols)) {
		return fmt.Errorf("%s: a table is not %d by %d", name, len(l.Rows), len(l.Cols))
	}
	return nil
}

func square(name string, t Table, rows, cols int) error {
	if !shaped(t, rows, cols) || rows > maxSide || cols > maxSide {
		return fmt.Errorf("%s: want %d rows of %d", name, rows, cols)
	}
	return nil
}

func shaped[T any, R ~[]T](t []R, rows, cols int) bool {
	if len(t) != rows {
		return false
	}
	for _, r := range t {
		if len(r) != cols {
			return false
		}
	}
	return true
}

// Write writes the form that Read reads.
func (d *Document) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(d)
}

// Flag is the mark of a cell.
func (l *Latency) Flag(i, j int) string {
	if l.Flags == nil {
		return ""
	}
	return l.Flags[i][j]
}

// CI is the interval of a cell, unknown where none was taken.
func (l *Latency) CI(i, j int) Interval {
	if l.CI95 == nil {
		return Interval{Unknown, Unknown}
	}
	return l.CI95[i][j]
}

// RatioAt is the pairwise ratio of a cell to local, or the ratio of the medians
// where no pairs were kept.
func (l *Latency) RatioAt(i, j, local int) Value {
	if v := l.Ratio; v != nil && v.At(i, j).Known() {
		return v.At(i, j)
	}
	return l.Median.At(i, j) / l.Median.At(i, local)
}

// Position is the index of a node ID in Nodes, -1 when it is not there.
func (d *Document) Position(node int) int {
	for i, n := range d.Nodes {
		if n.ID == node {
			return i
		}
	}
	return -1
}

// ByNode is the latency matrix by position in Nodes: measured node to node, or
// the median of the node's CPUs. nil when neither was measured.
func (d *Document) ByNode() Table {
	t := NewTable(len(d.Nodes), len(d.Nodes))
	found := false
	if l := d.Latency; l != nil {
		for i, from := range l.Rows {
			for j, to := range l.Cols {
				if a, b := d.Position(from), d.Position(to); a >= 0 && b >= 0 && l.Median[i][j].Known() {
					t[a][b], found = l.Median[i][j], true
				}
			}
		}
	}
	if l := d.CPULatency; l != nil && !found {
		for a, n := range d.Nodes {
			for j, to := range l.Cols {
				var of []float64
				for i, cpu := range l.Rows {
					if n.CPUs.Has(topology.CPUID(cpu)) && l.Median[i][j].Known() {
						of = append(of, float64(l.Median[i][j]))
					}
				}
				if len(of) > 0 {
					t[a][d.Position(to)], found = Value(Median(of)), true
				}
			}
		}
	}
	if !found {
		return nil
	}
	return t
}

// Measured is the document as placement takes it: by position in the nodes of
// h. nil when the document is of a machine with other nodes or holds no matrix.
func (d *Document) Measured(h *topology.Host) *topology.Measured {
	if len(d.Nodes) != len(h.Nodes) {
		return nil
	}
	for i, n := range h.Nodes {
		if d.Nodes[i].ID != int(n.ID) {
			return nil
		}
	}
	m := &topology.Measured{}
	if t := d.ByNode(); t != nil {
		m.LatencyNs = floats(t, 1)
	}
	for _, b := range d.Bandwidth {
		if b.Mix != "r" {
			continue
		}
		t := NewTable(len(d.Nodes), len(d.Nodes))
		for i, from := range b.Rows {
			for j, to := range b.Cols {
				if p, q := d.Position(from), d.Position(to); p >= 0 && q >= 0 {
					t[p][q] = b.Median[i][j]
				}
			}
		}
		m.BandwidthMiBs = floats(t, 1e6/(1<<20))
	}
	if m.LatencyNs == nil && m.BandwidthMiBs == nil {
		return nil
	}
	return m
}

func floats(t Table, unit float64) [][]float64 {
	out := make([][]float64, len(t))
	for i, row := range t {
		out[i] = make([]float64, len(row))
		for j, v := range row {
			if v.Known() {
				out[i][j] = float64(v) * unit
			}
		}
	}
	return out
}
