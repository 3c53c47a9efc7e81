package observe

import (
	"bytes"
	"io/fs"
	"path"

	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

// mostAncestors bounds how far up the parents of a process are followed.
const mostAncestors = 64

// LineageOf is what the machine below fsys says of a process or thread; zero when there is
// no such. Neither /proc/PID/status nor /proc/PID/cgroup waits for the process
// (fs/proc/array.c, kernel/cgroup/cgroup.c).
func LineageOf(fsys fs.FS, pid int) workload.Lineage {
	var l workload.Lineage
	for pid > 0 && len(l.PIDs) < mostAncestors {
		status, err := fs.ReadFile(fsys, proc.File(pid, "status"))
		if err != nil {
			break
		}
		group, parent := pid, 0
		for line := range bytes.Lines(status) {
			key, value, _ := bytes.Cut(line, []byte{':'})
			n, ok := proc.Number(bytes.TrimSpace(value))
			switch {
			case !ok:
			case string(key) == "Tgid":
				group = int(n)
			case string(key) == "PPid":
				parent = int(n)
			}
		}
		if l.PIDs == nil {
			if b, err := fs.ReadFile(fsys, proc.File(group, "cgroup")); err == nil {
				if group := proc.Cgroup(b); group != "" {
					l.Cgroup = path.Clean(group)
				}
			}
		}
		l.PIDs = append(l.PIDs, group)
		pid = parent
	}
	return l
}
