package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/tree"
)

// badCall is a command line that no command can do, with what it must say.
type badCall struct {
	status int
	args   []string
	says   string
}

// readBadCalls reads lines STATUS ARGUMENT… => WORDS; an argument with spaces has double quotes.
func readBadCalls(text string) ([]badCall, error) {
	var calls []badCall
	for _, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		call, says, found := strings.Cut(line, " => ")
		if !found {
			return nil, fmt.Errorf("%q: no =>", line)
		}
		words := csv.NewReader(strings.NewReader(call))
		words.Comma = ' '
		fields, err := words.Read()
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		status, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		calls = append(calls, badCall{status, fields[1:], says})
	}
	return calls, nil
}

// Each of 200 bad command lines and files gets one clear line on standard error, nothing on
// standard output, and the exit status that the manual page gives.
func TestBadInput(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/badinput.txtar")
	if err != nil {
		t.Fatal(err)
	}
	calls, err := readBadCalls(string(archive.Comment))
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) < 200 {
		t.Fatalf("%d calls, want 200", len(calls))
	}
	e := badInputEnvironment(t)
	for _, f := range archive.Files {
		if err := os.WriteFile(f.Name, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"binary.yaml": "a\x00b\xff", "deep.yaml": "mode: " + strings.Repeat("[", 20_000)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, call := range calls {
		t.Run(strings.Join(call.args, " "), func(t *testing.T) {
			var out, errs bytes.Buffer
			own := *e
			own.Stdout, own.Stderr = &out, &errs
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of a call that is taken by mistake and goes on
			defer cancel()
			status := tree.Main(ctx, &own, call.args)
			if why := badAnswer(call, status, out.String(), errs.String()); why != "" {
				t.Errorf("homenode %q: %s\nstatus %d\n%s%s", call.args, why, status, out.String(), errs.String())
			}
		})
	}
}

// badAnswer says what is wrong with the answer to a bad call; "" is nothing.
func badAnswer(call badCall, status int, out, errs string) string {
	line, rest, ended := strings.Cut(errs, "\n")
	switch {
	case status != call.status:
		return fmt.Sprintf("want status %d", call.status)
	case out != "":
		return "something is on standard output"
	case !ended || rest != "":
		return "want one line"
	case !strings.HasPrefix(line, "homenode: ") || strings.HasPrefix(line, "homenode: homenode"):
		return "want it to begin with the program's name, once"
	case len(line) > 300:
		return fmt.Sprintf("a line of %d bytes", len(line))
	case !strings.Contains(line, call.says):
		return fmt.Sprintf("want %q in it", call.says)
	}
	private := []string{"strconv.", " yaml: ", " json: ", "%!", "nil pointer", "goroutine", "ParseInt", "unmarshal", "go struct", "0x0"}
	if i := slices.IndexFunc(private, func(s string) bool { return strings.Contains(line, s) }); i >= 0 {
		return fmt.Sprintf("%q is of the program, not of the user", private[i])
	}
	return ""
}

// badInputEnvironment is what commands really have, on a made machine, in a folder of their own.
func badInputEnvironment(t *testing.T) *cli.Env {
	made := madeMachine(t)
	before := machine
	machine = made
	t.Cleanup(func() { machine = before })
	work := t.TempDir()
	t.Chdir(work)
	for name, value := range map[string]string{"HOME": work, "XDG_STATE_HOME": filepath.Join(work, "state"), "XDG_RUNTIME_DIR": work, "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=" + work + "/no-bus"} {
		t.Setenv(name, value)
	}
	e := environment()
	e.Stdin = strings.NewReader("")
	e.Program = "homenode"
	e.DefaultSocket, e.DefaultState = filepath.Join(work, "socket"), filepath.Join(work, "state")
	e.Exec = func(cli.Start, string, []string) error { return errors.New("the command has been started") }
	e.Batch, e.Open, e.Key = nil, nil, nil
	return e
}
