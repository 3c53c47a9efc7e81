package api

import (
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
	"sync"
	"time"
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
}

// What readers over TCP may have open. All users of this machine have one address, as have all
// who come through ssh; a browser needs one connection for what is live and a few for the rest.
const (
	maxPerAddress = 96
	maxOverTCP    = 128
	idleOverTCP   = 15 * time.Second
	// streamsOverTCP is the requests that one connection of HTTP/2 may have under way; without it
	// 128 connections can have 32,000, each followed by a stream of pictures.
	streamsOverTCP = 16
)

// onlyLooking is who asks over TCP: nobody whom the kernel knows.
var onlyLooking = peer{uid: -1, gid: -1}

// ServeTCP answers on a TCP listener until ctx ends.
func ServeTCP(ctx context.Context, l net.Listener, b Backend, r Remote) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newServer(counted(b, r.guarded(readOnly(handler(ctx, b, Access{Group: -1, Houses: r.Houses})))), func(c net.Conn) (peer, net.Conn) {
		if secure, ok := c.(*tls.Conn); ok {
			c = secure.NetConn()
		}
		return onlyLooking, c
	})
	s.IdleTimeout = idleOverTCP
	s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streamsOverTCP}
	s.TLSConfig, s.ErrorLog = r.TLS, silent
	defer s.Close() // what is not answered within lookGrace
	return serveUntil(ctx, s, &limitedTCP{Listener: l, slots: slots[netip.Addr]{users: map[netip.Addr]int{}}}, lookGrace)
}

// silent: who scans the port must not fill the log.
var silent = log.New(io.Discard, "", 0)

// lookGrace is how long an answer may still take when the server stops.
const lookGrace = 2 * time.Second

// limitedTCP is a listener that closes at once what is too much: of what has not asked anything yet
// that is answered, the oldest; else what comes.
type limitedTCP struct {
	net.Listener
	slots slots[netip.Addr]

	mu        sync.Mutex
	strangers []*tcpConn // have not asked anything yet that is answered, the oldest first
}

// tcpConn is a connection that has a slot until it is closed.
type tcpConn struct {
	net.Conn
	l    *limitedTCP
	from netip.Addr
	free func()
}

func (l *limitedTCP) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := addressOf(c.RemoteAddr().String())
		take := func() bool { return l.slots.take(from, maxPerAddress, maxOverTCP) }
		if take() || l.makeRoom(from) && take() {
			own := &tcpConn{c, l, from, sync.OnceFunc(func() { l.slots.give(from) })}
			l.mu.Lock()
			l.strangers = append(l.strangers, own)
			l.mu.Unlock()
			return own, nil
		}
		c.Close()
	}
}

// makeRoom closes a stranger, of the same address where there is one.
func (l *limitedTCP) makeRoom(from netip.Addr) bool {
	l.mu.Lock()
	if len(l.strangers) == 0 {
		l.mu.Unlock()
		return false
	}
	oldest := l.strangers[max(0, slices.IndexFunc(l.strangers, func(c *tcpConn) bool { return c.from == from }))]
	l.mu.Unlock()
	oldest.Close()
	return true
}

// known is called when something is answered.
func (c *tcpConn) known() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.l.strangers = slices.DeleteFunc(c.l.strangers, func(x *tcpConn) bool { return x == c })
}

func (c *tcpConn) Close() error {
	c.known()
	defer c.free()
	return c.Conn.Close()
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
	asked := map[bool]*rates[netip.Addr]{} // by whether the token is borne: who has none takes nothing from who has it
	for _, known := range []bool{false, true} {
		asked[known] = &rates[netip.Addr]{buckets: map[netip.Addr]bucket{}}
	}
	var files http.Handler
	if r.Page != nil {
		files = http.FileServerFS(r.Page)
	}
	next = caught(next)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.headers(w.Header())
		known := r.knows(q)
		static := r.Page != nil && isFile(r.Page, q)
		switch {
		case !known && !r.named(q.Host):
			reply(w, nil, &Error{Forbidden, "this machine is not called that: ask by its address, its own name, or localhost"})
		case foreign(q) && !(static && q.Header.Get("Sec-Fetch-Mode") == "navigate"):
			reply(w, nil, &Error{Forbidden, "this comes from a page of somebody else"})
		case !static && !asked[known].take(addressOf(q.RemoteAddr), time.Now()):
			reply(w, nil, &Error{TooMany, fmt.Sprintf("too many requests from one address; %d a second are answered", requestsPerSecond)})
		case static:
			w.Header().Set("Cache-Control", "no-cache")
			files.ServeHTTP(w, q)
		case r.Token != "" && !known:
			w.Header().Set("WWW-Authenticate", "Bearer")
			reply(w, nil, &Error{Unauthorized, "a token is needed: Authorization: Bearer TOKEN"})
		default:
			if c, ok := q.Context().Value(connKey{}).(*tcpConn); ok {
				c.known()
			}
			w.Header().Set("Cache-Control", "no-store")
			next.ServeHTTP(w, q)
		}
	})
}

// headers keeps a browser from loading anything from elsewhere, from running what is in a name,
// and from showing the page within another.
func (r *Remote) headers(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'")
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
	for _, own := range r.Names {
		if own != "" && strings.EqualFold(name, own) {
			return true
		}
	}
	return false
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
