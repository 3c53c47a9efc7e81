//go:build linux

package lab

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

// T is a running test. Its methods end the test by a panic that RunTest catches,
// so helpers need not hand errors up.
type T struct {
	name     string
	Shape    suite.Shape
	wire     *os.File
	text     string
	Cleanups []func()
	autopsy  []func() // run when the test fails, to tell more about it
	deadline time.Time
}

// Tests are tests by the name that package suite has for them.
type Tests map[string]func(*T)

type verdict struct {
	outcome suite.Outcome
	text    string
}

// Fatalf ends the test as failed.
func (t *T) Fatalf(format string, a ...any) {
	panic(verdict{suite.Fail, fmt.Sprintf(format, a...)})
}

// Skipf ends the test as skipped: the machine lacks what it needs.
func (t *T) Skipf(format string, a ...any) {
	panic(verdict{suite.Skip, fmt.Sprintf(format, a...)})
}

// Do ends the test as failed unless err is nil.
func (t *T) Do(err error) {
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// Logf shows a line on the host.
func (t *T) Logf(format string, a ...any) {
	t.Record("LOG %s %s", t.name, suite.OneLine(fmt.Sprintf(format, a...)))
}

// Textf sets what stands behind the test's result.
func (t *T) Textf(format string, a ...any) { t.text = fmt.Sprintf(format, a...) }

// Row adds a row to a table that the host prints at the end.
func (t *T) Row(title string, cells ...string) {
	t.Record("TABLE %s|%s", title, strings.Join(cells, "|"))
}

// Record sends a line to the host, in the words of package suite.
func (t *T) Record(format string, a ...any) { fmt.Fprintf(t.wire, format+"\n", a...) }

// Defer runs f when the test ends, last one first.
func (t *T) Defer(f func()) { t.Cleanups = append(t.Cleanups, f) }

// OnFailure runs f when the test has failed, while everything still stands.
func (t *T) OnFailure(f func()) { t.autopsy = append(t.autopsy, f) }

// Until waits for a condition; the last reason it gave for not holding is the
// message of the failure.
func (t *T) Until(limit time.Duration, what string, f func() (ok bool, why string)) {
	t.Poll(limit, 200*time.Millisecond, what, f)
}

// Poll is Until with the time between two looks: those that start a program or
// read much are felt by an emulated guest.
func (t *T) Poll(limit, every time.Duration, what string, f func() (ok bool, why string)) {
	limit *= suite.Slack
	if cap, err := time.ParseDuration(BootParam("patience")); err == nil {
		limit = min(limit, cap)
	}
	// Rather say what is missing than be killed at the limit.
	limit = min(limit, time.Until(t.deadline))
	start := time.Now()
	for {
		ok, why := f()
		if ok {
			return
		}
		if time.Since(start) > limit {
			t.Fatalf("%s: not after %v: %s", what, limit, why)
		}
		time.Sleep(every)
	}
}

// RunTest is the whole of a test process: it runs one of tests, and returns the exit status.
func RunTest(name string, tests Tests) int {
	out := os.NewFile(3, "verdict")
	wire, err := os.OpenFile(wireDevice, os.O_WRONLY, 0)
	if err != nil {
		fmt.Fprintf(out, "FAIL open wire: %v\n", err)
		return 1
	}
	shape, err := suite.ShapeNamed(BootParam("shape"))
	f, known := tests[name]
	if err != nil || !known {
		fmt.Fprintf(out, "FAIL guest does not know test %s in shape %s\n", name, BootParam("shape"))
		return 1
	}
	t := &T{name: name, Shape: shape, wire: wire,
		deadline: time.Now().Add(suite.Slack * testNamed(name).Limit * 9 / 10)}
	v := t.run(f)
	fmt.Fprintf(out, "%s %s\n", v.outcome, suite.OneLine(v.text))
	if v.outcome == suite.Fail {
		return 1
	}
	return 0
}

func (t *T) run(f func(*T)) (v verdict) {
	defer func() {
		for _, c := range slices.Backward(t.Cleanups) {
			c()
		}
	}()
	defer func() {
		if v.outcome == suite.Fail {
			t.Logf("fails: %s", v.text)
			for _, f := range t.autopsy {
				f()
			}
		}
	}()
	defer func() {
		switch r := recover().(type) {
		case nil:
			v = verdict{suite.OK, t.text}
		case verdict:
			v = r
		default:
			v = verdict{suite.Fail, fmt.Sprintf("panic: %v / %s", r, debug.Stack())}
		}
	}()
	f(t)
	return
}
