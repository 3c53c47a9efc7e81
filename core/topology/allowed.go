package topology

import (
	"io/fs"
	"path"
	"strings"
)

// readAllowed finds what this process may use: /proc/self/status
// (fs/proc/array.c), which already holds the outcome of cgroups and affinity.
// Trees captured without it tell through the cpuset cgroup of /proc/self/cpuset.
func readAllowed(t *tree, h *Host) {
	withMemory := h.WithMemory()
	cpus, mems := t.allowedStatus()
	if cpus == nil && mems == nil {
		cpus, mems = t.allowedCgroup()
	}
	h.Allowed, h.AllowedMems = h.Online.Clone(), withMemory
	if cpus != nil {
		if in := cpus.Intersect(h.Online); in.Empty() {
			t.note("allowed", "this process may use CPUs %s, of which none runs; ignored", cpus)
		} else {
			h.Allowed = in
		}
	}
	if mems != nil {
		if in := mems.Intersect(withMemory); in.Empty() {
			t.note("allowed", "this process may use nodes %s, of which none has memory; ignored", mems)
		} else {
			h.AllowedMems = in
		}
	}
}

func (t *tree) allowedStatus() (cpus *CPUSet, mems *NodeSet) {
	text, _ := t.optional("allowed", "proc/self/status")
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "Cpus_allowed_list":
			cpus = parsed(ParseCPUSet(value))
		case "Mems_allowed_list":
			mems = parsed(ParseNodeSet(value))
		}
	}
	return cpus, mems
}

func parsed[T ~int](s Set[T], err error) *Set[T] {
	if err != nil || s.Empty() {
		return nil
	}
	return &s
}

// allowedCgroup follows /proc/self/cpuset to where /proc/mounts says cpusets
// are: cgroup v2, cgroup v1, or the cpuset file system from before cgroups.
func (t *tree) allowedCgroup() (cpus *CPUSet, mems *NodeSet) {
	group, ok := t.optional("allowed", "proc/self/cpuset")
	if !ok {
		return nil, nil
	}
	mounts, _ := t.optional("allowed", "proc/mounts")
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		var files [2]string
		switch options := "," + fields[3] + ","; {
		case fields[2] == "cgroup2":
			files = [2]string{"cpuset.cpus.effective", "cpuset.mems.effective"}
		case fields[2] == "cpuset" ||
			(strings.Contains(options, ",cpuset,") && strings.Contains(options, ",noprefix,")):
			files = [2]string{"cpus", "mems"}
		case fields[2] == "cgroup" && strings.Contains(options, ",cpuset,"):
			files = [2]string{"cpuset.cpus", "cpuset.mems"}
		default:
			continue
		}
		mount := strings.TrimPrefix(path.Clean(fields[1]), "/")
		// A v2 group without the controller takes what its parent has.
		for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
			at := path.Join(mount, dir)
			if !fs.ValidPath(at) {
				break
			}
			cpuText, okCPUs, _ := t.read(at + "/" + files[0])
			memText, okMems, _ := t.read(at + "/" + files[1])
			if okCPUs || okMems {
				return parsed(ParseCPUSet(cpuText)), parsed(ParseNodeSet(memText))
			}
			if dir == "/" {
				break
			}
		}
	}
	return nil, nil
}
