package probe

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// cgroupRoom is the memory that this process's cgroups still allow, in bytes; 0
// when none sets a limit. It goes up to the root: any ancestor may be the
// narrow one.
func cgroupRoom(root fs.FS) int64 {
	self, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	room := int64(math.MaxInt64)
	for line := range strings.Lines(string(self)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		var base, limit, use string
		switch {
		case fields[1] == "":
			base = "sys/fs/cgroup"
			limit = "memory.max"
			use = "memory.current"
		case fields[1] == "memory":
			base = "sys/fs/cgroup/memory"
			limit = "memory.limit_in_bytes"
			use = "memory.usage_in_bytes"
		default:
			continue
		}
		for dir := path.Clean("/" + fields[2]); ; dir = path.Dir(dir) {
			most, ok := bytesIn(root, path.Join(base, dir, limit))
			used, _ := bytesIn(root, path.Join(base, dir, use))
			// Version 1 writes "no limit" as the largest multiple of a page.
			if ok && most < 1<<60 {
				room = min(room, max(1, most-used))
			}
			if dir == "/" {
				break
			}
		}
	}
	if room == math.MaxInt64 {
		return 0
	}
	return room
}

func bytesIn(root fs.FS, name string) (int64, bool) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}
