package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// Client is a Backend that asks the daemon.
type Client struct{ http *http.Client }

// Dial returns a client of the daemon on the socket, or an error that wraps
// ErrNoDaemon when nothing listens there, or fs.ErrPermission when the caller
// may not connect.
func Dial(socket string) (*Client, error) {
	c, err := net.DialTimeout("unix", socket, 5*time.Second)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w on %s; start one with `homenode daemon`", ErrNoDaemon, socket)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("socket %s: %w; only root and the socket's group may talk to this daemon", socket, fs.ErrPermission)
	case err != nil:
		return nil, err
	}
	c.Close()
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	return &Client{&http.Client{Transport: t}}, nil
}

// Owner is the user that the daemon runs as, -1 when the kernel does not say.
// Whoever may write into the folder of a socket can put one of their own there.
func Owner(socket string) int {
	c, err := net.DialTimeout("unix", socket, 5*time.Second)
	if err != nil {
		return -1
	}
	defer c.Close()
	p, err := peerOf(c)
	if err != nil {
		return -1
	}
	return p.uid
}

// answerWithin is how long a daemon may take for an answer before it counts as stuck;
// undo puts everything back before it answers.
var answerWithin, undoWithin = time.Minute, 10 * time.Minute

// Close lets go of idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Status asks for the whole picture.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.do(ctx, "GET", "/v1/status", nil, &s)
}

// Explain asks why a workload is where it is.
func (c *Client) Explain(ctx context.Context, id workload.ID) (x Explanation, err error) {
	return x, c.do(ctx, "GET", "/v1/explain?id="+url.QueryEscape(string(id)), nil, &x)
}

// History asks for the newest events.
func (c *Client) History(ctx context.Context, limit int) (h History, err error) {
	return h, c.do(ctx, "GET", "/v1/history?limit="+strconv.Itoa(limit), nil, &h)
}

// Undo asks to put back what was changed.
func (c *Client) Undo(ctx context.Context, which Which) (u UndoResult, err error) {
	return u, c.do(ctx, "POST", "/v1/undo", which, &u)
}

// Resume asks to manage again what was undone.
func (c *Client) Resume(ctx context.Context, which Which) error {
	return c.do(ctx, "POST", "/v1/resume", which, &struct{}{})
}

// Place asks for a home.
func (c *Client) Place(ctx context.Context, want Want) (h Home, err error) {
	return h, c.do(ctx, "POST", "/v1/place", want, &h)
}

// Border asks to move the border between dedicated and shared work.
func (c *Client) Border(ctx context.Context, want Border) (now Border, err error) {
	return now, c.do(ctx, "POST", "/v1/border", want, &now)
}

// Move orders a change of home, or cancels a page move.
func (c *Client) Move(ctx context.Context, order MoveOrder) (a MoveAnswer, err error) {
	return a, c.do(ctx, "POST", "/v1/move", order, &a)
}

func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	within := answerWithin
	if path == "/v1/undo" {
		within = undoWithin
	}
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(bounded, method, "http://homenode"+path, &body)
	if err != nil {
		return err
	}
	failed := func(what string, err error) error {
		if url := new(url.Error); errors.As(err, &url) {
			err = url.Err // without the address, which is made up
		}
		if bounded.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("the daemon has not answered within %v; what was asked may still be done", within)
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return failed("ask the daemon", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		refusal := &Error{Code: Failed, Text: resp.Status}
		json.NewDecoder(resp.Body).Decode(refusal)
		return refusal
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return failed("read the daemon's answer", err)
	}
	return nil
}
