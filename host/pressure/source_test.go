package pressure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/workload"
)

// fake is a kernel whose triggers a test fires.
type fake struct {
	mu      sync.Mutex
	next    int
	files   map[int]string
	refuses map[string]error
	events  chan func() (fired, gone []int)
	ended   chan struct{}
	later   chan func() // what the source would do later
}

func newFake() *fake {
	f := &fake{files: map[int]string{}, refuses: map[string]error{}}
	f.events = make(chan func() (fired, gone []int))
	f.ended = make(chan struct{})
	f.later = make(chan func(), 10)
	return f
}

func (f *fake) set(file string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refuses[file]; err != nil {
		return 0, err
	}
	f.next++
	f.files[f.next] = file
	return f.next, nil
}

func (f *fake) remove(trigger int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.files, trigger)
}

func (f *fake) wait() (fired, gone []int, err error) {
	select {
	case e := <-f.events:
		fired, gone = e()
		return fired, gone, nil
	case <-f.ended:
		return nil, nil, errEnded
	}
}

func (f *fake) stop() { close(f.ended) }

// stand returns the files with a trigger, rising.
func (f *fake) stand() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Values(f.files))
}

// trigger returns the trigger of a file.
func (f *fake) trigger(file string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for trigger, name := range f.files {
		if name == file {
			return trigger
		}
	}
	return 0
}

// told is a daemon that pays attention as a test says.
type told struct{ now control.Attention }

func (t *told) Attention() control.Attention { return t.now }

func (t *told) Admit(context.Context, control.PlaceRequest) (workload.Placement, error) {
	return workload.Placement{}, errors.New("not asked here")
}

func begin(t *testing.T) (*Source, *fake, *told) {
	f, d := newFake(), &told{}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	s := newSource(ctx, f, func(_ time.Duration, later func()) { f.later <- later })
	s.Join(d)
	return s, f, d
}

func watch(d *told, ids ...workload.ID) {
	d.now.Waits, d.now.Watched = true, map[workload.ID]bool{}
	for _, id := range ids {
		d.now.Watched[id] = true
	}
}

func TestTriggersFollowAttention(t *testing.T) {
	s, f, d := begin(t)
	for i, step := range []struct {
		waits   bool
		watched []workload.ID
		want    string
	}{
		{true, nil, ""},
		{true, []workload.ID{"/web"}, "/web/cpu.pressure"},
		{true, []workload.ID{"/web", "/system.slice/db.service"}, "/system.slice/db.service/cpu.pressure /web/cpu.pressure"},
		{true, []workload.ID{"/web", "pid:7", "/", "", "vm:one", "/../etc", "/web/"}, "/web/cpu.pressure"},
		{false, []workload.ID{"/web"}, ""},
		{true, []workload.ID{"/web"}, "/web/cpu.pressure"},
		{true, []workload.ID{"/other"}, "/other/cpu.pressure"},
	} {
		watch(d, step.watched...)
		d.now.Waits = step.waits
		if err := s.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(f.stand(), " "); got != step.want {
			t.Fatalf("step %d: triggers on %q, want %q", i, got, step.want)
		}
	}
	if f.next != 4 {
		t.Fatalf("%d triggers were set: one that stands must stay", f.next)
	}
}

func TestMostTriggers(t *testing.T) {
	s, f, d := begin(t)
	var all []workload.ID
	for i := range 10 * mostTriggers {
		all = append(all, workload.ID(fmt.Sprintf("/pods/%d", i)))
	}
	watch(d, all...)
	s.Refresh(t.Context())
	if n := len(f.stand()); n != mostTriggers {
		t.Fatalf("%d triggers, want %d", n, mostTriggers)
	}
}

func TestWake(t *testing.T) {
	s, f, d := begin(t)
	watch(d, "/web", "/db")
	s.Refresh(t.Context())
	fired := func() ([]int, []int) { return []int{f.trigger("/web/cpu.pressure")}, nil }
	f.events <- fired
	f.events <- fired // a daemon that does not listen yet holds up nothing
	f.events <- fired
	woken(t, s, true)
	f.events <- func() ([]int, []int) { return nil, []int{f.trigger("/db/cpu.pressure")} }
	f.events <- func() ([]int, []int) { return nil, nil } // the one before was handled
	if got := f.stand(); len(got) != 1 || got[0] != "/web/cpu.pressure" {
		t.Fatalf("triggers on %q: the removed cgroup must be forgotten", got)
	}
	select {
	case <-s.Wake(): // of the third event above
	default:
	}
	woken(t, s, false)
	s.Refresh(t.Context())
	if n := len(f.stand()); n != 2 {
		t.Fatalf("%d triggers: a cgroup that is there again gets a new one", n)
	}
}

// TestWakesTwice: a trigger wakes the daemon at once and again a little later, for the use since the load rose.
func TestWakesTwice(t *testing.T) {
	s, f, d := begin(t)
	watch(d, "/web")
	s.Refresh(t.Context())
	web := f.trigger("/web/cpu.pressure")
	f.events <- func() (fired, gone []int) { return []int{web}, nil }
	woken(t, s, true)
	woken(t, s, false)
	later := <-f.later
	later()
	woken(t, s, true)
}

func woken(t *testing.T, s *Source, want bool) {
	t.Helper()
	limit := 10 * time.Second
	if !want {
		limit = 0
	}
	select {
	case <-s.Wake():
		if !want {
			t.Fatal("woken for nothing")
		}
	case <-time.After(limit):
		if want {
			t.Fatal("not woken")
		}
	}
}

func TestRefused(t *testing.T) {
	s, f, d := begin(t)
	f.refuses["/web/cpu.pressure"] = errors.New("operation not supported")
	f.refuses["/gone/cpu.pressure"] = fmt.Errorf("open: %w", fs.ErrNotExist)
	watch(d, "/web", "/gone", "/db")
	s.Refresh(t.Context())
	claims, problems := s.Claims(nil)
	if len(claims) > 0 || len(problems) != 1 || !strings.Contains(problems[0].Text, "/web: operation not supported") {
		t.Fatalf("claims %v, problems %v", claims, problems)
	}
	if got := strings.Join(f.stand(), " "); got != "/db/cpu.pressure" {
		t.Fatalf("triggers on %q: the others must get theirs", got)
	}
	delete(f.refuses, "/web/cpu.pressure")
	s.Refresh(t.Context())
	if _, problems := s.Claims(nil); len(problems) > 0 {
		t.Fatalf("problems %v after the kernel accepted it", problems)
	}
}

// TestEpoll: the real descriptors end wait and close; a cgroup that is missing says so.
func TestEpoll(t *testing.T) {
	e, err := newEpoll(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.set("web/cpu.pressure"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("set: %v, want that the file does not exist", err)
	}
	e.stop()
	if _, _, err := e.wait(); !errors.Is(err, errEnded) {
		t.Fatalf("wait: %v, want that it ended", err)
	}
	if _, err := e.set("web/cpu.pressure"); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("set after the end: %v", err)
	}
}
