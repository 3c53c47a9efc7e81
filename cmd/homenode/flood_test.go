package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// connectAs connects to a socket as users from first on, one after the other, and sends each
// text. The kernel tells the daemon the user of the thread that connects, which ends then.
// What could not be connected or sent is left out.
func connectAs(first, n int, socket string, text func(int) string) (open []int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		for i := range n {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				continue
			}
			uid := uintptr(first + i%8)
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uid, ^uintptr(0)); errno == 0 {
				err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
			}
			unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 0, ^uintptr(0))
			unix.SetNonblock(fd, true)
			unix.SendmsgN(fd, []byte(text(i)), nil, nil, unix.MSG_NOSIGNAL)
			if err != nil {
				unix.Close(fd)
				continue
			}
			open = append(open, fd)
		}
	}()
	<-done
	return open
}

// TestFlood: users who follow the events and read nothing, send half a request, ask for more
// than they read, and hang up, in hundreds of connections, keep neither root nor the group
// from an answer, and take no more descriptors than connections are allowed.
func TestFlood(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root connects as other users")
	}
	d := startLive(t, filepath.Join(t.TempDir(), "state"), "others_may_read: true\n")
	descriptors := func() int {
		all, err := os.ReadDir("/proc/" + strconv.Itoa(d.process.Pid) + "/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	const (
		users       = 1 << 20 // eight users from here on
		connections = 64      // that the daemon allows all together
		own         = 32      // that it may open for itself at a time
	)
	before := descriptors()
	requests := []string{
		"GET /v1/events?since=0 HTTP/1.1\r\nHost: homenode\r\n\r\n",
		"GET /v1/status HTTP/1.1\r\nHost: home",
		strings.Repeat("GET /v1/status HTTP/1.1\r\nHost: homenode\r\n\r\n", 100),
		"POST /v1/undo HTTP/1.1\r\nHost: homenode\r\nContent-Length: 1000\r\n\r\n{",
		"",
	}
	var stalled []int
	most := 0
	for round := range 8 {
		stalled = append(stalled, connectAs(users, 200/8, d.socket, func(i int) string { return requests[0] })...)
		stalled = append(stalled, connectAs(users, 50, d.socket, func(i int) string { return requests[i%len(requests)] })...)
		for _, fd := range connectAs(users, 50, d.socket, func(i int) string { return requests[i%len(requests)] }) {
			unix.Close(fd) // without waiting for an answer
		}
		most = max(most, descriptors())
		if out, code := d.run("status"); code != 0 || !strings.Contains(out, "db.service") {
			t.Errorf("round %d: root is not answered: %s", round, d.lastTold)
		}
		most = max(most, descriptors())
	}
	if most > before+connections+own {
		t.Errorf("%d descriptors were open at a time; %d before, %d connections are allowed", most, before, connections)
	}
	if len(stalled) < 200 {
		t.Errorf("only %d connections", len(stalled))
	}
	t.Logf("%d connections kept open; %d descriptors of the daemon before, %d at most", len(stalled), before, most)
	for _, fd := range stalled {
		unix.Close(fd)
	}
	d.until("the descriptors are closed", func() bool { return descriptors() <= before+own/2 })
	if out, code := d.run("undo", "--all"); code != 0 {
		t.Errorf("after the flood: %s", out)
	}
}
