package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon/memory"
)

// bubbleClock is time as the package time has it, which synctest makes up.
type bubbleClock struct{}

func (bubbleClock) Now() time.Time                         { return time.Now() }
func (bubbleClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// hung lets calls wait until the end of a test, whatever their context says.
type hung struct {
	mu    sync.Mutex
	now   int
	most  int
	all   map[string]int // calls that hung, by name and workload
	about func(call string, id workload.ID) bool
	end   chan struct{}
	panic bool // instead of waiting
}

func (h *hung) wait(call string, id workload.ID) {
	h.mu.Lock()
	if !h.about(call, id) {
		h.mu.Unlock()
		return
	}
	h.all[call+" "+string(id)]++
	if h.panic {
		h.mu.Unlock()
		panic(call + " on purpose")
	}
	h.now++
	h.most = max(h.most, h.now)
	h.mu.Unlock()
	<-h.end
	h.mu.Lock()
	h.now--
	h.mu.Unlock()
}

// figures is how many calls hang now, how many did at most, and each call by how often.
func (h *hung) figures() (now, most int, all map[string]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now, h.most, maps.Clone(h.all)
}

// hangingDriver is a driver some of whose calls hang.
type hangingDriver struct {
	Driver
	h *hung
}

func (d hangingDriver) Changes(ctx context.Context, s plan.Step) ([]plan.Change, error) {
	d.h.wait("changes", s.Workload)
	return d.Driver.Changes(ctx, s)
}

func (d hangingDriver) Apply(ctx context.Context, s plan.Step, progress func(plan.Move)) error {
	d.h.wait(string(s.Kind), s.Workload)
	return d.Driver.Apply(ctx, s, progress)
}

func (d hangingDriver) Read(ctx context.Context, e plan.Entry) (plan.Setting, error) {
	d.h.wait("read", e.Workload)
	return d.Driver.Read(ctx, e)
}

func (d hangingDriver) Restore(ctx context.Context, all []plan.Entry) []error {
	d.h.wait("restore", all[0].Workload)
	return d.Driver.Restore(ctx, all)
}

func (d hangingDriver) Present(e plan.Entry) error {
	d.h.wait("present", e.Workload)
	return d.Driver.Present(e)
}

// life is a daemon whose loop runs, in time that passes when all wait.
type life struct {
	*Daemon
	m     *machine
	hung  *hung
	store *memory.Store
	alive atomic.Int64 // how often the loop came round
	ready atomic.Int64 // when it said so, in Unix seconds
}

// live runs a daemon on m while do runs, and stops it within seconds.
func live(t *testing.T, m *machine, about func(string, workload.ID) bool, change func(*Options), do func(*testing.T, *life)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &hung{all: map[string]int{}, about: about, end: make(chan struct{})}
		l := &life{m: m, hung: h, store: memory.New()}
		r := rig{m: m, store: l.store}
		o := r.options(true)
		o.Clock, o.Inline = bubbleClock{}, false
		o.Drivers = map[workload.Kind]Driver{workload.InCgroup: hangingDriver{m, h}}
		o.Alive = func() { l.alive.Add(1) }
		o.Ready = func(*Daemon) { l.ready.Store(time.Now().Unix()) }
		if change != nil {
			change(&o)
		}
		var err error
		if l.Daemon, err = New(o); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		defer func() { // do may have ended the test
			cancel()
			began := time.Now()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("the daemon took %v to stop", took)
			}
			select {
			case <-h.end:
			default:
				close(h.end)
			}
			time.Sleep(time.Minute) // those that were given up end
		}()
		do(t, l)
	})
}

// soon fails the test when a call takes longer than a person waits.
func soon(t *testing.T, what string, within time.Duration, do func(context.Context) error) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	err := do(ctx)
	if took := time.Since(began); err != nil || took > within {
		t.Errorf("%s: %v, after %v; want it within %v", what, err, took, within)
	}
}

// three is workloads that each fit a node, with their memory on both.
func three(t *testing.T) *machine {
	m := newMachine(t, 2, 12)
	for _, name := range []string{"a", "b", "c"} {
		m.add(name, 3, 1<<20, 0, 1)
	}
	return m
}

// TestCallsThatDoNotComeBack: whichever call about one workload hangs, the others are
// brought home and undone, who asks is answered, and the one is named (R1, R6).
func TestCallsThatDoNotComeBack(t *testing.T) {
	for _, call := range []string{"changes", string(plan.SetCPUs), string(plan.SetMems), string(plan.MovePages), "read", "restore", "present"} {
		t.Run(call, func(t *testing.T) {
			m := three(t)
			before := m.settings()
			about := func(c string, id workload.ID) bool { return c == call && id == "/a" }
			live(t, m, about, nil, func(t *testing.T, l *life) {
				time.Sleep(15 * time.Minute)
				all := workloads(t, l.Daemon)
				hangs, most, _ := l.hung.figures()
				for _, id := range []workload.ID{"/b", "/c"} {
					if s := all[id].State; s != api.StateAtHome {
						t.Errorf("%s: %s: %s", id, s, all[id].Why)
					}
				}
				if s := all["/a"].State; s != api.StateNoAnswer && hangs > 0 && call != "read" && call != "present" {
					t.Errorf("/a: %s: %s; want it to be named", s, all["/a"].Why)
				}
				soon(t, "status", time.Second, func(ctx context.Context) error { _, err := l.Status(ctx); return err })
				soon(t, "place", time.Second, func(ctx context.Context) error {
					_, err := l.Place(ctx, api.Want{Name: "x", Class: workload.Shared, CPUs: 1})
					return err
				})
				soon(t, "undo of another", time.Second, func(ctx context.Context) error {
					_, err := l.Undo(ctx, api.Which{ID: "/b"})
					return err
				})
				now := m.settings()
				if now["/b"] != before["/b"] || now["/c"] == before["/c"] {
					t.Errorf("after undo of /b: %v", now)
				}
				var got api.UndoResult
				soon(t, "undo of all", 2*time.Minute, func(ctx context.Context) (err error) {
					got, err = l.Undo(ctx, api.Which{All: true})
					return err
				})
				if now := m.settings(); now["/c"] != before["/c"] {
					t.Errorf("after undo: %v", now)
				}
				// Pages that do not move keep no setting from being put back.
				if now := m.settings(); call == string(plan.MovePages) && (len(got.Failed) > 0 || now["/a"] != before["/a"]) {
					t.Errorf("after undo: %v; %+v", now, got.Failed)
				}
				if most > 3 {
					t.Errorf("%d calls about one workload hung at once", most)
				}
				if lost := l.View().Lost; lost > 3 {
					t.Errorf("%d lost calls about one workload", lost)
				}
				close(l.hung.end)
				time.Sleep(time.Minute)
				if lost := l.View().Lost; lost != 0 {
					t.Errorf("%d calls are said to be away when all have come back", lost)
				}
				soon(t, "undo again", time.Second, func(ctx context.Context) error {
					_, err := l.Undo(ctx, api.Which{All: true})
					return err
				})
				if diff := cmp.Diff(before, m.settings()); diff != "" {
					t.Errorf("once it answers again, undo left\n%s", diff)
				}
			})
		})
	}
}

// TestUndoBesideMemoryThatMoves: the kernel moves memory as long as there is some while
// memory nodes are set; an undo does not wait for that, and what takes later is put back.
func TestUndoBesideMemoryThatMoves(t *testing.T) {
	m := three(t)
	before := m.settings()
	live(t, m, func(c string, id workload.ID) bool { return c == string(plan.SetMems) && id == "/a" }, func(o *Options) {
		o.Settings.Rules = []workload.Rule{{Match: "/*", Class: workload.Dedicated}}
	}, func(t *testing.T, l *life) {
		for range 300 {
			if now, _, _ := l.hung.figures(); now == 0 {
				time.Sleep(time.Second)
			}
		}
		var got api.UndoResult
		soon(t, "undo", 35*time.Second, func(ctx context.Context) (err error) {
			got, err = l.Undo(ctx, api.Which{All: true})
			return err
		})
		if now := m.settings(); len(got.Failed) != 1 || got.Failed[0].Entry.Workload != "/a" || got.Failed[0].Entry.Kind != plan.CgroupMems || now["/b"] != before["/b"] || now["/c"] != before["/c"] {
			t.Errorf("undone: %+v; %v", got, now)
		}
		close(l.hung.end)
		time.Sleep(time.Minute)
		if diff := cmp.Diff(before, m.settings()); diff != "" || len(l.View().Journal) != 0 {
			t.Errorf("once the call is back:\n%s", diff)
		}
	})
}

// TestHungWorkloadComesBack: what answers again is brought home.
func TestHungWorkloadComesBack(t *testing.T) {
	m := three(t)
	live(t, m, func(c string, id workload.ID) bool { return c == string(plan.SetCPUs) && id == "/a" }, nil, func(t *testing.T, l *life) {
		time.Sleep(5 * time.Minute)
		if s := workloads(t, l.Daemon)["/a"].State; s != api.StateNoAnswer {
			t.Errorf("/a is %s while its call hangs", s)
		}
		l.hung.mu.Lock()
		l.hung.about = none
		l.hung.mu.Unlock()
		close(l.hung.end)
		time.Sleep(12 * time.Minute)
		if w := workloads(t, l.Daemon)["/a"]; w.State != api.StateAtHome {
			t.Errorf("/a is %s when it answers again: %s", w.State, w.Why)
		}
	})
}

// TestManyHungCallsAreBounded: more workloads than calls may be away hang; each holds one
// call at most, and what another has is put back.
func TestManyHungCallsAreBounded(t *testing.T) {
	m := newMachine(t, 2, 256)
	for i := range 2 * mostLost {
		m.add(fmt.Sprintf("w%02d", i), 1, 1<<17, 0, 1)
	}
	id := m.add("z", 1, 1<<17, 0, 1)
	before := m.settings()
	armed := atomic.Bool{}
	about := func(c string, w workload.ID) bool { return armed.Load() && w != id && c == "changes" }
	live(t, m, about, nil, func(t *testing.T, l *life) {
		time.Sleep(3 * time.Minute)
		if m.settings()[id] == before[id] {
			t.Fatalf("%s was not placed", id)
		}
		armed.Store(true)
		m.mu.Lock()
		for _, w := range m.live { // all are to be moved anew
			w.mems = m.host().AllowedMems
			w.obs.Mems = w.mems
			w.obs.CPUs = m.host().Online
		}
		m.mu.Unlock()
		time.Sleep(10 * time.Minute)
		_, most, all := l.hung.figures()
		if most > mostLost+mostCalls || l.View().Lost > mostLost+mostCalls {
			t.Errorf("%d calls hung at once, %d lost; want %d at most", most, l.View().Lost, mostLost+mostCalls)
		}
		for what, n := range all {
			if n > 1 {
				t.Errorf("%s hung %d times at once", what, n)
			}
		}
		soon(t, "undo of another", 2*time.Second, func(ctx context.Context) error {
			got, err := l.Undo(ctx, api.Which{ID: id})
			if err == nil && len(got.Failed) > 0 {
				err = fmt.Errorf("%+v", got.Failed)
			}
			return err
		})
		if now := m.settings()[id]; now != before[id] {
			t.Errorf("%s is %s, was %s", id, now, before[id])
		}
	})
}

// TestScanThatDoesNotEnd: the daemon is ready and answers, and never scans twice at once.
func TestScanThatDoesNotEnd(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprintf("first=%v", first), func(t *testing.T) {
			m := three(t)
			looks, n := atomic.Int64{}, atomic.Int64{}
			end := make(chan struct{}) // of the bubble, made below
			m.looked = func() {
				if n.Add(1) == 1 && !first {
					return
				}
				if looks.Add(1) > 1 {
					select {
					case <-end:
					default:
						t.Error("two scans at once")
					}
				}
				<-end
				looks.Add(-1)
			}
			live(t, m, func(string, workload.ID) bool { return false }, func(*Options) { end = make(chan struct{}) }, func(t *testing.T, l *life) {
				start := time.Now().Unix()
				time.Sleep(2 * scanWithin)
				round := l.alive.Load()
				time.Sleep(time.Minute)
				if got := l.alive.Load() - round; got < 30 {
					t.Errorf("the loop came round %d times in a minute", got)
				}
				ready, want := l.ready.Load()-start, int64(0)
				if first {
					want = int64(scanWithin.Seconds())
				}
				if ready != want {
					t.Errorf("ready after %d s, want %d", ready, want)
				}
				s, err := l.Status(t.Context())
				if err != nil || !slices.ContainsFunc(s.Problems, func(p string) bool { return strings.Contains(p, "not ended") }) {
					t.Errorf("status does not say so: %q, %v", s.Problems, err)
				}
				soon(t, "place", time.Second, func(ctx context.Context) error {
					_, err := l.Place(ctx, api.Want{Name: "x", Class: workload.Shared, CPUs: 1})
					if first && err != nil { // it is not known what there is
						return nil
					}
					return err
				})
				soon(t, "undo", 5*time.Second, func(ctx context.Context) error { _, err := l.Undo(ctx, api.Which{All: true}); return err })
				if _, err := l.Resume(t.Context(), api.Which{All: true}); err != nil {
					t.Error(err)
				}
				close(end)
				time.Sleep(time.Minute)
				for id, w := range workloads(t, l.Daemon) {
					if w.State != api.StateAtHome {
						t.Errorf("once scans end: %s is %s: %s", id, w.State, w.Why)
					}
				}
				if s, _ := l.Status(t.Context()); len(s.Problems) > 0 {
					t.Errorf("once scans end: %q", s.Problems)
				}
			})
		})
	}
}

// TestFirstLookThatIsNotAnswered: a host that is too busy to be read at the start has a
// daemon all the same, which says so and reads it later.
func TestFirstLookThatIsNotAnswered(t *testing.T) {
	m := three(t)
	looks := 0
	m.failing = func() error {
		if looks++; looks > 3 {
			return nil
		}
		return fmt.Errorf("look: the kernel %w", plan.ErrNoAnswer)
	}
	live(t, m, none, nil, func(t *testing.T, l *life) {
		start := time.Now().Unix()
		time.Sleep(3 * time.Second)
		if l.ready.Load() != start {
			t.Errorf("ready %d s after the start", l.ready.Load()-start)
		}
		s, err := l.Status(t.Context())
		if err != nil || !slices.ContainsFunc(s.Problems, func(p string) bool { return strings.Contains(p, "does not answer") }) {
			t.Errorf("status does not say so: %q, %v", s.Problems, err)
		}
		time.Sleep(time.Minute)
		for id, w := range workloads(t, l.Daemon) {
			if w.State != api.StateAtHome {
				t.Errorf("%s is %s: %s", id, w.State, w.Why)
			}
		}
	})
}

// slowSource is a source that does not come back, once it is armed.
type slowSource struct {
	h *hung
	n atomic.Int64
}

func (s *slowSource) Name() string { return "slow" }
func (s *slowSource) Refresh(context.Context) error {
	s.n.Add(1)
	s.h.wait("refresh", "")
	return nil
}
func (s *slowSource) Claims(*topology.Host) ([]workload.Claim, []workload.Problem) { return nil, nil }
func (s *slowSource) Processes() []workload.Process                                { return nil }
func (s *slowSource) Wake() <-chan struct{}                                        { return nil }

// TestSourceThatDoesNotComeBack holds up one scan for seconds, and is named.
func TestSourceThatDoesNotComeBack(t *testing.T) {
	m := three(t)
	source := &slowSource{}
	about := func(string, workload.ID) bool { return true }
	live(t, m, func(c string, id workload.ID) bool { return c == "refresh" && about(c, id) }, func(o *Options) {
		o.Sources = []Source{source}
		source.h = o.Drivers[workload.InCgroup].(hangingDriver).h
	}, func(t *testing.T, l *life) {
		time.Sleep(time.Minute)
		for id, w := range workloads(t, l.Daemon) {
			if w.State != api.StateAtHome {
				t.Errorf("%s is %s: %s", id, w.State, w.Why)
			}
		}
		if n := source.n.Load(); n != 1 {
			t.Errorf("asked %d times while it does not come back", n)
		}
		s, err := l.Status(t.Context())
		if err != nil || !slices.ContainsFunc(s.Problems, func(p string) bool { return strings.HasPrefix(p, "slow: ") }) {
			t.Errorf("status does not name it: %q, %v", s.Problems, err)
		}
		if l.View().Scans < 20 {
			t.Errorf("%d scans in a minute", l.View().Scans)
		}
		close(l.hung.end)
		time.Sleep(time.Minute)
		if s, _ := l.Status(t.Context()); len(s.Problems) > 0 || source.n.Load() < 20 {
			t.Errorf("once it answers: %q, asked %d times", s.Problems, source.n.Load())
		}
	})
}

// TestSurveyThatDoesNotComeBack keeps homenode from acting for its deadline only.
func TestSurveyThatDoesNotComeBack(t *testing.T) {
	m := three(t)
	var calls atomic.Int64
	live(t, m, func(c string, _ workload.ID) bool { return c == "survey" }, func(o *Options) {
		h := o.Drivers[workload.InCgroup].(hangingDriver).h
		o.Settings.Surveys = []control.SurveyKind{control.Managers}
		o.Surveys = map[control.SurveyKind]Surveyor{control.Managers: func(context.Context, *workload.Snapshot) (control.Survey, error) {
			calls.Add(1)
			h.wait("survey", "")
			return control.Survey{}, nil
		}}
	}, func(t *testing.T, l *life) {
		time.Sleep(5 * time.Minute)
		for id, w := range workloads(t, l.Daemon) {
			if w.State != api.StateAtHome {
				t.Errorf("%s is %s: %s", id, w.State, w.Why)
			}
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("asked %d times while it does not come back", n)
		}
		close(l.hung.end)
		time.Sleep(5 * time.Minute)
		if n := calls.Load(); n < 3 {
			t.Errorf("asked %d times once it answers", n)
		}
	})
}
