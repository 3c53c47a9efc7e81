//go:build linux

package main

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
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	containerdLog    = "/var/log/containerd.log"
	containerdGroup  = group(cgroupRoot + "/system.slice/containerd.service")
)

// message is one of the Container Runtime Interface, as JSON.
type message = map[string]any

// cri calls containerd as the kubelet does, by command cri, which is built apart from
// these tests for the sake of the libraries it needs.
type cri struct {
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

func (t *T) cri() *cri {
	c := exec.Command("/e2e/cri", containerdSocket)
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
	r := &cri{in: in, waiting: map[int]chan criAnswer{}}
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
func (c *cri) call(method string, request message, response any) (time.Duration, error) {
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

// containerd finds its process.
func containerd() int {
	for pid := range strings.FieldsSeq(readText(containerdGroup.file("cgroup.procs"))) {
		if readText("/proc/"+pid+"/comm") == "containerd" {
			var n int
			fmt.Sscan(pid, &n)
			return n
		}
	}
	return 0
}

// restartContainerd ends containerd and starts it again; its containers run on.
func (t *T) restartContainerd() {
	old := containerd()
	if old == 0 {
		t.Fatalf("containerd does not run")
	}
	t.Do(syscall.Kill(old, syscall.SIGTERM))
	t.Until(60*time.Second, "containerd ends", func() (bool, string) { return containerd() == 0, "it runs" })
	log, err := os.OpenFile(containerdLog, os.O_WRONLY|os.O_APPEND, 0)
	t.Do(err)
	defer log.Close()
	in, err := os.Open(string(containerdGroup))
	t.Do(err)
	defer in.Close()
	// A child of PID 1 once this test has ended.
	c := exec.Command("containerd")
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(in.Fd())}
	t.Do(c.Start())
	go c.Wait()
}
