package tree

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
)

// hostile is a name of a process as anybody may give it to theirs: it clears the screen,
// writes to the clipboard, turns the line round and begins another.
const hostile = "n\x1b[2J\x1b]52;c;aGk=\a\x9b1m\u009b2J\u202e\u2066x\r\nforged line"

// soil makes every string in v hostile, one of everything.
func soil(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			soil(v.Elem(), depth-1)
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			soil(v.Index(0), depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				soil(f, depth)
			}
		}
	}
}

func soiled[T any]() (v T, err error) {
	soil(reflect.ValueOf(&v).Elem(), 5)
	return v, nil
}

// foul answers as a host full of hostile names.
type foul struct{ device bool }

func (foul) Status(context.Context) (api.Status, error) { return soiled[api.Status]() }
func (f foul) Explain(_ context.Context, id workload.ID) (api.Explanation, error) {
	if id == "none" {
		return api.Explanation{}, &api.Error{Code: api.NotFound, Text: "no workload " + hostile}
	}
	x, err := soiled[api.Explanation]()
	if !f.device {
		x.Device = nil
	}
	return x, err
}
func (foul) History(context.Context, api.HistoryQuery) (api.History, error) {
	return soiled[api.History]()
}
func (foul) Undo(context.Context, api.Which) (api.UndoResult, error) {
	return soiled[api.UndoResult]()
}
func (foul) Resume(context.Context, api.Which) (api.Resumed, error) {
	return api.Resumed{Schema: "homenode-resume/2", All: true}, nil
}
func (foul) Change(context.Context, api.Change) ([]error, error) { return nil, nil }
func (foul) Place(context.Context, api.Want) (api.Home, error)   { return soiled[api.Home]() }
func (foul) Partition(context.Context, api.Partition) (api.Partition, error) {
	return soiled[api.Partition]()
}
func (foul) Move(_ context.Context, o api.MoveOrder) (api.MoveAnswer, error) {
	a, err := soiled[api.MoveAnswer]()
	if o.Cancel {
		a.Outcome = plan.Cancelled
	}
	return a, err
}
func (foul) Events(context.Context, uint64) iter.Seq[plan.Event] {
	return func(yield func(plan.Event) bool) {
		ev, _ := soiled[plan.Event]()
		ev.Seq++
		yield(ev)
	}
}

// R9: whatever a name is made of, no command prints more of it than text in a line.
func TestHostileNames(t *testing.T) {
	host, err := topology.FromSysfs(eightCPUs())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"/o\x1b[2J\x1b[8m\x9b" + "\u202e"} {
		host.Devices = append(host.Devices, topology.Device{Name: n, Kind: topology.NIC, PCI: "0000:00:01.0", Node: 0})
		host.Notes = append(host.Notes, topology.Note{Subject: n, Text: hostile})
	}
	var text bytes.Buffer
	if err := host.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "host.json")
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	v := &hypervisor{guests: []guest.Guest{{Name: hostile, Manual: hostile, Spec: workload.Spec{Name: hostile, Class: workload.Shared, CPUs: 1}}}}
	for _, args := range []string{
		"status", "status --json", "explain x", "explain x --all", "explain x --json", "explain none", "history", "history --json", "undo --all", "undo x --json",
		"resume HOSTILE", "resume HOSTILE --json", "undo HOSTILE extra", "move x --to 1", "move x --to 1 --dry-run", "move x --cancel", "move x --cancel --json",
		"run --dry-run -- true", "run --dry-run --json -- true", "run -- HOSTILE", "run --class HOSTILE -- true", "HOSTILE", "status --HOSTILE", "help HOSTILE",
		"topology --host HOST", "topology --host HOST --json", "topology --host HOST --svg -", "topology --host HOSTILE", "topology --synthetic HOSTILE",
		"host partition", "host partition --json", "vm list", "vm list --json", "daemon --mode HOSTILE", "replay HOSTILE", "plan --spec HOSTILE --host HOST",
	} {
		for _, device := range []bool{false, true} {
			var out, errs bytes.Buffer
			argv := strings.Fields(args)
			for i := range argv {
				argv[i] = strings.NewReplacer("HOSTILE", hostile, "HOST", file).Replace(argv[i])
			}
			e := &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }, Root: eightCPUs(), Libvirt: v,
				DefaultSocket: filepath.Join(t.TempDir(), "none"), DefaultState: t.TempDir(),
				Local: func(context.Context, string) (api.Backend, func() error, error) {
					return foul{device}, func() error { return nil }, nil
				},
				Journal: func(string) error { return nil },
				Flight:  func(path string) (cli.Flight, error) { return nil, fmt.Errorf("%s: no flight log", path) },
				Exec:    func(cli.Start, string, []string) error { return nil },
				Self:    func() (workload.Process, error) { return workload.Process{}, nil },
			}
			Main(t.Context(), e, argv)
			if out.Len()+errs.Len() == 0 {
				t.Errorf("%s: says nothing", args)
			}
			for _, got := range []string{out.String(), errs.String()} {
				checkTame(t, args, got)
			}
			if strings.HasSuffix(args, "--json") && out.Len() > 0 && !json.Valid(out.Bytes()) {
				t.Errorf("%s: not JSON", args)
			}
		}
	}
}

func checkTame(t *testing.T, what, got string) {
	t.Helper()
	if strings.Contains(got, "\nforged") {
		t.Errorf("%s: a name begins a line:\n%q", what, got)
	}
	for line := range strings.Lines(got) {
		line = strings.TrimSuffix(strings.ReplaceAll(line, "\t", " "), "\n")
		if line != words.Printable(line) {
			t.Errorf("%s: %q", what, line)
		}
	}
}

// The same by the socket, as they come.
func TestHostileEvents(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- api.Serve(ctx, l, foul{}, api.Access{Group: -1}) }()
	var out, errs bytes.Buffer
	e := &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }}
	if code := Main(t.Context(), e, []string{"history", "--follow", "--socket", socket}); code != cli.ExitForbidden {
		t.Errorf("status %d: %s", code, errs.String())
	}
	checkTame(t, "follow", out.String()+errs.String())
	if n := strings.Count(out.String(), "forged"); n != 6 { // kind, name and text of two events
		t.Errorf("%d names in\n%s", n, out.String())
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A command that waits says for what, after a moment.
func TestWaitingIsSaid(t *testing.T) {
	var errs bytes.Buffer
	var pass func() // lets the moment pass
	stopped := 0
	e := &cli.Env{Stderr: &errs, After: func(d time.Duration, do func()) func() bool {
		if d != cli.Moment {
			t.Errorf("says it after %v", d)
		}
		pass = do
		return func() bool { stopped++; return true }
	}}
	cli.Waiting(e, "waiting for nothing")()
	if stopped != 1 {
		t.Error("what did not last goes on")
	}
	done := cli.Waiting(e, "waiting for something")
	pass()
	done()
	if got := errs.String(); got != "homenode: waiting for something\n" {
		t.Errorf("%q", got)
	}
}
