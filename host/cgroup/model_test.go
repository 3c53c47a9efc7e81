package cgroup

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
)

// model is a folder that looks like a cgroup v2 file system and behaves like one:
// after each write it does what kernel/cgroup/cpuset.c would.
type model struct {
	tree
	t         testing.TB
	strict    bool // refuses empty sets of populated cgroups, as kernels before 6.18 do
	possible  string
	objects   map[string]int
	made      int             // cgroups so far
	threads   map[int]string  // CPU set by thread
	lacks     map[string]bool // files that this kernel has not
	marks     map[string]bool
	stuck     map[string]bool // cgroups with a process that does not freeze
	delegated map[string]bool // cgroups that others than root can thaw
	typed     map[string]string
	others    bool // another program writes

	calls int
	fault func(call int, what string) error
	hook  func(what string)
}

func newModel(t testing.TB) *model {
	m := &model{tree: tree{t.TempDir()}, t: t, strict: true, possible: "0-7", threads: map[int]string{}, objects: map[string]int{"/": 1}}
	m.put("/", controllers, "cpuset cpu memory io")
	m.put("/", subtreeControl, "cpu memory")
	m.put("/", "cgroup.threads", "")
	m.put("/", "cgroup.procs", "")
	m.put("/", "cpuset.cpus.effective", "0-7")
	m.put("/", "cpuset.mems.effective", "0-3")
	return m
}

func (m *model) put(cgroup, file, text string) {
	if err := os.WriteFile(filepath.Join(m.mount, cgroup, file), []byte(text+"\n"), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) get(cgroup, file string) string {
	text, err := m.tree.read(cgroup, file)
	if err != nil {
		return err.Error()
	}
	return text
}

// mkdir makes a cgroup with threads in it.
func (m *model) mkdir(cgroup string, threads ...int) {
	if err := os.Mkdir(filepath.Join(m.mount, cgroup), 0o755); err != nil {
		m.t.Fatal(err)
	}
	m.made++
	m.objects[cgroup] = 1 + m.made
	m.put(cgroup, subtreeControl, "")
	m.put(cgroup, freezeFile, "0")
	m.put(cgroup, typeFile, or(m.typed[cgroup], "domain"))
	m.put(cgroup, "cgroup.procs", "")
	var list []string
	for _, tid := range threads {
		list = append(list, strconv.Itoa(tid))
		m.threads[tid] = m.possible
	}
	m.put(cgroup, "cgroup.threads", strings.Join(list, "\n"))
	m.sync()
}

func (m *model) rmdir(cgroup string) {
	if err := os.RemoveAll(filepath.Join(m.mount, cgroup)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) step(what string) error {
	m.calls++
	if m.hook != nil {
		m.hook(what)
	}
	if m.fault != nil {
		return m.fault(m.calls, what)
	}
	return nil
}

func (m *model) read(cgroup, file string) (string, error) {
	if err := m.step("read " + cgroup + " " + file); err != nil {
		return "", err
	}
	return m.tree.read(cgroup, file)
}

func (m *model) children(cgroup string) ([]string, error) {
	if err := m.step("list " + cgroup); err != nil {
		return nil, err
	}
	return m.tree.children(cgroup)
}

func (m *model) object(cgroup string) (string, error) {
	if err := m.step("stat " + cgroup); err != nil {
		return "", err
	}
	if _, err := m.tree.object(cgroup); err != nil {
		return "", err
	}
	return fmt.Sprint(m.objects[cgroup]), nil // disks use inodes again
}

func (m *model) make(cgroup string) error {
	if err := m.step("make " + cgroup); err != nil {
		return err
	}
	if _, err := m.tree.object(cgroup); err == nil {
		return unix.EEXIST
	}
	if _, err := m.tree.object(filepath.Dir(cgroup)); err != nil {
		return unix.ENOENT
	}
	m.mkdir(cgroup)
	return nil
}

func (m *model) remove(cgroup string) error {
	if err := m.step("remove " + cgroup); err != nil {
		return err
	}
	if below, _ := m.tree.children(cgroup); len(below) > 0 || m.get(cgroup, "cgroup.procs") != "" {
		return unix.EBUSY
	}
	delete(m.marks, cgroup)
	m.rmdir(cgroup)
	return nil
}

func (m *model) mark(cgroup, name string) error {
	if err := m.step("mark " + cgroup); err != nil {
		return err
	}
	if m.marks == nil {
		m.marks = map[string]bool{}
	}
	m.marks[cgroup] = true
	return nil
}

func (m *model) private(cgroup, file string) (bool, error) {
	if err := m.step("stat " + cgroup + " " + file); err != nil {
		return false, err
	}
	_, err := os.Stat(filepath.Join(m.mount, cgroup, file))
	return !m.delegated[cgroup], err
}

// holds reports whether a cgroup or one below is populated, or has a process that is stuck.
func (m *model) below(cgroup string, has func(string) bool) bool {
	if has(cgroup) {
		return true
	}
	below, _ := m.tree.children(cgroup)
	return slices.ContainsFunc(below, func(c string) bool { return m.below(c, has) })
}

func (m *model) populated(cgroup string) bool {
	return m.get(cgroup, "cgroup.threads") != "" || m.get(cgroup, "cgroup.procs") != ""
}

// frozen is what cgroup.events says: a cgroup is frozen when it or one above is to be, and all
// that is in it and below has stopped.
func (m *model) frozen(cgroup string) bool {
	to := slices.ContainsFunc(append(ancestors(cgroup)[1:], cgroup), func(c string) bool { return m.get(c, freezeFile) == "1" })
	return to && !m.below(cgroup, func(c string) bool { return m.stuck[c] })
}

func (m *model) marked(cgroup, name string) bool { return m.marks[cgroup] }

// enter moves a process.
func (m *model) enter(cgroup, pid string) {
	filepath.WalkDir(m.mount, func(at string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "cgroup.procs" {
			c := "/" + strings.TrimPrefix(strings.TrimPrefix(filepath.Dir(at), m.mount), "/")
			m.put(c, "cgroup.procs", strings.Join(slices.DeleteFunc(strings.Fields(m.get(c, "cgroup.procs")), func(p string) bool { return p == pid }), "\n"))
		}
		return nil
	})
	m.put(cgroup, "cgroup.procs", strings.TrimSpace(m.get(cgroup, "cgroup.procs")+"\n"+pid))
	m.sync()
}

func (m *model) write(cgroup, file, text string) error {
	if err := m.step("write " + cgroup + " " + file + " " + strings.TrimSpace(text)); err != nil {
		return err
	}
	// The real one opens the file first.
	f, err := m.tree.open(cgroup, file, unix.O_WRONLY)
	if err != nil {
		return err
	}
	f.Close()
	switch file {
	case "cgroup.procs":
		m.enter(cgroup, strings.TrimSpace(text))
	case subtreeControl:
		if err := m.control(cgroup, strings.TrimSpace(text)); err != nil {
			return err
		}
	case "cpuset.cpus", "cpuset.mems":
		set, err := topology.ParseCPUSet(text)
		all, _ := topology.ParseCPUSet(map[string]string{"cpuset.cpus": m.possible, "cpuset.mems": "0-3"}[file])
		if err != nil || !set.SubsetOf(all) {
			return unix.EINVAL
		}
		if set.Empty() && m.strict && m.get(cgroup, "cgroup.threads") != "" && m.get(cgroup, file) != "" {
			return unix.ENOSPC
		}
		effective := m.get(cgroup, file+".effective")
		m.put(cgroup, file, set.String())
		frozen := m.frozen(cgroup)
		if m.sync(); file == "cpuset.mems" && effective != m.get(cgroup, file+".effective") && !frozen && !m.others && m.below(cgroup, m.populated) {
			m.t.Errorf("%s of %s is changed from %s to %s while its processes run: one of them could hold up the host", file, cgroup, effective, set)
		}
	case "cpu.idle": // sched_group_set_idle (kernel/sched/fair.c)
		m.put(cgroup, file, text[:1])
		m.put(cgroup, "cpu.weight", map[string]string{"0": "100", "1": "0"}[text[:1]])
	case "cpu.weight":
		if m.get(cgroup, "cpu.idle") == "1" {
			return unix.EINVAL
		}
		m.put(cgroup, file, strings.TrimSpace(text))
	case "io.max": // one device a write; one without a limit is not listed
		lines := ioLines(m.get(cgroup, file))
		maps.Copy(lines, ioLines(text))
		maps.DeleteFunc(lines, func(_, line string) bool { return strings.HasSuffix(line, noLimit) })
		m.put(cgroup, file, strings.Join(slices.Sorted(maps.Values(lines)), "\n"))
	default:
		m.put(cgroup, file, strings.TrimSpace(text))
	}
	m.sync()
	return nil
}

// values is the files that a cgroup has with a controller, as they are at first.
var values = map[string]map[string]string{
	"memory": {"memory.low": "0", "memory.high": "max", "memory.max": "max"},
	"io":     {"io.weight": "default 100", "io.max": "", "io.stat": ""},
	"cpu":    {"cpu.max": "max 100000", "cpu.max.burst": "0", "cpu.weight": "100", "cpu.idle": "0"},
}

func (m *model) control(cgroup, text string) error {
	on := strings.Fields(m.get(cgroup, subtreeControl))
	name := text[1:]
	if !slices.Contains(strings.Fields(m.get(cgroup, controllers)), name) {
		return unix.ENOENT
	}
	on = slices.DeleteFunc(on, func(s string) bool { return s == name })
	if text[0] == '+' {
		on = append(on, name)
	} else {
		below, _ := m.tree.children(cgroup)
		for _, c := range below {
			if slices.Contains(strings.Fields(m.get(c, subtreeControl)), name) {
				return unix.EBUSY
			}
		}
	}
	m.put(cgroup, subtreeControl, strings.Join(on, " "))
	return nil
}

// sync makes and removes the files of children and works out what is effective.
func (m *model) sync() {
	var visit func(cgroup string)
	visit = func(cgroup string) {
		below, _ := m.tree.children(cgroup)
		on := strings.Fields(m.get(cgroup, subtreeControl))
		for _, c := range below {
			if had := m.get(c, controllers); had != strings.Join(on, " ") {
				m.put(c, controllers, strings.Join(on, " "))
				m.syncValues(c, on)
			}
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				path := filepath.Join(m.mount, c, file)
				if !slices.Contains(strings.Fields(m.get(cgroup, subtreeControl)), cpusets.name) {
					os.Remove(path)
					os.Remove(path + ".effective")
					continue
				}
				if _, err := os.Stat(path); err != nil {
					m.put(c, file, "")
				}
				parent, _ := topology.ParseCPUSet(m.get(cgroup, file+".effective"))
				own, _ := topology.ParseCPUSet(m.get(c, file))
				if own = own.Intersect(parent); own.Empty() {
					own = parent
				}
				m.put(c, file+".effective", own.String())
				if file == "cpuset.cpus" {
					for _, f := range strings.Fields(m.get(c, "cgroup.threads")) {
						tid, _ := strconv.Atoi(f)
						m.threads[tid] = own.String()
					}
				}
			}
			if is := fmt.Sprintf("populated %d\nfrozen %d", bit(m.below(c, m.populated)), bit(m.frozen(c))); is != m.get(c, eventsFile) {
				m.put(c, eventsFile, is)
			}
			visit(c)
		}
	}
	visit("/")
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// syncValues makes and removes the files of other controllers than cpuset.
func (m *model) syncValues(cgroup string, on []string) {
	for name, files := range values {
		for file, text := range files {
			path := filepath.Join(m.mount, cgroup, file)
			if _, err := os.Stat(path); !slices.Contains(on, name) {
				os.Remove(path)
			} else if err != nil && !m.lacks[file] {
				m.put(cgroup, file, text)
			}
		}
	}
}

// state is every file of the tree.
func (m *model) state() map[string]string {
	all := map[string]string{}
	filepath.WalkDir(m.mount, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, _ := os.ReadFile(path)
			all[strings.TrimPrefix(path, m.mount)] = strings.TrimSpace(string(text))
		}
		return nil
	})
	return all
}

func (m *model) driver() *Driver {
	d := New(Options{Mount: m.mount, Root: fstest.MapFS{
		"sys/devices/system/cpu/possible":    {Data: []byte(m.possible + "\n")},
		"sys/devices/system/cpu/online":      {Data: []byte("0-7\n")},
		"sys/devices/system/node/possible":   {Data: []byte("0-3\n")},
		"sys/devices/system/node/has_memory": {Data: []byte("0-3\n")},
		"proc/self/cgroup":                   {Data: []byte("0::/homenode\n")},
	}})
	d.files = m
	d.affinity = func(tid int) (topology.CPUSet, error) {
		list, ok := m.threads[tid]
		if !ok {
			return topology.CPUSet{}, unix.ESRCH
		}
		return topology.ParseCPUSet(list)
	}
	return d
}
