package proxmox

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

// mostConfig bounds a configuration: the cluster file system keeps none above 1 MiB.
const mostConfig = 1 << 20

// config is what homenode reads of a guest's configuration, qm.conf(5).
type config struct {
	name     string
	vcpus    int          // plugged in at the start
	possible int          // vCPUs that it can have
	memory   topology.KiB // at the start
	huge     string       // hugepages: "", any, 2 or 1024
	limit    float64      // cpulimit: CPUs' worth of time at most, 0 is none
	affinity topology.CPUSet
	lock     string   // what Proxmox is doing with it: migrate, backup, …
	nodes    string   // the first numaN line that binds memory to nodes of the host
	devices  []string // hostpciN: PCI devices handed over
	mark
	bad []string // what is not understood
}

// mark is what tags and the notes of a guest ask homenode for.
type mark struct {
	marked bool
	off    bool // homenode is to leave it alone
	rule   workload.Rule
	most   int // nodes (max-nodes), 0 for any
}

// option is a line of the first section (PVE::QemuServer, parse_vm_config).
var option = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z][a-z_\-]*)([0-9]*):\s*(.*?)\s*$`)
})

// readConfig reads a configuration. What is wrong in it is in bad, and stands as Proxmox'
// default. Snapshots and what is pending come after the first section and say nothing of
// what runs.
func readConfig(text string) config {
	c := config{vcpus: 1, memory: 512 << 10}
	sockets := 1
	cores := 1
	plugged := 0
	var notes strings.Builder
	number := func(line, value string, least, most int, into *int) {
		if n, err := strconv.Atoi(value); err == nil && n >= least && n <= most {
			*into = n
			return
		}
		c.wrong("%s: %q; want a number from %d to %d", line, value, least, most)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "[") {
			break
		}
		if note, isNote := strings.CutPrefix(line, "#"); isNote {
			notes.WriteString(decoded(note) + "\n")
			continue
		}
		m := option().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		key := m[1]
		index := m[2]
		value := m[3]
		if index != "" && key != "numa" && key != "hostpci" {
			continue
		}
		switch key {
		case "name":
			c.name = value
		case "description":
			notes.WriteString(decoded(value) + "\n")
		case "sockets":
			number(key, value, 1, 64, &sockets)
		case "cores":
			number(key, value, 1, mostVCPUs, &cores)
		case "vcpus":
			number(key, value, 1, mostVCPUs, &plugged)
		case "memory":
			mib := 0
			number(key, property(value, "current", true), 16, 1<<30, &mib)
			if mib > 0 {
				c.memory = topology.KiB(mib) << 10
			}
		case "hugepages":
			if c.huge = value; value != "any" && value != "2" && value != "1024" {
				c.huge = ""
				c.wrong("hugepages: %q; want any, 2 or 1024", value)
			}
		case "cpulimit":
			n, err := strconv.ParseFloat(value, 64)
			if err != nil || !(n >= 0 && n <= mostVCPUs) {
				c.wrong("cpulimit: %q; want a number of CPUs", value)
				break
			}
			c.limit = n
		case "affinity":
			cpus, err := topology.ParseCPUSet(value)
			if err != nil || cpus.Empty() {
				c.wrong("affinity: %q; want CPUs such as 0,5,8-11", value)
				break
			}
			c.affinity = cpus
		case "lock":
			c.lock = value
		case "tags":
			c.tags(value)
		case "numa":
			if index != "" && c.nodes == "" && property(value, "hostnodes", false) != "" {
				c.nodes = key + index
			}
		case "hostpci":
			c.devices = append(c.devices, property(value, "host", true))
		}
	}
	c.possible = min(sockets*cores, mostVCPUs)
	c.vcpus = c.possible
	if plugged > 0 {
		c.vcpus = min(c.vcpus, plugged)
	}
	c.notes(notes.String())
	c.devices = c.devices[:min(len(c.devices), 16)]
	c.bad = c.bad[:min(len(c.bad), 8)]
	return c
}

const mostVCPUs = proc.MostVCPUs

func (c *config) wrong(format string, args ...any) {
	for i, a := range args {
		if text, isText := a.(string); isText {
			args[i] = words.Printable(text[:min(len(text), 64)])
		}
	}
	c.bad = append(c.bad, fmt.Sprintf(format, args...))
}

// property is the value of KEY=VALUE in a list with commas; the first may stand without its key.
func property(list, key string, first bool) string {
	for i, part := range strings.Split(list, ",") {
		name, value, named := strings.Cut(part, "=")
		switch {
		case named && name == key:
			return value
		case !named && first && i == 0:
			return name
		}
	}
	return ""
}

// decoded takes off the escapes that Proxmox writes notes with (encode_text, PVE::ParseUtils).
func decoded(note string) string {
	if text, err := url.PathUnescape(note); err == nil {
		return text
	}
	return note
}

// tags reads homenode-dedicated, homenode-shared, homenode-batch and homenode-off among
// the tags of a guest, which ; , or a space separates.
func (c *config) tags(list string) {
	for _, tag := range strings.FieldsFunc(list, func(r rune) bool { return r == ';' || r == ',' || r == ' ' }) {
		says, ours := strings.CutPrefix(strings.ToLower(tag), "homenode-")
		if !ours {
			continue
		}
		if says == "off" {
			c.off = true
			continue
		}
		class, err := workload.ParseClass(says)
		if err != nil {
			c.wrong("tag %s; known are homenode-dedicated, homenode-shared, homenode-batch and homenode-off", tag)
			continue
		}
		c.marked, c.rule.Class = true, class
	}
}

// notes reads the lines of a guest's notes that begin with "homenode:", with KEY=VALUE, a
// space between two. They say more than tags can, and go before them.
func (c *config) notes(text string) {
	for line := range strings.Lines(text) {
		list, ours := strings.CutPrefix(strings.TrimSpace(line), "homenode:")
		if !ours {
			continue
		}
		c.marked = true
		for _, field := range strings.Fields(list) {
			key, value, _ := strings.Cut(field, "=")
			c.note(key, value)
		}
	}
}

func (c *config) note(key, value string) {
	switch key {
	case "class":
		class, err := workload.ParseClass(value)
		if err != nil {
			c.wrong("notes, homenode: class=%s; want dedicated, shared or batch", value)
			return
		}
		c.rule.Class = class
	case "importance":
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > 100 {
			c.wrong("notes, homenode: importance=%s; want 0 to 100", value)
			return
		}
		c.rule.Importance = &n
	case "smt":
		smt := workload.SMTPolicy(value)
		if smt != workload.SMTPrefer && smt != workload.SMTIsolate && smt != workload.SMTRequire {
			c.wrong("notes, homenode: smt=%s; want prefer, isolate or require", value)
			return
		}
		c.rule.SMT = smt
	case "near":
		if _, err := workload.ParseNear(value); err != nil {
			c.wrong("notes, homenode: near=%s; want devices by name or PCI address, process=NAME or service=NAME, "+
				"commas between, policy=required or policy=socket after what it needs", value)
			return
		}
		c.rule.Near = []string{value}
	case "max-nodes":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > topology.MaxID {
			c.wrong("notes, homenode: max-nodes=%s; want 1 or more", value)
			return
		}
		c.most = n
	default:
		c.wrong("notes, homenode: %s; known are class, importance, max-nodes, near and smt", key)
	}
}
