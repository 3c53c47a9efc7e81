package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
)

// patience is how long a command that starts waits for a daemon.
const patience = time.Second

// homeFor asks the daemon. Where none runs, or it may not be asked, or it does not answer in
// time, a command still gets a home, from one look of its own, but for strict. What is
// refused for want of room is an *api.Error with the code api.NoRoom.
func homeFor(c *cobra.Command, e *cli.Env, want api.Want, strict bool) (api.Home, error) {
	unlock, unlocked := func() {}, error(cli.ErrNo)
	if e.Keep != nil && want.Class == workload.Dedicated && want.Process.PID > 0 {
		// Until its CPUs are written down nobody may look which are free without the daemon.
		unlock, unlocked = e.LockRuns(true)
	}
	home, silent, err := askDaemon(c, e, want)
	if silent == nil && err == nil && home.Ledger && e.Keep != nil {
		if unlocked != nil {
			unlock, unlocked = e.LockRuns(false)
		}
		if home.Unkept = unlocked; unlocked == nil {
			home.Unkept = e.Keep(want, home)
		}
	}
	unlock()
	switch {
	case silent == nil:
		return home, err
	case strict:
		return api.Home{}, cli.Forbiddenf("--strict: %w", silent)
	}
	b, done, err := e.Local(cli.ContextOf(c), "")
	if err != nil {
		return api.Home{}, err
	}
	defer done()
	if home, err = b.Place(cli.ContextOf(c), want); err == nil && !errors.Is(silent, api.ErrNoDaemon) &&
		!errors.Is(silent, fs.ErrPermission) {
		home.Unasked = silent.Error()
	}
	return home, err
}

// askDaemon asks the daemon for a home. silent is why it gave no answer that counts: the
// command need not wait for what it will say. A booking that it makes after all is of this
// process and ends with it.
func askDaemon(c *cobra.Command, e *cli.Env, want api.Want) (home api.Home, silent, err error) {
	client, err := cli.Dial(c, e)
	switch {
	case errors.Is(err, api.ErrNoDaemon), errors.Is(err, fs.ErrPermission), errors.Is(err, api.ErrLate):
		return home, err, err
	case err != nil:
		return home, nil, err
	}
	defer client.Close()
	client.Waiting = nil
	ctx, cancel := context.WithTimeout(cli.ContextOf(c), patience)
	defer cancel()
	home, err = client.Place(ctx, want)
	if cli.ContextOf(c).Err() != nil {
		return home, nil, err
	}
	if refused := (*api.Error)(nil); errors.As(err, &refused) {
		switch refused.Code {
		case api.BadRequest, api.NoRoom:
			return home, nil, err
		case api.Forbidden:
			err = fmt.Errorf("%w: %w", fs.ErrPermission, err)
		}
	}
	if errors.Is(err, api.ErrLate) {
		err = errors.New("the daemon has not answered within a second")
	}
	return home, err, err
}
