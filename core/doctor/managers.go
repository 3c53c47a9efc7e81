package doctor

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// Names of managers.
const (
	Irqbalance    = "irqbalance"
	Numad         = "numad"
	Tuned         = "tuned"
	Kubelet       = "kubelet"
	Libvirt       = "libvirt"
	Proxmox       = "Proxmox VE"
	KernelBalance = "kernel NUMA balancing"
)

// OwnerFS is a file system that returns the owner of a file at less cost than a read.
type OwnerFS interface {
	// OwnerOf returns the user ID of a file's owner, -1 when it is not known. The owner of
	// /proc/PID is the effective user of the process (proc(5)).
	OwnerOf(name string) int
}

// Managers finds other programs that place CPUs, memory or interrupts on h, and what they
// do. It asks for the executable of every process of root: some milliseconds on a busy host.
// There is no limit to how many, for whoever can start processes could hide a manager behind
// them. Reading how numad was called waits for that process, which is root's.
func Managers(fsys fs.FS, h *topology.Host) []measure.Manager {
	var out []measure.Manager
	running := runningManagers(fsys)
	if running[Irqbalance] {
		out = append(out, measure.Manager{Name: Irqbalance, Does: "spreads interrupts over CPUs",
			Owns: "the affinity of interrupts"})
	}
	if running[Numad] {
		out = append(out, measure.Manager{Name: Numad, Does: "moves processes and their memory between nodes",
			Owns: "the CPUs and the memory of every workload"})
	}
	if running[Tuned] {
		out = append(out, tuned(fsys))
	}
	out = append(out, kubelet(fsys)...)
	// NUMA_BALANCING_NORMAL is bit 0 (include/linux/sched/sysctl.h). It obeys CPU sets
	// and memory nodes, and so brings pages to the home that homenode gave: nothing
	// has to be left to it.
	if b := number(fsys, "proc/sys/kernel/numa_balancing"); b != nil && *b&1 != 0 && len(h.Nodes) > 1 {
		out = append(out, measure.Manager{Name: KernelBalance,
			Does: "moves pages to the node whose CPUs use them, within CPU sets and memory nodes"})
	}
	out = append(out, proxmox(fsys)...)
	slices.SortStableFunc(out, func(a, b measure.Manager) int { return strings.Compare(a.Name+a.Does, b.Name+b.Does) })
	if guests := pinnedGuests(fsys); len(guests) > 0 {
		out = append(out, measure.Manager{Name: Libvirt, Does: "pins CPUs or memory of " + words.Count(len(guests),
			"running guest"),
			Owns: "guests pinned by hand", Guests: guests})
	}
	return out
}

// runningManagers looks for the programs among all processes, by executable and owner:
// any user may call a process anything, and only root's can manage what is not its own.
func runningManagers(fsys fs.FS) map[string]bool {
	found := map[string]bool{}
	entries, _ := fs.ReadDir(fsys, "proc")
	users, _ := fs.ReadLink(fsys, "proc/1/ns/user")
	owners, known := fsys.(OwnerFS)
	for _, e := range entries {
		if e.Name()[0] < '0' || e.Name()[0] > '9' {
			continue
		}
		dir := "proc/" + e.Name()
		if known && owners.OwnerOf(dir) > 0 {
			continue
		}
		name := program(fsys, dir)
		if (name != Numad && name != Irqbalance && name != Tuned) || found[name] || !managesHost(fsys, dir, users) {
			continue
		}
		if name == Numad {
			// With -w it answers a question, libvirt's for one, and ends (numad(8)).
			line, _ := text(fsys, dir+"/cmdline")
			if slices.ContainsFunc(strings.Split(line, "\x00"),
				func(arg string) bool { return strings.HasPrefix(arg, "-w") }) {
				continue
			}
		}
		found[name] = true
	}
	return found
}

// program is the name of a process's executable; of an interpreter's, and where only the
// owner may know the executable, what the process calls itself.
func program(fsys fs.FS, dir string) string {
	if exe, err := fs.ReadLink(fsys, dir+"/exe"); err == nil {
		name := strings.TrimSuffix(path.Base(exe), " (deleted)")
		if !strings.HasPrefix(name, "python") && name != "platform-python" { // tuned is written in Python
			return name
		}
	}
	comm, _ := text(fsys, dir+"/comm")
	return comm
}

// managesHost reports whether a process is root's, in the host's own PID and user
// namespaces (where users is the latter, "" when unknown).
func managesHost(fsys fs.FS, dir, users string) bool {
	status, _ := text(fsys, dir+"/status")
	root := false
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		switch ids := strings.Fields(value); {
		case key == "Uid":
			root = len(ids) == 4 && ids[0] == "0" && ids[1] == "0"
		case key == "NSpid" && len(ids) > 1:
			return false
		}
	}
	if own, err := fs.ReadLink(fsys, dir+"/ns/user"); err == nil && users != "" && own != users {
		return false
	}
	return root
}

// tuned tells the active profile, and the CPUs that it isolates where the profile's
// variables name them as a list (cpu-partitioning, realtime and their kin).
func tuned(fsys fs.FS) measure.Manager {
	m := measure.Manager{Name: Tuned, Does: "sets kernel settings"}
	profile, ok := text(fsys, "etc/tuned/active_profile")
	if !ok || profile == "" {
		return m
	}
	m.Does += " by profile " + profile
	for _, p := range strings.Fields(profile) {
		if strings.Contains(p, "/") {
			continue
		}
		variables, _ := text(fsys, "etc/tuned/"+p+"-variables.conf")
		for line := range strings.Lines(variables) {
			key, list, _ := strings.Cut(line, "=")
			if strings.TrimSpace(key) != "isolated_cores" {
				continue
			}
			if cpus, err := topology.ParseCPUSet(list); err == nil && !cpus.Empty() {
				m.CPUs = m.CPUs.Union(cpus)
			}
		}
	}
	if !m.CPUs.Empty() {
		m.Does += fmt.Sprintf(" and isolates CPUs %s", m.CPUs)
		m.Owns = fmt.Sprintf("CPUs %s", m.CPUs)
	}
	return m
}

// kubelet tells of static policies, by the kubelet's state files. Under the CPU one it
// writes the CPU set of every container again and again, those without CPUs of
// their own too (pkg/kubelet/cm/cpumanager, reconcileState).
func kubelet(fsys fs.FS) []measure.Manager {
	var out []measure.Manager
	for _, resource := range []string{"CPU", "memory"} {
		t, ok := text(fsys, "var/lib/kubelet/"+strings.ToLower(resource)+"_manager_state")
		var state struct {
			Policy string `json:"policyName"`
		}
		if !ok || json.Unmarshal([]byte(t), &state) != nil || !strings.EqualFold(state.Policy, "static") {
			continue
		}
		m := measure.Manager{Name: Kubelet, Does: "static " + resource + " manager policy", Owns: "pods"}
		if resource == "CPU" {
			m.CPUs = exclusive([]byte(t))
			if !m.CPUs.Empty() {
				m.Owns = fmt.Sprintf("pods, and CPUs %s for some of them alone", m.CPUs)
			}
		}
		out = append(out, m)
	}
	return out
}

// proxmox tells of guests of Proxmox VE that run here, by their cgroups, and which its
// configuration keeps on CPUs or nodes. What comes after the first section is snapshots.
func proxmox(fsys fs.FS) []measure.Manager {
	scopes, _ := fs.Glob(fsys, "sys/fs/cgroup/qemu.slice/[1-9]*.scope")
	if len(scopes) == 0 {
		return nil
	}
	m := measure.Manager{Name: Proxmox, Does: "runs " + words.Count(len(scopes), "guest")}
	for _, scope := range scopes {
		vmid := strings.TrimSuffix(path.Base(scope), ".scope")
		config, _ := text(fsys, "etc/pve/qemu-server/"+vmid+".conf")
		for line := range strings.Lines(config) {
			key, value, _ := strings.Cut(line, ":")
			if strings.HasPrefix(line, "[") {
				break
			}
			if key == "affinity" || (strings.HasPrefix(key, "numa") && strings.Contains(value, "hostnodes=")) {
				m.Guests = append(m.Guests, vmid)
				break
			}
		}
	}
	if n := len(m.Guests); n > 0 {
		slices.Sort(m.Guests)
		m.Does += fmt.Sprintf(", %d of them with affinity or hostnodes", n)
		m.Owns = "guests with affinity or hostnodes"
	}
	return []measure.Manager{m}
}

// exclusive is the CPUs that a cpu_manager_state gives to single containers.
func exclusive(state []byte) topology.CPUSet {
	var s struct {
		Entries map[string]map[string]string `json:"entries"` // pod, container, CPU set
	}
	var all topology.CPUSet
	if json.Unmarshal(state, &s) != nil {
		return all
	}
	for _, containers := range s.Entries {
		for _, list := range containers {
			if cpus, err := topology.ParseCPUSet(list); err == nil {
				all = all.Union(cpus)
			}
		}
	}
	return all
}

// ownMark is in the metadata of guests that homenode pins (host/libvirt/domain,
// Namespace); those pins are not made by hand.
const ownMark = "https://github.com/homenode/homenode/libvirt/"

// hooks is where libvirt looks for what it calls when a guest comes in (homenode vm hook).
const hooks = "etc/libvirt/hooks/"

// noHook reports whether a guest that homenode bound runs here, and libvirt does not ask
// homenode when one comes in from another host: it would come with that host's nodes.
func noHook(fsys fs.FS) bool {
	for _, name := range []string{hooks + "qemu.d/homenode", hooks + "qemu"} {
		if t, ok := text(fsys, name); ok && strings.Contains(t, "homenode") && strings.Contains(t, "vm hook") {
			return false
		}
	}
	return slices.ContainsFunc(runningGuests(fsys), func(g [2]string) bool { return strings.Contains(g[1], ownMark) })
}

// runningGuests is the names of running guests with what libvirt has written of them, rising.
func runningGuests(fsys fs.FS) (out [][2]string) {
	const dir = "run/libvirt/qemu"
	entries, _ := fs.ReadDir(fsys, dir)
	for _, e := range entries {
		if name, isXML := strings.CutSuffix(e.Name(), ".xml"); isXML {
			t, _ := text(fsys, dir+"/"+e.Name())
			out = append(out, [2]string{name, t})
		}
	}
	return out
}

// pinnedGuests names running guests whose definition pins something by hand, rising.
func pinnedGuests(fsys fs.FS) []string {
	var names []string
	for _, g := range runningGuests(fsys) {
		name, t := g[0], g[1]
		pins := strings.Contains(t, "<vcpupin ") || strings.Contains(t, "<emulatorpin ") ||
			strings.Contains(t, "<numatune>")
		if pins && !strings.Contains(t, ownMark) {
			names = append(names, name)
		}
	}
	return names
}
