//go:build linux

package count

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// measured is what these tests read of a measurement (homenode-measure/1).
type measured struct {
	Host struct {
		CmdlineNUMA []string `json:"cmdline_numa"`
		Virt        string   `json:"virt"`
	} `json:"host"`
	Run *struct {
		Seconds  float64  `json:"seconds"`
		Rejected *float64 `json:"rejected_pct"`
		Sigma    *float64 `json:"control_sigma"`
	} `json:"run"`
	Nodes []struct {
		ID    int    `json:"id"`
		Pages string `json:"pages"`
	} `json:"nodes"`
	Firmware *struct {
		Domains []int `json:"domains"`
		Memory  []int `json:"memory_domains"`
	} `json:"firmware"`
	Latency *struct {
		Median [][]*float64 `json:"median"`
		Ratio  [][]*float64 `json:"ratio"`
		Flags  [][]string   `json:"flags"`
	} `json:"latency"`
	Diagnosis struct {
		State    string `json:"state"`
		Verdicts []struct {
			State string `json:"state"`
			Says  string `json:"says"`
		} `json:"verdicts"`
	} `json:"diagnosis"`
}

// probed runs homenode and reads its JSON; what it says on standard error is logged.
func probed(t *lab.T, want int, args ...string) measured {
	var out, errs bytes.Buffer
	c := exec.Command(lab.HomenodeBin, append(args, "--json", "--state-dir", lab.StateFolder)...)
	c.Stdout, c.Stderr = &out, &errs
	start := time.Now()
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run homenode %s: %v", strings.Join(args, " "), err)
	}
	if errs.Len() > 0 {
		t.Logf("%s", strings.TrimSpace(errs.String()))
	}
	var m measured
	if err := json.Unmarshal(out.Bytes(), &m); err != nil {
		t.Fatalf("homenode %s, exit %d: %v in %.200q", strings.Join(args, " "), c.ProcessState.ExitCode(), err,
			out.String())
	}
	t.Logf("homenode %s: %.1f s, %s, exit %d", strings.Join(args, " "), time.Since(start).Seconds(), m.Diagnosis.State,
		c.ProcessState.ExitCode())
	if m.Run != nil && m.Run.Sigma != nil && m.Run.Rejected != nil {
		t.Logf("control cell spreads by %.1f %%, %.0f %% of the samples thrown out, %.1f s", 100**m.Run.Sigma,
			*m.Run.Rejected, m.Run.Seconds)
	}
	if got := c.ProcessState.ExitCode(); want >= 0 && got != want {
		t.Fatalf("homenode %s: exit status %d, want %d; verdict %s", strings.Join(args, " "), got, want,
			m.Diagnosis.State)
	}
	return m
}

func (m measured) verdict(state string) string {
	for _, v := range m.Diagnosis.Verdicts {
		if v.State == state {
			return v.Says
		}
	}
	return ""
}

// probeMatrix: all 16 cells of four nodes; a cell whose pages are not where they
// were bound (homenode asks move_pages) would be marked as failed.
func probeMatrix(t *lab.T) {
	m := probed(t, -1, "probe", "latency", "--from", "nodes", "--busy-ok", "--no-save")
	if m.Latency == nil || len(m.Latency.Median) != t.Shape.Nodes {
		t.Fatalf("no matrix of %d nodes", t.Shape.Nodes)
	}
	for i, row := range m.Latency.Median {
		for j, ns := range row {
			if flag := m.Latency.Flags[i][j]; ns == nil || *ns <= 0 || strings.HasPrefix(flag, "failed") {
				t.Fatalf("node%d to node%d: %v %q", i, j, ns, flag)
			}
		}
		t.Logf("from node%d: %s", i, cells(row))
	}
	t.Textf("16 cells, memory where it was bound, pages %s, %.1f s", m.Nodes[0].Pages, m.Run.Seconds)
}

func cells(row []*float64) string {
	var parts []string
	for _, v := range row {
		if v == nil {
			parts = append(parts, "-")
			continue
		}
		parts = append(parts, fmt.Sprintf("%.1f ns", *v))
	}
	return strings.Join(parts, " ")
}

// probeFlat: emulated nodes all cost the same, and the SLIT says otherwise. The
// machine under the guest may be busy; then the doctor must say so, not guess.
func probeFlat(t *lab.T) {
	var last measured
	for range 3 {
		last = probed(t, -1, "doctor", "--busy-ok", "--budget", "60s")
		if last.verdict("FLAT_VNUMA") != "" {
			t.Textf("%s", last.verdict("FLAT_VNUMA"))
			return
		}
		if last.Diagnosis.State != "UNDECIDED" {
			break
		}
	}
	if last.Diagnosis.State == "UNDECIDED" {
		t.Skipf("the machine under the guest is too busy: %s", last.Diagnosis.Verdicts[0].Says)
	}
	t.Fatalf("verdict %s, want FLAT_VNUMA: %s", last.Diagnosis.State, last.Diagnosis.Verdicts[0].Says)
}

// probeFull: a node that is full takes no part, and the doctor says so.
func probeFull(t *lab.T) {
	last := t.Shape.Nodes - 1
	var free int
	for line := range strings.Lines(t.Read(fmt.Sprintf("/sys/devices/system/node/node%d/meminfo", last))) {
		fmt.Sscanf(line, fmt.Sprintf("Node %d MemFree: %%d kB", last), &free)
	}
	const leave = 100 // MiB; a quarter of it is too little for a buffer
	if free>>10 <= leave {
		t.Fatalf("node%d has %d MiB free to begin with", last, free>>10)
	}
	p := t.MapPages(free>>10 - leave)
	t.Do(p.Bind(lab.MpolBind, 1<<last))
	p.Touch()
	m := probed(t, -1, "probe", "latency", "--from", "nodes", "--busy-ok", "--no-save")
	says := m.verdict("CELLS_EXCLUDED")
	if !strings.Contains(says, fmt.Sprintf("node%d was not measured", last)) {
		t.Fatalf("verdict %s, %q; want CELLS_EXCLUDED naming node%d", m.Diagnosis.State, says, last)
	}
	if m.Latency == nil || len(m.Latency.Median[0]) != last {
		t.Fatalf("the other nodes were not measured")
	}
	t.Textf("%s", says)
}

// probeStart: a daemon that is told to measures at its start, and goes by what is
// measured without being started again. On a noisy machine it does not use what
// it measured; then a person does the measuring.
func probeStart(t *lab.T) {
	lab.FreshState()
	d := t.StartDaemon(lab.DaemonOptions{Mode: "observe", Extra: "measure_at_start: true\n"})
	sources := func() string {
		var home struct {
			Decision struct {
				Distances []struct {
					To     int    `json:"to"`
					Source string `json:"source"`
				} `json:"distances"`
			} `json:"decision"`
		}
		r := t.Must(lab.Homenode("run", "--dry-run", "--json", "--memory", "64MiB", "--", "/bin/walker"), lab.ExitOK)
		t.Do(json.Unmarshal([]byte(r.Out), &home))
		var all []string
		for _, d := range home.Decision.Distances {
			all = append(all, d.Source)
		}
		return strings.Join(all, " ")
	}
	t.Logf("at first the distances are from %s", sources())
	t.Poll(150*time.Second, 2*time.Second, "latencies are measured", func() (bool, string) {
		log := d.Text()
		for _, not := range []string{"latencies are not measured", "did not end in time", "are not used"} {
			if strings.Contains(log, not) {
				t.Logf("not by the daemon: %s", log[strings.Index(log, not):])
				probed(t, -1, "probe", "latency", "--from", "nodes", "--busy-ok")
				return true, ""
			}
		}
		return strings.Contains(log, "latencies between nodes were measured"), log
	})
	t.Poll(30*time.Second, time.Second, "the daemon goes by them", func() (bool, string) {
		s := sources()
		return strings.Contains(s, "measured"), s
	})
	t.Textf("distances from: %s", sources())
}

// probeHidden: numa=off, and the firmware still tells of four nodes.
func probeHidden(t *lab.T) {
	if online := t.Read("/sys/devices/system/node/online"); online != "0" {
		t.Fatalf("nodes online %s; numa=off was to leave one", online)
	}
	m := probed(t, 1, "doctor", "--no-measure")
	if m.Firmware == nil || len(m.Firmware.Memory) != 4 || m.verdict("HIDDEN_BY_KERNEL") == "" {
		t.Fatalf("verdict %s, firmware %+v; want HIDDEN_BY_KERNEL with 4 domains", m.Diagnosis.State, m.Firmware)
	}
	t.Textf("%s", m.verdict("HIDDEN_BY_KERNEL"))
}

// probeTier: memory without CPUs, named by what the HMAT says of it.
func probeTier(t *lab.T) {
	m := probed(t, 0, "doctor", "--no-measure")
	says := m.verdict("CPULESS_NODE")
	named := strings.Contains(says, "node2") && strings.Contains(says, "HMAT")
	if !named || !strings.Contains(says, "×5.00 the latency") {
		t.Fatalf("verdict %s: %q; want node2 five times as slow by the HMAT", m.Diagnosis.State, says)
	}
	t.Textf("%s", says)
}

// probeFake: nodes that the kernel made up.
func probeFake(t *lab.T) {
	if online := t.Read("/sys/devices/system/node/online"); online != "0-3" {
		t.Fatalf("nodes online %s; numa=fake=4 was to make four", online)
	}
	m := probed(t, 1, "doctor", "--no-measure")
	if m.verdict("FAKE_NUMA") == "" {
		t.Fatalf("verdict %s, want FAKE_NUMA", m.Diagnosis.State)
	}
	t.Textf("%s", m.verdict("FAKE_NUMA"))
}

// probeTables writes the firmware's tables out, to be kept as test data of the
// parsers (core/topology/acpi/testdata): one line a table, base64 of gzip.
func probeTables(t *lab.T) {
	found := 0
	for _, name := range []string{"SRAT", "SLIT", "HMAT"} {
		data, err := os.ReadFile(filepath.Join("/sys/firmware/acpi/tables", name))
		if err != nil {
			continue
		}
		found++
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		w.Write(data)
		w.Close()
		t.Logf("ACPI %s %d %s", name, len(data), base64.StdEncoding.EncodeToString(z.Bytes()))
	}
	if found < 2 {
		t.Fatalf("%d of SRAT, SLIT and HMAT; want at least the first two", found)
	}
	t.Textf("%d tables", found)
}
