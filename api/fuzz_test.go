package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// FuzzRequests: whatever is asked, the answer is one of those that are described: JSON, a refusal
// with a sentence of one line where it is none, no failure of the daemon's own, and little memory.
func FuzzRequests(f *testing.F) {
	for _, e := range Endpoints() {
		f.Add(e.Method, e.Path, "", "", "")
		f.Add(e.Method, e.Path+"?id=%ff&since=-1&limit=99999999999999999999&kind=x&until=now&without=%00&q=%1b&group=x", "7", "text/html", "{}")
		f.Add("PUT", e.Path+"/", "x", "", "{")
	}
	for _, body := range []string{`{"id":"a","to":"0-3","dry_run":true}`, `{"spec":"name: a","to":"9-0"}`, `{"name":"x","class":"dedicated","cpus":-1,"hold_s":1e99}`, `[]`, `null`, `{"all":true}{"all":true}`,
		`{"steps":[{"kind":"set-cpus","to":"kept"}]}`, strings.Repeat("[", 10000), `{"id":"` + strings.Repeat("x", maxRequest) + `"}`, "\x00\xff"} {
		for _, path := range []string{"/v1/undo", "/v1/move", "/v1/place", "/v1/what-if", "/v1/change", "/v1/partition", "/v1/resume"} {
			f.Add("POST", path, "", "application/json", body)
		}
	}
	f.Add("GET", "//v1/../v1/status", "", "", "")
	f.Add("CONNECT", "*", "\r\nx: y", "", "")
	h := guarded(nil, handler(context.Background(), &fuzzed{}, Access{Group: -1, Houses: NewHouses(&fuzzed{}, "h", plain{})}))
	f.Fuzz(func(t *testing.T, method, path, last, accept, body string) {
		r, err := http.NewRequest(method, "http://homenode", strings.NewReader(body))
		if err != nil {
			return // net/http would not take it from the wire either
		}
		u, err := r.URL.Parse(path)
		if err != nil || path == "*" { // answered by net/http itself
			return
		}
		r.URL, r.RequestURI = u, path
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		r.Header.Set("Accept", accept)
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), peerKey{}, peer{uid: 0}), 50*time.Millisecond)
		defer cancel()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(ctx))
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
			t.Errorf("%d MiB for it", grown>>20)
		}
		kind := w.Header().Get("Content-Type")
		switch {
		case w.Code == http.StatusMovedPermanently || w.Code == http.StatusTemporaryRedirect || w.Code == http.StatusPermanentRedirect: // to the clean path
		case w.Code >= 500:
			t.Errorf("%s %q: %d %s", method, path, w.Code, w.Body)
		case w.Code >= 400:
			var e Error
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || kind != "application/json" || e.Code.Status() != w.Code || e.Text == "" || strings.ContainsAny(e.Text, "\n\r\x1b\x00") {
				t.Errorf("%s %q: %d %s %q", method, path, w.Code, kind, w.Body)
			}
		case kind == "application/json" && method != "HEAD" && w.Code == 200 && !json.Valid(w.Body.Bytes()):
			t.Errorf("%s %q: no JSON: %q", method, path, w.Body)
		}
	})
}

// fuzzed answers everything, and fails at nothing.
type fuzzed struct{ answers }

func (*fuzzed) Resume(context.Context, Which) (Resumed, error)       { return Resumed{}, nil }
func (*fuzzed) WhatIf(context.Context, WhatIf) (WhatIfAnswer, error) { return WhatIfAnswer{}, nil }
func (*fuzzed) Small(context.Context) (Small, error)                 { return Small{}, nil }
func (*fuzzed) Room(context.Context, string) (Room, error)           { return Room{}, nil }
func (*fuzzed) Metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "up 1\n") })
}
func (*fuzzed) Answered(string, int) {}
func (*fuzzed) History(_ context.Context, q HistoryQuery) (History, error) {
	return History{}, nil
}
