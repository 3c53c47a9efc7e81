package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
)

// Connect returns the running daemon or, when none runs, the local answer: unless it is the daemon of
// a socket that the user names, and no folder to read instead.
func Connect(c *cobra.Command, e *Env) (api.Backend, func() error, error) {
	client, err := Dial(c, e)
	if err == nil {
		return client, client.Close, nil
	}
	if !errors.Is(err, api.ErrNoDaemon) || (c.Flags().Changed("socket") && JournalDir(c) == "") {
		return nil, nil, err
	}
	return e.Local(c.Context(), JournalDir(c))
}

// JournalDir is the folder that --state-dir names; "" leaves it to the configuration.
func JournalDir(c *cobra.Command) string {
	if f := c.Flags().Lookup("state-dir"); f != nil && f.Changed {
		return f.Value.String()
	}
	return ""
}

// Dial returns the running daemon, if it is one to be trusted.
func Dial(c *cobra.Command, e *Env) (*api.Client, error) {
	socket := e.DefaultSocket
	if f := c.Flags().Lookup("socket"); f != nil {
		socket = f.Value.String()
	}
	if err := CheckSocket(socket); err != nil {
		return nil, err
	}
	client, err := api.Dial(socket)
	if err == nil {
		client.Waiting = func() func() { return Waiting(e, "waiting for the daemon to answer") }
		// A folder for all, such as /tmp, may hold a socket of anybody; one that the
		// user names is the user's choice.
		if by, me := client.Owner(), os.Geteuid(); by != 0 && by != me && !c.Flags().Changed("socket") {
			client.Close()
			return nil,
				Forbiddenf("socket %s belongs to user %d, who is neither root nor you; name it with --socket if you "+
					"trust it", socket, by)
		}
	}
	return client, err
}

// SocketAnswers fails where the user names a socket on which no daemon runs: what homenode finds without that
// daemon would not be the answer.
func SocketAnswers(c *cobra.Command, e *Env) error {
	if !c.Flags().Changed("socket") {
		return nil
	}
	d, err := Dial(c, e)
	if err != nil {
		return err
	}
	return d.Close()
}

// ConnectJournal is Connect for a command that reads the journal itself. Without a daemon the journal must be
// readable and, if the user named its folder, there.
func ConnectJournal(c *cobra.Command, e *Env) (api.Backend, func() error, error) {
	return connectJournal(c, e, false)
}

// ConnectUndo is ConnectJournal for a command that restores settings: a folder that has no journal is one from
// which nothing was changed, and no error. One that does not exist is, because its name may be mistyped.
func ConnectUndo(c *cobra.Command, e *Env) (api.Backend, func() error, error) {
	return connectJournal(c, e, true)
}

func connectJournal(c *cobra.Command, e *Env, mayBeEmpty bool) (api.Backend, func() error, error) {
	b, done, err := Connect(c, e)
	if _, asked := b.(*api.Client); err != nil || asked {
		return b, done, err
	}
	state, told := c.Flags().Lookup("state-dir"), (*Exit)(nil)
	switch err := e.Journal(JournalDir(c)); {
	case errors.As(err, &told):
		done()
		return nil, nil, err
	case errors.Is(err, fs.ErrPermission):
		done()
		return nil, nil, Forbiddenf("journal in %s: %w", state.Value, fs.ErrPermission)
	case errors.Is(err, fs.ErrNotExist) && state.Changed:
		folder, _ := os.Stat(state.Value.String())
		if mayBeEmpty && folder != nil && folder.IsDir() {
			break
		}
		done()
		const missing = "no journal in %s: name the folder that the daemon writes, state_dir in its configuration " +
			"(%s by default)"
		return nil, nil, Nof(missing, state.Value, e.DefaultState)
	}
	return b, done, nil
}

// CheckSocket refuses a path that no socket can have.
func CheckSocket(path string) error {
	if most := 107; len(path) > most { // sun_path of unix(7), with its NUL
		return Usagef("--socket: a path of %d bytes; the kernel takes %d at most", len(path), most)
	}
	return nil
}

// Waiting says what a command waits for, if it does for longer than a moment; what it
// returns ends that.
func Waiting(e *Env, what string) (done func()) {
	var mu sync.Mutex
	after := e.After
	if after == nil {
		after = func(d time.Duration, do func()) func() bool { return time.AfterFunc(d, do).Stop }
	}
	stop := after(Moment, func() {
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

// Moment is how long nobody wonders why nothing happens.
const Moment = time.Second

// ContextOf is the command's context, never nil.
func ContextOf(c *cobra.Command) context.Context {
	if ctx := c.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// SocketFlag lets a command ask a daemon that listens elsewhere.
func SocketFlag(c *cobra.Command, e *Env) {
	c.Flags().String("socket", e.DefaultSocket, "unix `socket` of the daemon")
}

// StateDirFlag lets a command work on the state folder when no daemon runs.
func StateDirFlag(c *cobra.Command, e *Env) {
	c.Flags().String("state-dir", e.DefaultState, "`folder` of the journal, used when no daemon runs")
	SocketFlag(c, e)
}
