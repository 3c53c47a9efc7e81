package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// answers is a Backend that remembers what it was asked to change.
type answers struct {
	changed []string
	by      *plan.Asker // who asked last
}

func (a *answers) Status(context.Context) (Status, error) {
	return Status{Schema: "homenode-status/3"}, nil
}

func (a *answers) Explain(_ context.Context, id workload.ID) (Explanation, error) {
	if id != "/a b&c" {
		return Explanation{}, &Error{NotFound, "no workload " + string(id)}
	}
	return Explanation{Workload: Workload{ID: id}}, nil
}

func (a *answers) History(_ context.Context, q HistoryQuery) (History, error) {
	return History{Events: make([]plan.Event, q.Limit)}, nil
}

func (a *answers) Undo(ctx context.Context, w Which) (UndoResult, error) {
	a.by = Asker(ctx)
	a.changed = append(a.changed, "undo "+string(w.ID))
	return UndoResult{}, nil
}

func (a *answers) Resume(_ context.Context, w Which) (Resumed, error) {
	a.changed = append(a.changed, "resume "+string(w.ID))
	return Resumed{}, errors.New("broken on purpose")
}

func (a *answers) Place(_ context.Context, w Want) (Home, error) {
	a.changed = append(a.changed, "place "+w.Name)
	return Home{}, &Error{NoRoom, "no room"}
}

func (a *answers) Partition(_ context.Context, b Partition) (Partition, error) {
	a.changed = append(a.changed, "partition "+string(b.Partition))
	return Partition{Partition: b.Partition, Split: true}, nil
}

func (a *answers) Move(_ context.Context, o MoveOrder) (MoveAnswer, error) {
	a.changed = append(a.changed, "move "+string(o.ID)+" to "+o.To.String())
	return MoveAnswer{Workload: o.ID, To: o.To}, nil
}

func (a *answers) Change(_ context.Context, c Change) ([]error, error) {
	errs := make([]error, len(c.Steps))
	for i, s := range c.Steps {
		a.changed = append(a.changed, fmt.Sprint("step to ", s.To))
		switch s.To {
		case "kept":
			errs[i] = fmt.Errorf("no: %w", &Error{Fixed, "the kernel keeps it"})
		case "gone":
			errs[i] = &Error{Gone, "no such guest"}
		case "broken":
			errs[i] = errors.New("it broke")
		}
	}
	return errs, nil
}

// listening serves a on a socket until the test ends.
func listening(t *testing.T, a Backend, access Access) string {
	return listeningTo(t, a, access, peerOf)
}

// listeningTo is listening to who peerOf says connects.
func listeningTo(t *testing.T, a Backend, access Access, peerOf func(net.Conn) (peer, error)) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := Listen(socket, access)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- serve(ctx, l, a, access, peerOf) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return socket
}

// plainOn asks on a socket what Client never would.
func plainOn(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", socket)
	}}}
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
	if s, err := c.Status(ctx); err != nil || s.Schema != "homenode-status/3" {
		t.Errorf("status: %+v, %v", s, err)
	}
	if x, err := c.Explain(ctx, "/a b&c"); err != nil || x.Workload.ID != "/a b&c" {
		t.Errorf("explain: %+v, %v", x, err)
	}
	var refused *Error
	if _, err := c.Explain(ctx, "/other"); !errors.As(err, &refused) || refused.Code != NotFound {
		t.Errorf("explain of an unknown workload: %v", err)
	}
	if h, err := c.History(ctx, HistoryQuery{Limit: 3}); err != nil || len(h.Events) != 3 {
		t.Errorf("history: %+v, %v", h, err)
	}
	if _, err := c.Undo(ctx, Which{ID: "x"}); err != nil {
		t.Errorf("undo: %v", err)
	}
	if want := WhoIs(os.Getuid(), os.Getpid()); a.by == nil || *a.by != *want || want.UID != os.Getuid() {
		t.Errorf("%+v asked to undo, want %+v", a.by, want)
	}
	if b, err := c.Partition(ctx, Partition{Partition: "50%"}); err != nil || b.Partition != "50%" || !b.Split {
		t.Errorf("partition: %+v, %v", b, err)
	}
	if _, err := c.Resume(ctx, Which{All: true}); !errors.As(err, &refused) || refused.Code != Failed {
		t.Errorf("resume: %v", err)
	}
	if _, err := c.Place(ctx, Want{Name: "db"}); !errors.As(err, &refused) || refused.Code != NoRoom {
		t.Errorf("place: %v", err)
	}
	if m, err := c.Move(ctx, MoveOrder{ID: "db", To: topology.Nodes(1)}); err != nil || m.To.String() != "1" {
		t.Errorf("move: %+v, %v", m, err)
	}
	errs, err := c.Change(ctx, Change{Steps: []plan.Step{{To: "0-3"}, {To: "kept"}, {To: "gone"}, {To: "broken"}}})
	if err != nil || len(errs) != 4 || errs[0] != nil || !errors.Is(errs[1], plan.ErrFixed) || !errors.Is(errs[2], fs.ErrNotExist) || errs[3].Error() != "it broke" {
		t.Errorf("change: %v, %v", errs, err)
	}
	if want := "undo x,partition 50%,resume ,place db,move db to 1,step to 0-3,step to kept,step to gone,step to broken"; strings.Join(a.changed, ",") != want {
		t.Errorf("changed %v, want %s", a.changed, want)
	}
}

// A daemon of before does not know how to carry out steps: one line says so.
func TestChangeAsksAnOldDaemon(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	old := &http.Server{Handler: http.NotFoundHandler()}
	defer old.Close()
	go old.Serve(l)
	c, err := Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Change(t.Context(), Change{Steps: []plan.Step{{To: "0"}}}); err == nil || err.Error() != "the daemon does not know this request: it is older than this command" {
		t.Errorf("got %v", err)
	}
}

// Preparing a large host is thousands of steps.
func TestManySteps(t *testing.T) {
	a := &answers{}
	c, err := Dial(listening(t, a, Access{Group: os.Getgid()}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	steps := make([]plan.Step, 5000)
	for i := range steps {
		steps[i] = plan.Step{Kind: plan.SetIRQ, Workload: "host", Target: plan.Target{Kind: workload.InHost, Host: "9/acpi"}, From: "0-255", To: "0-3"}
	}
	if errs, err := c.Change(t.Context(), Change{Steps: steps}); err != nil || len(errs) != len(steps) || len(a.changed) != len(steps) {
		t.Errorf("%d errors, %v, %d carried out", len(errs), err, len(a.changed))
	}
}

func TestBadRequestsChangeNothing(t *testing.T) {
	a := &answers{}
	socket := listening(t, a, Access{Group: os.Getgid()})
	h := plainOn(socket)
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

// The groups of a peer are all known, few or many.
func TestPeerGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can choose its groups")
	}
	for _, n := range []int{0, 3, 64, 65, 1000} {
		runtime.LockOSThread() // groups are a thread's
		var want []int
		for i := range n {
			want = append(want, 1000+i)
		}
		was, err := unix.Getgroups()
		if err != nil {
			t.Fatal(err)
		}
		raw := make([]uint32, n+1)
		for i, g := range want {
			raw[i] = uint32(g)
		}
		set := func(raw []uint32, n int) {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(n), uintptr(unsafe.Pointer(&raw[0])), 0); errno != 0 {
				t.Fatal(errno)
			}
		}
		set(raw, n)
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		back := make([]uint32, len(was)+1)
		for i, g := range was {
			back[i] = uint32(g)
		}
		set(back, len(was))
		runtime.UnlockOSThread()
		if err != nil {
			t.Fatal(err)
		}
		if got := peerGroups(uintptr(pair[0])); !slices.Equal(got, want) {
			t.Errorf("%d groups: %d of them", n, len(got))
		}
		unix.Close(pair[0])
		unix.Close(pair[1])
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
	look, change := lookWithin, changeWithin
	lookWithin, changeWithin = 50*time.Millisecond, 60*time.Millisecond
	defer func() { lookWithin, changeWithin = look, change }()
	c, err := Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Move(t.Context(), MoveOrder{}); err == nil || !strings.Contains(err.Error(), "has not answered within 60 ms; what was asked may still be done") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "has not answered within 50 ms: it is stuck") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Status(ctx); err == nil || err.Error() != "interrupted" {
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

// TestOtherPrograms: what listens on a socket that somebody named may be no daemon: it is not
// believed, not followed, and not read without end.
func TestOtherPrograms(t *testing.T) {
	defer func(n int64) { maxAnswer = n }(maxAnswer)
	maxAnswer = 1 << 20
	for _, tt := range []struct{ name, says, over, want string }{
		{"no HTTP", "\x1b[2J" + strings.Repeat("x", 4000) + "\r\n\r\n", "", "no homenode daemon"},
		{"another place", "HTTP/1.1 302 Found\r\nLocation: http://homenode/v1/status\r\nContent-Length: 0\r\n\r\n", "", "302 Found"},
		{"no end", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"schema\":\"", "x", "longer than 1 MiB"},
		{"no end of headers", "HTTP/1.1 200 OK\r\nX: ", "x", "no homenode daemon"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						c.Read(make([]byte, 4096))
						more, text := []byte(strings.Repeat(tt.over, 1<<16)), tt.says
						_, err := c.Write([]byte(text))
						for n := 0; err == nil && len(more) > 0 && n < 64<<20; n += len(more) {
							_, err = c.Write(more)
						}
					}()
				}
			}()
			c, err := Dial(socket)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, status := c.Status(t.Context())
			_, metrics := c.Metrics(t.Context())
			for _, err := range []error{status, metrics} {
				if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 200 {
					t.Errorf("got %v, want %q", err, tt.want)
				}
			}
		})
	}
}

// TestManyObjects: an answer of three bytes an object, which take hundreds in memory, is not taken in.
func TestManyObjects(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"schema":"homenode-status/3","workloads":[`+strings.Repeat("{},", MaxObjects)+"{}]}")
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go http.Serve(l, h)
	c, err := Over(OverTCP{URL: "http://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), errObjects.Error()) {
		t.Errorf("got %v, want %q", err, errObjects)
	}
}

// TestSocketReplaced: a link that somebody puts in the place of the socket leads to a file whose
// mode stays as it is.
func TestSocketReplaced(t *testing.T) {
	dir := t.TempDir()
	secret, socket := filepath.Join(dir, "secret"), filepath.Join(dir, "s")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, socket); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{socket, secret} {
		if err := own(path, 0o666, os.Getegid()); err == nil || !strings.Contains(err.Error(), "something else") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if st, err := os.Stat(secret); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}
