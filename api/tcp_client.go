package api

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/homenode/homenode/core/topology/strict"
)

// OverTCP is how a daemon is asked that answers over TCP; see ServeTCP.
type OverTCP struct {
	// https://HOST:PORT, or http://ADDRESS:PORT with an address of this machine itself, such as the end of a tunnel
	URL   string
	Token string      // sent with each request; "" sends none
	TLS   *tls.Config // certificates to trust and to show; nil is those of the system, and none
}

// CheckURL refuses what Over cannot ask.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	want := fmt.Errorf("%q: want https://HOST:PORT, or http://127.0.0.1:PORT", strict.Clip(text))
	switch {
	case err != nil, u.Hostname() == "", u.User != nil, u.RawQuery != "", u.Fragment != "", u.Path != "" &&
		u.Path != "/":
		return want
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return want
	}
	if at, err := netip.ParseAddr(u.Hostname()); err != nil || !at.IsLoopback() {
		return fmt.Errorf("%q: plain http goes to this machine itself only; want https", strict.Clip(text))
	}
	return nil
}

// Over returns a client that asks over TCP. It connects with the first request.
func Over(o OverTCP) (*Client, error) {
	if err := CheckURL(o.URL); err != nil {
		return nil, &Error{BadRequest, err.Error()}
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	return &Client{owner: -1, base: u.Scheme + "://" + u.Host, http: &http.Client{
		Transport:     bearer{o.Token, &http.Transport{DisableCompression: true, TLSClientConfig: o.TLS}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// bearer sends a token with each request (RFC 6750).
type bearer struct {
	token string
	*http.Transport
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.Transport.RoundTrip(r)
}
