package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// answers is a Backend that remembers what it was asked to change.
type answers struct{ changed []string }

func (a *answers) Status(context.Context) (Status, error) {
	return Status{Schema: "homenode-status/1"}, nil
}

func (a *answers) Explain(_ context.Context, id workload.ID) (Explanation, error) {
	if id != "/a b&c" {
		return Explanation{}, &Error{NotFound, "no workload " + string(id)}
	}
	return Explanation{Workload: Workload{ID: id}}, nil
}

func (a *answers) History(_ context.Context, limit int) (History, error) {
	return History{Events: make([]plan.Event, limit)}, nil
}

func (a *answers) Undo(_ context.Context, w Which) (UndoResult, error) {
	a.changed = append(a.changed, "undo "+string(w.ID))
	return UndoResult{}, nil
}

func (a *answers) Resume(_ context.Context, w Which) error {
	a.changed = append(a.changed, "resume "+string(w.ID))
	return errors.New("broken on purpose")
}

func (a *answers) Place(_ context.Context, w Want) (Home, error) {
	a.changed = append(a.changed, "place "+w.Name)
	return Home{}, &Error{NoRoom, "no room"}
}

func (a *answers) Border(_ context.Context, b Border) (Border, error) {
	a.changed = append(a.changed, "border "+string(b.Border))
	return Border{Border: b.Border, Split: true}, nil
}

func (a *answers) Move(_ context.Context, o MoveOrder) (MoveAnswer, error) {
	a.changed = append(a.changed, "move "+string(o.ID)+" to "+o.To.String())
	return MoveAnswer{Workload: o.ID, To: o.To}, nil
}

// listening serves a on a socket until the test ends.
func listening(t *testing.T, a *answers, access Access) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := Listen(socket, access)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- Serve(ctx, l, a, access) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return socket
}

func TestClientAndServer(t *testing.T) {
	a := &answers{}
	socket := listening(t, a, Access{Group: os.Getgid()})
	c, err := Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	if s, err := c.Status(ctx); err != nil || s.Schema != "homenode-status/1" {
		t.Errorf("status: %+v, %v", s, err)
	}
	if x, err := c.Explain(ctx, "/a b&c"); err != nil || x.Workload.ID != "/a b&c" {
		t.Errorf("explain: %+v, %v", x, err)
	}
	var refused *Error
	if _, err := c.Explain(ctx, "/other"); !errors.As(err, &refused) || refused.Code != NotFound {
		t.Errorf("explain of an unknown workload: %v", err)
	}
	if h, err := c.History(ctx, 3); err != nil || len(h.Events) != 3 {
		t.Errorf("history: %+v, %v", h, err)
	}
	if _, err := c.Undo(ctx, Which{ID: "x"}); err != nil {
		t.Errorf("undo: %v", err)
	}
	if b, err := c.Border(ctx, Border{Border: "50%"}); err != nil || b.Border != "50%" || !b.Split {
		t.Errorf("border: %+v, %v", b, err)
	}
	if err := c.Resume(ctx, Which{All: true}); !errors.As(err, &refused) || refused.Code != Failed {
		t.Errorf("resume: %v", err)
	}
	if _, err := c.Place(ctx, Want{Name: "db"}); !errors.As(err, &refused) || refused.Code != NoRoom {
		t.Errorf("place: %v", err)
	}
	if m, err := c.Move(ctx, MoveOrder{ID: "db", To: topology.Nodes(1)}); err != nil || m.To.String() != "1" {
		t.Errorf("move: %+v, %v", m, err)
	}
	if want := "undo x,border 50%,resume ,place db,move db to 1"; strings.Join(a.changed, ",") != want {
		t.Errorf("changed %v, want %s", a.changed, want)
	}
}

func TestBadRequestsChangeNothing(t *testing.T) {
	a := &answers{}
	socket := listening(t, a, Access{Group: os.Getgid()})
	h := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", socket)
	}}}
	defer h.CloseIdleConnections()
	for name, body := range map[string]string{
		"not JSON": "all of it", "unknown key": `{"al":true}`, "wrong type": `{"all":"yes"}`, "empty": "",
		"endless": `{"id":"` + strings.Repeat("x", maxRequest) + `"}`,
	} {
		resp, err := h.Post("http://homenode/v1/undo", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d, %s", name, resp.StatusCode, text)
		}
	}
	resp, err := h.Get("http://homenode/v1/undo")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET of undo: status %d", resp.StatusCode)
	}
	if len(a.changed) > 0 {
		t.Errorf("changed: %v", a.changed)
	}
}

func TestWhoMayChange(t *testing.T) {
	tests := []struct {
		name   string
		p      peer
		access Access
		want   bool
	}{
		{"root", peer{uid: 0, gid: 0}, Access{Group: -1}, true},
		{"a user", peer{uid: 1000, gid: 1000}, Access{Group: -1}, false},
		{"a user where others may read", peer{uid: 1000, gid: 1000}, Access{Group: -1, OthersMayRead: true}, false},
		{"primary group", peer{uid: 1000, gid: 77}, Access{Group: 77}, true},
		{"supplementary group", peer{uid: 1000, gid: 1000, groups: []int{5, 77}}, Access{Group: 77}, true},
		{"another group", peer{uid: 1000, gid: 1000, groups: []int{5}}, Access{Group: 77}, false},
		{"unknown peer", peer{uid: -1, gid: -1}, Access{Group: -1}, false},
	}
	for _, tt := range tests {
		if got := tt.p.mayChange(tt.access); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSocketModes(t *testing.T) {
	for _, others := range []bool{false, true} {
		socket := listening(t, &answers{}, Access{Group: -1, OthersMayRead: others})
		info, err := os.Stat(socket)
		if err != nil {
			t.Fatal(err)
		}
		want := os.FileMode(0o660)
		if others {
			want = 0o666
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("others %v: mode %o, want %o", others, got, want)
		}
		if _, err := Listen(socket, Access{Group: -1}); err == nil || !strings.Contains(err.Error(), "another daemon") {
			t.Errorf("second listener: %v", err)
		}
	}
}

func TestDial(t *testing.T) {
	dir := t.TempDir()
	if _, err := Dial(filepath.Join(dir, "none")); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("no socket: %v", err)
	}
	// A socket file that a killed daemon left behind is no daemon, and is replaced.
	left := filepath.Join(dir, "left")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, err := Dial(left); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("socket of a dead daemon: %v", err)
	}
	again, err := Listen(left, Access{Group: -1})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// A daemon that hangs holds nobody up for ever.
func TestSilentDaemon(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	was := answerWithin
	answerWithin = 50 * time.Millisecond
	defer func() { answerWithin = was }()
	c, err := Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Move(t.Context(), MoveOrder{}); err == nil || !strings.Contains(err.Error(), "has not answered within 50ms") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Status(ctx); err == nil || err.Error() != "ask the daemon: context canceled" {
		t.Errorf("got %v", err)
	}
}

// Whatever is at the socket's path and is not a socket belongs to somebody.
func TestListenRemovesOnlySockets(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("file"), []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path("folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", path("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", path("dangling")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "folder", "link", "dangling"} {
		before, _ := os.Lstat(path(name))
		l, err := Listen(path(name), Access{Group: -1})
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "exists and is not a socket") {
			t.Errorf("listen on a %s: %v", name, err)
		}
		if after, err := os.Lstat(path(name)); err != nil || !os.SameFile(before, after) {
			t.Errorf("the %s is gone: %v", name, err)
		}
	}
	// Another program's socket, which this kind of connection cannot reach, is no leftover.
	other, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path("other"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := Listen(path("other"), Access{Group: -1}); err == nil || !strings.Contains(err.Error(), "a socket is there already") {
		t.Errorf("listen on a datagram socket: %v", err)
	}
}
