//go:build linux

package lab

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

const wireDevice = "/dev/ttyS1"

// PID1 never returns: a PID 1 that ends is a kernel panic.
func PID1() {
	// Ctrl-Alt-Del and stray signals must not end PID 1. They are caught and not ignored: what is ignored, programs
	// that it starts ignore, too, and homenode then reloads nothing at a SIGHUP.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	if err := setUp(); err != nil {
		fmt.Println("guest: set up:", err)
	}
	wire, err := os.OpenFile(wireDevice, os.O_WRONLY, 0)
	if err != nil {
		fmt.Println("guest: open wire:", err)
		powerOff()
	}
	fmt.Fprintf(wire, "UP %s\n", strings.Fields(ReadText("/proc/uptime"))[0])
	console, err := os.OpenFile("/dev/console", os.O_WRONLY, 0)
	if err != nil {
		fmt.Println("guest: open console:", err)
		powerOff()
	}
	go func() {
		for ; ; time.Sleep(suite.Beat) {
			fmt.Fprintln(console, suite.BeatLine)
		}
	}()
	for _, name := range strings.Split(BootParam("tests"), ",") {
		t := testNamed(name)
		fmt.Fprintf(wire, "START %s\n", name)
		fmt.Fprintf(wire, "%s\n", supervise(name, suite.Slack*t.Limit))
		if err := tidy(); err != nil {
			fmt.Fprintf(wire, "LOG %s tidy: %s\n", name, suite.OneLine(err.Error()))
		}
	}
	fmt.Fprintln(wire, "END")
	powerOff()
}

func testNamed(name string) suite.Test {
	for _, t := range suite.Tests {
		if t.Name == name {
			return t
		}
	}
	return suite.Test{Name: name, Limit: 10 * time.Second} // RunTest will say that it is unknown
}

// supervise runs one test as a child and reads its verdict from a pipe. A test
// without a verdict (crashed, killed at its limit) has failed; the console has where
// it was at its limit.
func supervise(name string, limit time.Duration) suite.Result {
	start := time.Now()
	res := suite.Result{Name: name, Outcome: suite.Fail}
	verdict, pid, err := spawn(Self, "test", name)
	if err != nil {
		res.Text = err.Error()
		return res
	}
	late := time.AfterFunc(limit, func() {
		syscall.Kill(pid, syscall.SIGQUIT) // Go's runtime prints all stacks
		time.Sleep(10 * time.Second)
		syscall.Kill(pid, syscall.SIGKILL)
	})
	status := reap(pid)
	inTime := late.Stop()
	res.Took = time.Since(start)

	// The pipe's other end may live on in a child of the test; take what is there.
	text := make([]byte, 4096)
	syscall.SetNonblock(verdict, true)
	n, _ := syscall.Read(verdict, text)
	syscall.Close(verdict)
	if onDisk() {
		syscall.Kill(-pid, syscall.SIGKILL) // what is left of it; libvirt's guests are not
	}
	outcome, words, _ := strings.Cut(string(bytes.TrimSpace(text[:max(n, 0)])), " ")
	switch {
	case !inTime:
		res.Text = fmt.Sprintf("not done after %v", limit)
	case outcome == "":
		res.Text = fmt.Sprintf("died without a verdict: %s", describe(status))
	default:
		res.Outcome, res.Text = suite.Outcome(outcome), words
	}
	return res
}

// spawn starts a child with the write end of a pipe as descriptor 3.
func spawn(argv ...string) (read, pid int, err error) {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		return 0, 0, fmt.Errorf("make pipe: %w", err)
	}
	defer syscall.Close(p[1])
	pid, err = syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Env:   append(os.Environ(), "PATH=/usr/sbin:/usr/bin:/bin", "HOME=/", "GOTRACEBACK=all"),
		Files: []uintptr{0, 1, 2, uintptr(p[1])},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		syscall.Close(p[0])
		return 0, 0, fmt.Errorf("start %s: %w", argv[0], err)
	}
	return p[0], pid, nil
}

// reap collects children, orphans of the tests among them, until pid ends.
func reap(pid int) syscall.WaitStatus {
	for {
		var ws syscall.WaitStatus
		got, err := syscall.Wait4(-1, &ws, 0, nil)
		if got == pid || err == syscall.ECHILD {
			return ws
		}
	}
}

func describe(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return ws.Signal().String()
	}
	return fmt.Sprintf("exit status %d", ws.ExitStatus())
}

// tidy leaves the machine as a fresh boot would.
func tidy() error {
	if onDisk() { // what runs there is for the next test, too
		return nil
	}
	syscall.Kill(-1, syscall.SIGKILL)
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); err == syscall.ECHILD {
			break
		}
	}
	var problems []string
	for _, dir := range Subtree(CgroupRoot) {
		if err := syscall.Rmdir(dir); err != nil {
			problems = append(problems, fmt.Sprintf("remove %s: %v", dir, err))
		}
	}
	cpus, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/online")
	for _, f := range cpus {
		if ReadText(f) == "0" {
			os.WriteFile(f, []byte("1"), 0)
		}
	}
	pools, _ := filepath.Glob("/sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages")
	for _, f := range pools {
		os.WriteFile(f, []byte("0"), 0)
	}
	os.RemoveAll(WorkFolder)
	if err := os.MkdirAll(WorkFolder, 0o755); err != nil {
		problems = append(problems, err.Error())
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s", strings.Join(problems, "; "))
	}
	return setSwitches()
}

func powerOff() {
	syscall.Sync()
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}
