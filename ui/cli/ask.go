package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/spf13/cobra"
)

// connect returns the running daemon or, when none runs, the local answer: unless it is the daemon of
// a socket that the user names, and no folder to read instead.
func connect(c *cobra.Command, e *Env) (api.Backend, func() error, error) {
	client, err := dial(c, e)
	if err == nil {
		return client, client.Close, nil
	}
	if !errors.Is(err, api.ErrNoDaemon) || c.Flags().Changed("socket") && journalDir(c) == "" {
		return nil, nil, err
	}
	return e.Local(c.Context(), journalDir(c))
}

// journalDir is the folder that --state-dir names; "" leaves it to the configuration.
func journalDir(c *cobra.Command) string {
	if f := c.Flags().Lookup("state-dir"); f != nil && f.Changed {
		return f.Value.String()
	}
	return ""
}

// dial returns the running daemon, if it is one to be trusted.
func dial(c *cobra.Command, e *Env) (*api.Client, error) {
	socket := e.DefaultSocket
	if f := c.Flags().Lookup("socket"); f != nil {
		socket = f.Value.String()
	}
	if err := checkSocket(socket); err != nil {
		return nil, err
	}
	client, err := api.Dial(socket)
	if err == nil {
		client.Waiting = func() func() { return waiting(e, "waiting for the daemon to answer") }
		// A folder for all, such as /tmp, may hold a socket of anybody; one that the
		// user names is the user's choice.
		if by, me := client.Owner(), os.Geteuid(); by != 0 && by != me && !c.Flags().Changed("socket") {
			client.Close()
			return nil, forbiddenErrorf("socket %s belongs to user %d, who is neither root nor you; name it with --socket if you trust it", socket, by)
		}
	}
	return client, err
}

// connectJournal is connect for who asks about the journal itself: without a
// daemon it must be there, if the user named its folder, and may be read.
func connectJournal(c *cobra.Command, e *Env) (api.Backend, func() error, error) {
	b, done, err := connect(c, e)
	if _, asked := b.(*api.Client); err != nil || asked {
		return b, done, err
	}
	state, told := c.Flags().Lookup("state-dir"), (*exitError)(nil)
	switch err := e.Journal(journalDir(c)); {
	case errors.As(err, &told):
		done()
		return nil, nil, err
	case errors.Is(err, fs.ErrPermission):
		done()
		return nil, nil, forbiddenErrorf("journal in %s: %w", state.Value, fs.ErrPermission)
	case errors.Is(err, fs.ErrNotExist) && state.Changed:
		done()
		return nil, nil, &exitError{exitNo, fmt.Errorf("no journal in %s", state.Value)}
	}
	return b, done, nil
}

// checkSocket refuses a path that no socket can have.
func checkSocket(path string) error {
	if most := 107; len(path) > most { // sun_path of unix(7), with its NUL
		return usageErrorf("--socket: a path of %d bytes; the kernel takes %d at most", len(path), most)
	}
	return nil
}

// waiting says what a command waits for, if it does for longer than a moment; what it
// returns ends that.
func waiting(e *Env, what string) (done func()) {
	var mu sync.Mutex
	after := e.After
	if after == nil {
		after = func(d time.Duration, do func()) func() bool { return time.AfterFunc(d, do).Stop }
	}
	stop := after(moment, func() {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(e.Stderr, "homenode: %s\n", what)
	})
	return func() {
		stop()
		mu.Lock() // until a note that is being written is whole
		defer mu.Unlock()
	}
}

// moment is how long nobody wonders why nothing happens.
const moment = time.Second

// contextOf is the command's context, never nil.
func contextOf(c *cobra.Command) context.Context {
	if ctx := c.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// socketFlag lets a command ask a daemon that listens elsewhere.
func socketFlag(c *cobra.Command, e *Env) {
	c.Flags().String("socket", e.DefaultSocket, "unix `socket` of the daemon")
}

// stateDirFlag lets a command work on the state folder when no daemon runs.
func stateDirFlag(c *cobra.Command, e *Env) {
	c.Flags().String("state-dir", e.DefaultState, "`folder` of the journal, used when no daemon runs")
	socketFlag(c, e)
}
