package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/homenode/homenode/api"
	"github.com/spf13/cobra"
)

// Exit statuses; scripts rely on them.
const (
	exitNo        = 1 // the answer is no; of probe, doctor and host report: something is off or worse
	exitUsage     = 2 // bad usage or bad input
	exitForbidden = 3 // not permitted or not possible here
	// Of run, as env(1) and nice(1) have them.
	exitNotRun   = 126 // the command was found and cannot be run
	exitNotFound = 127
)

// exitError carries an exit status along with what to print.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }

func (e *exitError) Unwrap() error { return e.err }

// usageErrorf is bad usage or bad input: status 2.
func usageErrorf(format string, a ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, a...)}
}

// forbiddenErrorf is something not permitted or not possible here: status 3.
func forbiddenErrorf(format string, a ...any) error {
	return &exitError{exitForbidden, fmt.Errorf(format, a...)}
}

// Usage marks an error as bad usage or bad input.
func Usage(err error) error { return &exitError{exitUsage, err} }

// Forbidden marks an error as not permitted or not possible here.
func Forbidden(err error) error { return &exitError{exitForbidden, err} }

// errNo makes the exit status 1 and prints nothing more.
var errNo = &exitError{exitNo, errors.New("")}

// misused is the error of a command line that a command does not take.
func misused(c *cobra.Command, why string) error {
	if strings.HasSuffix(why, "?") {
		return usageErrorf("%s See `%s --help`", why, c.CommandPath())
	}
	return usageErrorf("%s; see `%s --help`", why, c.CommandPath())
}

// sayWhat is the answer of a group of commands that is called without one of them.
func sayWhat(c *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return misused(c, "say what: "+anyOf(names))
}

// anyOf is "a, b or c".
func anyOf(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// status maps an error to its exit status and the line to print.
func status(err error) (int, string) {
	var exit *exitError
	var refused *api.Error
	switch {
	case errors.As(err, &exit) && exit.code >= exitNotRun:
		return exit.code, err.Error()
	case errors.Is(err, fs.ErrPermission): // also of a file that the user named
		return exitForbidden, err.Error()
	case errors.As(err, &exit):
		return exit.code, err.Error()
	case errors.As(err, &refused):
		switch refused.Code {
		case api.BadRequest:
			return exitUsage, err.Error()
		case api.NotFound, api.NoRoom:
			return exitNo, err.Error()
		}
		return exitForbidden, err.Error()
	}
	return exitForbidden, err.Error()
}
