package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
)

// A client over TCP shows its token and its certificate, and asks what may be asked.
func TestOver(t *testing.T) {
	ca := certificate(t, "authority", nil)
	pool := x509.NewCertPool()
	pool.AddCert(ca.Leaf)
	mine := &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate(t, "reader", &ca)}}
	b := &hostOf{host: machine(t, "node:2(memory=4GiB) core:2")}
	at := overTCP(t, b, Remote{Token: "secret", TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t, "numa1", &ca)}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}})
	plain := overTCP(t, b, Remote{Token: "secret"})
	for name, x := range map[string]struct {
		o  OverTCP
		is Code // of the refusal; "" for none at all, "-" for an answer
	}{
		"both":           {OverTCP{"https://" + at, "secret", mine}, "-"},
		"no token":       {OverTCP{"https://" + at, "", mine}, Unauthorized},
		"wrong token":    {OverTCP{"https://" + at, "guess", mine}, Unauthorized},
		"no certificate": {OverTCP{"https://" + at, "secret", &tls.Config{RootCAs: pool}}, ""},
		"no trust":       {OverTCP{"https://" + at, "secret", nil}, ""},
		"plain":          {OverTCP{"http://" + plain, "secret", nil}, "-"},
	} {
		c, err := Over(x.o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Status(context.Background())
		var refused *Error
		switch {
		case x.is == "-" && (err != nil || len(s.Nodes) != 2):
			t.Errorf("%s: %+v %v", name, s, err)
		case x.is == "" && (err == nil || errors.As(err, &refused)):
			t.Errorf("%s: %v", name, err)
		case x.is != "-" && x.is != "" && (!errors.As(err, &refused) || refused.Code != x.is):
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Undo(context.Background(), Which{All: true}); err == nil {
			t.Errorf("%s: an undo was taken", name)
		}
		c.Close()
	}
	for _, url := range []string{"", "http://numa1:4663", "https://", "ftp://numa1", "https://me@numa1", "https://numa1/x", "https://numa1?x", "https://numa1#x", "numa1:4663", "https://[::1"} {
		if _, err := Over(OverTCP{URL: url}); err == nil {
			t.Errorf("%q is taken", url)
		}
	}
}
