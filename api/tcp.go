package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// Remote says how the API is offered over TCP. Whoever may connect may look; nothing is ever
// changed there, whoever asks.
type Remote struct {
	// Token is what each request must bear (RFC 6750); "" asks for none. The files of Page, which
	// say nothing of this machine, need none.
	Token string
	// TLS is nil for plain HTTP. With client certificates asked for there, nobody else gets as far
	// as a request.
	TLS *tls.Config
	// Names this machine is called by in a browser, beside localhost and its addresses. Another name
	// in a request without a token is refused: it is how a page elsewhere reaches a server here (DNS
	// rebinding).
	Names []string
	Page  fs.FS // files that browsers get; nil is none
	// Houses is what GET /v1/house answers with.
	Houses *Houses
	// Local returns the user of this machine at the other end of a connection, and who is
	// responsible; ok is false for another machine, and where the kernel does not tell. nil counts
	// all by address. It is asked before each connection and must answer soon.
	Local func(net.Conn) (uid int, owner workload.Owner, ok bool)
	// Refused counts who was refused; nil counts for this listener alone.
	Refused *Refusals
}

// What readers over TCP may have open. A browser needs one connection for what is live and a few
// for the rest, in each of its windows. All users of another machine have one address, as have
// all who come through a proxy there.
const (
	maxOverTCP     = 128
	keptForRootTCP = 16 // of maxOverTCP, for root of this machine
	// keptForTrials of maxOverTCP are for connections beyond what their party may have. One that
	// bears the token stays; one that asks for /metrics is answered.
	keptForTrials = 16
	trialsEach    = 4
	maxPerLocal   = 32 // one owner on this machine
	maxPerAddress = maxOverTCP - keptForRootTCP - keptForTrials
	idleOverTCP   = 15 * time.Second
	// streamsOverTCP is the requests that one connection of HTTP/2 may have under way; without it
	// 128 connections can have 32,000, each followed by a stream of pictures.
	streamsOverTCP = 16
	// Streams of an owner on this machine, of an address, and of all.
	streamsPerLocal, streamsPerAddress = 12, 64
)

// onTCP returns how many connections a peer may have, and all together when it asks for one.
func onTCP(p peer) (each, all int) {
	switch {
	case p.unbounded():
		return maxOverTCP, maxOverTCP
	case p.local:
		return maxPerLocal, maxPerAddress
	}
	return maxPerAddress, maxPerAddress
}

// streamsOf returns how many streams a peer may have over TCP, and all together.
func streamsOf(p peer) (each, all int) {
	if p.local {
		return streamsPerLocal, maxOverTCP
	}
	return streamsPerAddress, maxOverTCP
}

// ServeTCP answers on a TCP listener until ctx ends.
func ServeTCP(ctx context.Context, l net.Listener, b Backend, r Remote) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.Refused = cmp.Or(r.Refused, &Refusals{})
	access := Access{Group: -1, Houses: r.Houses, Refused: r.Refused, streams: streamsOf}
	s := newServer(counted(b, r.guarded(readOnly(handler(ctx, b, access)))), func(c net.Conn) *placed {
		if secure, ok := c.(*tls.Conn); ok {
			c = secure.NetConn()
		}
		return c.(*placed)
	})
	s.IdleTimeout = idleOverTCP
	s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streamsOverTCP}
	s.TLSConfig, s.ErrorLog = r.TLS, silent
	defer s.Close() // what is not answered within lookGrace
	return serveUntil(ctx, s, &bounded{Listener: l, who: r.who, bound: onTCP, trialEach: trialsEach,
		trialAll: maxOverTCP - keptForRootTCP,
		refused:  r.Refused, open: map[workload.Owner][]*placed{}}, lookGrace)
}

// silent: who scans the port must not fill the log.
var silent = log.New(io.Discard, "", 0)

// lookGrace is how long an answer may still take when the server stops.
const lookGrace = 2 * time.Second

// who returns who is at the other end of a connection. Over TCP that has no rights, whoever it is.
func (r *Remote) who(c net.Conn) peer {
	p := peer{uid: -1, gid: -1}
	if r.Local != nil {
		if uid, owner, ok := r.Local(c); ok {
			p.root = privileged(uid)
			p.local = owner != workload.SystemOwner
			p.owner = owner.Holder(uid)
			return p
		}
	}
	from := addressOf(c.RemoteAddr().String())
	// A peer of this machine of whom the kernel does not tell has closed its end.
	p.local = r.Local != nil && from.IsLoopback()
	p.owner = workload.Owner("address:" + from.String())
	return p
}

// addressOf is the address of "address:port", as one host has it: of IPv6 the /64, and one for all
// that mean this machine, of which each of its users has 127.0.0.0/8.
func addressOf(s string) netip.Addr {
	at, _ := netip.ParseAddrPort(s)
	a := at.Addr().Unmap().WithZone("")
	switch {
	case a.IsLoopback():
		return netip.IPv6Loopback()
	case a.Is6():
		net, _ := a.Prefix(64)
		return net.Addr()
	}
	return a
}

// readOnly lets through what changes nothing, whatever handlers there are.
func readOnly(next http.Handler) http.Handler {
	harmless := map[string]bool{}
	for _, e := range Endpoints() {
		harmless[e.Method+" "+e.Path] = !e.Changes
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet, r.Method == http.MethodHead, harmless[r.Method+" "+r.URL.Path]:
			r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
			next.ServeHTTP(w, r)
		default:
			reply(w, nil, &Error{Forbidden, "nothing is changed over TCP: ask on the unix socket"})
		}
	})
}

// guarded refuses what no reader whom the operator means would send.
func (r *Remote) guarded(next http.Handler) http.Handler {
	asked := newRates()
	var files http.Handler
	if r.Page != nil {
		files = http.FileServerFS(r.Page)
	}
	next = caught(next)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.headers(w.Header())
		known := r.knows(q)
		static := r.Page != nil && isFile(r.Page, q)
		who, _ := q.Context().Value(peerKey{}).(peer)
		on, _ := q.Context().Value(connKey{}).(*placed)
		ask := asker{who.party(), ordinary}
		switch {
		case q.URL.Path == "/metrics" && (known || r.Token == ""):
			ask.kind = scraping
		case known:
			ask.kind = bearing
		}
		beyond := on != nil && on.onTrial() && !known
		if beyond {
			w.Header().Set("Connection", "close")
		}
		switch {
		case beyond && ask.kind != scraping:
			r.Refused.add(who.party(), refusedConnection)
			reply(w, nil, &Error{TooMany, fmt.Sprintf("%v has all the connections open that one party may have",
				who.party())})
		case !known && !r.named(q.Host):
			reply(w, nil,
				&Error{Forbidden, "this machine is not called that: ask by its address, its own name, or localhost"})
		case foreign(q) && !(static && q.Header.Get("Sec-Fetch-Mode") == "navigate"):
			reply(w, nil, &Error{Forbidden, "this comes from a page of somebody else"})
		case !static && !who.unbounded() && !asked.take(ask, time.Now()):
			r.Refused.add(who.party(), refusedRequest)
			reply(w, nil, &Error{TooMany, fmt.Sprintf("%v asks too often; %d requests a second are answered",
				who.party(), requestsPerSecond)})
		case static:
			w.Header().Set("Cache-Control", "no-cache")
			files.ServeHTTP(w, q)
		case r.Token != "" && !known:
			w.Header().Set("WWW-Authenticate", "Bearer")
			reply(w, nil, &Error{Unauthorized, "a token is needed: Authorization: Bearer TOKEN"})
		default:
			answering(q, known)
			w.Header().Set("Cache-Control", "no-store")
			next.ServeHTTP(w, q)
		}
	})
}

// headers keeps a browser from loading anything from elsewhere, from running what is in a name,
// and from showing the page within another.
func (r *Remote) headers(h http.Header) {
	h.Set("Content-Security-Policy",
		"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "+
			"require-trusted-types-for 'script'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
}

// knows reports whether a request bears the token.
func (r *Remote) knows(q *http.Request) bool {
	given, ok := strings.CutPrefix(q.Header.Get("Authorization"), "Bearer ")
	if !ok || r.Token == "" {
		return false
	}
	have, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(r.Token)) // of one length, whatever was given
	return subtle.ConstantTimeCompare(have[:], want[:]) == 1
}

// named reports whether this machine may be called that.
func (r *Remote) named(host string) bool {
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host {
		return false
	}
	name := u.Hostname()
	if _, err := netip.ParseAddr(name); err == nil { // nobody can have an address answered by another
		return true
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	return slices.ContainsFunc(r.Names, func(own string) bool { return own != "" && strings.EqualFold(name, own) })
}

// foreign reports whether a browser sends a request for a page of another origin. What is no
// browser sends neither header.
func foreign(q *http.Request) bool {
	if site := q.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return true
	}
	for _, origin := range q.Header.Values("Origin") {
		scheme := "http"
		if q.TLS != nil {
			scheme = "https"
		}
		if origin != scheme+"://"+q.Host {
			return true
		}
	}
	return false
}

// isFile reports whether a request is for a file of the page.
func isFile(page fs.FS, q *http.Request) bool {
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		return false
	}
	if q.URL.Path == "/" {
		return true
	}
	name := strings.TrimPrefix(q.URL.Path, "/")
	if name != path.Clean(name) || !fs.ValidPath(name) {
		return false
	}
	there, err := fs.Stat(page, name)
	return err == nil && there.Mode().IsRegular()
}
