package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/docs"
)

// Endpoint is one request that is answered. docs/openapi.json is made of these.
type Endpoint struct {
	Method, Path string
	Says         string       // what it is for, in sentences
	Query        []Parameter  // after the ? of its address
	Body         reflect.Type // of its JSON body; nil for none
	Answer       reflect.Type // of the answer in JSON; nil for another Media
	Media        string       // type of the answer; "" is application/json
	Changes      bool         // whether it may change something: not everybody may

	serve func(*server) http.HandlerFunc // nil from it: this backend does not answer it
}

// Parameter is one of a request's address.
type Parameter struct {
	Name, Type string // Type as OpenAPI has it: string, integer or date-time
	Says       string
	Required   bool
	Many       bool // may be given again
}

// server is what endpoints answer with.
type server struct {
	stopping context.Context // ends the streams
	b        Backend
	a        Access
	streams  *slots
}

// eventStream is the type of answers that end when their reader wants.
const eventStream = "text/event-stream"

// streaming bounds the streams of each party: a stream holds its connection.
func (s *server) streaming(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if p, _ := r.Context().Value(peerKey{}).(peer); !p.unbounded() {
			each, all := s.a.streams(p)
			if !s.streams.take(p.party(), each, all) {
				s.a.Refused.add(p.party(), refusedRequest)
				if r.ProtoMajor == 1 { // of HTTP/2 it would end the party's other streams, too
					w.Header().Set("Connection", "close")
				}
				reply(w, nil, &Error{TooMany, fmt.Sprintf("%v has %d streams open, the most that one party may have",
					p.party(), each)})
				return
			}
			defer s.streams.give(p.party())
		}
		next(w, r)
	}
}

// Endpoints is all requests that there are.
func Endpoints() []Endpoint { return slices.Concat(looks(), pictures(), orders()) }

// looks is the requests that read what the daemon knows.
func looks() []Endpoint {
	id := Parameter{Name: "id", Type: "string", Says: "Workload or device: its ID, or a name that only it has.",
		Required: true}
	return []Endpoint{
		get("/v1/status", "What was seen of this machine last, and what is planned.", nil,
			func(s *server) getter[Status] {
				return func(ctx context.Context, _ url.Values) (Status, error) {
					st, err := s.b.Status(ctx)
					st.Problems = append(slices.Clip(st.Problems), s.a.Refused.sentences()...)
					return st, err
				}
			}),
		get("/v1/small", "The workloads that are too small to be placed.", nil,
			func(s *server) getter[Small] {
				small, ok := s.b.(SmallSource)
				if !ok {
					return nil
				}
				return func(ctx context.Context, _ url.Values) (Small, error) { return small.Small(ctx) }
			}),
		get("/v1/room", "What is left on each NUMA node, for dedicated and for shared work.",
			[]Parameter{{Name: "without", Type: "string",
				Says: "What is held for work whose ID begins with this does not count as taken."}},
			func(s *server) getter[Room] {
				room, ok := s.b.(RoomSource)
				if !ok {
					return nil
				}
				return func(ctx context.Context, q url.Values) (Room, error) { return room.Room(ctx, q.Get("without")) }
			}),
		get("/v1/explain", "Why a workload, or a device, is where it is.", []Parameter{id},
			func(s *server) getter[Explanation] {
				return func(ctx context.Context, q url.Values) (Explanation, error) {
					return s.b.Explain(ctx, workload.ID(q.Get("id")))
				}
			}),
		get("/v1/history", "What happened: the newest events of those that are asked for.",
			[]Parameter{
				{Name: "limit", Type: "integer", Says: "Most events; 0 is all.", Required: true},
				{Name: "workload", Type: "string",
					Says: "Events about this workload only: its ID, or a name that only it has."},
				{Name: "kind", Type: "string", Says: "Events of this kind only: " + kinds() + ".", Many: true},
				{Name: "since", Type: "date-time", Says: "Events at this time or later."},
				{Name: "until", Type: "date-time", Says: "Events before this time."},
			},
			func(s *server) getter[History] {
				return func(ctx context.Context, q url.Values) (History, error) {
					query, err := historyQuery(q)
					if err != nil {
						return History{}, err
					}
					return s.b.History(ctx, query)
				}
			}),
		{Method: "GET", Path: "/v1/events", Media: eventStream,
			Says: "Each event when it happens, as server-sent events: the id of a message is the event's number, its " +
				"data the Event in JSON. A message with the name gap has a Gap: events are missing there. A comment " +
				"comes every 15 seconds when nothing happens.",
			Query: []Parameter{{Name: "since", Type: "integer",
				Says: "Events after the one with this number, 0 for all; without it those to come. The header " +
					"Last-Event-ID, which browsers send, goes before it."}},
			serve: func(s *server) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) { stream(s.stopping, w, r, s.b) }
			}},
	}
}

// pictures is the requests of the page and of programs that know nothing of homenode.
func pictures() []Endpoint {
	return []Endpoint{
		{Method: "GET", Path: "/v1/house", Answer: reflect.TypeFor[House](),
			Says: "The machine as one picture: what the page shows. It is made once a second at most; its ETag " +
				"changes with it.",
			serve: func(s *server) http.HandlerFunc {
				if s.a.Houses == nil {
					return nil
				}
				return s.a.Houses.serve
			}},
		{Method: "GET", Path: "/v1/house/changes", Media: eventStream,
			Says: "The picture as server-sent events: a message with the name house has a House, one with the name " +
				"change a HouseChange, which makes the next House of the one before. Who is slow misses some and " +
				"gets a House again. One with the name alive, with {} in it, comes every 15 seconds.",
			serve: func(s *server) http.HandlerFunc {
				if s.a.Houses == nil {
					return nil
				}
				return func(w http.ResponseWriter, r *http.Request) { s.a.Houses.stream(s.stopping, w, r) }
			}},
		get("/v1/house/residents", "The workloads that fit, the largest first, 200 at most.",
			[]Parameter{{Name: "q", Type: "string", Says: "Text that their name or ID has."},
				{Name: "group", Type: "string", Says: "ID of a group of the House that they are told in."}},
			func(s *server) getter[Residents] {
				if s.a.Houses == nil {
					return nil
				}
				return func(ctx context.Context, q url.Values) (Residents, error) {
					return s.a.Houses.residents(ctx, q.Get("q"), q.Get("group"))
				}
			}),
		{Method: "GET", Path: "/metrics", Media: "text/plain",
			Says: "Figures for Prometheus, in its text format or in OpenMetrics; docs/metrics.md lists them.",
			serve: func(s *server) http.HandlerFunc {
				source, ok := s.b.(MetricsSource)
				if !ok {
					return nil
				}
				return source.Metrics().ServeHTTP
			}},
		{Method: "GET", Path: "/v1/openapi.json", Media: "application/json", Says: "This description, in OpenAPI 3.1.",
			serve: func(*server) http.HandlerFunc {
				return func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.Write(docs.OpenAPI)
				}
			}},
	}
}

// orders is the requests with a body: what changes something, and what-if.
func orders() []Endpoint {
	return []Endpoint{
		post("/v1/what-if",
			"What would be: where new workloads would go, or what a move would cost and bring. Nothing is done or "+
				"booked.", maxRequest, false,
			func(s *server) poster[WhatIf, WhatIfAnswer] {
				what, ok := s.b.(WhatIfSource)
				if !ok {
					return nil
				}
				return inTurn(newSlots(), what.WhatIf)
			}),
		post("/v1/place", "Gives a home to what is about to start.", maxRequest, true,
			func(s *server) poster[Want, Home] {
				return func(ctx context.Context, want Want) (Home, error) {
					if p, _ := ctx.Value(peerKey{}).(peer); want.Process.PID != 0 && want.Process.PID != p.pid &&
						!privileged(p.uid) {
						return Home{},
							&Error{Forbidden,
								fmt.Sprintf("user %d may ask for a home of the process that asks, %d, and not for "+
									"process %d", p.uid, p.pid, want.Process.PID)}
					}
					return s.b.Place(ctx, want)
				}
			}),
		post("/v1/move", "Moves a workload to other nodes, or cancels that.", maxRequest, true,
			func(s *server) poster[MoveOrder, MoveAnswer] { return s.b.Move }),
		post("/v1/undo", "Restores what was changed, and leaves it alone from then on.", maxRequest, true,
			func(s *server) poster[Which, UndoResult] { return s.b.Undo }),
		post("/v1/resume", "Manages again what was undone.", maxRequest, true,
			func(s *server) poster[Which, Resumed] { return s.b.Resume }),
		post("/v1/partition", "Moves the line between CPUs for dedicated work alone and CPUs for shared work.",
			maxRequest, true,
			func(s *server) poster[Partition, Partition] { return s.b.Partition }),
		post("/v1/share", "Turns on or off that batch work is squeezed, so that online work does not feel it.",
			maxRequest, true,
			where(ShareSource.Share)),
		post("/v1/share/upgrade",
			"Puts another version in the place of the kernel's scheduler for batch work; the one before comes back "+
				"when it does not hold.", maxRequest, true,
			func(s *server) poster[UpgradeOrder, Upgraded] {
				up, ok := s.b.(UpgradeSource)
				if !ok {
					return nil
				}
				return func(ctx context.Context, o UpgradeOrder) (Upgraded, error) {
					if who := Asker(ctx); o.Object != "" && who != nil && who.UID != 0 {
						return Upgraded{},
							&Error{Code: Forbidden,
								Text: "an object of your own is loaded into the kernel for root alone"}
					}
					return up.UpgradeScheduler(ctx, o)
				}
			}),
		post("/v1/trial",
			"Begins, switches, renews or ends a trial (homenode trial). One that is not renewed ends, and everything "+
				"it switched is restored.", maxRequest, true,
			where(TrialSource.Trial)),
		post("/v1/change", "Carries out steps about one workload that a person has ordered.", maxSteps, true,
			func(s *server) poster[Change, Changed] {
				return func(ctx context.Context, c Change) (Changed, error) {
					errs, err := s.b.Change(ctx, c)
					out := Changed{Schema: "homenode-changed/1", Errors: make([]*Error, len(errs))}
					for i, err := range errs {
						if err != nil {
							out.Errors[i] = asError(err)
						}
					}
					return out, err
				}
			}),
	}
}

func kinds() string {
	var names []string
	for _, k := range plan.EventKinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

type (
	getter[A any]    func(context.Context, url.Values) (A, error)
	poster[T, A any] func(context.Context, T) (A, error)
)

// get is an endpoint that looks. f may return nil: then the backend does not answer it.
func get[A any](path, says string, query []Parameter, f func(*server) getter[A]) Endpoint {
	return Endpoint{Method: "GET", Path: path, Says: says, Query: query, Answer: reflect.TypeFor[A](),
		serve: func(s *server) http.HandlerFunc {
			look := f(s)
			if look == nil {
				return nil
			}
			return func(w http.ResponseWriter, r *http.Request) {
				v, err := look(r.Context(), r.URL.Query())
				reply(w, v, err)
			}
		}}
}

// post is an endpoint with a body of at most so many bytes. Where it changes something the peer
// is checked before the body is even read.
func post[T, A any](path, says string, most int64, changes bool, f func(*server) poster[T, A]) Endpoint {
	return Endpoint{Method: "POST", Path: path, Says: says, Body: reflect.TypeFor[T](), Answer: reflect.TypeFor[A](),
		Changes: changes, serve: func(s *server) http.HandlerFunc {
			do := f(s)
			if do == nil {
				return nil
			}
			return func(w http.ResponseWriter, r *http.Request) {
				p, _ := r.Context().Value(peerKey{}).(peer)
				if changes && !p.mayChange(s.a) {
					reply(w, nil, &Error{Forbidden, fmt.Sprintf(
						"user %d may look but not change anything; ask as root or as a member of the socket's group",
						p.uid)})
					return
				}
				var in T
				if err := read(r.Body, most, &in); err != nil {
					reply(w, nil, &Error{BadRequest, "request body: " + err.Error()})
					return
				}
				// A daemon that was stopped finds old requests when it goes on. Who has gone away since
				// does not expect to be obeyed.
				if hungUp(r.Context()) {
					return
				}
				unhurried(w)
				who := WhoIs(p.uid, p.pid)
				who.Owner = p.owner
				v, err := do(AskedBy(r.Context(), who), in)
				reply(w, v, err)
			}
		}}
}

// read reads one JSON value of at most so many bytes. A key that it does not have is an error.
func read(body io.Reader, most int64, into any) error {
	bounded := &io.LimitedReader{R: body, N: most + 1}
	d := json.NewDecoder(bounded)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	switch {
	case bounded.N == 0:
		return fmt.Errorf("longer than %d KiB", most>>10)
	case errors.Is(err, io.EOF):
		return errors.New("empty; want a JSON object")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON is cut off")
	case err == nil && d.More():
		return errors.New("more than one JSON value")
	}
	return err
}

// handler answers requests; streams end when ctx does.
func handler(ctx context.Context, b Backend, a Access) http.Handler {
	if a.streams == nil {
		a.streams = func(peer) (each, all int) { return maxStreams, maxConnections }
	}
	s := &server{ctx, b, a, newSlots()}
	m := http.NewServeMux()
	methods := map[string][]string{}
	for _, e := range Endpoints() {
		h := e.serve(s)
		if h != nil && e.Media == eventStream {
			h = s.streaming(h)
		}
		if h != nil {
			m.HandleFunc(e.Method+" "+e.Path, h)
			methods[e.Path] = append(methods[e.Path], e.Method)
		}
	}
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		known := methods[r.URL.Path]
		if known == nil {
			reply(w, nil,
				&Error{NotFound, fmt.Sprintf("this daemon knows no request %.40q; GET /v1/openapi.json describes all",
					r.URL.Path)})
			return
		}
		if slices.Contains(known, "GET") {
			known = append(slices.Clone(known), "HEAD")
		}
		w.Header().Set("Allow", strings.Join(known, ", "))
		reply(w, nil, &Error{BadMethod, fmt.Sprintf("%s is asked with %s", r.URL.Path, strings.Join(known, " or "))})
	})
	return m
}

// where is a request of those backends that have it.
func where[S, T, A any](do func(S, context.Context, T) (A, error)) func(*server) poster[T, A] {
	return func(s *server) poster[T, A] {
		source, ok := s.b.(S)
		if !ok {
			return nil
		}
		return func(ctx context.Context, want T) (A, error) { return do(source, ctx, want) }
	}
}

// counted counts how requests are answered, refusals too, where the backend does.
func counted(b Backend, h http.Handler) http.Handler {
	m, ok := b.(MetricsSource)
	if !ok {
		return h
	}
	known := map[string]bool{}
	for _, e := range Endpoints() {
		known[e.Path] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, path := &status{w, 200}, r.URL.Path
		if !known[path] {
			path = "other"
		}
		defer func() { m.Answered(path, answer.code) }()
		h.ServeHTTP(answer, r)
	})
}

// status remembers the status of an answer.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap is of http.ResponseController.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }
