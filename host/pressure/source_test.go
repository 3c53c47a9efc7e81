package pressure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
}

func newFake() *fake {
	f := &fake{files: map[int]string{}, refuses: map[string]error{}}
	f.events = make(chan func() (fired, gone []int))
	f.ended = make(chan struct{})
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
	return beginWith(t, func(time.Duration) {}, time.Now)
}

func beginWith(t *testing.T, pause func(time.Duration), now func() time.Time) (*Source, *fake, *told) {
	f, d := newFake(), &told{}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	s := newSource(ctx, f, pause, now)
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

// TestWakesTwice: a trigger wakes the daemon at once and again a little later, for the use since the load rose. However
// many cgroups wait, and at different times, that is all in a window, and in a longer one while triggers follow each
// other.
func TestWakesTwice(t *testing.T) {
	paused, goOn := make(chan time.Duration), make(chan bool)
	clock := time.Unix(0, 0) // only follow has it
	s, f, d := beginWith(t, func(d time.Duration) {
		paused <- d
		<-goOn
	}, func() time.Time { return clock })
	pause := func(want time.Duration) {
		t.Helper()
		select {
		case d := <-paused:
			if d != want {
				t.Errorf("the pause after a wake-up is %v, want %v", d, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("no pause follows a wake-up")
		}
	}
	watch(d, "/web", "/db")
	s.Refresh(t.Context())
	fired := func(file string) func() ([]int, []int) {
		return func() ([]int, []int) { return []int{f.trigger(file)}, nil }
	}
	for _, x := range []struct {
		after time.Duration // since the pause of the one before
		rest  time.Duration
	}{
		{time.Hour, rest},
		{0, 2 * rest}, // each follows the one before: they may be of the scans themselves
		{2*rest - 1, 4 * rest},
		{time.Second, mostRest},
		{0, mostRest},
		{mostRest, rest},
	} {
		f.events <- func() ([]int, []int) {
			clock = clock.Add(x.after)
			return fired("/web/cpu.pressure")()
		}
		pause(again)
		woken(t, s, true)
		woken(t, s, false)
		goOn <- true
		pause(x.rest - again)
		woken(t, s, true)
		select {
		case f.events <- fired("/db/cpu.pressure"): // the kernel keeps it
			t.Fatal("the next trigger is taken in the pause")
		default:
		}
		goOn <- true
	}
}

// TestClaimsDoNotWait: a scan waits for a Refresh that the kernel holds up for five seconds at most. Claims returns at
// once then.
func TestClaimsDoNotWait(t *testing.T) {
	s, f, d := begin(t)
	watch(d, "/web")
	s.Refresh(t.Context())
	watch(d)
	f.mu.Lock() // a removal that does not end
	done := make(chan error)
	go func() { done <- s.Refresh(t.Context()) }()
	for s.mu.TryLock() { // until the removal has begun
		s.mu.Unlock()
		runtime.Gosched()
	}
	asked := make(chan bool)
	go func() {
		s.Claims(nil)
		close(asked)
	}()
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		t.Error("it waits for the removal")
	}
	f.mu.Unlock()
	<-done
}

// TestServiceMaySetTriggers: the unit leaves the daemon the capability that the kernel wants for a window of 500 ms
// (kernel commits d82caa273565 and 519fabc7aaba, Linux 6.5): without it Linux 6.18 answers EINVAL.
func TestServiceMaySetTriggers(t *testing.T) {
	unit, err := os.ReadFile("../../packaging/systemd/homenode.service")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(unit)) {
		all, ok := strings.CutPrefix(line, "CapabilityBoundingSet=")
		if ok && slices.Contains(strings.Fields(all), "CAP_SYS_RESOURCE") {
			return
		}
	}
	t.Error("homenode.service has no CAP_SYS_RESOURCE: every trigger is refused")
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
	f.refuses["/zgoing/cpu.pressure"] = &fs.PathError{Op: "write", Err: unix.ENODEV}
	watch(d, "/web", "/gone", "/db", "/zgoing")
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
	f.refuses["/new/cpu.pressure"] = &fs.PathError{Op: "write", Err: unix.EINVAL}
	watch(d, "/new")
	s.Refresh(t.Context())
	_, problems = s.Claims(nil)
	if len(problems) != 1 || !strings.Contains(problems[0].Text, "needs CAP_SYS_RESOURCE") {
		t.Fatalf("problems %v: a missing capability must be named", problems)
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
