package files

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// mostOpen bounds the files that are held open; the fourth part of the process's
// limit bounds them as well.
const mostOpen = 4096

// openFiles keeps the files open that each look reads of each cgroup: finding, opening and
// closing one costs more than reading it. Held is what is read for the second time, so
// that what lives for a moment costs nothing more. Files are closed at the end of the
// look that no longer finds their cgroup. A held file of a removed cgroup answers ENODEV
// (fs/kernfs/file.c), also when another of that name has been made: it is then opened anew.
type openFiles struct {
	folders map[string]*folder
	n, most int  // files held
	turn    bool // changes with each CloseUnread
}

// folder is what is held of a cgroup's folder.
type folder struct {
	fds  [cgroupFiles]int // -1 for none
	read [cgroupFiles]bool
	turn bool // of the last reading
}

func newOpenFiles() openFiles {
	h := openFiles{folders: map[string]*folder{}, most: mostOpen}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
		h.most = int(min(mostOpen, limit.Cur/4))
	}
	return h
}

func (r *rootReader) ReadOpen(dir string, name CgroupFile, buf []byte) ([]byte, error) {
	h := &r.openFiles
	f := h.folder(dir)
	if fd := f.fds[name]; fd >= 0 {
		if b, err := readAll(fd, buf, true); err == nil {
			return b, nil
		}
		h.close(f, name)
	}
	path := dir + "/" + cgroupFileNames[name]
	fd, err := r.open(path, 0)
	if err == unix.EMFILE && h.n > 0 {
		h.giveBack()
		fd, err = r.open(path, 0)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	b, err := readAll(fd, buf, true)
	if err != nil {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	if f.read[name] && h.n < h.most {
		f.fds[name] = fd
		h.n++
	} else {
		unix.Close(fd)
	}
	f.read[name] = true
	return b, nil
}

func (r *rootReader) CloseUnread() { r.openFiles.closeUnread() }

// folder is what is held of dir, marked as read.
func (h *openFiles) folder(dir string) *folder {
	f := h.folders[dir]
	if f == nil {
		f = &folder{}
		for name := range f.fds {
			f.fds[name] = -1
		}
		h.folders[dir] = f
	}
	f.turn = h.turn
	return f
}

// giveBack closes all that is held, and holds half as much from now on: the process has
// no descriptor left.
func (h *openFiles) giveBack() {
	h.most = h.n / 2
	for _, f := range h.folders {
		h.closeAll(f)
	}
}

func (h *openFiles) close(f *folder, name CgroupFile) {
	if f.fds[name] >= 0 {
		unix.Close(f.fds[name])
		f.fds[name] = -1
		h.n--
	}
}

func (h *openFiles) closeAll(f *folder) {
	for name := range cgroupFiles {
		h.close(f, name)
	}
}

func (h *openFiles) closeUnread() {
	for dir, f := range h.folders {
		if f.turn != h.turn {
			h.closeAll(f)
			delete(h.folders, dir)
		}
	}
	h.turn = !h.turn
}
