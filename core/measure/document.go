package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// Schema names the form of a Document. New optional keys do not change it.
const Schema = "homenode-measure/1"

// maxDocument bounds input. A core to core matrix of 256 CPUs takes 600 KiB.
const maxDocument = 64 << 20

// Document is one measurement of one machine, with the facts that doctor needs to judge it. What
// was not measured or is not known is null, and any list in it may be null: there is nothing to tell.
type Document struct {
	Schema string `json:"schema"`
	Host   Host   `json:"host"`  // the machine that was measured
	Run    *Run   `json:"run"`   // how it was measured; null when only facts were read
	Nodes  []Node `json:"nodes"` // NUMA nodes, by rising ID
	// SLIT distances as the kernel tells them, in the order of nodes; null unknown
	SLIT     Table     `json:"slit"`
	Firmware *Firmware `json:"firmware"` // what the ACPI tables say; null when they cannot be read
	// settings of the kernel that matter; null when they were not read
	Settings   *Settings `json:"settings"`
	Latency    *Latency  `json:"latency"`     // idle latency from nodes to nodes; null when not measured
	CPULatency *Latency  `json:"cpu_latency"` // idle latency from CPUs to nodes; null when not measured
	// bandwidth from nodes to nodes, one entry for each mix of reads and writes; null when not measured
	Bandwidth []Bandwidth `json:"bandwidth"`
	// latency under load, one entry for each pair of nodes; null when not measured
	Loaded []Loaded `json:"loaded"`
	Levels []Levels `json:"levels"` // latency by size of buffer; null when not measured
	C2C    []C2C    `json:"c2c"`    // latency from core to core; null when not measured
	// latency of single 2 MiB pages from each package; null when not measured
	Pages     []Page     `json:"pages"`
	Diagnosis *Diagnosis `json:"diagnosis"` // verdicts of doctor; null without doctor
	// why a measurement that was asked for was not taken; absent when it was taken or none was asked for
	NotMeasured string `json:"not_measured,omitempty"`
}

// Host is the machine as far as a measurement depends on it.
type Host struct {
	ID     string `json:"id"`     // vendor and product of the machine
	CPU    string `json:"cpu"`    // CPU model
	Arch   string `json:"arch"`   // architecture as Go names it, such as amd64
	Kernel string `json:"kernel"` // kernel release
	// options of the kernel command line about NUMA, such as numa=off; null when it is unknown
	CmdlineNUMA []string  `json:"cmdline_numa"`
	Virt        string    `json:"virt"`      // virtualization: none, a hypervisor such as kvm, or vm; "" unknown
	THP         string    `json:"thp"`       // setting of /sys/kernel/mm/transparent_hugepage/enabled
	LLC         int64     `json:"llc_bytes"` // size of one last-level cache, bytes; 0 unknown
	CPUs        int       `json:"cpus"`      // number of online CPUs
	Packages    []Package `json:"packages"`  // packages (sockets), by rising ID
	// checksum of hardware and kernel: a measurement holds while it is the same
	Fingerprint string `json:"fingerprint"`
	// Caches that are the last level for some CPU, by lowest CPU; absent where the kernel lists none.
	Caches []LastCache `json:"caches,omitempty"`
}

// LastCache is one last-level cache.
type LastCache struct {
	CPUs  topology.CPUSet `json:"cpus"`  // online CPUs that share it
	Level int             `json:"level"` // level, such as 3
	Bytes int64           `json:"bytes"` // size, bytes; 0 unknown
}

// Package is one socket.
type Package struct {
	ID   int             `json:"id"`   // package ID of the kernel (physical_package_id)
	CPUs topology.CPUSet `json:"cpus"` // CPUs of the package
}

// Run is how the measuring went.
type Run struct {
	Started  string  `json:"started"`      // when it began, RFC 3339
	Seconds  float64 `json:"seconds"`      // time that it took, s
	Profile  string  `json:"profile"`      // profile: quick or full
	Tool     string  `json:"tool"`         // version of homenode that measured
	Load1    Value   `json:"load1"`        // load average of one minute before it began; null unknown
	Rejected Value   `json:"rejected_pct"` // share of samples that were thrown out, percent; null unknown
	// relative spread of repeated local measurements, such as 0.02; null unknown
	Sigma   Value    `json:"control_sigma"`
	RT      bool     `json:"rt"`       // whether latencies were taken under SCHED_FIFO
	Partial bool     `json:"partial"`  // whether a signal or the time budget ended it early
	Clock   []Clock  `json:"clock"`    // clocks of the CPUs that stand for the nodes; null when not measured
	LeftOut []Left   `json:"left_out"` // nodes that were not measured
	Notes   []string `json:"notes"`    // what was odd, a sentence each; null when nothing was
}

// Clock is the clock of a CPU in MHz, by a chain of one-cycle operations and as
// cpufreq tells it, before the measurements and after.
type Clock struct {
	CPU int `json:"cpu"` // CPU number
	// clock by timed instructions before the measurement, MHz; null unknown
	Before     Value `json:"before_mhz"`
	After      Value `json:"after_mhz"`          // clock by timed instructions after the measurement, MHz; null unknown
	FreqBefore Value `json:"cpufreq_before_mhz"` // clock by cpufreq before the measurement, MHz; null unknown
	FreqAfter  Value `json:"cpufreq_after_mhz"`  // clock by cpufreq after the measurement, MHz; null unknown
}

// Left is a node that was not measured, and why.
type Left struct {
	Node int    `json:"node"` // node ID of the kernel
	Why  string `json:"why"`  // why it was left out, in a sentence
}

// Node is one NUMA node as it was at the time.
type Node struct {
	ID   int             `json:"id"`         // node ID of the kernel
	CPUs topology.CPUSet `json:"cpus"`       // online CPUs of the node
	Mem  *int64          `json:"mem_bytes"`  // memory in all, bytes; null unknown
	Free *int64          `json:"free_bytes"` // free memory, bytes; null unknown
	Kind string          `json:"kind"`       // kind of memory: dram, special or none
	// type of its memory, where it has no CPUs: dram, hbm, cxl, pmem or gpu; absent when unknown
	Type   string   `json:"memory_type,omitempty"`
	TypeBy []string `json:"memory_evidence,omitempty"` // evidence for memory_type, strongest first

	// DIMMs from SMBIOS, where its slot labels tell the package.

	Channels   *int  `json:"dimm_channels"`      // DIMM channels with memory, by SMBIOS; null unknown
	MaxChannel *int  `json:"dimm_channel_slots"` // DIMM channels that the board has, by SMBIOS; null unknown
	ChannelMBs Value `json:"dimm_channel_mb_s"`  // bandwidth of one DIMM channel, MB/s; null unknown
	// pages that the buffer lay in, such as thp, 4k or mixed; "" when not measured
	Pages       string `json:"pages"`
	HMATLatency Value  `json:"hmat_read_latency_ns"` // read latency for the nearest CPUs by the HMAT, ns; null unknown
	// read bandwidth for the nearest CPUs by the HMAT, MB/s; null unknown
	HMATMBs Value `json:"hmat_read_mb_s"`
}

// Firmware is what the ACPI tables say. Rows and columns of SLIT and HMAT are in the order of domains.
type Firmware struct {
	SRAT    bool  `json:"srat"`           // whether there is an SRAT
	Domains []int `json:"domains"`        // proximity domains with CPUs or memory, rising
	Memory  []int `json:"memory_domains"` // proximity domains with memory, rising
	SLIT    Table `json:"slit"`           // SLIT distances in the order of domains, local is 10; null unknown
	// read latency by the HMAT in the order of domains, from row to column, ns; null unknown
	HMATLatency Table `json:"hmat_read_latency_ns"`
	// read bandwidth by the HMAT in the order of domains, from row to column, MB/s; null unknown
	HMATMBs Table `json:"hmat_read_mb_s"`
}

// Latency is latency of reads on an idle machine. Flags of a cell: "" good; "~" interval over
// 5 %; "llc-diluted", "4k", "unbound", "failed: …".
type Latency struct {
	Unit   string       `json:"unit"`   // unit of latencies: ns
	Pages  string       `json:"pages"`  // pages that the buffers lay in, such as thp, 4k or mixed
	From   string       `json:"from"`   // what the rows are: node or cpu
	Rows   []int        `json:"rows"`   // IDs of the rows: nodes or CPUs that read
	Cols   []int        `json:"cols"`   // IDs of the columns: nodes whose memory is read
	Median Table        `json:"median"` // latency of one load from row to column, ns; null when not measured
	Best   Table        `json:"best"`   // 5th percentile of the samples, ns
	Sigma  Table        `json:"sigma"`  // robust spread of the samples, ns
	CI95   [][]Interval `json:"ci95"`   // 95 % interval of the median, ns
	// latency divided by the cheapest local one of the row, from pairs of samples of the same round
	Ratio    Table        `json:"ratio"`
	RatioCI  [][]Interval `json:"ratio_ci95"` // 95 % interval of the ratio
	Samples  [][]int      `json:"samples"`    // samples that count, by cell
	Rejected [][]int      `json:"rejected"`   // samples that were thrown out, by cell
	Flags    [][]string   `json:"flags"`      // what is odd about a cell; "" when nothing is
	// Adjacent is how much lower latency looks when neighbouring lines are read soon after each
	// other, as a ratio; null when not measured.
	Adjacent Value `json:"adjacent_line_effect"`
	// latency with the hardware's prefetchers on divided by that with them off; null when not measured
	Prefetchers Value `json:"prefetcher_effect"`
}

// Bandwidth is one mix over all pairs of nodes.
type Bandwidth struct {
	Mix    string `json:"mix"`    // mix of reads and writes: r, 3:1, 2:1, 1:1, w, nt, triad or nt-triad
	Kernel string `json:"kernel"` // instructions used, such as avx2
	Unit   string `json:"unit"`   // unit of bandwidths: MB/s (10^6 bytes)
	Rows   []int  `json:"rows"`   // IDs of the nodes whose CPUs read and write
	Cols   []int  `json:"cols"`   // IDs of the nodes whose memory it is
	// bandwidth of what the program loads and stores, MB/s; null when not measured
	Median   Table        `json:"median"`
	Traffic  Table        `json:"traffic"`  // the same with the reads that ordinary stores cause, MB/s
	CI95     [][]Interval `json:"ci95"`     // 95 % interval of the median, MB/s
	Threads  [][]int      `json:"threads"`  // threads that reached the median, by cell
	Knee     [][]int      `json:"knee"`     // threads that reach 90 % of the median, by cell
	Total    Value        `json:"total"`    // bandwidth of all nodes at once, each local, MB/s; null when not measured
	Samples  [][]int      `json:"samples"`  // samples that count, by cell
	Rejected [][]int      `json:"rejected"` // samples that were thrown out, by cell
	Flags    [][]string   `json:"flags"`    // what is odd about a cell; "" when nothing is
}

// Loaded is latency under load on one pair of nodes.
type Loaded struct {
	From   int           `json:"from"`      // node whose CPUs make the load
	To     int           `json:"to"`        // node whose memory it is
	Mix    string        `json:"mix"`       // mix of reads and writes
	Load   int           `json:"load_cpus"` // CPUs that make the load
	Points []LoadedPoint `json:"points"`    // points of the curve, by rising load
	Peak   Value         `json:"peak_mbps"` // highest bandwidth that was reached, MB/s; null unknown
	Knee   Value         `json:"knee_mbps"` // bandwidth at which latency begins to climb, MB/s; null unknown
	At50   Value         `json:"ns_at_50"`  // latency at 50 % of the peak, ns; null unknown
	At75   Value         `json:"ns_at_75"`  // latency at 75 % of the peak, ns; null unknown
	At90   Value         `json:"ns_at_90"`  // latency at 90 % of the peak, ns; null unknown
}

// LoadedPoint is one point of a curve of latency under load.
type LoadedPoint struct {
	Gap  int   `json:"gap"`  // pause between bursts of 4 KiB, in turns of a spin loop; 0 is full load, -1 no load
	NS   Value `json:"ns"`   // latency of one load, ns; null unknown
	MBps Value `json:"mbps"` // bandwidth at the same time, MB/s; null unknown
	// Ran is share of the time for which the threads of the load had a CPU, 0 to 1; absent when
	// unknown. Below 0.9 (LoadRan) the point does not count.
	Ran  float64 `json:"ran,omitempty"`
	Flag string  `json:"flag,omitempty"` // what is odd about the point; absent when nothing is
}

// LoadRan is the least Ran of a point that says what its pause stands for.
const LoadRan = 0.9

// Levels is latency by size of buffer.
type Levels struct {
	CPU    int          `json:"cpu"`    // CPU that read
	Node   int          `json:"node"`   // node whose memory was read
	Points []LevelPoint `json:"points"` // points of the curve, by rising size
	Knees  []Knee       `json:"knees"`  // steps of the curve: sizes at which latency climbs
	// data caches of the CPU by sysfs, smallest first; absent when unknown
	Caches []Cache `json:"caches,omitempty"`
}

// Cache is one data or unified cache of a CPU.
type Cache struct {
	Name  string `json:"name"`  // name of the cache: L1d, L2 or L3
	Bytes int64  `json:"bytes"` // size, bytes
}

// LevelPoint is latency with one size of buffer.
type LevelPoint struct {
	Bytes int64    `json:"bytes"` // size of the buffer, bytes
	NS    Value    `json:"ns"`    // latency of one load, ns; null unknown
	CI95  Interval `json:"ci95"`  // 95 % interval of the latency, ns
}

// Knee is a step of the curve: the largest working set before latency rises.
type Knee struct {
	Level string `json:"level"` // name of the cache that ends there; "step 2" and so on when none does
	Bytes int64  `json:"bytes"` // largest buffer before the step, bytes
	NS    Value  `json:"ns"`    // latency before the step, ns; null unknown
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

// C2C is the latency of a cache line on its way from one CPU to another.
type C2C struct {
	Unit string `json:"unit"` // unit of latencies: ns
	// where the cache line lay: first (on the first node), A (on the row's node) or B (on the column's)
	LineHome string  `json:"line_home"`
	CPUs     []int   `json:"cpus"`     // CPUs of rows and columns
	Median   Table   `json:"median"`   // latency of one way from row to column, ns; null when not measured
	Flags    [][]int `json:"timeouts"` // pairs of CPUs that did not finish in time; null when all did
}

// Page is the latency of one 2 MiB page from one CPU of every package.
type Page struct {
	NS []Value `json:"ns"` // latency of one load from each package, in the order of host.packages, ns
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
		return nil, fmt.Errorf("read measurement: %s: there is more after the end of the document; give one document",
			position(data, at))
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
		for name, t := range map[string]Table{"slit": f.SLIT, "hmat_read_latency_ns": f.HMATLatency,
			"hmat_read_mb_s": f.HMATMBs} {
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
	if (l.CI95 != nil && !shaped(l.CI95, len(l.Rows), len(l.Cols))) ||
		(l.RatioCI != nil && !shaped(l.RatioCI, len(l.Rows), len(l.Cols))) ||
		(l.Samples != nil && !shaped(l.Samples, len(l.Rows), len(l.Cols))) ||
		(l.Rejected != nil && !shaped(l.Rejected, len(l.Rows), len(l.Cols))) ||
		(l.Flags != nil && !shaped(l.Flags, len(l.Rows), len(l.Cols))) {
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
	return !slices.ContainsFunc(t, func(r R) bool { return len(r) != cols })
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
	return slices.IndexFunc(d.Nodes, func(n Node) bool { return n.ID == node })
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
	m.LineOwnNs, m.LineOtherNs = d.CacheLines()
	if m.LatencyNs == nil && m.BandwidthMiBs == nil && m.LineOwnNs == 0 {
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
