package daemon

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestPanicOfADecision: the daemon changes nothing more, goes on showing what is there, and
// says why; what an earlier one changed can be undone by the next.
func TestPanicOfADecision(t *testing.T) {
	m := scattered(t)
	before := m.settings()
	r := newRig(t, m, true)
	r.ticks(3)
	after := m.settings()
	r.next(control.Input{Progress: &control.Progress{}}) // is nothing
	r.state.Journal = journal.Journal{}
	r.state.Tasks = nil // whatever begins now panics
	m.add("c", 2, 1<<20, 0, 1)
	r.ticks(3)
	if r.stalled == "" {
		t.Fatal("nothing panicked")
	}
	m.add("d", 2, 1<<20, 0, 1)
	r.ticks(3)
	now := m.settings()
	delete(now, "/c")
	delete(now, "/d")
	if diff := cmp.Diff(after, now); diff != "" {
		t.Errorf("changed after a panic:\n%s", diff)
	}
	s, err := r.Status(t.Context())
	if err != nil || !slices.ContainsFunc(s.Problems, func(p string) bool { return strings.Contains(p, "started again") }) {
		t.Errorf("status does not say so: %q, %v", s.Problems, err)
	}
	if _, here := r.status(t)["/d"]; !here {
		t.Error("status no longer shows what is there")
	}
	if _, err := r.place(api.Want{Name: "x", Class: workload.Shared, CPUs: 1}); err == nil {
		t.Error("a request after a panic: no error")
	}
	if _, err := r.undo(api.Which{All: true}); err == nil {
		t.Error("undo after a panic: no error")
	}
	r.start(t, true)
	if _, err := r.undo(api.Which{All: true}); err != nil {
		t.Fatal(err)
	}
	now = m.settings()
	delete(now, "/c")
	delete(now, "/d")
	if diff := cmp.Diff(before, now); diff != "" {
		t.Errorf("the next daemon's undo left:\n%s", diff)
	}
}

// lines is a log that a test reads while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// TestPanicsOfADriver: whichever call about one workload panics, the daemon goes on, the
// others are brought home and undone, and the log has the stack once.
func TestPanicsOfADriver(t *testing.T) {
	for _, call := range []string{"changes", string(plan.SetCPUs), string(plan.SetMems), string(plan.MovePages), "read", "restore", "present"} {
		t.Run(call, func(t *testing.T) {
			m, log := three(t), &lines{}
			before := m.settings()
			about := func(c string, id workload.ID) bool { return c == call && id == "/a" }
			live(t, m, about, func(o *Options) {
				o.Drivers[workload.InCgroup].(hangingDriver).h.panic = true
				o.Log = slog.New(slog.NewTextHandler(log, nil))
			}, func(t *testing.T, l *life) {
				time.Sleep(15 * time.Minute)
				all := workloads(t, l.Daemon)
				_, _, calls := l.hung.figures()
				if w := all["/a"]; len(calls) > 0 && w.State != api.StateFailed && slices.Contains([]string{"changes", string(plan.SetCPUs), string(plan.SetMems), string(plan.MovePages)}, call) {
					t.Errorf("/a: %s: %s", w.State, w.Why)
				}
				for _, id := range []workload.ID{"/b", "/c"} {
					if s := all[id].State; s != api.StateAtHome {
						t.Errorf("%s: %s: %s", id, s, all[id].Why)
					}
				}
				soon(t, "undo", 10*time.Second, func(ctx context.Context) error { _, err := l.Undo(ctx, api.Which{All: true}); return err })
				now := m.settings()
				if now["/b"] != before["/b"] || now["/c"] != before["/c"] {
					t.Errorf("after undo: %v", now)
				}
				time.Sleep(time.Second) // the log is written beside all that
				_, _, calls = l.hung.figures()
				if n := log.count(`msg="a bug in homenode"`); n != min(1, len(calls)) {
					t.Errorf("%d stacks in the log after %v", n, calls)
				}
				if lost := l.View().Lost; lost != 0 {
					t.Errorf("%d calls are said to be away", lost)
				}
			})
		})
	}
}

// TestPanicOfARestore: of entries that are restored together, as affinities are, one of
// which panics holds up no other.
func TestPanicOfARestore(t *testing.T) {
	m := three(t)
	r := newRig(t, m, true)
	h := &hung{all: map[string]int{}, panic: true, about: func(c string, id workload.ID) bool { return c == "restore" && id == "/a" }}
	entries := []plan.Entry{{Workload: "/a", Kind: plan.CgroupCPUs, Path: "/a", Old: "1"}, {Workload: "/b", Kind: plan.CgroupCPUs, Path: "/b", Old: "2"}}
	errs := r.putBack(t.Context(), hangingDriver{m, h}, entries, nil)
	if len(errs) != 2 || errs[0] == nil || errs[1] != nil || m.live["/b"].obs.CPUs.String() != "2" {
		t.Errorf("%v; /b has %s", errs, m.live["/b"].obs.CPUs)
	}
}

// brokenSource panics in one of its methods, once that is armed.
type brokenSource struct {
	in    string
	armed atomic.Bool
}

func (s *brokenSource) call(method string) {
	if s.in == method && s.armed.Load() {
		panic(method + " on purpose")
	}
}

func (s *brokenSource) Name() string                  { return "broken" }
func (s *brokenSource) Refresh(context.Context) error { s.call("refresh"); return nil }
func (s *brokenSource) Processes() []workload.Process { s.call("processes"); return nil }
func (s *brokenSource) Wake() <-chan struct{}         { s.call("wake"); return nil }
func (s *brokenSource) Claims(*topology.Host) ([]workload.Claim, []workload.Problem) {
	s.call("claims")
	return []workload.Claim{{ID: "pod:c", Name: "pod", Cgroups: []string{"/c"}, Running: true, Caps: workload.Caps{MemoryFollows: true}}}, nil
}

// TestPanicsOfASource: it is named, what it said before stands, and the others go on. Of
// one that never said which workloads are its own, nothing is known: all cgroups are left
// alone.
func TestPanicsOfASource(t *testing.T) {
	for _, method := range []string{"refresh", "claims", "processes", "wake"} {
		for _, first := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, from the first on: %v", method, first), func(t *testing.T) {
				m, s, log := three(t), &brokenSource{in: method}, &lines{}
				s.armed.Store(first)
				before := m.settings()
				live(t, m, none, func(o *Options) {
					o.Sources, o.Log = []Source{s}, slog.New(slog.NewTextHandler(log, nil))
				}, func(t *testing.T, l *life) {
					time.Sleep(time.Second)
					s.armed.Store(true)
					l.Registered()
					time.Sleep(5 * time.Minute)
					all := workloads(t, l.Daemon)
					for _, id := range []workload.ID{"/a", "/b"} {
						if s := all[id].State; s != api.StateAtHome && !(first && method == "claims") {
							t.Errorf("%s: %s: %s", id, s, all[id].Why)
						}
					}
					if first && method == "claims" {
						if diff := cmp.Diff(before, m.settings()); diff != "" {
							t.Errorf("changed, whoever's it is:\n%s", diff)
						}
					} else if _, here := all["pod:c"]; !here {
						t.Error("what it said before is forgotten")
					}
					status, err := l.Status(t.Context())
					if err != nil || (method == "refresh" || method == "claims") != slices.ContainsFunc(status.Problems, func(p string) bool { return strings.HasPrefix(p, "broken: ") }) {
						t.Errorf("status: %q, %v", status.Problems, err)
					}
					if n := log.count(`msg="a bug in homenode"`); n != 1 && (method != "wake" || first) {
						t.Errorf("%d stacks in the log", n)
					}
				})
			})
		}
	}
}

// TestPanicsOfTheRest: of the observer, a survey, the flight recorder, the store, and of
// what checks the configuration.
func TestPanicsOfTheRest(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*Options, *atomic.Bool)
		problem string
	}{
		"observer": {func(o *Options, armed *atomic.Bool) {
			o.Observer.(*machine).looked = func() {
				if armed.Load() {
					panic("on purpose")
				}
			}
		}, "looking at the host failed"},
		"observer told": {func(o *Options, armed *atomic.Bool) { o.Observer = deafObserver{o.Observer, armed} }, ""},
		"survey": {func(o *Options, armed *atomic.Bool) {
			o.Settings.Surveys = []control.SurveyKind{control.Managers}
			o.Surveys = map[control.SurveyKind]Surveyor{control.Managers: func(context.Context, *workload.Snapshot) (control.Survey, error) {
				if armed.Load() {
					panic("on purpose")
				}
				return control.Survey{}, nil
			}}
		}, ""},
		"recorder": {func(o *Options, armed *atomic.Bool) { o.Recorder = brokenRecorder{armed} }, ""},
		"store":    {func(o *Options, armed *atomic.Bool) { o.Store = brokenStore{o.Store, armed} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, armed, log := three(t), &atomic.Bool{}, &lines{}
			live(t, m, none, func(o *Options) {
				tt.change(o, armed)
				o.Log = slog.New(slog.NewTextHandler(log, nil))
			}, func(t *testing.T, l *life) {
				time.Sleep(time.Minute)
				armed.Store(true)
				m.mu.Lock()
				m.add("d", 1, 1<<18, 0, 1)
				m.mu.Unlock()
				time.Sleep(time.Minute)
				s, err := l.Status(t.Context())
				if err != nil || tt.problem != "" && !slices.ContainsFunc(s.Problems, func(p string) bool { return strings.Contains(p, tt.problem) }) {
					t.Errorf("status: %q, %v", s.Problems, err)
				}
				if n := log.count(`msg="a bug in homenode"`); n != 1 {
					t.Errorf("%d stacks in the log", n)
				}
				if l.View().Stalled != "" {
					t.Error(l.View().Stalled)
				}
				armed.Store(false)
				time.Sleep(15 * time.Minute)
				for id, w := range workloads(t, l.Daemon) {
					if w.State != api.StateAtHome {
						t.Errorf("%s: %s: %s", id, w.State, w.Why)
					}
				}
			})
		})
	}
}

type deafObserver struct {
	Observer
	armed *atomic.Bool
}

func (o deafObserver) Changed(workload.ID) {
	if o.armed.Load() {
		panic("on purpose")
	}
}

type brokenRecorder struct{ armed *atomic.Bool }

func (r brokenRecorder) Due() bool { return false }
func (r brokenRecorder) Record(control.Recorded) {
	if r.armed.Load() {
		panic("on purpose")
	}
}

type brokenStore struct {
	Store
	armed *atomic.Bool
}

func (s brokenStore) Commit(b plan.Batch) error {
	if s.armed.Load() {
		panic("on purpose")
	}
	return s.Store.Commit(b)
}
