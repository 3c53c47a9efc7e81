package metrics

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

var update = flag.Bool("update", false, "write golden files")

// told is a Source of what a test says.
type told struct {
	status    api.Status
	decisions []plan.Decision
	events    []plan.Event
}

func (s *told) Status(context.Context) (api.Status, error) { return s.status, nil }
func (s *told) Decisions() []plan.Decision                 { return s.decisions }
func (s *told) Events(context.Context, uint64) iter.Seq[plan.Event] {
	return func(yield func(plan.Event) bool) {
		for _, e := range s.events {
			if !yield(e) {
				return
			}
		}
	}
}

func of[T any](v T) *T { return &v }

// swapping is a Source in whose folder somebody puts a link in the place of what is being written,
// while it is asked.
type swapping struct {
	*told
	dir, to string
}

func (s *swapping) Status(ctx context.Context) (api.Status, error) {
	there, _ := os.ReadDir(s.dir)
	for _, e := range there {
		name := filepath.Join(s.dir, e.Name())
		os.Remove(name)
		os.Symlink(s.to, name)
	}
	return s.told.Status(ctx)
}

// TestFileInAFolderOfOthers: the folder for node_exporter belongs to the user that it runs as, who
// may rename and replace all that is in it. No file elsewhere becomes readable by that.
func TestFileInAFolderOfOthers(t *testing.T) {
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := New(&swapping{house(), dir, secret}, 10)
	m.WriteFile(filepath.Join(dir, "homenode.prom"))
	there, err := os.Stat(secret)
	if err != nil || there.Mode().Perm() != 0o600 || there.Size() != 6 {
		t.Errorf("a file of somebody else: %v, %v", there, err)
	}
}

// house is a machine of two nodes on which something of everything happens.
func house() *told {
	moved := &plan.Move{Workload: "/b", Planned: 3 << 30, Moved: 1 << 30, State: "done", RefusedBy: []plan.Refusal{{Cause: plan.Pinned, Bytes: 4096}}}
	return &told{
		status: api.Status{
			Version: "1.2.3", Mode: "enforce", Time: time.Unix(1_800_000_000, 5e8), Small: 7, Problems: []string{"one"},
			Nodes: []api.Node{
				{ID: 0, CPUs: "0-3", MemoryKiB: 8 << 20, FreeKiB: 2 << 20, BookedKiB: 1 << 20, VCPUs: 2.5, CPUUse: of(1.5), ReclaimableKiB: of(int64(1 << 10)), Bandwidth: of(int64(100)),
					HugePages: []api.HugePool{{SizeKiB: 2048, Total: 10, Free: of(int64(4))}, {SizeKiB: 1 << 20, Total: 1}}},
				{ID: 2, CPUs: "", MemoryKiB: 16 << 20, FreeKiB: -1, HugePages: []api.HugePool{}},
			},
			Pressure: []workload.Pressure{{Resource: "memory", Some: 12.5, Full: 1}},
			Self:     &api.Self{Journal: 12, Lost: 1},
			Sharing: &api.Sharing{On: true, Nodes: []api.ShareNode{{Node: 0, CPUs: 1.5}}, Scheduler: &api.ShareScheduler{Enabled: true, Version: "5c0f00ba4711", Loads: 1, Threads: 2,
				Counters: []share.Counter{{Name: "starts", Value: 48213}, {Name: "refused_expelled", Value: 912}, {Name: "waiting", Value: 3}}}},
			Workloads: []api.Workload{
				{ID: "/a", Name: "a", Kind: workload.InCgroup, Class: workload.Dedicated, CPUs: 2, Home: "0", CPUUse: 1.5, MemoryKiB: 3 << 10, MemoryByNode: []api.NodeKiB{{Node: 0, KiB: 2 << 10}, {Node: 2, KiB: 1 << 10}},
					OnHome: of(0.75), Locality: of(0.5), LocalityExpected: of(1.0), Accesses: of(1e6), State: api.StateMoving, Move: &plan.Move{Planned: 4096, Moved: 1024}},
				{ID: "/b", Name: "b", Kind: workload.InCgroup, Class: workload.Shared, CPUUse: 0.25, MemoryKiB: 1 << 10, MemoryByNode: []api.NodeKiB{{Node: 2, KiB: 1 << 10}}, State: api.StateLeftAlone, Move: moved},
			},
		},
		decisions: []plan.Decision{
			{Workload: "/a", Outcome: plan.Kept, Reasons: words.Reasons(words.Because(words.FitsNow))},
			{Workload: "/b", Outcome: plan.LeftAlone},
		},
		events: []plan.Event{
			{Seq: 1, Kind: plan.EventMove, Code: words.MoveEndedPart, Move: moved},
			{Seq: 2, Kind: plan.EventMove, Code: words.LocalityChanged, Move: moved}, // the same once more
			{Seq: 3, Kind: plan.EventPlan, Code: words.RequestDecided},
			{Seq: 4, Kind: plan.EventPlan, Code: words.RequestDecided},
			{Seq: 5, Kind: plan.EventHost},
		},
	}
}

func text(t testing.TB, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// TestExposition: the whole of it, which must please Prometheus' own lint and have a series of
// every family.
func TestExposition(t *testing.T) {
	m := New(house(), 1000)
	m.Looked(3 * time.Millisecond)
	m.Answered("/v1/status", 200)
	m.Follow(t.Context())
	got := text(t, m)
	if *update {
		if err := os.WriteFile("testdata/metrics.golden", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/metrics.golden")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	problems, err := promlint.New(strings.NewReader(got)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	for _, f := range Families {
		if !strings.Contains(got, "\n# TYPE "+f.Name+" "+f.Type+"\n") {
			t.Errorf("%s: no series in the golden file", f.Name)
		}
	}
	if usual := text(t, New(house(), 1000).Process()); !strings.Contains(usual, "\ngo_goroutines ") || !strings.Contains(usual, "\nprocess_open_fds ") {
		t.Error("nothing of the process")
	}
}

// TestManyWorkloads: so many have series, the largest, and the sum over all stays what it is.
func TestManyWorkloads(t *testing.T) {
	s := house()
	s.status.Workloads = nil
	for i := range 50 {
		s.status.Workloads = append(s.status.Workloads, api.Workload{ID: workload.ID(fmt.Sprintf("/w%02d", i)), Class: workload.Shared, State: api.StateAtHome, CPUs: 1, CPUUse: 0.5,
			MemoryKiB: int64(100 + i), MemoryByNode: []api.NodeKiB{{Node: topology.NodeID(i % 2), KiB: int64(100 + i)}}, OnHome: of(float64(i % 2))})
	}
	got := text(t, New(s, 10))
	for _, want := range []string{
		`homenode_workloads_without_series 40`, `homenode_workloads{class="shared",state="at home"} 50`,
		`homenode_workload_vcpus{workload="/w49"} 1`, `homenode_workload_vcpus{workload="/w40"} 1`, `homenode_workload_vcpus{workload="others"} 40`,
		`homenode_workload_busy_cpus{workload="others"} 20`, fmt.Sprintf(`homenode_workload_memory_bytes{node="0",workload="others"} %g`, 1024*20.*119),
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(got, `"/w39"`) {
		t.Error("one too many")
	}
	if n := strings.Count(got, "homenode_workload_info{"); n != 10 {
		t.Errorf("%d workloads", n)
	}
	if got := text(t, New(s, 0)); !strings.Contains(got, `homenode_workload_vcpus{workload="others"} 50`) {
		t.Error("none of their own: no sum")
	}
}

// TestNames: what a user calls work is a label's value, whatever is in it, and two that look the
// same do not spoil the answer.
func TestNames(t *testing.T) {
	s := house()
	for _, name := range []string{"\xff\xfe", "\ufffd", "a\nb\"} 1\nup 0", "others", "others", "<script>", "\x1b[2J", `\x1b[2J`} {
		s.status.Workloads = append(s.status.Workloads, api.Workload{ID: workload.ID(name), Name: name, State: api.StateAtHome, CPUs: 1, MemoryKiB: 1})
	}
	got := text(t, New(s, 1000))
	for line := range strings.Lines(got) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "homenode_") || strings.Contains(line, "\x1b") || !utf8.ValidString(line) {
			t.Errorf("%q", line)
		}
	}
	if !strings.Contains(got, "homenode_workloads_without_series 3\n") { // both others, and one of two that look the same
		t.Error("none of the same name")
	}
}

func TestWriteFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "homenode.prom")
	m := New(house(), 1000)
	for range 2 {
		if err := m.WriteFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(file); err != nil || !strings.Contains(string(have), "\nhomenode_enforcing 1\n") {
		t.Errorf("%s %v", have, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

// BenchmarkScrape is one answer to Prometheus, with so many workloads on 4 nodes.
func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := house()
			w := s.status.Workloads[0]
			w.MemoryByNode = []api.NodeKiB{{Node: 0, KiB: 1}, {Node: 1, KiB: 2}, {Node: 2, KiB: 3}, {Node: 3, KiB: 4}}
			s.status.Workloads = nil
			for i := range n {
				w.ID = workload.ID(fmt.Sprintf("/kubepods.slice/kubepods-burstable.slice/pod%08d", i))
				s.status.Workloads = append(s.status.Workloads, w)
			}
			m := New(s, 1000)
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				size = len(text(b, m))
			}
			b.ReportMetric(float64(size), "bytes/answer")
		})
	}
}
