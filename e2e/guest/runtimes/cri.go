//go:build linux

package runtimes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// runtimeLog is what the container runtime has said.
const runtimeLog = "/var/log/container-runtime.log"

// containerRuntime is the program of this guest's disk that runs containers, and the prefix of
// its containers' cgroups.
var containerRuntime = sync.OnceValues(func() (program, prefix string) {
	if _, err := os.Stat("/usr/bin/crio"); err == nil {
		return "crio", "crio-"
	}
	return "containerd", ""
})

func runtimeGroup() lab.Group {
	program, _ := containerRuntime()
	return lab.Group(lab.CgroupRoot + "/system.slice/" + program + ".service")
}

// message is one of the Container Runtime Interface, as JSON.
type message = map[string]any

// CRI calls the container runtime as the kubelet does, by command cri, which is built apart from
// these tests for the sake of the libraries it needs.
type CRI struct {
	mu      sync.Mutex
	in      io.Writer
	last    int
	waiting map[int]chan criAnswer
}

type criAnswer struct {
	ID       int             `json:"id"`
	MS       int             `json:"ms"`
	Response json.RawMessage `json:"response"`
	Error    string          `json:"error"`
}

// ConnectCRI connects to the container runtime of the guest's disk, and removes the state of earlier daemons.
func ConnectCRI(t *lab.T) *CRI {
	os.RemoveAll(lab.StateFolder) // the guest with a disk is not tidied: what a test has undone would stay held
	program, _ := containerRuntime()
	c := exec.Command("/e2e/cri", "/run/"+program+"/"+program+".sock")
	in, err := c.StdinPipe()
	t.Do(err)
	out, err := c.StdoutPipe()
	t.Do(err)
	c.Stderr = os.Stdout
	t.Do(c.Start())
	t.Defer(func() {
		c.Process.Kill()
		c.Wait()
	})
	r := &CRI{in: in, waiting: map[int]chan criAnswer{}}
	go func() {
		for answers := json.NewDecoder(out); ; {
			var a criAnswer
			if answers.Decode(&a) != nil {
				return
			}
			r.mu.Lock()
			r.waiting[a.ID] <- a
			delete(r.waiting, a.ID)
			r.mu.Unlock()
		}
	}()
	return r
}

// call waits for the answer, which is read into response unless that is nil, and returns
// how long the runtime took.
func (c *CRI) call(method string, request message, response any) (time.Duration, error) {
	answer := make(chan criAnswer, 1)
	c.mu.Lock()
	c.last++
	c.waiting[c.last] = answer
	line, err := json.Marshal(message{"id": c.last, "method": method, "request": request})
	if err == nil {
		_, err = c.in.Write(append(line, '\n'))
	}
	c.mu.Unlock()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", method, err)
	}
	select {
	case a := <-answer:
		took := time.Duration(a.MS) * time.Millisecond
		if a.Error != "" {
			return took, errors.New(a.Error)
		}
		if response == nil {
			return took, nil
		}
		return took, json.Unmarshal(a.Response, response)
	case <-time.After(vmLimit):
		return vmLimit, fmt.Errorf("%s: no answer after %v", method, vmLimit)
	}
}

// runtimePID finds the process of the container runtime.
func runtimePID() int {
	program, _ := containerRuntime()
	for pid := range strings.FieldsSeq(lab.ReadText(runtimeGroup().File("cgroup.procs"))) {
		if lab.ReadText("/proc/"+pid+"/comm") == program {
			var n int
			fmt.Sscan(pid, &n)
			return n
		}
	}
	return 0
}

// restartRuntime ends the container runtime and starts it again; its containers run on.
func restartRuntime(t *lab.T) {
	old := runtimePID()
	if old == 0 {
		t.Fatalf("the container runtime does not run")
	}
	t.Do(syscall.Kill(old, syscall.SIGTERM))
	t.Until(60*time.Second, "the container runtime ends", func() (bool, string) { return runtimePID() == 0, "it runs" })
	log, err := os.OpenFile(runtimeLog, os.O_WRONLY|os.O_APPEND, 0)
	t.Do(err)
	defer log.Close()
	in, err := os.Open(string(runtimeGroup()))
	t.Do(err)
	defer in.Close()
	// A child of PID 1 once this test has ended.
	program, _ := containerRuntime()
	c := exec.Command(program)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(in.Fd())}
	t.Do(c.Start())
	go c.Wait()
}
