package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	s := &http.Server{
		Handler:           guarded(handler(ctx, b, a)),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       readWithin,
		WriteTimeout:      writeWithin,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			own := c.(*slotConn)
			return context.WithValue(context.WithValue(ctx, peerKey{}, own.peer), connKey{}, own.Conn)
		},
	}
	l = &limited{Listener: l, peerOf: peerOf, slots: slots{users: map[int]int{}}}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), stopGrace)
		defer cancel()
		ended <- s.Shutdown(grace)
	}()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
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

// guarded answers for a handler that panics, which is then one request that failed,
// and refuses what a user asks too often.
func guarded(h http.Handler) http.Handler {
	asked := rates{buckets: map[int]bucket{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if broken := recover(); broken != nil && broken != http.ErrAbortHandler {
				logPanic(r.Method+" "+r.URL.Path, broken)
				reply(w, nil, &Error{Failed, fmt.Sprintf("this is a bug in homenode; its log has the rest: %v", broken)})
			}
		}()
		if p, _ := r.Context().Value(peerKey{}).(peer); !asked.take(p.uid, time.Now()) {
			reply(w, nil, &Error{TooMany, fmt.Sprintf("user %d asks too often; %d requests a second are answered", p.uid, requestsPerSecond)})
			return
		}
		h.ServeHTTP(w, r)
	})
}

func logPanic(request string, broken any) {
	slog.Error("a request failed by a bug in homenode", "request", request, "panic", broken, "stack", string(debug.Stack()))
}

// unhurried takes the deadlines off a request that may take long; reply sets one for
// the answer.
func unhurried(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	c.SetReadDeadline(time.Time{})
	c.SetWriteDeadline(time.Time{})
}

// handler answers requests; streams end when ctx does.
func handler(ctx context.Context, b Backend, a Access) http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		v, err := b.Status(r.Context())
		reply(w, v, err)
	})
	if small, ok := b.(SmallSource); ok {
		m.HandleFunc("GET /v1/small", func(w http.ResponseWriter, r *http.Request) {
			v, err := small.Small(r.Context())
			reply(w, v, err)
		})
	}
	if room, ok := b.(RoomSource); ok {
		m.HandleFunc("GET /v1/room", func(w http.ResponseWriter, r *http.Request) {
			v, err := room.Room(r.Context(), r.URL.Query().Get("without"))
			reply(w, v, err)
		})
	}
	m.HandleFunc("GET /v1/explain", func(w http.ResponseWriter, r *http.Request) {
		v, err := b.Explain(r.Context(), workload.ID(r.URL.Query().Get("id")))
		reply(w, v, err)
	})
	m.HandleFunc("GET /v1/history", func(w http.ResponseWriter, r *http.Request) {
		q, err := historyQuery(r.URL.Query())
		if err != nil {
			reply(w, nil, err)
			return
		}
		v, err := b.History(r.Context(), q)
		reply(w, v, err)
	})
	m.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) { stream(ctx, w, r, b) })
	if what, ok := b.(WhatIfSource); ok {
		m.HandleFunc("POST /v1/what-if", asked(maxRequest, what.WhatIf))
	}
	m.HandleFunc("POST /v1/undo", change(a, maxRequest, func(ctx context.Context, which Which) (any, error) {
		return b.Undo(ctx, which)
	}))
	m.HandleFunc("POST /v1/resume", change(a, maxRequest, func(ctx context.Context, which Which) (any, error) {
		return b.Resume(ctx, which)
	}))
	m.HandleFunc("POST /v1/partition", change(a, maxRequest, func(ctx context.Context, want Partition) (any, error) { return b.Partition(ctx, want) }))
	m.HandleFunc("POST /v1/place", change(a, maxRequest, func(ctx context.Context, want Want) (any, error) {
		if p, _ := ctx.Value(peerKey{}).(peer); want.Process.PID != 0 && want.Process.PID != p.pid && !privileged(p.uid) {
			return nil, &Error{Forbidden, fmt.Sprintf("user %d may ask for a home of the process that asks, %d, and not for process %d", p.uid, p.pid, want.Process.PID)}
		}
		return b.Place(ctx, want)
	}))
	m.HandleFunc("POST /v1/move", change(a, maxRequest, func(ctx context.Context, order MoveOrder) (any, error) {
		return b.Move(ctx, order)
	}))
	m.HandleFunc("POST /v1/change", change(a, maxSteps, func(ctx context.Context, c Change) (any, error) {
		errs, err := b.Change(ctx, c)
		out := Changed{Schema: "homenode-changed/1", Errors: make([]*Error, len(errs))}
		for i, err := range errs {
			if err != nil {
				out.Errors[i] = asError(err)
			}
		}
		return out, err
	}))
	return m
}

// change wraps a request that may change something: the peer is checked before
// the body is even read.
func change[T any](a Access, most int64, f func(context.Context, T) (any, error)) http.HandlerFunc {
	answer := asked(most, f)
	return func(w http.ResponseWriter, r *http.Request) {
		p, _ := r.Context().Value(peerKey{}).(peer)
		if !p.mayChange(a) {
			reply(w, nil, &Error{Forbidden, fmt.Sprintf(
				"user %d may look but not change anything; ask as root or as a member of the socket's group", p.uid)})
			return
		}
		answer(w, r)
	}
}

// asked reads a request from its body and answers it.
func asked[T, A any](most int64, f func(context.Context, T) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, _ := r.Context().Value(peerKey{}).(peer)
		var in T
		d := json.NewDecoder(io.LimitReader(r.Body, most))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil {
			reply(w, nil, &Error{BadRequest, "request body: " + err.Error()})
			return
		}
		// A daemon that was stopped finds old requests when it goes on. Who has gone away since
		// does not expect to be obeyed.
		if hungUp(r.Context()) {
			return
		}
		unhurried(w)
		v, err := f(AskedBy(r.Context(), WhoIs(p.uid, p.pid)), in)
		reply(w, v, err)
	}
}

func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin))
	if err != nil {
		e := asError(err)
		w.WriteHeader(map[Code]int{
			BadRequest: 400, Forbidden: 403, NotFound: 404, NoRoom: 409, Gone: 410, TooMany: 429, Fixed: 500, Failed: 500,
		}[e.Code])
		v = e
	}
	json.NewEncoder(w).Encode(v)
}
