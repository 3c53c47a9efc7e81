package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	if slices.Contains([]string{"numactl", "taskset", "migratepages", "numastat", "numad"}, filepath.Base(os.Args[0])) { // a link that a script made
		asProgram()
		return
	}
	if filepath.Base(os.Args[0]) != "homenode" { // the tests, not a program of theirs
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // under nohup daemons would inherit that it is ignored
	}
	testscript.Main(m, map[string]func(){"homenode": asProgram})
}

// asProgram is the program, for scripts.
func asProgram() {
	if program := os.Getenv(plainProgram); program != "" && !slices.Contains(os.Args, "daemon") {
		err := syscall.Exec(program, os.Args, os.Environ())
		panic(fmt.Sprintf("run %s: %v", program, err))
	}
	if made := os.Getenv("MACHINE"); made != "" {
		machine = made
	}
	main()
}

// plainProgram names the variable with the program built without the race detector.
// Under the detector only daemons run in this one: commands have one goroutine, and
// start ten times as fast.
const plainProgram = "HOMENODE_PLAIN"

// buildPlain builds that program into a folder that other users reach; "" where this
// program is a plain one itself.
func buildPlain(t *testing.T, machine string) string {
	if info, ok := debug.ReadBuildInfo(); !ok || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return ""
	}
	dir, err := os.MkdirTemp("", "homenode-plain")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "homenode")
	c := exec.Command("go", "build", "-ldflags", "-X main.machine="+machine, "-o", program)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build homenode without the race detector: %v: %s", err, out)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

// TestScripts runs testdata/script/*.txtar: each is a session at a shell, with
// the state and the socket of a user who has none yet. UPDATE=1 renews golden
// output.
func TestScripts(t *testing.T) {
	made := madeMachine(t)
	plain := buildPlain(t, made)
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE") != "",
		RequireExplicitExec: true,
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "cpus":
				return runtime.NumCPU() > 1, nil
			case "root":
				return os.Geteuid() == 0, nil
			case "nobody": // can drop to an unprivileged user
				_, err := exec.LookPath("setpriv")
				return os.Geteuid() == 0 && err == nil, nil
			}
			return false, nil
		},
		Setup: func(e *testscript.Env) error {
			open, err := openFolder()
			if err != nil {
				return err
			}
			e.Defer(func() { os.RemoveAll(open) })
			if e.Values["json"], err = readJSONPage(); err != nil {
				return err
			}
			for k, v := range map[string]string{
				"MACHINE": made, "MADE": made, "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=" + e.WorkDir + "/no-bus",
				"HOME": e.WorkDir, "XDG_STATE_HOME": e.WorkDir + "/state", "XDG_RUNTIME_DIR": e.WorkDir + "/run",
				"SOCK": open + "/sock", "STATE": e.WorkDir + "/st", "HOMENODE": open + "/homenode", plainProgram: plain, "SOURCE": source,
			} {
				e.Setenv(k, v)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"answer":     answer,
			"documented": documented,
		},
	})
}

// madeMachine is a folder with the machine that commands see, which other users reach
// too.
func madeMachine(t *testing.T) string {
	dir, err := os.MkdirTemp("", "homenode-machine")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), writeMachine(dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// openFolder is a folder that other users reach too, with the program in it:
// those of the testing package are private.
func openFolder() (string, error) {
	dir, err := os.MkdirTemp("", "homenode-open")
	if err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "homenode"), program, 0o755); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// exits STATUS COMMAND… runs a command and wants this very exit status, or with 0|1 one of these. What homenode prints
// with --json is compared with docs/json.md.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = "?"
		if exit, ok := err.(*exec.ExitError); ok {
			got = strconv.Itoa(exit.ExitCode())
		}
	}
	if !slices.Contains(strings.Split(args[0], "|"), got) {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
	if args[1] == "homenode" && slices.Contains(args, "--json") && (got == "0" || got == "1") {
		checkJSON(ts, args[2:])
	}
}

// answer waits until a daemon listens on the socket and has looked, and lists the
// workload named third.
func answer(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	for ctx.Err() == nil {
		if ts.Exec("homenode", "status", "--json", "--socket", args[0], "--state-dir", "/nonexistent") == nil &&
			contains(ts.ReadFile("stdout"), `"mode": "`+args[1]+`"`) &&
			(len(args) < 3 || contains(ts.ReadFile("stdout"), `"name": "`+args[2]+`"`)) {
			return
		}
		pause()
	}
	ts.Fatalf("no daemon as asked: %q", args)
}
