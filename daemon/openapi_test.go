package daemon

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/daemon/memory"
	"github.com/homenode/homenode/docs"
	"github.com/homenode/homenode/ui/house"
)

// described is the API as docs/openapi.json has it, with every object that an answer holds
// closed: what is not described is an error here, though not to those who use it.
func described(t testing.TB) routers.Router {
	t.Helper()
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(docs.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range doc.Components.Schemas {
		closed := false
		s.Value.AdditionalProperties = openapi3.BoolSchema{Has: &closed}
	}
	if err := doc.Validate(loader.Context); err != nil {
		t.Fatal(err)
	}
	r, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// over is a client of the socket.
func over(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
}

// measured is a daemon with figures for Prometheus.
type measured struct{ *Daemon }

func (measured) Metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		io.WriteString(w, "up 1\n")
	})
}
func (measured) Answered(string, int) {}

// beside runs what lasts until its context ends, until the test ends.
func beside(t testing.TB, runs ...func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, len(runs))
	for _, run := range runs {
		go func() { ended <- run(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range runs {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// served runs a daemon on m and its API on a socket until the test ends.
func served(t testing.TB, m *machine, enforce bool) (*Daemon, string) {
	t.Helper()
	r := rig{m: m, change: []func(*Options){func(o *Options) {
		o.Clock, o.Inline, o.Period = bubbleClock{}, false, 50*time.Millisecond
		o.Self = func() api.Self { return api.Self{Goroutines: 10, Descriptors: 20} }
	}}}
	r.store = memory.New()
	d, err := New(r.options(enforce))
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := api.Listen(socket, api.Access{Group: os.Getgid()})
	if err != nil {
		t.Fatal(err)
	}
	pictures := api.NewHouses(measured{d}, "host", house.Painter{})
	beside(t, d.Run, func(ctx context.Context) error {
		return api.Serve(ctx, l, measured{d}, api.Access{Group: os.Getgid(), Houses: pictures})
	})
	return d, socket
}

// TestOpenAPI: what a real daemon is asked and what it answers is as docs/openapi.json has it,
// and there is no endpoint that this test does not ask.
func TestOpenAPI(t *testing.T) {
	m := newMachine(t, 2, 16)
	m.add("a", 2, 1<<20, 0, 1)
	m.add("b", 2, 1<<20, 1)
	m.add("c", 4, 1<<20, 0)
	_, socket := served(t, m, true)
	router, client := described(t), over(socket)
	asks := []struct {
		method, path, body string
		want               int
		bad                bool // the request itself is not as described
	}{
		{"GET", "/v1/status", "", 200, false},
		{"GET", "/v1/small", "", 200, false},
		{"GET", "/v1/room", "", 200, false},
		{"GET", "/v1/room?without=x", "", 200, false},
		{"GET", "/v1/explain?id=a", "", 200, false},
		{"GET", "/v1/explain?id=nobody", "", 404, false},
		{"POST", "/v1/what-if", `{"spec":"- {name: db, cpus: 2, class: dedicated, max_nodes: 1}\n- {name: x, cpus: 99}"}`, 200, false},
		{"POST", "/v1/what-if", `{"workload":"b","to":"0"}`, 200, false},
		{"POST", "/v1/what-if", `{"workload":"b","to":"9"}`, 200, false},
		{"POST", "/v1/what-if", `{}`, 400, false},
		{"POST", "/v1/what-if", `{"spce":""}`, 400, true},
		{"POST", "/v1/place", `{"name":"x","class":"shared","cpus":1,"memory_kib":0,"near":null,"process":{"PID":0,"Start":0}}`, 200, false},
		{"POST", "/v1/place", `{"name":"x","class":"shared","cpus":1000,"memory_kib":0,"near":[]}`, 409, false},
		{"POST", "/v1/place", `{"name":"x","class":"fast","cpus":1}`, 400, true},
		{"POST", "/v1/move", `{"id":"b","to":"0","dry_run":true}`, 200, false},
		{"POST", "/v1/move", `{"id":"b","to":"0"}`, 200, false},
		{"POST", "/v1/move", `{"id":"a","cancel":true}`, 0, false}, // 404 when nothing moves any more
		{"POST", "/v1/undo", `{"id":"b","dry_run":true}`, 200, false},
		{"POST", "/v1/undo", `{"id":"b"}`, 200, false},
		{"GET", "/v1/explain?id=b", "", 200, false},
		{"POST", "/v1/resume", `{"id":"b"}`, 200, false},
		{"POST", "/v1/undo", `{}`, 400, false},
		{"POST", "/v1/partition", `{"partition":"shared","dry_run":true}`, 200, false},
		{"POST", "/v1/share", `{"on":true}`, 200, false},
		{"POST", "/v1/trial", `{"name":"t","end":true}`, 200, false},
		{"POST", "/v1/trial", `{"name":"t","arm":"off","lease_s":60}`, 0, false},
		{"POST", "/v1/share/upgrade", `{"object":"/no/such"}`, 403, false},
		{"POST", "/v1/change", `{"steps":[]}`, 200, false},
		{"GET", "/v1/history?limit=0", "", 200, false},
		{"GET", "/v1/history?limit=5&workload=a&kind=plan&kind=step&since=2020-01-01T00:00:00Z", "", 200, false},
		{"GET", "/v1/history?limit=x", "", 400, true},
		{"GET", "/v1/events?since=0", "", 200, false},
		{"GET", "/v1/house", "", 200, false},
		{"GET", "/v1/house/residents?q=a", "", 200, false},
		{"GET", "/v1/house/changes", "", 200, false},
		{"GET", "/v1/openapi.json", "", 200, false},
		{"GET", "/metrics", "", 200, false},
		{"GET", "/v1/status", "", 200, false},
	}
	asked := map[string]bool{}
	for _, ask := range asks {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		newRequest := func() *http.Request {
			req, err := http.NewRequestWithContext(ctx, ask.method, "http://homenode"+ask.path, strings.NewReader(ask.body))
			if err != nil {
				t.Fatal(err)
			}
			if ask.body != "" {
				req.Header.Set("Content-Type", "application/json")
			}
			return req
		}
		req := newRequest()
		route, params, err := router.FindRoute(req)
		if err != nil {
			t.Fatalf("%s %s: %v", ask.method, ask.path, err)
		}
		asked[ask.method+" "+route.Path] = true
		in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: &openapi3filter.Options{MultiError: true}}
		if err := openapi3filter.ValidateRequest(ctx, in); (err != nil) != ask.bad {
			t.Errorf("%s %s %s: as a request: %v", ask.method, ask.path, ask.body, err)
		}
		resp, err := client.Do(newRequest())
		if err != nil {
			t.Fatal(err)
		}
		var body []byte
		if resp.Header.Get("Content-Type") == "text/event-stream" {
			body = make([]byte, 1)
			_, err = io.ReadFull(resp.Body, body)
		} else {
			body, err = io.ReadAll(resp.Body)
		}
		resp.Body.Close()
		if err != nil || ask.want != 0 && resp.StatusCode != ask.want {
			t.Errorf("%s %s %s: %s %v: %s", ask.method, ask.path, ask.body, resp.Status, err, body)
		}
		out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header,
			Body: io.NopCloser(bytes.NewReader(body)), Options: &openapi3filter.Options{MultiError: true, IncludeResponseStatus: true, ExcludeResponseBody: strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")}}
		if err := openapi3filter.ValidateResponse(ctx, out); err != nil {
			t.Errorf("%s %s %s: as an answer: %v", ask.method, ask.path, ask.body, err)
		}
		cancel()
	}
	var missing []string
	for _, e := range api.Endpoints() {
		if name := e.Method + " " + e.Path; !asked[name] {
			missing = append(missing, name)
		}
	}
	if slices.Sort(missing); missing != nil {
		t.Errorf("not asked in this test: %s", strings.Join(missing, ", "))
	}
}
