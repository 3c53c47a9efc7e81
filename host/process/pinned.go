package process

import (
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
)

// Affinities calls each for every process and thread of this machine, but for kernel threads
// and this process, with the CPUs that it may use. It reads the list of processes and asks
// sched_getaffinity(2): nothing that a process can hold up, and no privilege. A kernel
// thread is known by its process group, which is 0 (getpgid(2)).
func Affinities(each func(pid, tid int, cpus topology.CPUSet)) error {
	pids, err := numbersIn("/proc")
	if err != nil {
		return err
	}
	self := os.Getpid()
	for _, pid := range pids {
		if pid == self {
			continue
		}
		if group, err := unix.Getpgid(pid); err != nil || group == 0 {
			continue
		}
		// A folder has a link for each of its folders, beside two: no second thread, no list.
		tasks := "/proc/" + strconv.Itoa(pid) + "/task"
		var st unix.Stat_t
		tids := []int{pid}
		if unix.Stat(tasks, &st) == nil && st.Nlink > 3 {
			if all, err := numbersIn(tasks); err == nil {
				tids = all
			}
		}
		for _, tid := range tids {
			if cpus, err := AffinityOf(tid); err == nil {
				each(pid, tid, cpus)
			}
		}
	}
	return nil
}

func numbersIn(dir string) ([]int, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	var out []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, err
}
