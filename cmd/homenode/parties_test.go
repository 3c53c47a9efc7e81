package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// as runs f in a thread of a user, whom the kernel tells others of.
func as(uid int, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without Unlock: the thread ends
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno == 0 {
			f()
		}
	}()
	<-done
}

// freePort returns a port of this machine that nothing listens at.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// dialAs connects to a port of this machine as a user.
func dialAs(uid, port int) (c net.Conn, err error) {
	fd := -1
	as(uid, func() {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
			err = unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
		}
	})
	if fd < 0 {
		return nil, fmt.Errorf("socket of user %d: %w", uid, err)
	}
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	if err != nil {
		return nil, err
	}
	return net.FileConn(f)
}

// askAs sends a request as a user and returns the status; 0 when there is no answer.
func askAs(uid, port int, path string, headers ...string) (status int, c net.Conn) {
	c, err := dialAs(uid, port)
	if err != nil {
		return 0, nil
	}
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\n"+strings.Join(append(headers, "Host: localhost"), "\r\n")+"\r\n\r\n"); err != nil {
		return 0, c
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, c
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		io.Copy(io.Discard, resp.Body)
	}
	c.SetDeadline(time.Time{})
	return resp.StatusCode, c
}

// answered counts the requests of a user that are answered with 200, of n.
func answered(uid, port, n int, path string, headers ...string) (ok int, others map[int]int) {
	others = map[int]int{}
	for range n {
		status, c := askAs(uid, port, path, append(headers, "Connection: close")...)
		if c != nil {
			c.Close()
		}
		if status == http.StatusOK {
			ok++
		} else {
			others[status]++
		}
	}
	return ok, others
}

const viewer, otherViewer = 1 << 20, 1<<20 + 1 // users of this machine

// TestOneUserOverTCP (B3): a user who holds 96 streams, and all connections that one may have, keeps
// neither root nor another user from an answer over TCP, nor a scraper from /metrics.
func TestOneUserOverTCP(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root connects as other users")
	}
	port := freePort(t)
	d := startLive(t, filepath.Join(t.TempDir(), "state"), fmt.Sprintf("others_may_read: true\napi: {listen: \"%d\"}\n", port))
	streams := 0
	for range 96 {
		status, c := askAs(viewer, port, "/v1/events")
		if c != nil {
			t.Cleanup(func() { c.Close() })
		}
		if status == http.StatusOK {
			streams++
		}
	}
	if streams == 0 {
		t.Error("the user has no stream at all")
	}
	check := func(what string, scraped int) {
		t.Helper()
		for _, uid := range []int{0, otherViewer} {
			if ok, got := answered(uid, port, 20, "/v1/status"); ok != 20 {
				t.Errorf("%s: user %d: %d of 20 answers, else %v", what, uid, ok, got)
			}
		}
		if ok, got := answered(viewer, port, 5, "/metrics"); ok < scraped {
			t.Errorf("%s: /metrics for the user: %d of 5 answers, want %d, else %v", what, ok, scraped, got)
		}
	}
	check(fmt.Sprintf("beside %d streams", streams), 5)
	for range 96 { // answered, and kept open
		if _, c := askAs(viewer, port, "/v1/none"); c != nil {
			t.Cleanup(func() { c.Close() })
		}
	}
	check("beside as many connections as one may have", 5)
	// The user asks more often than one may.
	end := make(chan struct{})
	var flood sync.WaitGroup
	for range 2 {
		flood.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
					answered(viewer, port, 20, "/v1/status")
				}
			}
		})
	}
	time.Sleep(time.Second)
	// The user's own scraper is on trial for two seconds, which the race detector and a busy machine may
	// take from one or the other.
	check("beside a flood of requests", 1)
	close(end)
	flood.Wait()
	out, code := d.run("status")
	if code != 0 || !strings.Contains(out, fmt.Sprintf("user %d exceeds the request limit of one client", viewer)) {
		t.Errorf("status does not say who was refused: %d, %s", code, out)
	}
}

// TestConnectionsWithoutToken (B3): users without the token who open two thousand connections a
// second keep nobody who bears it from an answer.
func TestConnectionsWithoutToken(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root connects as other users")
	}
	port := freePort(t)
	d := startLive(t, filepath.Join(t.TempDir(), "state"), fmt.Sprintf("api: {listen: \"%d\"}\n", port))
	link, err := os.ReadFile(filepath.Join(d.dir, linkFile))
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(strings.TrimSpace(string(link)), "#")
	end := make(chan struct{})
	var flood sync.WaitGroup
	for range 2 {
		flood.Go(func() {
			as(viewer, func() { connectAndHold(port, end) })
		})
	}
	time.Sleep(time.Second)
	for _, uid := range []int{0, otherViewer} {
		if ok, got := answered(uid, port, 60, "/v1/status", "Authorization: Bearer "+token); ok != 60 {
			t.Errorf("user %d with the token: %d of 60 answers, else %v", uid, ok, got)
		}
	}
	if ok, got := answered(0, port, 1, "/v1/status"); ok != 0 || got[http.StatusUnauthorized] != 1 {
		t.Errorf("root without the token: %v", got)
	}
	close(end)
	flood.Wait()
}

// connectAndHold connects a thousand times a second at most and holds the newest 400 connections,
// several times what the daemon has places for. More often is a test of how fast the kernel's queue
// is emptied: under the race detector it stays full, and a connection takes seconds.
func connectAndHold(port int, end chan struct{}) {
	var held []int
	for {
		select {
		case <-end:
			for _, fd := range held {
				unix.Close(fd)
			}
			return
		default:
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
		held = append(held, fd)
		if len(held) > 400 {
			unix.Close(held[0])
			held = held[1:]
		}
		time.Sleep(time.Millisecond)
	}
}
