package nri

import (
	"cmp"
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
	keyClass      = workload.WishClass
	keyImportance = workload.WishImportance
	keyNear       = workload.WishNear
	keyMaxNodes   = workload.WishMaxNodes
	keyMemory     = "memory"
	keyTier       = workload.WishTier
	keyIsolated   = workload.WishIsolated
	keySLO        = "slo"
	keyPolicy     = "policy"
)

// podPull is how much stronger than by a device one part of a pod is drawn by another: what
// else speaks for a node is less.
const podPull = 4

var keys = []string{keyClass, keyImportance, keyNear, keyMaxNodes, keyMemory, keyTier, keyIsolated, keySLO, keyPolicy}

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
	for _, key := range keys {
		if _, own, _ := p.annotation(key, c); own && key != keyMemory { // memoryOf sums the memory
			return true
		}
	}
	value, _, _ := p.annotation(keyClass, c)
	return value == string(workload.Dedicated) && p.may(workload.MayBeDedicated) && p.guaranteed(&c.has) &&
		c.has.whole() > 0
}

// may reports whether a grant of the operator allows a wish to the author of a pod.
func (p *pod) may(wish workload.Permission) bool { return slices.Contains(p.allowed, wish) }

// grant notes what the operator allows to the author of a pod.
func (o *Options) grant(p *pod) *pod {
	p.allowed = nil
	for _, wish := range workload.Permissions {
		if slices.ContainsFunc(o.Grants, func(g workload.Grant) bool { return g.Allows(wish, p.namespace, p.labels) }) {
			p.allowed = append(p.allowed, wish)
		}
	}
	return p
}

// wanted is what a workload wants.
type wanted struct {
	workload.Spec
	asked   workload.Asked // who made each wish
	bad     []string       // annotations that cannot be read
	refused []words.Reason // wishes that were not followed
	inTurn  bool           // asked for pages in turn at home and in slower memory
}

// spec returns what a workload wants: by the configuration, else by the QoS class of its pod, and what its
// annotations may ask for beside that. Sizes that are not known are 0.
func (o *Options) spec(g *group) (w wanted) {
	w.Spec = workload.Spec{ID: g.id, Name: g.name(), Class: workload.Shared, Importance: workload.DefaultImportance}
	has := g.resources()
	w.CPUs = has.cpus()
	w.Memory = has.kib()
	w.HugePage = has.huge
	backing := workload.Backing{Guaranteed: g.pod.guaranteed(&has), CPUs: has.whole(), Limit: w.Memory}
	if has.shares <= noShares && w.CPUs > 0 { // a limit that no request stands behind
		w.asked.CPUs = workload.Own
	}
	switch { // a limit, which no scheduler counts
	case w.Memory == 0 || backing.Guaranteed:
	case g.pod.may(workload.MayBookMemory):
		w.asked.Memory = workload.Operator
	default:
		w.asked.Memory = workload.Own
	}
	if g.pod.bestEffort(&has) {
		w.Importance = 0
		w.Class = cmp.Or(o.BestEffort, w.Class)
	}
	if o.Rule != nil {
		if r := o.Rule(g.names(), g.pod.labels); r != nil {
			r.Apply(&w.Spec)
			r.Vouch(&w.asked)
		}
	}
	var c *container
	if g.own {
		c = g.containers[0]
	}
	var wishes workload.Wishes
	wishes, w.bad = g.pod.wishes(c, w.Class)
	w.refused = wishes.Over(&w.Spec, &w.asked, backing, g.pod.may)
	w.inTurn = wishes.Bandwidth && w.Class != workload.Dedicated
	if !g.own { // of several containers the memory of those that say so is theirs
		w.bad = append(w.bad, g.pod.memoryOf(&w.Spec, &w.asked, g.containers)...)
	}
	w.Near = nearGPUs(w.Near, g.containers)
	if len(w.Near) == 0 { // the parts of a pod are near each other
		for _, other := range g.pod.groups() {
			if other.id != g.id && len(other.containers) > 0 {
				w.Near = append(w.Near, workload.Near{Workload: other.id, Weight: podPull})
			}
		}
	}
	w.Given = (w.CPUs > 0 && w.Memory > 0) || w.Class == workload.Dedicated
	if w.Class == workload.Dedicated {
		w.CPUs = max(1, w.CPUs)
	}
	return w
}

// resources returns what the containers of a workload ask for together.
func (g *group) resources() (has resources) {
	for i, c := range g.containers {
		has.add(c.has, i == 0)
	}
	if r := &g.pod.resources; !g.own && !g.pod.mixed() { // the kubelet knows of containers that are still to come
		if r.cpus() > 0 && (!g.pod.resized || has.cpus() == 0) {
			has.shares = r.shares
			has.quota = r.quota
			has.period = r.period
		}
		if r.memory > 0 && (!g.pod.resized || has.memory == 0) {
			has.memory = r.memory
		}
	}
	return has
}

// mixed reports whether some containers of a pod are workloads of their own.
func (p *pod) mixed() bool {
	return slices.ContainsFunc(p.containers, p.apart)
}

// guaranteed reports whether a pod has the QoS class Guaranteed: its cgroup says so, or, without a
// kubelet, its limits are its requests.
func (p *pod) guaranteed(has *resources) bool {
	if strings.Contains(p.parent, "kubepods") {
		return !strings.Contains(p.parent, "besteffort") && !strings.Contains(p.parent, "burstable")
	}
	limited := has.quota > 0 && has.period > 0 && has.memory > 0
	return limited && uint64(has.quota)*1024 == has.shares*uint64(has.period)
}

// bestEffort reports whether a pod has the QoS class BestEffort: its cgroup says so, or nobody
// has asked for anything.
func (p *pod) bestEffort(has *resources) bool {
	if strings.Contains(p.parent, "kubepods") {
		return strings.Contains(p.parent, "besteffort")
	}
	return has.cpus() == 0 && has.memory == 0
}

// wishes reads what annotations ask for. What is wrong says nothing; class is the one without annotations.
func (p *pod) wishes(c *container, class workload.Class) (w workload.Wishes, bad []string) {
	wrong := func(key, value, want string) {
		bad = append(bad, fmt.Sprintf("annotation %s%s: %q; want %s", prefix, key, words.Clip(value, mostCited), want))
	}
	for _, key := range keys {
		value, _, ok := p.annotation(key, c)
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch key {
		case keyMemory:
			kib, ok := size(value)
			if !ok {
				wrong(key, value, "a size with a unit, such as 8GiB")
			}
			w.Memory = kib
		case keySLO:
			goal, err := workload.ParseGoal(value)
			if err != nil {
				wrong(key, value,
					"most=5% (of the time that it waits for a CPU) or of=baseline, with window=30s after it if wanted")
				continue
			}
			w.Goal = &goal
		case keyPolicy:
			w.Bandwidth = value == workload.PolicyBandwidth
			if !w.Bandwidth {
				wrong(key, value, workload.PolicyBandwidth)
			}
		default:
			want, _ := w.Read(key, value)
			if want != "" {
				wrong(key, value, want)
			}
			if want != "" && key == keyClass && class == workload.Dedicated {
				w.Class = workload.Shared
			}
		}
	}
	return w, bad
}

// memoryOf puts the memory that containers of a pod ask for by annotations of their own over a spec, each up to
// its limit.
func (p *pod) memoryOf(spec *workload.Spec, asked *workload.Asked, all []*container) (bad []string) {
	var sum topology.KiB
	granted := p.may(workload.MayBookMemory)
	for _, c := range all {
		value, own, _ := p.annotation(keyMemory, c)
		if !own {
			continue
		}
		kib, ok := size(value)
		if !ok {
			bad = append(bad, fmt.Sprintf("annotation %s%s of container %s: %q; want a size with a unit, such as 8GiB",
				prefix, keyMemory, c.name, words.Clip(value, mostCited)))
		}
		if !granted {
			kib = min(kib, c.has.kib())
		}
		sum += kib
	}
	if sum <= spec.Memory {
		return bad
	}
	spec.Memory, asked.Memory = sum, workload.Own
	if granted {
		asked.Memory = workload.Operator
	}
	return bad
}

// unknown is annotations of homenode that mean nothing: what is said of the first, and how many there are.
type unknown struct {
	first []string // mostTroubles at most
	all   int
}

// unknownOf finds the annotations that mean nothing. A pod keeps what it finds: its author may have
// written thousands.
func unknownOf(annotations map[string]string) (u unknown) {
	var names []string
	for full := range annotations {
		base, rest, scoped := strings.Cut(strings.TrimPrefix(full, prefix), ".container")
		if !slices.Contains(keys, base) || (scoped && len(rest) < 2) {
			names = append(names, full)
		}
	}
	slices.Sort(names)
	u.all = len(names)
	for _, full := range names[:min(mostTroubles, len(names))] {
		if strings.HasPrefix(full, prefix+markKey) {
			u.first = append(u.first, fmt.Sprintf("annotation %s: homenode alone writes it",
				words.Clip(full, mostCited)))
		} else {
			all := strings.Join(keys, ", ")
			u.first = append(u.first, fmt.Sprintf("annotation %s: unknown; known are %s", words.Clip(full, mostCited),
				all))
		}
	}
	return u
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
