package incus

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dustin/go-humanize"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// instance is one that runs.
type instance struct {
	server  string // incus or lxd
	name    string
	project string
	machine bool             // a virtual machine
	process workload.Process // its init, or its QEMU
	cgroup  string           // of a container; "" when it is not known

	cpus    int          // that it asks for; 0 for none
	memory  topology.KiB // of a virtual machine
	limits  string       // limits.cpu, where Incus chooses or pins the CPUs by it; else ""
	nodes   string       // limits.cpu.nodes
	own     limited      // which of its sizes only the users of its project chose
	huge    bool         // memory of 2 MiB pages
	devices []string     // of the host that it has whole
	wishes  workload.Wishes
	marked  bool // some key names it
	off     bool
	bad     []string // keys that cannot be read
}

// prefix is that of homenode's keys.
const prefix = "user.homenode."

// keys of an instance, prefix before them.
var keys = []string{
	workload.WishClass, "cpus", workload.WishImportance, workload.WishIsolated, workload.WishMaxNodes, "memory",
	workload.WishNear, "off", workload.WishTier,
}

const (
	// mostBad bounds the keys of one instance that are kept to be reported, and mostTroubles its line.
	mostBad, mostTroubles = 8, 4
	// defaultMemory is that of a virtual machine without limits.memory, and defaultCPUs its vCPUs.
	defaultMemory topology.KiB = 1 << 20
	defaultCPUs                = 1
)

// named is the form of the names of instances and projects. Incus has host names for instances.
var named = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`) })

// read makes an instance of what the server says; ok is false for one that does not run.
func read(server string, w *wireInstance) (i instance, ok bool, bad string) {
	w.Project = cmp.Or(w.Project, "default")
	if !named().MatchString(w.Name) || !named().MatchString(w.Project) {
		name, project := words.Clip(w.Name, 64), words.Clip(w.Project, 64)
		return i, false, fmt.Sprintf("instance %q of project %q is ignored: no such name is allowed", name, project)
	}
	if w.State.PID <= 1 || w.State.Status == "Stopped" {
		return i, false, ""
	}
	i = instance{server: server, name: w.Name, project: w.Project, machine: w.Type == "virtual-machine"}
	i.process.PID = w.State.PID
	i.own = w.limited
	i.sizes(w.Config)
	for _, key := range slices.Sorted(maps.Keys(w.Config)) { // the class before the tier
		if key, ours := strings.CutPrefix(key, prefix); ours {
			i.key(key, strings.TrimSpace(w.Config[prefix+key]))
		}
	}
	if i.machine {
		i.passed(w.Devices)
	}
	return i, true, ""
}

// sizes reads the limits that Incus knows.
func (i *instance) sizes(config map[string]string) {
	limit := strings.TrimSpace(config["limits.cpu"])
	i.nodes = words.Clip(strings.TrimSpace(config["limits.cpu.nodes"]), 64)
	n, err := strconv.Atoi(limit)
	counted := err == nil && n > 0 && n <= topology.MaxID
	switch {
	case !i.machine:
		i.limits = words.Clip(limit, 64)
		return
	case limit == "":
		i.cpus = defaultCPUs
	case counted:
		i.cpus = n
	default:
		i.limits = words.Clip(limit, 64)
	}
	i.memory = defaultMemory
	if kib, ok := sizeOf(config["limits.memory"]); ok {
		i.memory = kib
	}
	i.huge = config["limits.memory.hugepages"] == "true"
}

// passed notes the devices of the host that a virtual machine has whole: their drivers keep its memory in place.
func (i *instance) passed(devices map[string]map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		d := devices[name]
		nic := d["type"] == "nic" && (d["nictype"] == "physical" || d["nictype"] == "sriov")
		gpu := d["type"] == "gpu" && d["gputype"] != "mdev"
		if (nic || gpu || d["type"] == "pci") && len(i.devices) < mostBad {
			i.devices = append(i.devices, words.Clip(name, 64))
		}
	}
}

func (i *instance) wrong(key, value, want string) {
	if len(i.bad) < mostBad {
		i.bad = append(i.bad, fmt.Sprintf("%s%s: %q; want %s", prefix, key, words.Clip(value, 64), want))
	}
}

// key reads one key. A wrong value has no effect.
func (i *instance) key(key, value string) {
	i.marked = true
	switch key {
	case "cpus":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > topology.MaxID {
			i.wrong(key, value, "1 or more")
			return
		}
		if !i.machine { // a virtual machine has its vCPUs
			i.cpus = n
		}
	case "memory":
		kib, ok := sizeOf(value)
		if !ok {
			i.wrong(key, value, "a size with a unit, such as 8GiB")
			return
		}
		i.wishes.Memory = kib
	case "off":
		off, err := strconv.ParseBool(value)
		if err != nil {
			i.wrong(key, value, "true or false")
		}
		i.off = off
	default:
		want, known := i.wishes.Read(key, value)
		switch {
		case want != "":
			i.wrong(key, value, want)
		case !known && len(i.bad) < mostBad:
			all := strings.Join(keys, ", ")
			i.bad = append(i.bad, fmt.Sprintf("%s%s is unknown; known are %s", prefix, words.Clip(key, 64), all))
		}
	}
}

// sizeOf reads a size with a unit, as Incus writes them: 4GiB, 512MB. A share of the host (50%) is none.
func sizeOf(text string) (topology.KiB, bool) {
	text = strings.TrimSpace(text)
	n, err := humanize.ParseBytes(text)
	if err != nil || n < 1024 || n > 1<<60 {
		return 0, false
	}
	return topology.KiB(n >> 10), true
}

// called is its name for people; of another project than the first with that.
func (i *instance) called() string {
	if i.project == "default" {
		return i.name
	}
	return i.project + "/" + i.name
}

func (i *instance) id() workload.ID { return workload.ID(i.server + ":" + i.called()) }

// namespace is what grants name its project by.
func (i *instance) namespace() string { return i.server + "/" + i.project }
