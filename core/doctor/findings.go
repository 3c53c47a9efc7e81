package doctor

import (
	"fmt"
	"strings"

	"github.com/homenode/homenode/core/measure"
)

// sayer adds a finding.
type sayer func(subject string, severity measure.Severity, advice, format string, args ...any)

// findings judges settings and other programs.
func findings(d *measure.Document) []measure.Finding {
	s := d.Settings
	if s == nil {
		return nil
	}
	var out []measure.Finding
	var say sayer = func(subject string, severity measure.Severity, advice, format string, args ...any) {
		out = append(out, measure.Finding{Subject: subject, Severity: severity, Says: fmt.Sprintf(format, args...),
			Advice: advice})
	}
	many := len(d.Nodes) > 1
	if s.Balancing != nil && many {
		switch *s.Balancing {
		case 0:
			say("NUMA balancing", measure.Healthy, "", "off: the kernel moves no memory by itself")
		case 2:
			say("NUMA balancing", measure.Info, "", "2: the kernel moves pages between memory tiers")
		default:
			say("NUMA balancing", measure.Info,
				"for work that homenode places it can be switched off: echo 0 > /proc/sys/kernel/numa_balancing",
				"on: the kernel samples accesses by page faults and moves pages itself, which costs some time and "+
					"may work against a placement")
		}
	}
	switch s.THP {
	case "never":
		say("transparent huge pages", measure.Info, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
			"never: large heaps pay for a page table walk on most cache misses; latencies here are measured on 4 "+
				"KiB pages")
	case "always", "madvise":
		say("transparent huge pages", measure.Healthy, "", "%s", s.THP)
	}
	if s.ZoneReclaim != nil && *s.ZoneReclaim != 0 && many {
		say("zone_reclaim_mode", measure.Warning, "echo 0 > /proc/sys/vm/zone_reclaim_mode",
			"%d: a full node drops its page cache before it takes free memory of another; file servers and "+
				"databases stall", *s.ZoneReclaim)
	}
	if c := s.Counters; c != nil {
		says, severity := locality(c, s.Balancing)
		say("locality", severity, "", "%s", says)
	}
	switch {
	case s.SchedExt == "homenode":
		say("sched_ext", measure.Healthy, "", "homenode's scheduler for batch work is loaded (homenode share status)")
	case s.SchedExt == "none":
		say("sched_ext", measure.Healthy, "",
			"the kernel takes a scheduler for batch work; homenode loads one while sharing is on")
	case s.SchedExt != "":
		say("sched_ext", measure.Info, "stop it to have homenode keep batch work off the SMT siblings of online work",
			"the scheduler %s is loaded: the kernel takes one at a time, and homenode leaves it alone", s.SchedExt)
	}
	if s.CgroupV1 {
		say("cgroups", measure.Info,
			"boot with systemd.unified_cgroup_hierarchy=1 to have containers and services placed as a whole, and "+
				"before they start",
			"version 1: homenode places large processes one by one, by CPU affinity, those of containers too")
	}
	if s.NoHook {
		say("guests from other hosts", measure.Warning,
			"homenode vm hook --install, on every host that guests come to, then start libvirt's daemon anew",
			"libvirt has no hook of homenode's: a guest that homenode bound comes by live migration with the nodes "+
				"of the host it left, and does not start where those are missing")
	}
	for _, p := range s.HugePages {
		if f, ok := lopsided(d, p); ok {
			out = append(out, f)
		}
	}
	managers(say, s.Managers)
	for _, q := range s.Queues {
		switch {
		case q.Away == 0:
		case q.Kind == "nvme" && q.Away < q.Total:
			// A queue per CPU, all over the machine, is how NVMe is meant to be.
		case q.Away*2 > q.Total:
			say(q.Device, measure.Warning,
				fmt.Sprintf("give its interrupts CPUs of node%d (irq: place in the configuration, irqbalance with a "+
					"hint, or /proc/irq/N/smp_affinity_list)", q.Node),
				"%d of %d interrupts go to CPUs of other nodes than the device's, node%d", q.Away, q.Total, q.Node)
		}
	}
	return out
}

// managers judges other programs that place things.
func managers(say sayer, all []measure.Manager) {
	for _, m := range all {
		switch m.Name {
		case "numad":
			say(m.Name, measure.Warning,
				"stop numad, or keep homenode in observe mode: two movers work against each other", "runs: it %s",
				m.Does)
		case "kubelet":
			say(m.Name, measure.Info, "homenode leaves alone what the kubelet has given out",
				"%s: it hands out CPUs or memory itself", m.Does)
		case Proxmox:
			if m.Owns == "" {
				say(m.Name, measure.Healthy, "", "%s", m.Does)
			} else {
				say(m.Name, measure.Info, "homenode leaves those alone; qm set VMID --delete affinity gives one to it",
					"%s", m.Does)
			}
		case "libvirt":
			say(m.Name, measure.Info, "homenode leaves guests with pins of their own alone", "%s", m.Does)
		case "tuned":
			say(m.Name, measure.Info, "", "runs: it %s", m.Does)
		case "irqbalance":
			say(m.Name, measure.Info, "", "runs: it %s", m.Does)
		}
	}
}

// locality says by what it can be known where accesses go.
func locality(c *measure.Counters, balancing *int) (string, measure.Severity) {
	by := []string{}
	if len(c.PMUs) > 0 {
		text := "hardware counters (" + strings.Join(c.PMUs, ", ")
		if c.Paranoid != nil && *c.Paranoid > 0 {
			text += "; they take root or CAP_PERFMON"
		}
		by = append(by, text+")")
	}
	if balancing != nil && *balancing&1 != 0 {
		by = append(by, "the kernel's samples (NUMA balancing)")
	}
	says := "accesses can be followed by " + strings.Join(append(by, "residence (CPU time × memory)"), ", ")
	if len(c.PMUs) == 0 {
		says += "; there are no hardware counters, as in most guests"
	}
	switch {
	case c.IMC > 0:
		says += fmt.Sprintf("; traffic by %d memory controllers' counters", c.IMC)
	case c.MBM:
		says += "; traffic by resctrl"
	default:
		says += "; traffic by nothing but estimates"
	}
	if len(by) == 0 {
		return says, measure.Info
	}
	return says, measure.Healthy
}

// lopsided tells of a huge page pool that lies mostly on one of the nodes.
func lopsided(d *measure.Document, p measure.HugePool) (measure.Finding, bool) {
	var total, with int64
	var parts []string
	for i, n := range p.Total {
		if i >= len(d.Nodes) || d.Nodes[i].CPUs.Empty() {
			continue
		}
		total += n
		if n > 0 {
			with++
		}
		parts = append(parts, fmt.Sprintf("node%d %d", d.Nodes[i].ID, n))
	}
	if total == 0 || len(parts) < 2 {
		return measure.Finding{}, false
	}
	f := measure.Finding{Subject: fmt.Sprintf("huge pages of %s", pageSize(p.SizeKiB)), Severity: measure.Healthy,
		Says: strings.Join(parts, ", ")}
	for i, n := range p.Total {
		if (i < len(d.Nodes) && n*int64(len(parts)) > 2*total) ||
			(with < int64(len(parts)) && n == 0 && i < len(d.Nodes) && !d.Nodes[i].CPUs.Empty()) {
			f.Severity = measure.Warning
			f.Says += ": unevenly spread, so guests fit on some nodes only"
			f.Advice = "set node*/hugepages/*/nr_hugepages per node, or hugepages=NODE:COUNT,… at boot"
			break
		}
	}
	return f, true
}

func pageSize(kib int64) string {
	if kib >= 1<<20 {
		return fmt.Sprintf("%d GiB", kib>>20)
	}
	return fmt.Sprintf("%d MiB", kib>>10)
}
