package pressure

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// asked is what the kernel is asked for: some task waited for 25,000 µs within 500,000 µs. That is 5 %, the default
// of share.max_wait.
const asked = "some 25000 500000"

// epoll waits for triggers of the running kernel.
type epoll struct {
	root string
	fd   int
	end  int // an eventfd: ends wait

	mu    sync.Mutex // guards what follows
	files map[int]*os.File
	ended bool
}

func newEpoll(root string) (*epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	end, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("eventfd", err)
	}
	err = unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, end, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(end)})
	if err != nil {
		unix.Close(fd)
		unix.Close(end)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return &epoll{root: root, fd: fd, end: end, files: map[int]*os.File{}}, nil
}

func (e *epoll) set(file string) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return 0, os.ErrClosed
	}
	f, err := os.OpenFile(filepath.Join(e.root, file), os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, err
	}
	// The kernel takes the text with its zero (Documentation/accounting/psi.rst).
	if _, err := f.WriteString(asked + "\x00"); err != nil {
		f.Close()
		return 0, err
	}
	fd := int(f.Fd())
	err = unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLPRI, Fd: int32(fd)})
	if err != nil {
		f.Close()
		return 0, os.NewSyscallError("epoll_ctl", err)
	}
	e.files[fd] = f
	return fd, nil
}

func (e *epoll) remove(trigger int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.files[trigger]
	if f == nil {
		return
	}
	unix.EpollCtl(e.fd, unix.EPOLL_CTL_DEL, trigger, nil)
	delete(e.files, trigger)
	go f.Close() // ends the trigger after a grace period (psi_trigger_destroy): 64 one by one took 0.7 s on Linux 6.18
}

var errEnded = errors.New("ended")

func (e *epoll) wait() (fired, gone []int, err error) {
	events := make([]unix.EpollEvent, 16)
	n, err := unix.EpollWait(e.fd, events, -1)
	if errors.Is(err, unix.EINTR) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, os.NewSyscallError("epoll_wait", err)
	}
	for _, x := range events[:n] {
		switch {
		case int(x.Fd) == e.end:
			e.close()
			return nil, nil, errEnded
		case x.Events&unix.EPOLLERR != 0: // the cgroup was removed
			gone = append(gone, int(x.Fd))
		default:
			fired = append(fired, int(x.Fd))
		}
	}
	return fired, gone, nil
}

func (e *epoll) stop() { unix.Write(e.end, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// close removes all triggers. Only wait calls it: no other call uses the descriptors then.
func (e *epoll) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	for fd, f := range e.files {
		f.Close()
		delete(e.files, fd)
	}
	unix.Close(e.fd)
	unix.Close(e.end)
}
