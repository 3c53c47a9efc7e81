package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/workload"
)

// Access says who may do what on the socket.
type Access struct {
	Group         int  // GID that may change things besides root; -1 for none
	OthersMayRead bool // everyone else may look; otherwise they cannot connect
	// Houses is what GET /v1/house answers with; without it there is no such request.
	Houses *Houses
	// Owner returns who is responsible for a process of a user, as the kernel told both when it
	// connected; nil counts by user. It is asked before each connection and must answer soon.
	Owner func(pid, uid int) workload.Owner
	// Refused counts who was refused; nil counts for the socket alone.
	Refused *Refusals

	streams func(peer) (each, all int) // streams that a peer may have; nil is those of the socket
}

// stopGrace is how long a request under way, an undo say, may go on when the
// server stops; the systemd unit allows the daemon 90 s in all.
const stopGrace = 20 * time.Second

// maxRequest bounds a request body: a Want is a few hundred bytes. maxSteps bounds one of
// steps: preparing a host with thousands of interrupts takes a few hundred bytes for each.
const (
	maxRequest = 64 << 10
	maxSteps   = 8 << 20
)

// A request is read and its answer written within these; what lies between, an undo
// say, may take longer.
var readWithin, writeWithin = 10 * time.Second, 30 * time.Second

// Serve answers on the listener until ctx ends.
func Serve(ctx context.Context, l net.Listener, b Backend, a Access) error {
	return serve(ctx, l, b, a, peerOf)
}

func serve(ctx context.Context, l net.Listener, b Backend, a Access, peerOf func(net.Conn) (peer, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.Refused = cmp.Or(a.Refused, &Refusals{})
	s := newServer(counted(b, guarded(a.Refused, handler(ctx, b, a))), func(c net.Conn) *placed { return c.(*placed) })
	s.IdleTimeout = time.Minute
	who := func(c net.Conn) peer {
		p, err := peerOf(c)
		if err != nil {
			return peer{uid: -1}
		}
		if a.Owner != nil && !privileged(p.uid) {
			p.owner = a.Owner(p.pid, p.uid)
		}
		return p
	}
	return serveUntil(ctx, s, &bounded{Listener: l, who: who, bound: onSocket, refused: a.Refused,
		open: map[workload.Owner][]*placed{}}, stopGrace)
}

// newServer is a server with the limits of each request; under says which connection is under
// what encrypts it.
func newServer(h http.Handler, under func(net.Conn) *placed) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       readWithin,
		WriteTimeout:      writeWithin,
		MaxHeaderBytes:    16 << 10,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			own := under(c)
			return context.WithValue(context.WithValue(ctx, peerKey{}, own.peer), connKey{}, own)
		},
	}
}

// serveUntil answers until ctx ends; a request under way then may go on for as long as grace. The
// caller ends ctx when it returns.
func serveUntil(ctx context.Context, s *http.Server, l net.Listener, grace time.Duration) error {
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		ended <- s.Shutdown(ctx)
	}()
	serve := s.Serve
	if s.TLSConfig != nil {
		serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	<-ended // Serve returns when Shutdown begins, not when the last answer is out
	return nil
}

// Listen opens the socket with the modes that Access asks for. A socket file
// that nobody answers on is a leftover and is replaced; the caller holds the
// lock on the state folder, so it cannot belong to a living twin. Anything else
// that is there stays, and the error says so.
func Listen(path string, a Access) (net.Listener, error) {
	if there, err := os.Lstat(path); err == nil {
		if there.Mode().Type() != fs.ModeSocket {
			return nil, &Error{BadRequest, fmt.Sprintf("listen on %s: it exists and is not a socket", path)}
		}
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
			return nil, fmt.Errorf("listen on %s: another daemon answers there", path)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("listen on %s: a socket is there already: %w", path, err)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove old socket: %w", err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	mode := os.FileMode(0o660)
	if a.OthersMayRead {
		mode = 0o666
	}
	if err := own(path, mode, a.Group); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// own gives a socket its mode and, unless it is -1, its group. Who may write the folder may have
// put something else in its place, a link to a file of root's say: that gets neither.
func own(path string, mode os.FileMode, group int) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	at := fmt.Sprintf("/proc/self/fd/%d", fd)
	switch there, err := os.Stat(at); {
	case err != nil:
		return err
	case there.Mode().Type() != fs.ModeSocket || int(there.Sys().(*syscall.Stat_t).Uid) != os.Geteuid():
		return fmt.Errorf("listen on %s: somebody has put something else there", path)
	}
	if err := os.Chmod(at, mode); err != nil || group < 0 {
		return err
	}
	return os.Chown(at, -1, group)
}

// guarded refuses what a user asks too often, and what a browser asks: a page that somebody looks
// at may not use the rights of who has forwarded the socket to a port (ssh -L).
func guarded(refused *Refusals, h http.Handler) http.Handler {
	asked := newRates()
	return caught(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := r.Context().Value(peerKey{}).(peer)
		switch {
		case !p.unbounded() && !asked.take(asker{who: p.party()}, time.Now()):
			refused.add(p.party(), refusedRequest)
			reply(w, nil, &Error{TooMany, fmt.Sprintf("%v asks too often; %d requests a second are answered", p.party(),
				requestsPerSecond)})
		case len(r.Header["Origin"]) > 0 || len(r.Header["Sec-Fetch-Site"]) > 0:
			reply(w, nil, &Error{Forbidden, "browsers are not answered on the unix socket; see docs/page.md"})
		default:
			answering(r, false)
			h.ServeHTTP(w, r)
		}
	}))
}

// answering notes on the connection of a request that it is answered.
func answering(r *http.Request, kept bool) {
	if c, ok := r.Context().Value(connKey{}).(*placed); ok {
		c.answers(kept)
	}
}

// caught answers for a handler that panics, which is then one request that failed.
func caught(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if broken := recover(); broken != nil && broken != http.ErrAbortHandler {
				logPanic(r.Method+" "+r.URL.Path, broken)
				reply(w, nil, &Error{Failed, fmt.Sprintf("this is a bug in homenode; its log has the rest: %v",
					broken)})
			}
		}()
		h.ServeHTTP(w, r)
	})
}

func logPanic(request string, broken any) {
	slog.Error("a request failed by a bug in homenode", "request", request, "panic", broken, "stack",
		string(debug.Stack()))
}

// unhurried takes the deadlines off a request that may take long; reply sets one for
// the answer.
func unhurried(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	c.SetReadDeadline(time.Time{})
	c.SetWriteDeadline(time.Time{})
}

func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin))
	if err != nil {
		e := asError(err)
		w.WriteHeader(e.Code.Status())
		v = e
	}
	json.NewEncoder(w).Encode(v)
}
