package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// connectWithin is how long the daemon's queue of connections may be full.
const connectWithin = 5 * time.Second

// Client is a Backend that asks the daemon.
type Client struct {
	// Waiting is called when a request begins, and what it returns when that is over; nil is
	// not called. Who asks to undo says so itself.
	Waiting func() (done func())

	http  *http.Client
	base  string // of all addresses
	owner int
	first firstConn
}

// firstConn is the connection that Dial found the daemon with, for the first request.
type firstConn struct {
	mu   sync.Mutex
	conn net.Conn // nil once taken
	at   time.Time
}

// keepFirst is for how long it is good: the daemon lets go of one that nobody asks on.
const keepFirst = time.Second

func (f *firstConn) take() net.Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.conn
	if f.conn = nil; c != nil && time.Since(f.at) > keepFirst {
		c.Close()
		return nil
	}
	return c
}

// Dial returns a client of the daemon on the socket, or an error that wraps
// ErrNoDaemon when nothing listens there, or fs.ErrPermission when the caller
// may not connect.
func Dial(socket string) (*Client, error) {
	if there, err := os.Stat(socket); err == nil && there.Mode().Type() != fs.ModeSocket {
		return nil, &Error{BadRequest, socket + ": this is no socket"}
	}
	c, err := net.DialTimeout("unix", socket, connectWithin)
	switch {
	case os.IsTimeout(err), errors.Is(err, syscall.EAGAIN):
		return nil, fmt.Errorf("%w on %s: it takes no connections, is stuck, or this machine is very busy", ErrLate,
			socket)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w on %s; start one with `homenode daemon`", ErrNoDaemon, socket)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("socket %s: %w; only root and the socket's group may talk to this daemon", socket,
			fs.ErrPermission)
	case err != nil:
		return nil, err
	}
	client := &Client{base: "http://homenode", owner: -1, first: firstConn{conn: c, at: time.Now()}}
	if p, err := peerOf(c); err == nil {
		client.owner = p.uid
	}
	client.http = &http.Client{
		Transport: &http.Transport{DisableCompression: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				if c := client.first.take(); c != nil {
					return c, nil
				}
				var d net.Dialer
				c, err := d.DialContext(ctx, "unix", socket)
				if err != nil {
					return nil, err
				}
				if p, err := peerOf(c); err == nil && p.uid != client.owner {
					c.Close()
					return nil, fmt.Errorf("the socket was user %d's and is now user %d's", client.owner, p.uid)
				}
				return c, nil
			}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client, nil
}

// Owner is the user that the daemon runs as, -1 when the kernel does not say.
// Whoever may write into the folder of a socket can put one of their own there.
func (c *Client) Owner() int { return c.owner }

// How long a daemon may take for an answer before it counts as stuck: what was seen
// and decided last is there at once, a change waits for what goes on; steps move the
// memory of a guest, and undo puts everything back, before they are answered.
var (
	lookWithin   = 10 * time.Second
	changeWithin = time.Minute
	undoWithin   = 30 * time.Minute
)

// maxAnswer bounds what is read of an answer: 10,000 workloads take some 20 MiB. A program
// that is no daemon may send without end.
var maxAnswer int64 = 128 << 20

// MaxObjects bounds the objects of an answer: of three bytes each they would take a hundred times
// as much memory as the answer. 10,000 workloads are some 100,000.
const MaxObjects = 1 << 20

// fewObjects reads JSON of at most so many objects more.
type fewObjects struct {
	io.Reader
	left int
}

var errObjects = errors.New("more objects in it than any homenode daemon would send")

func (f *fewObjects) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if f.left -= bytes.Count(p[:n], []byte("{")); f.left < 0 {
		return 0, errObjects
	}
	return n, err
}

// Close lets go of idle connections.
func (c *Client) Close() error {
	if first := c.first.take(); first != nil {
		first.Close()
	}
	c.http.CloseIdleConnections()
	return nil
}

// Status asks for the whole picture.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.do(ctx, "GET", "/v1/status", nil, &s)
}

// Small asks for what is too small to be placed.
func (c *Client) Small(ctx context.Context) (s Small, err error) {
	return s, c.do(ctx, "GET", "/v1/small", nil, &s)
}

// Room asks what is left on each node.
func (c *Client) Room(ctx context.Context, without string) (r Room, err error) {
	return r, c.do(ctx, "GET", "/v1/room?without="+url.QueryEscape(without), nil, &r)
}

// Explain asks why a workload is where it is.
func (c *Client) Explain(ctx context.Context, id workload.ID) (x Explanation, err error) {
	return x, c.do(ctx, "GET", "/v1/explain?id="+url.QueryEscape(string(id)), nil, &x)
}

// History asks for the newest events.
func (c *Client) History(ctx context.Context, q HistoryQuery) (h History, err error) {
	return h, c.do(ctx, "GET", "/v1/history?"+historyValues(&q).Encode(), nil, &h)
}

// Undo asks to restore what was changed.
func (c *Client) Undo(ctx context.Context, which Which) (u UndoResult, err error) {
	return u, c.do(ctx, "POST", "/v1/undo", which, &u)
}

// Resume asks to manage again what was undone.
func (c *Client) Resume(ctx context.Context, which Which) (r Resumed, err error) {
	return r, c.do(ctx, "POST", "/v1/resume", which, &r)
}

// Place asks for a home.
func (c *Client) Place(ctx context.Context, want Want) (h Home, err error) {
	return h, c.do(ctx, "POST", "/v1/place", want, &h)
}

// Partition asks to move the partition between dedicated and shared work.
func (c *Client) Partition(ctx context.Context, want Partition) (now Partition, err error) {
	return now, c.do(ctx, "POST", "/v1/partition", want, &now)
}

// Share asks to turn sharing on or off.
func (c *Client) Share(ctx context.Context, order ShareOrder) (now Sharing, err error) {
	return now, c.do(ctx, "POST", "/v1/share", order, &now)
}

// UpgradeScheduler asks for another version of the kernel's scheduler for batch work.
func (c *Client) UpgradeScheduler(ctx context.Context, order UpgradeOrder) (done Upgraded, err error) {
	return done, c.do(ctx, "POST", "/v1/share/upgrade", order, &done)
}

// Move orders a change of home, or cancels a page move.
func (c *Client) Move(ctx context.Context, order MoveOrder) (a MoveAnswer, err error) {
	return a, c.do(ctx, "POST", "/v1/move", order, &a)
}

// Change asks to carry out steps.
func (c *Client) Change(ctx context.Context, change Change) ([]error, error) {
	var answer Changed
	if err := c.do(ctx, "POST", "/v1/change", change, &answer); err != nil {
		return nil, err
	}
	if len(answer.Errors) != len(change.Steps) {
		return nil, fmt.Errorf("the daemon answers for %d of %d steps", len(answer.Errors), len(change.Steps))
	}
	errs := make([]error, len(answer.Errors))
	for i, e := range answer.Errors {
		if e != nil {
			errs[i] = e
		}
	}
	return errs, nil
}

// Metrics asks for the figures for Prometheus, in its text format.
func (c *Client) Metrics(ctx context.Context) (text []byte, err error) {
	err = c.ask(ctx, "GET", "/metrics", nil, func(body io.Reader) (err error) {
		text, err = io.ReadAll(body)
		return err
	})
	return text, err
}

// do asks with in as JSON, and takes the answer in JSON into out.
func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	return c.ask(ctx, method, path, in, func(body io.Reader) error {
		return json.NewDecoder(&fewObjects{body, MaxObjects}).Decode(out)
	})
}

// ask sends a request, and has its answer read, of at most maxAnswer bytes.
func (c *Client) ask(ctx context.Context, method, path string, in any, read func(io.Reader) error) error {
	within := lookWithin
	switch {
	case path == "/v1/undo", path == "/v1/change", path == "/v1/share/upgrade":
		within = undoWithin
	case method != "GET":
		within = changeWithin
	}
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if c.Waiting != nil && path != "/v1/undo" {
		defer c.Waiting()()
	}
	failed := func(err error) error {
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return ErrLate
		case ctx.Err() != nil && method != "GET":
			return errors.New("interrupted; what the daemon had begun goes on")
		case ctx.Err() != nil:
			return errors.New("interrupted")
		case bounded.Err() == nil:
			return asking(err)
		case method == "GET":
			return fmt.Errorf("the daemon has not answered within %s: it is stuck, or this machine is very busy",
				words.Duration(within))
		}
		return fmt.Errorf("the daemon has not answered within %s; what was asked may still be done",
			words.Duration(within))
	}
	var asked bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&asked).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(bounded, method, c.base+path, &asked)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return failed(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	body := &io.LimitedReader{R: resp.Body, N: maxAnswer + 1}
	switch err := read(body); {
	case body.N == 0:
		return fmt.Errorf("ask the daemon: its answer is longer than %d MiB; what listens there is no homenode daemon",
			maxAnswer>>20)
	case err != nil:
		return failed(fmt.Errorf("its answer: %w", err))
	}
	return nil
}

// asking is why a daemon gave no answer.
func asking(err error) error {
	if url := new(url.Error); errors.As(err, &url) {
		err = url.Err // without the address, which is made up
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return ErrNoDaemon
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE),
		strings.HasSuffix(err.Error(), "server closed idle connection"): // net/http has no name for this one
		return fmt.Errorf("the daemon closed the connection: it stopped, or you have more than %d open", maxPerUser)
	case strings.Contains(err.Error(), "malformed HTTP"), strings.Contains(err.Error(), "malformed MIME"),
		strings.Contains(err.Error(), "response headers exceeded"):
		return errors.New("ask the daemon: the answer is not HTTP; what listens there is no homenode daemon")
	}
	return fmt.Errorf("ask the daemon: %w", err)
}

// refusal is the reason that came instead of an answer.
func refusal(resp *http.Response) error {
	e := &Error{Code: Failed}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxRequest)).Decode(e); err != nil || e.Text == "" {
		e.Text = "the daemon answers " + resp.Status
		if resp.StatusCode == http.StatusNotFound {
			e.Text = "the daemon does not know this request: it is older than this command"
		}
	}
	return e
}
