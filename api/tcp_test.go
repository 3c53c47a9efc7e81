package api

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// hostOf is a Backend with a machine and workloads of hostile names.
type hostOf struct {
	answers
	host  *topology.Host
	work  []Workload
	looks atomic.Int64
}

func (h *hostOf) Status(context.Context) (Status, error) {
	h.looks.Add(1)
	s := Status{Schema: "homenode-status/3", Mode: "enforce", Time: time.Now(), Workloads: h.work}
	for _, n := range h.host.Nodes {
		s.Nodes = append(s.Nodes, Node{ID: n.ID, CPUs: n.CPUs.String(), MemoryKiB: int64(n.Memory), FreeKiB: int64(n.Memory) / 2})
	}
	return s, nil
}

func (h *hostOf) Room(context.Context, string) (Room, error) { return Room{Host: h.host}, nil }

func machine(t testing.TB, text string) *topology.Host {
	h, err := topology.FromSynthetic(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// overTCP serves b on a free port of this machine until the test ends.
func overTCP(t testing.TB, b Backend, r Remote) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if r.Page == nil {
		r.Page = fstest.MapFS{"index.html": {Data: []byte("<!doctype html>the page")}, "page.js": {Data: []byte("1")}}
	}
	if r.Houses == nil {
		r.Houses = NewHouses(b, "host", plain{})
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- ServeTCP(ctx, l, b, r) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// ask sends a request as it is written and returns the status and the body.
func ask(t testing.TB, to, request string) (int, http.Header, string) {
	t.Helper()
	c, err := net.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(body)
}

// TestAttacksOverTCP lists each attempt. None may change anything, and none but those of who may
// look may see the workload's name.
func TestAttacksOverTCP(t *testing.T) {
	const secret, token = "the-secret-workload", "0123456789abcdef0123456789abcdef"
	b := &hostOf{host: machine(t, "node:2(memory=4GiB) core:2"), work: []Workload{{ID: "/a/" + secret, Name: secret, State: StateAtHome, Home: "0"}}}
	open, closed := overTCP(t, b, Remote{Names: []string{"numa1"}}), overTCP(t, b, Remote{Token: token, Names: []string{"numa1"}})
	get := func(path string, headers ...string) string {
		return "GET " + path + " HTTP/1.1\r\n" + strings.Join(append(headers, "Connection: close"), "\r\n") + "\r\n\r\n"
	}
	post := func(path, body string, headers ...string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\n%s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", path, strings.Join(headers, "\r\n"), len(body), body)
	}
	const local, bearer = "Host: 127.0.0.1:4663", "Authorization: Bearer " + token
	for _, x := range []struct {
		name, request  string
		open, closed   int  // status without a token asked for, and with
		seesIt, barred bool // of the open one; of the closed one
	}{
		{"the page", get("/", local), 200, 200, false, false},
		{"a file of the page", get("/page.js", local), 200, 200, false, false},
		{"the house", get("/v1/house", local), 200, 401, true, false},
		{"the house with the token", get("/v1/house", local, bearer), 200, 200, true, true},
		{"by localhost", get("/v1/house", "Host: localhost:1"), 200, 401, true, false},
		{"by its name", get("/v1/house", "Host: NUMA1:4663"), 200, 401, true, false},
		{"by IPv6", get("/v1/house", "Host: [::1]:4663"), 200, 401, true, false},
		{"a scraper that bears the token, by another name", get("/v1/house", "Host: numa1.example.org", bearer), 403, 200, false, true},

		{"unauthenticated: status", get("/v1/status", local), 200, 401, true, false},
		{"unauthenticated: explain", get("/v1/explain?id=/a/"+secret, local), 404, 401, true, false},
		{"unauthenticated: history", get("/v1/history?limit=1", local), 200, 401, false, false},
		{"unauthenticated: changes", get("/v1/house/residents?q=", local), 200, 401, true, false},
		{"a wrong token", get("/v1/house", local, "Authorization: Bearer "+token+"0"), 200, 401, true, false},
		{"the token's beginning", get("/v1/house", local, "Authorization: Bearer "+token[:8]), 200, 401, true, false},
		{"an empty token", get("/v1/house", local, "Authorization: Bearer "), 200, 401, true, false},
		{"the token as a password", get("/v1/house", local, "Authorization: Basic "+token), 200, 401, true, false},
		{"the token in the address", get("/v1/house?token="+token, local), 200, 401, true, false},
		{"the token as a cookie", get("/v1/house", local, "Cookie: token="+token), 200, 401, true, false},

		{"DNS rebinding", get("/v1/house", "Host: evil.example:4663"), 403, 403, false, false},
		{"DNS rebinding: the page", get("/", "Host: evil.example"), 403, 403, false, false},
		{"DNS rebinding: a name that begins like an address", get("/v1/house", "Host: 127.0.0.1.evil.example"), 403, 403, false, false},
		{"DNS rebinding: a name that ends like one", get("/v1/house", "Host: evil.localhost"), 403, 403, false, false},
		{"DNS rebinding: user and host", get("/v1/house", "Host: localhost@evil.example"), 400, 400, false, false},
		{"an empty host", get("/v1/house", "Host: "), 403, 403, false, false},

		{"another origin", get("/v1/house", local, "Origin: https://evil.example"), 403, 403, false, false},
		{"another origin with the token", get("/v1/house", local, "Origin: https://evil.example", bearer), 403, 403, false, false},
		{"another port of this machine", get("/v1/house", local, "Origin: http://127.0.0.1:8080"), 403, 403, false, false},
		{"a sandboxed frame", get("/v1/house", local, "Origin: null"), 403, 403, false, false},
		{"an image of another page", get("/v1/house", local, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"), 403, 403, false, false},
		{"the script from another page", get("/page.js", local, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"), 403, 403, false, false},
		{"of the same site, another origin", get("/v1/house", local, "Sec-Fetch-Site: same-site"), 403, 403, false, false},
		{"a link to what it tells", get("/v1/house", local, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"), 403, 403, false, false},
		{"a link to the page", get("/", local, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"), 200, 200, false, false},
		{"a preflight", "OPTIONS /v1/undo HTTP/1.1\r\n" + local + "\r\nOrigin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\nConnection: close\r\n\r\n", 403, 403, false, false},

		{"write: undo", post("/v1/undo", `{"all":true}`, local, bearer), 403, 403, false, true},
		{"write: undo of who has no token", post("/v1/undo", `{"all":true}`, local), 403, 401, false, false},
		{"write: resume", post("/v1/resume", `{"all":true}`, local, bearer), 403, 403, false, true},
		{"write: move", post("/v1/move", `{"id":"/a","to":"1"}`, local, bearer), 403, 403, false, true},
		{"write: place", post("/v1/place", `{"name":"x","cpus":1}`, local, bearer), 403, 403, false, true},
		{"write: partition", post("/v1/partition", `{"partition":"any"}`, local, bearer), 403, 403, false, true},
		{"write: change", post("/v1/change", `{"steps":[]}`, local, bearer), 403, 403, false, true},
		{"write: as a form of another page", post("/v1/undo", `{"all":true}`, local, "Content-Type: text/plain", "Origin: https://evil.example"), 403, 403, false, false},
		{"write: by another method", "PUT /v1/undo HTTP/1.1\r\n" + local + "\r\n" + bearer + "\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", 403, 403, false, true},
		{"write: GET", get("/v1/undo", local, bearer), 405, 405, false, true},
		{"write: method override", get("/v1/undo", local, bearer, "X-HTTP-Method-Override: POST"), 405, 405, false, true},
		{"write: a path that is cleaned", post("//v1/what-if/../undo", `{"all":true}`, local, bearer), 403, 403, false, true},
		{"write: what-if and more", post("/v1/what-if/../undo", `{"all":true}`, local, bearer), 403, 403, false, true},

		{"a file beside the page", get("/../../etc/passwd", local), 404, 401, false, false},
		{"an encoded path", get("/%2e%2e/%2e%2e/etc/passwd", local), 404, 401, false, false},
	} {
		for at, want := range map[string]int{open: x.open, closed: x.closed} {
			status, h, body := ask(t, at, x.request)
			if status != want && !(status == 301 || status == 307 || status == 308) {
				t.Errorf("%s (%v): status %d, want %d: %s", x.name, at == closed, status, want, body)
			}
			allowed := at == open && x.seesIt || at == closed && x.barred
			if strings.Contains(body, secret) && !allowed {
				t.Errorf("%s (%v): tells of the workload: %s", x.name, at == closed, body)
			}
			for name := range h {
				if strings.HasPrefix(name, "Access-Control-") || name == "Set-Cookie" {
					t.Errorf("%s: has header %s", x.name, name)
				}
			}
			if csp := h.Get("Content-Security-Policy"); status != 400 && !strings.HasPrefix(csp, "default-src 'self';") {
				t.Errorf("%s: Content-Security-Policy %q", x.name, csp)
			}
		}
	}
	if len(b.changed) > 0 {
		t.Errorf("changed: %q", b.changed)
	}
}

// TestBrowserOnTheSocket: a socket that somebody forwards to a port answers no page, whoever's
// rights it would have.
func TestBrowserOnTheSocket(t *testing.T) {
	b := &answers{}
	socket := listening(t, b, Access{Group: -1})
	client := plainOn(socket)
	for header, value := range map[string]string{"Origin": "http://localhost:4663", "Sec-Fetch-Site": "same-origin"} {
		req, _ := http.NewRequest("POST", "http://localhost:4663/v1/undo", strings.NewReader(`{"all":true}`))
		req.Header.Set(header, value)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 403 {
			t.Errorf("%s: status %d", header, resp.StatusCode)
		}
	}
	if len(b.changed) > 0 {
		t.Errorf("changed: %q", b.changed)
	}
}

func TestConnectionsOverTCP(t *testing.T) {
	b := &hostOf{host: machine(t, "node:1(memory=4GiB) core:2")}
	at := overTCP(t, b, Remote{})
	kept := 0
	answered := func(c net.Conn) bool {
		io.WriteString(c, "GET /v1/none HTTP/1.1\r\nHost: localhost\r\n\r\n")
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return false
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return err == nil
	}
	var all []net.Conn
	for range maxOverTCP + 20 {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if answered(c) {
			all = append(all, c)
		}
	}
	for _, c := range all { // some have given way to others
		if answered(c) {
			kept++
		}
	}
	if kept != maxPerAddress {
		t.Errorf("one address has %d connections, want %d", kept, maxPerAddress)
	}
}

// TestUsersOfThisMachineOverTCP: a user of this machine, who may not look and has as many addresses
// as he likes (127.0.0.0/8), takes neither requests nor connections from who bears the token.
func TestUsersOfThisMachineOverTCP(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	b := &hostOf{host: machine(t, "node:1(memory=4GiB) core:2")}
	at := overTCP(t, b, Remote{Token: token})
	from := func(i int) net.Conn {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(i), 9)}}).Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	const request = "GET /v1/house HTTP/1.1\r\nHost: localhost\r\n"
	refused := 0
	for i := range 4 { // keeps the connections
		c := from(i)
		for range requestBurst {
			io.WriteString(c, request+"\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode == http.StatusTooManyRequests {
				refused++
			}
			io.Copy(io.Discard, resp.Body)
		}
	}
	if refused < 2*requestBurst {
		t.Errorf("%d of %d requests from four addresses of one machine were too many; want nearly those of three", refused, 4*requestBurst)
	}
	if status, _, body := ask(t, at, request+"Authorization: Bearer "+token+"\r\nConnection: close\r\n\r\n"); status != 200 {
		t.Errorf("who bears the token: %d %s", status, body)
	}
	for i := range maxOverTCP + 20 { // silent ones
		from(i)
	}
	if status, _, body := ask(t, at, request+"Authorization: Bearer "+token+"\r\nConnection: close\r\n\r\n"); status != 200 {
		t.Errorf("who bears the token, beside many silent connections: %d %s", status, body)
	}
}

// certificate is one that is signed by parent, or by itself.
func certificate(t *testing.T, name string, parent *tls.Certificate) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: parent == nil, BasicConstraintsValid: true}
	signer, by := template, any(key)
	if parent != nil {
		signer, by = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// TestMutualTLS: who has no certificate of the right authority gets no answer, the page neither.
func TestMutualTLS(t *testing.T) {
	ca, otherCA := certificate(t, "ca", nil), certificate(t, "other", nil)
	pool := x509.NewCertPool()
	pool.AddCert(ca.Leaf)
	b := &hostOf{host: machine(t, "node:1(memory=4GiB) core:2")}
	at := overTCP(t, b, Remote{Names: []string{"numa1"}, TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t, "numa1", &ca)}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}})
	for name, x := range map[string]struct {
		certs []tls.Certificate
		good  bool
	}{
		"none":                 {},
		"of another authority": {certs: []tls.Certificate{certificate(t, "reader", &otherCA)}},
		"of itself":            {certs: []tls.Certificate{certificate(t, "reader", nil)}},
		"of the authority":     {certs: []tls.Certificate{certificate(t, "reader", &ca)}, good: true},
	} {
		client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: x.certs}}, Timeout: 10 * time.Second}
		for _, path := range []string{"/", "/v1/house"} {
			resp, err := client.Get("https://" + at + path)
			if err == nil {
				resp.Body.Close()
			}
			if good := err == nil && resp.StatusCode == 200; good != x.good {
				t.Errorf("a certificate %s: %s answered: %v (%v)", name, path, good, err)
			}
		}
		client.CloseIdleConnections()
	}
}

// TestStalledViewer: who takes nothing of what he is sent keeps neither other viewers nor the
// Backend waiting.
func TestStalledViewer(t *testing.T) {
	b := &hostOf{host: machine(t, "node:8(memory=4GiB) core:8")}
	for i := range 2000 {
		b.work = append(b.work, Workload{ID: workload.ID(fmt.Sprintf("/x/%04d", i)), Name: strings.Repeat("n", 300), State: StateWouldMove, Home: fmt.Sprint(i % 8), Why: strings.Repeat("w", 390)})
	}
	at := overTCP(t, b, Remote{})
	for range 5 {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.(*net.TCPConn).SetReadBuffer(1024)
		io.WriteString(c, "GET /v1/house/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	resp, err := http.Get("http://" + at + "/v1/house/changes")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	seen := 0
	for seen < 4 { // one each housePeriod, for the time changes
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "event: ") {
			seen++
		}
	}
}

// TestPictureIsShared: however many look, the host is asked once a period.
func TestPictureIsShared(t *testing.T) {
	b := &hostOf{host: machine(t, "node:2(memory=4GiB) core:2")}
	at := overTCP(t, b, Remote{})
	for range 20 {
		resp, err := http.Get("http://" + at + "/v1/house/changes")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
	}
	began, before := time.Now(), b.looks.Load()
	time.Sleep(2500 * time.Millisecond)
	if n, most := b.looks.Load()-before, int64(time.Since(began)/housePeriod)+2; n > most {
		t.Errorf("asked %d times for 20 viewers, want %d at most", n, most)
	}
}

// countingBackend notes how requests were answered.
type countingBackend struct {
	fuzzed
	mu  sync.Mutex
	got map[string]int
}

func (c *countingBackend) Answered(path string, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got[fmt.Sprintf("%s %d", path, status)]++
}

// TestRefusalsAreCounted: what the guards refuse, before a handler is asked, too.
func TestRefusalsAreCounted(t *testing.T) {
	b := &countingBackend{got: map[string]int{}}
	to := overTCP(t, b, Remote{Token: "secret"})
	const host, token = "Host: localhost\r\n", "Authorization: Bearer secret\r\n"
	want := map[string]int{}
	for _, c := range []struct {
		request, counted string
	}{
		{"GET /metrics HTTP/1.1\r\n" + host + token, "/metrics 200"},
		{"GET /metrics HTTP/1.1\r\n" + host, "/metrics 401"},
		{"GET /v1/status HTTP/1.1\r\nHost: elsewhere\r\n", "/v1/status 403"},
		{"POST /v1/undo HTTP/1.1\r\n" + host + token + "Content-Length: 0\r\n", "/v1/undo 403"},
		{"GET /v1/secret HTTP/1.1\r\n" + host + token, "other 404"},
	} {
		if status, _, body := ask(t, to, c.request+"\r\n"); !strings.HasSuffix(c.counted, fmt.Sprintf(" %d", status)) {
			t.Errorf("%q: %d %s", c.request, status, body)
		}
		want[c.counted]++
	}
	for range 2 * requestBurst {
		if status, _, _ := ask(t, to, "GET /v1/room HTTP/1.1\r\n"+host+"\r\n"); status == http.StatusTooManyRequests {
			want["/v1/room 429"]++
		} else {
			want["/v1/room 401"]++
		}
	}
	socket := counted(b, guarded(nil, handler(t.Context(), b, Access{Group: -1})))
	for range requestBurst + 1 {
		r := httptest.NewRequest("GET", "/v1/small", nil)
		w := httptest.NewRecorder()
		socket.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, peer{uid: 1 << 30})))
		want[fmt.Sprintf("/v1/small %d", w.Code)]++
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !maps.Equal(b.got, want) || want["/v1/room 429"] == 0 || want["/v1/small 429"] == 0 {
		t.Errorf("counted %v, want %v", b.got, want)
	}
}

// scraped is a Backend with metrics.
type scraped struct{ hostOf }

func (*scraped) Metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "figures 1\n") })
}
func (*scraped) Answered(string, int) {}

// byAddress is users of this machine for a test: 127.0.0.1 is root, 127.0.0.33 a service, and
// any other 127.0.0.N user 1000 + N.
func byAddress(c net.Conn) (uid int, owner workload.Owner, ok bool) {
	switch n := c.RemoteAddr().(*net.TCPAddr).IP.To4()[3]; n {
	case 1:
	case 33:
		uid = 33
	default:
		uid = 1000 + int(n)
	}
	return uid, workload.UserOwner(uid), true
}

// dialFrom connects from 127.0.0.N.
func dialFrom(t *testing.T, n byte, to string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, n)}}).Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(30 * time.Second))
	return c
}

// getOn asks on a connection that stays open; 0 is no answer.
func getOn(c net.Conn, path string, headers ...string) int {
	headers = append(headers, "Host: localhost")
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\n"+strings.Join(headers, "\r\n")+"\r\n\r\n"); err != nil {
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// TestPlacesOverTCP (B3): a user of this machine who has all connections that one may have still has
// the token's and /metrics' beyond them, and takes nothing from root or another user.
func TestPlacesOverTCP(t *testing.T) {
	const token, user, other, root = "0123456789abcdef0123456789abcdef", 50, 51, 1
	const bearer = "Authorization: Bearer " + token
	for _, x := range []struct {
		name, token string
		metrics     int // status of /metrics without the token, beyond the bound
	}{
		{"with a token", token, http.StatusTooManyRequests},
		{"without", "", http.StatusOK},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := &scraped{hostOf{host: machine(t, "node:1(memory=4GiB) core:2")}}
			refused := &Refusals{}
			at := overTCP(t, b, Remote{Token: x.token, Local: byAddress, Refused: refused})
			var held []net.Conn
			for range maxPerLocal {
				c := dialFrom(t, user, at)
				if getOn(c, "/v1/status", bearer) != 200 {
					t.Fatal("refused below the bound")
				}
				held = append(held, c)
			}
			if code := getOn(dialFrom(t, user, at), "/v1/status"); code != http.StatusTooManyRequests {
				t.Errorf("beyond the bound: %d", code)
			}
			if code := getOn(dialFrom(t, user, at), "/metrics"); code != x.metrics {
				t.Errorf("/metrics beyond the bound: %d, want %d", code, x.metrics)
			}
			dialFrom(t, user, at) // on trial; it gives way to the next one, which is on trial then
			if code := getOn(dialFrom(t, user, at), "/v1/status"); code != http.StatusTooManyRequests {
				t.Errorf("in the place of one on trial: %d", code)
			}
			if x.token != "" {
				c := dialFrom(t, user, at)
				for range 2 { // it stays
					if code := getOn(c, "/v1/status", bearer); code != 200 {
						t.Errorf("the token beyond the bound: %d", code)
					}
				}
			}
			silent := dialFrom(t, user, at)
			began := time.Now()
			if _, err := silent.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("silent beyond the bound: %v", err)
			}
			if took := time.Since(began); took < trialTime/2 || took > 10*trialTime {
				t.Errorf("closed after %v, want %v", took, trialTime)
			}
			for _, n := range []byte{other, root} {
				if code := getOn(dialFrom(t, n, at), "/v1/status", bearer); code != 200 {
					t.Errorf("user %d: %d", n, code)
				}
			}
			for range maxPerAddress { // root fills what is there
				getOn(dialFrom(t, root, at), "/v1/status", bearer)
			}
			if code := getOn(held[0], "/v1/none", bearer); code == 0 {
				t.Error("a connection of the user gave way to root, which has places of its own")
			}
			said := refused.sentences()
			if !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, "user 1050 holds so many connections to homenode") }) {
				t.Errorf("said %q", said)
			}
		})
	}
}

// TestStreamsOverTCP: one connection of HTTP/1.1 is a stream at most, and the streams of a party on
// this machine leave connections for requests.
func TestStreamsOverTCP(t *testing.T) {
	b := &hostOf{host: machine(t, "node:1(memory=4GiB) core:2")}
	at := overTCP(t, b, Remote{Local: byAddress})
	follow := func(n byte) int {
		c := dialFrom(t, n, at)
		io.WriteString(c, "GET /v1/house/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0
		}
		return resp.StatusCode
	}
	for _, n := range []byte{50, 51} {
		for i := range streamsPerLocal {
			if code := follow(n); code != 200 {
				t.Fatalf("stream %d of user %d: %d", i, n, code)
			}
		}
		if code := follow(n); code != http.StatusTooManyRequests {
			t.Errorf("one stream too many of user %d: %d", n, code)
		}
		if code := getOn(dialFrom(t, n, at), "/v1/status"); code != 200 {
			t.Errorf("a request of user %d beside streams: %d", n, code)
		}
	}
	for range 2 * streamsPerLocal {
		for _, n := range []byte{1, 33} { // a service may be a proxy for many
			if code := follow(n); code != 200 {
				t.Fatalf("127.0.0.%d: %d", n, code)
			}
		}
	}
}
