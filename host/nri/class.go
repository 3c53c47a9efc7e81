package nri

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// prefix is that of homenode's annotations.
const prefix = "homenode.io/"

// Keys of annotations on a pod, prefix before them. For one container of it the key ends in
// .container/NAME, or in .container.NAME, for Kubernetes allows one slash.
const (
	keyClass      = "class"
	keyImportance = "importance"
	keyNear       = "near"
	keyMaxNodes   = "max-nodes"
	keyMemory     = "memory"
	keyTier       = "tier"
)

// podPull is how much stronger than by a device one part of a pod is drawn by another: what
// else speaks for a node is less.
const podPull = 4

var keys = []string{keyClass, keyImportance, keyNear, keyMaxNodes, keyMemory, keyTier}

// annotation is that of a container: its own, else its pod's.
func (p *pod) annotation(key string, c *container) (value string, own, ok bool) {
	if c != nil {
		for _, sep := range []string{"/", "."} {
			if value, ok := p.annotations[prefix+key+".container"+sep+c.name]; ok {
				return value, true, true
			}
		}
	}
	value, ok = p.annotations[prefix+key]
	return value, false, ok
}

// apart reports whether a container is a workload of its own: a dedicated one, one with a
// claim, and one that annotations of its own tell from the rest of its pod.
func (p *pod) apart(c *container) bool {
	if len(c.claims) > 0 {
		return true
	}
	for _, key := range []string{keyClass, keyImportance, keyNear, keyMaxNodes, keyTier} {
		if _, own, _ := p.annotation(key, c); own {
			return true
		}
	}
	value, _, _ := p.annotation(keyClass, c)
	return value == string(workload.Dedicated)
}

// spec is what a workload wants: by its annotations, else by the configuration, else by the
// QoS class of its pod; and what in its annotations is not understood. Sizes that nobody told
// are 0.
func (o *Options) spec(g *group) (spec workload.Spec, bad []string) {
	spec = workload.Spec{ID: g.id, Name: g.name(), Class: workload.Shared, Importance: workload.DefaultImportance}
	var has resources
	for i, c := range g.containers {
		has.add(c.has, i == 0)
	}
	if r := &g.pod.resources; !g.own && !g.pod.mixed() { // the kubelet knows of containers that are still to come
		if r.cpus() > 0 && (!g.pod.resized || has.cpus() == 0) {
			has.shares, has.quota, has.period = r.shares, r.quota, r.period
		}
		if r.memory > 0 && (!g.pod.resized || has.memory == 0) {
			has.memory = r.memory
		}
	}
	spec.CPUs, spec.Memory, spec.HugePage = has.cpus(), has.kib(), has.huge
	if g.pod.bestEffort(&has) {
		spec.Importance = 0
		if o.BestEffort != "" {
			spec.Class = o.BestEffort
		}
	}
	if o.Rule != nil {
		if r := o.Rule(g.names(), g.pod.labels); r != nil {
			r.Apply(&spec)
		}
	}
	var c *container
	if g.own {
		c = g.containers[0]
	}
	bad = g.pod.annotate(&spec, c)
	if !g.own { // of several containers the memory of those that say so is theirs
		bad = append(bad, g.pod.memoryOf(&spec, g.containers)...)
	}
	if len(spec.Near) == 0 { // the parts of a pod are near each other
		for _, other := range g.pod.groups() {
			if other.id != g.id && len(other.containers) > 0 {
				spec.Near = append(spec.Near, workload.Near{Workload: other.id, Weight: podPull})
			}
		}
	}
	spec.Given = spec.CPUs > 0 && spec.Memory > 0 || spec.Class == workload.Dedicated
	if spec.Class == workload.Dedicated {
		spec.CPUs = max(1, spec.CPUs)
	}
	return spec, bad
}

// mixed reports whether some containers of a pod are workloads of their own.
func (p *pod) mixed() bool {
	return slices.ContainsFunc(p.containers, p.apart)
}

// bestEffort reports whether a pod has the QoS class BestEffort: its cgroup says so, or nobody
// has asked for anything.
func (p *pod) bestEffort(has *resources) bool {
	if strings.Contains(p.parent, "kubepods") {
		return strings.Contains(p.parent, "besteffort")
	}
	return has.cpus() == 0 && has.memory == 0
}

// annotate puts what annotations ask for into a spec. What is wrong says nothing.
func (p *pod) annotate(spec *workload.Spec, c *container) (bad []string) {
	wrong := func(key, value, want string) {
		bad = append(bad, fmt.Sprintf("annotation %s%s: %q; want %s", prefix, key, printable(cut(value)), want))
	}
	for _, key := range keys {
		value, _, ok := p.annotation(key, c)
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch key {
		case keyClass:
			class, err := workload.ParseClass(value)
			if err != nil {
				wrong(key, value, "dedicated, shared or offline")
				class = workload.Shared
			}
			spec.Class = class
		case keyImportance:
			if n, err := strconv.Atoi(value); err == nil && n >= 0 && n <= 100 {
				spec.Importance = n
			} else {
				wrong(key, value, "0 to 100")
			}
		case keyNear:
			var err error
			if spec.Near, err = workload.ParseNear(value); err != nil {
				wrong(key, value, "1 to 16 of device=NAME (a name or PCI address), process=NAME, service=NAME and NAMESPACE/POD, each with policy=required after it if wanted")
			}
		case keyMaxNodes:
			if n, err := strconv.Atoi(value); err == nil && n >= 1 && n <= topology.MaxID {
				spec.MaxNodes = n
			} else {
				wrong(key, value, "1 or more")
			}
		case keyMemory:
			if kib, ok := size(value); ok {
				spec.Memory = kib
			} else {
				wrong(key, value, "a size with a unit, such as 8GiB")
			}
		case keyTier: // after the class
			tier, err := workload.ParseTier(value)
			class := spec.Class
			if _, _, said := p.annotation(keyClass, c); !said && tier != "" {
				class = "" // what the rules say of the class gives way
			}
			if err == nil {
				class, tier, err = tier.With(class)
			}
			if err != nil {
				wrong(key, value, "online-strict, online, normal or offline (2 to -2), and offline with no other class")
				continue
			}
			if spec.Tier = tier; class != "" {
				spec.Class = class
			} else if spec.Class == workload.Offline {
				spec.Class = workload.Shared
			}
		}
	}
	if c == nil {
		bad = append(bad, p.unknown()...)
	}
	return bad
}

// memoryOf is the memory that containers of a pod ask for by annotations of their own.
func (p *pod) memoryOf(spec *workload.Spec, all []*container) (bad []string) {
	var sum topology.KiB
	for _, c := range all {
		value, own, _ := p.annotation(keyMemory, c)
		if !own {
			continue
		}
		kib, ok := size(value)
		if !ok {
			bad = append(bad, fmt.Sprintf("annotation %s%s of container %s: %q; want a size with a unit, such as 8GiB", prefix, keyMemory, c.name, printable(cut(value))))
		}
		sum += kib
	}
	if sum > 0 {
		spec.Memory = max(spec.Memory, sum)
	}
	return bad
}

// unknown is annotations of homenode that mean nothing.
func (p *pod) unknown() (bad []string) {
	for full := range p.annotations {
		key := strings.TrimPrefix(full, prefix)
		base, rest, scoped := strings.Cut(key, ".container")
		if !slices.Contains(keys, base) || scoped && len(rest) < 2 {
			bad = append(bad, fmt.Sprintf("annotation %s: unknown; known are %s", printable(cut(full)), strings.Join(keys, ", ")))
		}
	}
	slices.Sort(bad)
	return bad[:min(len(bad), 8)]
}

// size reads 8GiB, 8Gi and 8G, which all have a unit.
func size(text string) (topology.KiB, bool) {
	text = strings.TrimSpace(text)
	n, err := humanize.ParseBytes(text)
	if _, bare := strconv.ParseFloat(text, 64); err != nil || n == 0 || n > 1<<60 || bare == nil {
		return 0, false
	}
	return topology.KiB((n + 1023) / 1024), true
}

func cut(text string) string { return text[:min(len(text), 64)] }

func printable(text string) string { return words.Printable(text) }
