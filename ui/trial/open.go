package trial

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mostLinks bounds the symbolic links of a path (path_resolution(7)).
const mostLinks = 40

// openFile opens a regular file that another user may have put there. It opens nothing else, also not for a moment,
// because to open some devices starts something. A link of a user leads only to files of the same user: with the
// rights of root it would show the content of any file. Links of root and of the caller lead everywhere.
func openFile(path string) (*os.File, error) {
	w := &walk{path: path, at: unix.AT_FDCWD}
	defer w.leave()
	if err := w.follow(); err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(w.at, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	for _, uid := range w.links {
		if uid != st.Uid {
			return nil, fmt.Errorf("%s: a link of user %d leads to a file of user %d", path, uid, st.Uid)
		}
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", w.at))
}

// walk goes along a path by itself, because the kernel does not say whose links it follows. It holds each folder, so
// that no user can put a link in the place of one behind it.
type walk struct {
	path  string
	at    int      // descriptor of where it is, opened with O_PATH
	links []uint32 // UIDs of the users whose links it followed, but for root and the caller
	count int      // of links
}

func (w *walk) follow() error {
	rest, err := w.from(w.path)
	for err == nil && len(rest) > 0 {
		var more []string
		more, err = w.step(rest[0])
		rest = slices.Concat(more, rest[1:])
	}
	return err
}

// from goes to the start of a path and returns its parts.
func (w *walk) from(path string) ([]string, error) {
	start := "/"
	if !strings.HasPrefix(path, "/") {
		start = "."
	}
	fd, err := unix.Openat(w.at, start, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	w.leave()
	w.at = fd
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' }), nil
}

// step goes to one name and returns, where that is a link, the parts of the path in it.
func (w *walk) step(name string) ([]string, error) {
	fd, err := unix.Openat(w.at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		w.leave()
		w.at = fd
		return nil, nil
	}
	defer unix.Close(fd)
	w.count++
	if w.count > mostLinks {
		return nil, unix.ELOOP
	}
	trusted := st.Uid == 0 || int(st.Uid) == os.Geteuid()
	if !trusted {
		w.links = append(w.links, st.Uid)
	}
	to := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", to)
	if err != nil {
		return nil, err
	}
	return w.from(string(to[:n]))
}

// leave closes where it is.
func (w *walk) leave() {
	if w.at >= 0 {
		unix.Close(w.at)
	}
}
