package tui

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/view"
)

var update = flag.Bool("update", false, "write the golden screens anew")

var moment = time.Date(2026, 11, 23, 10, 4, 5, 0, time.UTC)

func share(x float64) *float64 { return &x }

// made is a host of so many nodes with work in every state on it.
func made(nodes int) api.Status {
	s := api.Status{Schema: "homenode-status/3", Version: "1.2.3", Mode: "enforce", Time: moment,
		Pressure: []workload.Pressure{{Resource: "cpu", Some: 12.4}, {Resource: "memory", Some: 0.2}, {Resource: "io"}}}
	for n := range nodes {
		busy, traffic, cache := 1.5+float64(n*7%23)*0.9, int64(2000+n*9500), int64(3<<20)
		s.Nodes = append(s.Nodes, api.Node{ID: topology.NodeID(n), CPUs: fmt.Sprintf("%d-%d", n*24, n*24+23), MemoryKiB: 64 << 20, FreeKiB: int64(60-n*7) << 20,
			BookedKiB: 20 << 20, VCPUs: float64(6 + n*3), CPUUse: &busy, Bandwidth: &traffic, ReclaimableKiB: &cache})
	}
	node := func(n int) string { return fmt.Sprint(n % nodes) }
	moving := func(planned, moved int64, to int, ago time.Duration) *plan.Move {
		return &plan.Move{Home: node(to), Seconds: ago.Seconds(), Planned: planned, Moved: moved, Started: moment.Add(-ago), State: "running"}
	}
	s.Workloads = []api.Workload{
		{ID: "/system.slice/postgresql@14-main.service", Name: "postgresql@14-main.service", Class: workload.Dedicated, Importance: 90, CPUs: 8, Home: node(1), CPUSet: "0-7", CPUSetPlanned: "0-7",
			CPUUse: 6.31, MemoryKiB: 17 << 20, Locality: share(0.998), LocalityExpected: share(1), LocalityFrom: workload.Counters, State: api.StateAtHome, Why: "Its home is node 1 and still has room for it."},
		{ID: "shop/cart-6d4f9/app", Name: "shop/cart-6d4f9/app", Cgroup: "/kubepods.slice/kubepods-burstable.slice/cri-containerd-0d1f2c.scope", Class: workload.Shared, Importance: 50, CPUs: 2,
			Home: node(0), CPUSet: "0-23", CPUSetPlanned: "0-11", CPUUse: 1.2, MemoryKiB: 3 << 20, Locality: share(0.51), LocalityExpected: share(0.97), LocalityFrom: workload.Counters,
			MemoryByNode: []api.NodeKiB{{Node: 0, KiB: 3 << 19}, {Node: topology.NodeID(nodes - 1), KiB: 3 << 19}}, State: api.StateMoving, Move: moving(3<<30, 1<<30, 0, 5*time.Second),
			Steps: []plan.Step{{Kind: plan.MovePages, To: node(0), Bytes: 3 << 30}, {Kind: plan.SetMems, To: node(0)}}, Why: "It has the most room there."},
		{ID: "vm:db1", Name: "db1", Class: workload.Dedicated, CPUs: 4, Home: node(2), CPUUse: 3.9, MemoryKiB: 16 << 20, Locality: share(0.02), LocalityExpected: share(1),
			LocalityFrom: workload.Residence, State: api.StateMoving, Move: moving(16<<30, 300<<20, 2, 2*time.Second)},
		{ID: "pid:4711", Name: "java", Class: workload.Shared, CPUs: 1, Home: node(2), CPUUse: 0.02, MemoryKiB: 850 << 10, Locality: share(0.3), LocalityExpected: share(0.9), State: api.StatePaused,
			Move: moving(512<<20, 100<<20, 2, time.Minute), Why: "pid:4711 waits for memory 23 % of the time; it goes on below 10 %"},
		{ID: "vm:web1", Name: "web1", Class: workload.Dedicated, CPUs: 4, Home: node(3), CPUUse: 3.97, MemoryKiB: 16 << 20, Locality: share(1), LocalityExpected: share(1), State: api.StateHeld},
		{ID: "/batch.slice/backup.service", Name: "backup.service", Class: workload.Batch, CPUUse: 0.5, MemoryKiB: 30 << 10, State: api.StateLeftAlone},
		{ID: "media/transcode-5fd2-with-a-rather-long-name/ffmpeg", Name: "media/transcode-5fd2-with-a-rather-long-name/ffmpeg", Class: workload.Shared, CPUs: 12, Home: node(0), CPUUse: 10.75, MemoryKiB: 1 << 31,
			Locality: share(0.6), LocalityExpected: share(0.6), State: api.StateAtHome},
	}
	for n := range 20 {
		id := fmt.Sprintf("/system.slice/worker-%02d.service", n)
		w := api.Workload{ID: workload.ID(id), Name: id[14:], Class: workload.Shared, CPUs: 1 + n%3, Home: node(n), CPUUse: 0.1 * float64(n), MemoryKiB: int64(n+1) << 19, Locality: share(1), LocalityExpected: share(1), State: api.StateAtHome}
		if n%9 == 4 {
			w.Locality, w.State = share(0.25), api.StateQueued
		}
		s.Workloads = append(s.Workloads, w)
	}
	s.Trend = &api.Trend{Since: moment.Add(-2 * time.Minute), First: share(0.41), Moves: 31, MovedBytes: 63 << 30, From: moment.Add(-2 * time.Minute), StepS: 5}
	for i := range 25 {
		s.Trend.Local = append(s.Trend.Local, share(min(0.99, 0.41+float64(i)*0.03)))
	}
	s.Trend.Local[10] = nil
	return s
}

// TestDemoScreens is a demo as top shows it: its link, its stories, and no name that is cut off.
func TestDemoScreens(t *testing.T) {
	long := "data/airflow-e2753/scheduler"
	var text strings.Builder
	for _, size := range [][2]int{{80, 24}, {160, 50}} {
		o := options()
		o.Colour, o.Zone, o.Title, o.Link = false, time.UTC, "homenode demo", "http://127.0.0.1:4663/"
		o.Stories, o.Story = []Story{{"kernel alone", ""}, {"Homenode", "the same work, brought home by homenode"}, {"noisy neighbour", ""}, {"batch on idle CPUs", ""}}, 1
		m := New(o, size[0], size[1])
		s := made(8)
		s.Workloads = slices.DeleteFunc(s.Workloads, func(w api.Workload) bool { return len(w.Name) > len(long) })
		s.Workloads[1].Name, s.Workloads[1].ID, s.Workloads[1].CPUUse = long, workload.ID(long), 9
		m.Take(Seen{Status: s, At: moment})
		m.Take(Happened(happenedOn()))
		frame := m.Frame()
		for _, want := range []string{"http://127.0.0.1:4663/", "[2 Homenode]", "4 batch on idle CPUs", "31 page moves, 63 GiB", "live"} {
			if !strings.Contains(frame, want) {
				t.Errorf("%v: no %q", size, want)
			}
		}
		if n := strings.Count(frame, long); n < 2 {
			t.Errorf("%v: %s is there %d times in full, want it among moves and workloads", size, long, n)
		}
		fmt.Fprintf(&text, "==== %d×%d\n%s\n", size[0], size[1], frame)
	}
	golden(t, "testdata/demo.txt", text.String())
}

// TestLinkOnOneNode: the sentence for one node is long, and the link is whole all the same.
func TestLinkOnOneNode(t *testing.T) {
	o := options()
	o.Colour, o.Title, o.Link = false, "homenode demo", "http://127.0.0.1:4663/"
	m := New(o, 80, 24)
	s := made(1)
	s.Workloads = s.Workloads[:1]
	s.Workloads[0].State = api.StateAtHome
	m.Take(Seen{Status: s, At: moment})
	if head, _, _ := strings.Cut(m.Frame(), "\n"); !strings.Contains(head, o.Link) || !strings.Contains(head, "all memory is local") {
		t.Errorf("first line: %q", head)
	}
}

// TestCachesAt80: where homes are caches of a node, each cache is printed in full, and so is the link of the first line.
func TestCachesAt80(t *testing.T) {
	o := options()
	o.Colour, o.Title, o.Link = false, "homenode demo", "http://127.0.0.1:36713/"
	s := made(1)
	s.Caches = &api.Caches{Count: 4, CPUs: 6}
	s.Workloads = s.Workloads[:2]
	for i := range s.Workloads {
		s.Workloads[i].State, s.Workloads[i].Move = api.StateAtHome, nil
	}
	s.Workloads[0].Caches, s.Workloads[1].Caches = "3", "12-13"
	for _, width := range []int{80, 100, 140} {
		m := New(o, width, 24)
		m.Take(Seen{Status: s, At: moment})
		head, rest, _ := strings.Cut(m.Frame(), "\n")
		if !strings.Contains(head, o.Link) || strings.Contains(head, "…") {
			t.Errorf("%d columns: first line: %q", width, head)
		}
		for _, want := range []string{"0, cache 3 ", "0, caches 12-13 "} {
			if !strings.Contains(rest, want) {
				t.Errorf("%d columns: no %q in\n%s", width, want, rest)
			}
		}
	}
	m := New(o, 50, 24) // too narrow for caches
	m.Take(Seen{Status: s, At: moment})
	if frame := m.Frame(); strings.Contains(frame, "0, c") {
		t.Errorf("50 columns: a part of a cache in\n%s", frame)
	}
}

// TestStoryKeys: a key starts a story, and what the one before left on the screen goes.
func TestStoryKeys(t *testing.T) {
	chosen := -1
	m := New(Options{Stories: []Story{{Title: "one"}, {Title: "two"}}, Choose: func(_ context.Context, i int) { chosen = i }}, 80, 24)
	m.Take(Seen{Status: made(2), At: moment})
	m.Take(Happened(happenedOn()))
	if m.Key("3") != nil {
		t.Error("3 starts a story that is none")
	}
	ask := m.Key("2")
	if ask == nil {
		t.Fatal("2 asks for nothing")
	}
	m.Take(Seen{Err: errors.New("connection refused"), At: moment})
	if m.lost != nil {
		t.Error("the daemon counts as lost while the story starts")
	}
	second := made(2)
	second.Trend.Since = moment
	m.Take(ask(t.Context(), storyteller{s: second}))
	if chosen != 1 || m.story != 1 || m.starting || len(m.events) != 0 || !m.status.Trend.Since.Equal(moment) {
		t.Errorf("chosen %d, story %d, starting %v, %d events", chosen, m.story, m.starting, len(m.events))
	}
}

type storyteller struct {
	api.Backend
	s api.Status
}

func (b storyteller) Status(context.Context) (api.Status, error) { return b.s, nil }

func happenedOn() []plan.Event {
	return []plan.Event{
		{Seq: 1, Time: moment.Add(-time.Minute), Kind: plan.EventStep, Workload: "vm:db1", Text: "set-cpus: 0-191 → 48-51"},
		{Seq: 2, Time: moment.Add(-50 * time.Second), Kind: plan.EventPlan, Workload: "vm:db1", Text: "placed: node 2. Node 2 is the best of 8 nodes that have room for all of it: it has the lower load, 0.0 shared vCPUs on 12 cores; node 5 has 4.0 on 12 cores."},
		{Seq: 3, Time: moment.Add(-20 * time.Second), Kind: plan.EventMove, Workload: "shop/cart-6d4f9/app", Text: "move shop/cart-6d4f9/app from node 3 to node 0. Node 3 is short of CPU: shared workloads demand 20.0 CPUs; it has 24 (12 cores). It saves 0.41 CPUs now."},
		{Seq: 4, Time: moment.Add(-10 * time.Second), Kind: plan.EventStep, Workload: "pid:4711", Text: "set-mems: device or resource busy", Error: true},
		{Seq: 5, Time: moment.Add(-2 * time.Second), Kind: plan.EventMove, Workload: "/system.slice/worker-03.service", Text: "moved 4.6 GiB to node 3 in 13.6 s"},
	}
}

// daemon answers what the screen asks.
type daemon struct {
	api.Backend
	refuses bool
	did     []string
}

func (d *daemon) Move(_ context.Context, o api.MoveOrder) (api.MoveAnswer, error) {
	switch {
	case d.refuses:
		return api.MoveAnswer{}, &api.Error{Code: api.Forbidden, Text: "user 1000 may look but not change anything"}
	case o.ID == "":
		return api.MoveAnswer{}, &api.Error{Code: api.NotFound, Text: "no workload"}
	case !o.DryRun:
		d.did = append(d.did, fmt.Sprintf("move %s %v %v", o.ID, o.To, o.Cancel))
	}
	return api.MoveAnswer{Workload: o.ID, Outcome: plan.Placed, From: topology.Nodes(1), To: o.To, Steps: []plan.Step{{Kind: plan.MovePages, Bytes: 3 << 30, Cost: plan.Cost{Seconds: 12}}}}, nil
}

func (d *daemon) Undo(_ context.Context, w api.Which) (api.UndoResult, error) {
	if !w.DryRun {
		d.did = append(d.did, fmt.Sprintf("undo %s %v", w.ID, w.All))
	}
	return api.UndoResult{Workload: w.ID, Restored: make([]plan.Entry, 2)}, nil
}

func (d *daemon) Resume(_ context.Context, w api.Which) (api.Resumed, error) {
	d.did = append(d.did, fmt.Sprintf("resume %s %v", w.ID, w.All))
	return api.Resumed{}, nil
}

func (d *daemon) Explain(_ context.Context, id workload.ID) (api.Explanation, error) {
	if id == "gone" {
		return api.Explanation{}, errors.New("no such\x1b[31m workload")
	}
	return api.Explanation{Workload: api.Workload{ID: id}}, nil
}

func options() Options {
	return Options{
		Orders: []Order{
			{"cpu", func(a, b *api.Workload) int { return cmp.Compare(b.CPUUse, a.CPUUse) }},
			{"name", func(a, b *api.Workload) int { return strings.Compare(a.Name, b.Name) }},
		},
		Label: func(w *api.Workload) string {
			if strings.HasPrefix(string(w.ID), "pid:") && w.Name != "" {
				return string(w.ID) + " " + w.Name
			}
			return string(w.ID)
		},
		Explain: func(x api.Explanation, p view.Paint) string {
			return string(x.Workload.ID) + "\n\nwhy\n  Its home is node 0 and still has room for it.\n"
		},
		Colour: true, Every: time.Second,
	}
}

// screen is a model that has seen the host of so many nodes.
func screen(o Options, width, height, nodes int) *Model {
	m := New(o, width, height)
	m.Take(Seen{Status: made(nodes), At: moment})
	m.Take(Happened(happenedOn()))
	m.Take(Allowed(true))
	return m
}

// press types keys, and takes what the daemon answers.
func press(m *Model, d *daemon, keys ...string) {
	for _, k := range keys {
		if ask := m.Key(k); ask != nil {
			m.Take(ask(context.Background(), d))
		}
	}
}

// What is on the screen is as in testdata, on screens of 80×24 and 200×60, of hosts with 1, 2
// and 8 nodes. The first of each is with colours.
func TestScreens(t *testing.T) {
	defer func(was *time.Location) { time.Local = was }(time.Local)
	time.Local = time.UTC
	for name, keys := range map[string][]string{
		"list": nil, "list-chosen": {"down", "down", "down", "s"}, "filter": {"/", "s", "h", "o", "p", "enter"}, "filter-none": {"/", "z", "z"}, "help": {"?"},
		"detail": {"/", "c", "a", "r", "t", "enter", "home", "enter"}, "explain": {"e"}, "move": {"m", "1"}, "move-question": {"m", "1", "enter"}, "moved": {"m", "1", "enter", "y"},
		"undo-question": {"u"}, "paused": {"p"},
	} {
		t.Run(name, func(t *testing.T) {
			var all strings.Builder
			for _, nodes := range []int{1, 2, 8} {
				for _, size := range [][2]int{{80, 24}, {200, 60}} {
					o := options()
					m := screen(o, size[0], size[1], nodes)
					press(m, &daemon{}, keys...)
					frame := m.Frame()
					checkFrame(t, frame, size[0], size[1])
					if n := len(strings.Split(frame, "\n")); n != size[1] {
						t.Errorf("%d of %d lines", n, size[1])
					}
					if nodes > 1 || size[0] > 80 {
						frame = ansi.Strip(frame)
					}
					fmt.Fprintf(&all, "==== %s, %d×%d\n%s\n", words.Count(nodes, "node"), size[0], size[1], strings.ReplaceAll(frame, "\x1b", "␛"))
				}
			}
			golden(t, filepath.Join("testdata", name+".txt"), all.String())
		})
	}
}

// The page of keys shows every name whole, with a space before its text.
func TestHelpNames(t *testing.T) {
	m := screen(options(), 80, 60, 2)
	press(m, &daemon{}, "?")
	frame := ansi.Strip(m.Frame())
	for _, name := range []string{"↑ ↓ j k", "since start", "LOCAL %", "WAIT"} {
		if !strings.Contains(frame, "\n  "+name+" ") {
			t.Errorf("no line has the name %q:\n%s", name, frame)
		}
	}
}

// On screens that are too small, without colour, in a locale of ASCII, with the daemon gone, and
// without an end: what is told is as in testdata.
func TestOddScreens(t *testing.T) {
	defer func(was *time.Location) { time.Local = was }(time.Local)
	time.Local = time.UTC
	var all strings.Builder
	show := func(name string, m *Model) {
		fmt.Fprintf(&all, "==== %s\n%s\n", name, strings.ReplaceAll(m.Frame(), "\x1b", "␛"))
	}
	plain := options()
	plain.Colour = false
	for _, size := range [][2]int{{79, 24}, {80, 23}, {60, 12}, {40, 8}, {39, 8}, {20, 2}, {1, 1}} {
		m := screen(plain, size[0], size[1], 2)
		checkFrame(t, m.Frame(), size[0], size[1])
		show(fmt.Sprintf("%d×%d", size[0], size[1]), m)
	}
	ascii := plain
	ascii.ASCII = true
	m := screen(ascii, 80, 24, 8)
	if strings.ContainsFunc(m.Frame(), func(r rune) bool { return r > 126 }) {
		t.Errorf("not ASCII:\n%s", m.Frame())
	}
	show("ASCII", m)
	many := screen(plain, 80, 24, 20)
	press(many, &daemon{}, "right", "right", "right")
	show("20 nodes, from the 4th", many)
	m = screen(plain, 80, 24, 2)
	m.Take(Seen{Err: errors.New("the daemon closed the connection: it stopped"), At: moment})
	m.Take(Seen{Err: errors.New("no daemon is running"), At: moment.Add(90 * time.Second)})
	show("the daemon is gone", m)
	m.Take(Seen{Status: made(2), At: moment.Add(91 * time.Second)})
	if f := m.Frame(); !strings.Contains(f, "● live") {
		t.Errorf("it is back:\n%s", f)
	}
	show("never answered", New(plain, 80, 24))
	empty := New(plain, 80, 24)
	empty.Take(Seen{Status: api.Status{Version: "1.2.3", Mode: "observe", Time: moment}, At: moment})
	show("nothing there", empty)
	observed := made(2)
	observed.Mode, observed.Held, observed.Problems = "observe", true, []string{"a problem"}
	m = New(plain, 80, 24)
	m.Take(Seen{Status: observed, At: moment})
	show("observe mode, all undone", m)
	show("without an end", screen(plain, 100, 0, 2))
	golden(t, "testdata/odd.txt", all.String())
}

// What changes something asks first, and asks nobody who may not.
func TestChanges(t *testing.T) {
	chosen := "media/transcode-5fd2-with-a-rather-long-name/ffmpeg"
	for _, c := range []struct{ keys, did string }{
		{"m 1 enter y", "move " + chosen + " 1 false"}, {"m 0 - 1 enter Y", "move " + chosen + " 0-1 false"}, {"m 1 enter n", ""}, {"m 1 enter esc", ""}, {"m 1 esc", ""}, {"m x enter y", ""}, {"m enter y", ""},
		{"m 2 backspace 1 enter y", "move " + chosen + " 1 false"},
		{"/ c a r t enter x y", "move shop/cart-6d4f9/app  true"}, {"/ c a r t enter x q", ""}, {"x y", ""}, // the first does not move
		{"down / c a r t enter u y", "undo shop/cart-6d4f9/app false"}, // what is marked, not what was before the filter
		{"enter e q u y", "undo " + chosen + " false"}, {"u y", "undo " + chosen + " false"}, {"u enter", ""}, {"U y", "undo  true"}, {"r y", "resume " + chosen + " false"}, {"R y", "resume  true"},
	} {
		m, d := screen(options(), 80, 24, 2), &daemon{}
		press(m, d, strings.Fields(c.keys)...)
		if did := strings.Join(d.did, "; "); did != c.did {
			t.Errorf("%s: %q, want %q", c.keys, did, c.did)
		}
	}
	m, d := screen(options(), 80, 24, 2), &daemon{}
	press(m, d, "down")
	rest := made(2)
	rest.Workloads = slices.DeleteFunc(rest.Workloads, func(w api.Workload) bool { return w.ID == m.chosen })
	m.Take(Seen{Status: rest, At: moment})
	press(m, d, "u", "y")
	if did := strings.Join(d.did, "; "); did != "undo "+chosen+" false" {
		t.Errorf("what was chosen has ended: %q", did)
	}
	m, d = screen(options(), 80, 24, 2), &daemon{refuses: true}
	m.Take(MayChange(t.Context(), d))
	for _, k := range []string{"m", "x", "u", "U", "r", "R"} {
		press(m, d, k, "y")
		if len(d.did) > 0 || m.question != nil || m.to != nil {
			t.Errorf("%s: may not change, and %q, %q", k, d.did, m.question)
		}
	}
	m.Key("q")
	if !m.Quit {
		t.Error("q does not end it")
	}
}

// While it is paused nothing changes, and an explanation leads back to where it was asked from.
func TestPauseAndBack(t *testing.T) {
	m, d := screen(options(), 80, 24, 2), &daemon{}
	press(m, d, "p")
	before := m.Frame()
	m.Take(Seen{Status: made(1), At: moment})
	m.Take(Happened{{Seq: 6, Time: moment, Kind: plan.EventMove, Workload: "vm:db1", Text: "moved 1 GiB"}})
	if m.Frame() != before {
		t.Errorf("it went on:\n%s", m.Frame())
	}
	press(m, d, "p")
	if !strings.Contains(m.Frame(), "moved 1 GiB") {
		t.Errorf("what happened meanwhile is not told:\n%s", m.Frame())
	}
	for _, c := range []struct {
		keys string
		at   page
	}{{"enter e q", detail}, {"enter e e esc", detail}, {"enter e q q", list}, {"e q", list}, {"enter q e q", list}} {
		m := screen(options(), 80, 24, 2)
		if press(m, d, strings.Fields(c.keys)...); m.page != c.at || m.Quit {
			t.Errorf("%s: page %d, want %d", c.keys, m.page, c.at)
		}
	}
}

var sgr = regexp.MustCompile(`\x1b\[(1|2|22|39|3[0-7])m`)

// checkFrame: no more and no wider than the screen, and no control sequence but colours.
func checkFrame(t interface {
	Helper()
	Errorf(string, ...any)
}, frame string, width, height int) {
	t.Helper()
	lines := strings.Split(frame, "\n")
	if len(lines) > height {
		t.Errorf("%d of %d lines", len(lines), height)
	}
	for _, line := range lines {
		if n := ansi.StringWidth(line); n > width {
			t.Errorf("%d of %d columns: %q", n, width, line)
		}
		for _, r := range sgr.ReplaceAllString(line, "") {
			if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
				t.Errorf("%q in %q", r, line)
				break
			}
		}
	}
}

// Whatever keys and statuses come, the screen holds what it has room for and nothing else.
func TestAnyKeysAndStatuses(t *testing.T) {
	keys := []string{"up", "down", "j", "k", "pgup", "pgdown", "home", "end", "enter", "esc", "e", "s", "S", "/", "a", "0", "-", ",", "space", "backspace", "p", "left", "right", "m", "x", "u", "U", "r", "R", "y", "n", "?", "q", "tab", "\x1b", "é", "家"}
	odd := rapid.SampledFrom([]string{"", "a", "\x1b[2J", "\x1b]0;title\a", "<script>", "\u202eevil", "家家家家家家家家家家", strings.Repeat("long ", 60), "a\nb\tc", "\xff\xfe", "/system.slice/x.service", "ns/pod/app", "9-3"})
	real := rapid.SampledFrom([]float64{0, 1, 0.5, -1, 1e300, 2, 0.333})
	whole := rapid.SampledFrom([]int64{0, 1, -1, 1 << 20, 1 << 40, 1<<63 - 1, -1 << 63})
	states := []string{api.StateAtHome, api.StateMoving, api.StatePaused, api.StateQueued, api.StateWouldMove, "", "\x1b[31mstate"}
	rapid.Check(t, func(r *rapid.T) {
		maybe := func(x float64) *float64 {
			if rapid.Bool().Draw(r, "known") {
				return &x
			}
			return nil
		}
		any := func() api.Status {
			s := made(rapid.IntRange(1, 12).Draw(r, "nodes"))
			s.Nodes = s.Nodes[:rapid.IntRange(0, len(s.Nodes)).Draw(r, "seen")]
			for i := range s.Nodes {
				n := &s.Nodes[i]
				n.CPUUse, n.VCPUs, n.MemoryKiB, n.FreeKiB = maybe(real.Draw(r, "cpu")), real.Draw(r, "vcpus"), whole.Draw(r, "memory"), whole.Draw(r, "free")
				n.CPUs = odd.Draw(r, "cpus")
			}
			s.Workloads = s.Workloads[:rapid.IntRange(0, len(s.Workloads)).Draw(r, "workloads")]
			for i := range s.Workloads {
				w := &s.Workloads[i]
				if rapid.IntRange(0, 2).Draw(r, "odd") > 0 {
					continue
				}
				w.ID, w.Name, w.Why, w.Home = workload.ID(odd.Draw(r, "id")), odd.Draw(r, "name"), odd.Draw(r, "why"), odd.Draw(r, "home")
				w.State, w.Locality, w.LocalityExpected = rapid.SampledFrom(states).Draw(r, "state"), maybe(real.Draw(r, "local")), maybe(real.Draw(r, "then"))
				w.CPUUse, w.MemoryKiB, w.CPUs = real.Draw(r, "use"), whole.Draw(r, "kib"), int(whole.Draw(r, "vcpus"))
				if w.Move = nil; rapid.Bool().Draw(r, "moves") {
					w.Move = &plan.Move{Home: odd.Draw(r, "to"), Planned: whole.Draw(r, "planned"), Moved: whole.Draw(r, "moved"), Refused: whole.Draw(r, "refused"), Seconds: real.Draw(r, "s")}
				}
			}
			s.Version, s.Mode, s.Problems = odd.Draw(r, "version"), rapid.SampledFrom([]string{"observe", "enforce", "\x1b"}).Draw(r, "mode"), []string{odd.Draw(r, "problem")}
			return s
		}
		o := options()
		o.Colour, o.ASCII, o.Filter = rapid.Bool().Draw(r, "colour"), rapid.Bool().Draw(r, "ascii"), odd.Draw(r, "filter")
		width, height := rapid.IntRange(1, 220).Draw(r, "width"), rapid.IntRange(1, 70).Draw(r, "height")
		m, d := New(o, width, height), &daemon{}
		m.Take(Allowed(rapid.Bool().Draw(r, "allowed")))
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			switch rapid.IntRange(0, 9).Draw(r, "what") {
			case 0:
				m.Take(Seen{Status: any(), At: moment})
			case 1:
				m.Take(Seen{Err: errors.New(odd.Draw(r, "error")), At: moment})
			case 2:
				m.Take(Happened{{Seq: uint64(rapid.IntRange(0, 9).Draw(r, "seq")), Kind: plan.EventMove, Workload: workload.ID(odd.Draw(r, "of")), Text: odd.Draw(r, "text"), Error: rapid.Bool().Draw(r, "bad")}})
			case 3:
				width, height = rapid.IntRange(1, 220).Draw(r, "width"), rapid.IntRange(1, 70).Draw(r, "height")
				m.Resize(width, height)
			case 4:
				m.Take(Bandwidths{0: real.Draw(r, "bandwidth")})
			default:
				press(m, d, rapid.SampledFrom(keys).Draw(r, "key"))
			}
			checkFrame(r, m.Frame(), width, height)
		}
		once := New(o, width, 0)
		once.Take(Seen{Status: any(), At: moment})
		checkFrame(r, once.Frame(), width, 1<<20)
	})
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n"); !slices.Equal(g, w) {
		for i := range max(len(g), len(w)) {
			if i >= len(g) || i >= len(w) || g[i] != w[i] {
				t.Fatalf("%s: line %d differs; run with -update and look at it:\n%q", name, i+1, g[min(i, len(g)-1)])
			}
		}
	}
}

// follower is a daemon whose events end at once.
type follower struct{ daemon }

func (*follower) Status(context.Context) (api.Status, error) { return made(2), nil }

func (*follower) History(context.Context, api.HistoryQuery) (api.History, error) {
	return api.History{Events: happenedOn()}, nil
}

func (*follower) Events(ctx context.Context, _ uint64, _ func(plan.Event) error) error {
	<-ctx.Done()
	return nil
}

// On a terminal it draws, heeds keys and ends with q, or when its time is over.
func TestRun(t *testing.T) {
	env := []string{"TERM=xterm-256color"}
	in, keys := io.Pipe()
	drawn, out := io.Pipe()
	go func() { // q once it was drawn, then whatever comes
		text, all := make([]byte, 4096), ""
		for !strings.Contains(all, "WORKLOAD") {
			n, err := drawn.Read(text)
			if all += string(text[:n]); err != nil {
				return
			}
		}
		go io.WriteString(keys, "?qjq")
		io.Copy(io.Discard, drawn)
	}()
	if err := Run(t.Context(), &follower{}, options(), made(2), in, out, env); err != nil {
		t.Error(err)
	}
	out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, _ = io.Pipe()
	if err := Run(ctx, &follower{}, options(), made(2), in, io.Discard, env); err != nil {
		t.Error(err)
	}
}

// TestSharing: while sharing is on each node tells what batch work uses and may have, and each
// workload its tier; where that is the one of its class, the class says it.
// At 80 columns a build's long version does not push locality off the first line, the question where
// to move fits, and a list of CPUs breaks behind a comma.
func TestNothingIsCutAt80(t *testing.T) {
	s := made(2)
	s.Version = "0.2.0+git20261123.0915.c911c4e"
	m := New(options(), 80, 24)
	m.Take(Seen{Status: s, At: moment})
	if head, _, _ := strings.Cut(ansi.Strip(m.Frame()), "\n"); strings.Contains(head, "…") || !strings.Contains(head, "homenode 0.2.0 ·") || !strings.Contains(head, "→") {
		t.Errorf("first line: %q", head)
	}
	m.to = new(string)
	if foot := ansi.Strip(m.footer()[0]); ansi.StringWidth(foot)-ansi.StringWidth(m.label()) > 60 {
		t.Errorf("question of %d columns beside the name: %q", ansi.StringWidth(foot)-ansi.StringWidth(m.label()), foot)
	}
	for _, line := range m.wrapped("set-cpus: 9-11,22-23,33-35,44-47,56-59,68-71,80-83,92-95,105-107,118-119,129-131,140-143,152-155,164-167,176-179,188-191", "  ") {
		if strings.HasSuffix(line, "-") || ansi.StringWidth(line) > 80 {
			t.Errorf("line %q", line)
		}
	}
}

// What waits for its turn to be given settings, and has its memory at home, is no move to come; a
// host with one node has no share to tell.
func TestNothingToMove(t *testing.T) {
	s := made(1)
	for i := range s.Workloads {
		w := &s.Workloads[i]
		w.State, w.Move, w.Locality, w.LocalityExpected = api.StateQueued, nil, share(1), share(1)
	}
	s.Trend = &api.Trend{Since: moment.Add(-time.Minute), First: share(1)}
	m := New(options(), 100, 24)
	m.Take(Seen{Status: s, At: moment})
	frame := ansi.Strip(m.Frame())
	if strings.Contains(frame, "more to come") || strings.Contains(frame, "100 → 100") || !strings.Contains(frame, "since start, 60 s · ") {
		t.Errorf("nothing moves:\n%s", frame)
	}
	s.Workloads[3].Locality = share(0.5)
	m.Take(Seen{Status: s, At: moment})
	if frame := ansi.Strip(m.Frame()); !strings.Contains(frame, "1 more to come") {
		t.Errorf("one will move:\n%s", frame)
	}
}

func TestSharing(t *testing.T) {
	var all strings.Builder
	for _, x := range []struct{ nodes, width, height int }{{1, 80, 24}, {8, 80, 24}, {2, 120, 24}} {
		s := made(x.nodes)
		s.Sharing = &api.Sharing{On: true}
		for n := range x.nodes {
			s.Sharing.Nodes = append(s.Sharing.Nodes, api.ShareNode{Node: topology.NodeID(n), CPUs: 9.4 + float64(n), Given: "2-11,20-21", Used: 1.5 * float64(n), Online: 4.25, Pool: 20})
		}
		for i := range s.Workloads {
			w := &s.Workloads[i]
			w.Tier = workload.Tier("").Of(w.Class)
			if w.ID == "media/transcode-5fd2-with-a-rather-long-name/ffmpeg" {
				w.Tier = workload.OnlineStrict
			}
		}
		o := options()
		o.Zone = time.UTC
		m := New(o, x.width, x.height)
		m.Take(Seen{Status: s, At: moment})
		fmt.Fprintf(&all, "%d nodes at %d×%d\n%s\n", x.nodes, x.width, x.height, ansi.Strip(m.Frame()))
	}
	golden(t, "testdata/sharing.txt", all.String())
}

// TestGoals: top shows the goal that decides, the use that it allows and its slack over time, in a line of 80 columns
// too; a metric that cannot be used is no figure.
func TestGoals(t *testing.T) {
	var all strings.Builder
	point := func(x float64) *float64 { return &x }
	for _, x := range []struct {
		width  int
		state  string
		value  float64
		metric string
	}{
		{80, "held", 1.4, "p99"},
		{120, "near", 1.95, "p99 of the slowest of all requests"},
		{80, "missed", 2.5, "p99"},
		{80, "stale", 1, "p99"},
	} {
		s := made(2)
		slack := (2 - x.value) / 2
		g := api.ShareGoal{ID: s.Workloads[0].ID, Metric: x.metric, Unit: "ms", Value: &x.value, Most: 2, State: x.state}
		if x.state != "stale" {
			g.Limits, g.Slack = true, &slack
		}
		s.Sharing = &api.Sharing{On: true, Use: point(0.72), Goals: []api.ShareGoal{g}}
		s.Trend = &api.Trend{StepS: 5, Local: make([]*float64, 4)}
		s.Trend.Slack = []*float64{nil, point(0.9), point(-0.2), g.Slack}
		o := options()
		m := New(o, x.width, 24)
		m.Take(Seen{Status: s, At: moment})
		for _, line := range strings.Split(ansi.Strip(m.Frame()), "\n") {
			if strings.HasPrefix(line, "GOALS") {
				fmt.Fprintln(&all, line)
			}
		}
	}
	golden(t, "testdata/goals.txt", all.String())
}
