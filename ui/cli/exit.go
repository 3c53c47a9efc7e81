package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
)

// Exit statuses; scripts rely on them.
const (
	ExitNo        = 1 // the answer is no; of probe, doctor and host report: something is off or worse
	ExitUsage     = 2 // bad usage or bad input
	ExitForbidden = 3 // not permitted or not possible here
	// Of run, as env(1) and nice(1) have them.
	ExitNotRun   = 126 // the command was found and cannot be run
	ExitNotFound = 127
)

// Exit carries an exit status along with what to print.
type Exit struct {
	Code int
	err  error
}

func (e *Exit) Error() string { return e.err.Error() }

func (e *Exit) Unwrap() error { return e.err }

// Usagef is bad usage or bad input: status 2.
func Usagef(format string, a ...any) error {
	return &Exit{ExitUsage, fmt.Errorf(format, a...)}
}

// Forbiddenf is something not permitted or not possible here: status 3.
func Forbiddenf(format string, a ...any) error {
	return &Exit{ExitForbidden, fmt.Errorf(format, a...)}
}

// Usage marks an error as bad usage or bad input.
func Usage(err error) error { return &Exit{ExitUsage, err} }

// Forbidden marks an error as not permitted or not possible here.
func Forbidden(err error) error { return &Exit{ExitForbidden, err} }

// Nof is the answer no, with the reason: status 1.
func Nof(format string, a ...any) error { return No(fmt.Errorf(format, a...)) }

// No marks an error as the answer no.
func No(err error) error { return WithStatus(ExitNo, err) }

// WithStatus gives an error the exit status of the command.
func WithStatus(code int, err error) error { return &Exit{code, err} }

// ExitWith ends a command with a status, and prints nothing more.
func ExitWith(code int) error { return WithStatus(code, errors.New("")) }

// ErrNo makes the exit status 1 and prints nothing more.
var ErrNo = &Exit{ExitNo, errors.New("")}

// Misused is the error of a command line that a command does not take.
func Misused(c *cobra.Command, why string) error {
	if strings.HasSuffix(why, "?") {
		return Usagef("%s See `%s --help`", why, c.CommandPath())
	}
	return Usagef("%s; see `%s --help`", why, c.CommandPath())
}

// SayWhat is the answer of a group of commands that is called without one of them.
func SayWhat(c *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return Misused(c, "say what: "+anyOf(names))
}

// anyOf is "a, b or c".
func anyOf(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// ExitStatus maps an error to its exit status and the line to print.
func ExitStatus(err error) (int, string) {
	var exit *Exit
	var refused *api.Error
	switch {
	case errors.As(err, &exit) && exit.Code >= ExitNotRun:
		return exit.Code, err.Error()
	case errors.Is(err, fs.ErrPermission): // also of a file that the user named
		return ExitForbidden, err.Error()
	case errors.As(err, &exit):
		return exit.Code, err.Error()
	case errors.As(err, &refused):
		switch refused.Code {
		case api.BadRequest:
			return ExitUsage, err.Error()
		case api.NotFound, api.NoRoom:
			return ExitNo, err.Error()
		}
		return ExitForbidden, err.Error()
	}
	return ExitForbidden, err.Error()
}
