package main

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/web"
)

// overTCP is where the page is served, and who may look.
type overTCP struct {
	l   net.Listener
	may api.Remote
}

// linkFile is beside the socket: the address of the page with the token that the daemon has made.
const linkFile = "page"

// listenTCP opens the port of the configuration; nil without one. What it has written down goes
// with forget.
func listenTCP(c *config.Config, access api.Access, host string) (remote *overTCP, forget func(), err error) {
	forget = func() {}
	address, err := c.API.Address()
	if address == "" || err != nil { // which Validate has told
		return nil, forget, err
	}
	remote = &overTCP{may: api.Remote{Page: web.Files, Names: []string{host}, Houses: access.Houses,
		Refused: access.Refused}}
	if c.API.Token != "" {
		if remote.may.Token, err = readToken(c.API.Token); err != nil {
			return nil, forget, cli.Usage(fmt.Errorf("api.token: %w", err))
		}
	}
	if c.API.Cert != "" {
		if remote.may.TLS, err = tlsOf(&c.API); err != nil {
			return nil, forget, cli.Usage(err)
		}
		remote.may.Names = append(remote.may.Names, remote.may.TLS.Certificates[0].Leaf.DNSNames...)
	}
	if remote.l, err = net.Listen("tcp", address); err != nil {
		if errors.Is(err, syscall.EAFNOSUPPORT) {
			err = fmt.Errorf("%w: the service may not use the network; docs/page.md has the drop-in that lets it", err)
		}
		return nil, forget, cli.Forbidden(fmt.Errorf("api.listen: %w", err))
	}
	link := "http://"
	if remote.may.TLS != nil {
		link = "https://"
	}
	link += remote.l.Addr().String() + "/"
	file := filepath.Join(filepath.Dir(c.Socket), linkFile)
	if c.NeedsToken() {
		remote.may.Token = rand.Text()
		if err := writeLink(file, link+"#"+remote.may.Token, access.Group); err != nil {
			remote.l.Close()
			return nil, forget, cli.Forbidden(err)
		}
		forget = func() { os.Remove(file) }
	}
	if term.IsTerminal(int(os.Stderr.Fd())) { // who has started it there may look
		fmt.Fprintf(os.Stderr, "the page: %s\n", strings.TrimSuffix(link+"#"+remote.may.Token, "#"))
	}
	switch at, _ := remote.l.Addr().(*net.TCPAddr); {
	case c.NeedsToken():
		slog.Info("the page", "url", link, "token", "in "+file)
	case at != nil && !at.IP.IsLoopback() && remote.may.TLS == nil:
		slog.Warn("the page is served without TLS: whoever sees the traffic sees the token", "url", link)
	default:
		slog.Info("the page", "url", link)
	}
	return remote, forget, nil
}

// writeLink writes a file that root and the members of a group may read; -1 is none.
func writeLink(file, link string, group int) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if group >= 0 {
		if err := errors.Join(f.Chown(-1, group), f.Chmod(0o640)); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(f, link)
	return err
}

// leastToken is what cannot be guessed at the rate at which requests are answered.
const leastToken = 16

// readToken reads a token that nobody but root, or whoever runs this, can have chosen or can
// read, but for the file's group.
func readToken(file string) (string, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	there, err := f.Stat()
	if err != nil {
		return "", err
	}
	owner := int(there.Sys().(*syscall.Stat_t).Uid)
	switch {
	case !there.Mode().IsRegular():
		return "", fmt.Errorf("%s: no ordinary file", file)
	case owner != 0 && owner != os.Geteuid():
		return "", fmt.Errorf("%s: user %d owns it; want root: chown root %[1]s", file, owner)
	case there.Mode().Perm()&0o027 != 0:
		return "", fmt.Errorf("%s: mode %#o lets others read or change it; want 0600 or 0640: chmod 0600 %[1]s", file,
			there.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	token := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", err
	case len(token) < leastToken:
		return "", fmt.Errorf("%s: %d characters; want at least %d: openssl rand -hex 16 >%[1]s", file, len(token),
			leastToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("%s: want letters and digits in one line", file)
	}
	return token, nil
}

// tlsOf is what the configuration says of certificates.
func tlsOf(a *config.API) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(a.Cert, a.Key)
	if err != nil {
		return nil, fmt.Errorf("api.cert, api.key: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if a.ClientCA == "" {
		return c, nil
	}
	text, err := os.ReadFile(a.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("api.client_ca: %w", err)
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("api.client_ca: %s: no certificate in it; want PEM", a.ClientCA)
	}
	return c, nil
}
