package workload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// Permission names a wish of a pod's author that takes from other workloads: it needs a grant of
// the operator. A wish that only yields needs none: a weaker class or tier, or a lower
// importance, than the pod would have without it; fewer nodes; a preferred neighbour; less memory than
// the limit.
type Permission string

// Permissions, as a configuration writes them. A class or tier includes the weaker ones.
const (
	MayBeShared      Permission = "class=shared"       // though a rule or the QoS class makes it batch work
	MayBeDedicated   Permission = "class=dedicated"    // CPUs of its own; see Backing
	MayBeNormal      Permission = "tier=normal"        // though a rule or the QoS class makes it batch work
	MayBeOnline      Permission = "tier=online"        // batch work gives way: it may be squeezed, frozen and evicted
	MayBeStrict      Permission = "tier=online-strict" // … on SMT siblings, too
	MayBeImportant   Permission = "importance"         // any importance
	MayBookMemory    Permission = "memory"             // more than the limit, or without a limit
	MayHaveGoal      Permission = "slo"                // batch work gives way so that a latency goal holds
	MayRequireNearby Permission = "near=required"      // no home without the node of a device or workload
	MayBeIsolated    Permission = "isolated"           // moves interrupts and kernel work off its CPUs
)

// yielding is what a grant may list although everybody has it.
var yielding = []Permission{"near", "max-nodes", "class=batch", "tier=batch"}

// Permissions lists what a grant can allow.
var Permissions = []Permission{
	MayBeShared, MayBeDedicated, MayBeNormal, MayBeOnline, MayBeStrict,
	MayBeImportant, MayBookMemory, MayHaveGoal, MayRequireNearby, MayBeIsolated,
}

// ParsePermission reads an entry of a grant's list.
func ParsePermission(text string) (Permission, error) {
	p := Permission(text)
	if key, value, _ := strings.Cut(text, "="); value == offline {
		p = Permission(key + "=" + string(Batch))
	}
	if slices.Contains(Permissions, p) || slices.Contains(yielding, p) {
		return p, nil
	}
	all := make([]string, len(Permissions))
	for i := range Permissions {
		all[i] = string(Permissions[i])
	}
	return "", fmt.Errorf("%q; want some of %s", text, strings.Join(all, ", "))
}

// Grant lets the authors of some pods make wishes that take from other workloads.
type Grant struct {
	Allow []Permission `json:"allow"`
	// Namespaces is glob patterns, one at least: Kubernetes decides who may create pods in a namespace.
	Namespaces []string `json:"namespaces"`
	// Labels that the pod must have as well, all of them. The author of a pod writes its labels, so that they
	// choose among the pods of a namespace and never stand in for it.
	Labels map[string]string `json:"labels,omitempty"`
}

// implied is what each permission brings with it.
var implied = map[Permission][]Permission{
	MayBeIsolated:  {MayBeDedicated, MayBeShared, MayBeNormal},
	MayBeDedicated: {MayBeShared, MayBeNormal},
	MayBeShared:    {MayBeNormal},
	MayBeNormal:    {MayBeShared},
	MayBeStrict:    {MayBeOnline, MayBeNormal, MayBeShared},
	MayBeOnline:    {MayBeNormal, MayBeShared},
}

// Allows reports whether a grant covers a wish of the pods in a namespace with some labels.
func (g *Grant) Allows(p Permission, namespace string, labels map[string]string) bool {
	for key, value := range g.Labels {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	if !slices.ContainsFunc(g.Namespaces,
		func(pattern string) bool { return doublestar.MatchUnvalidated(pattern, namespace) }) {
		return false
	}
	return slices.ContainsFunc(g.Allow,
		func(have Permission) bool { return have == p || slices.Contains(implied[have], p) })
}

// Granted reports whether some grant allows an owner that is a namespace to make a wish, whatever
// the labels of a pod.
func Granted(grants []Grant, p Permission, o Owner) bool {
	namespace, ok := strings.CutPrefix(string(o), namespacePrefix)
	return ok && slices.ContainsFunc(grants, func(g Grant) bool { return g.Allows(p, namespace, nil) })
}

// Backing is what the cluster vouches for of a pod, or of one container of it.
type Backing struct {
	// Guaranteed is its QoS class: limits are requests, so that the scheduler has counted both.
	Guaranteed bool
	CPUs       int          // whole CPUs that it requests; 0 where it requests none or parts of one
	Limit      topology.KiB // of its memory; 0 for none
}

// Wishes is what the author of a pod asks for by annotation. What is zero says nothing.
type Wishes struct {
	Class      Class
	Tier       Tier // goes with Class
	Importance *int // 0 to 100
	Near       []Near
	MaxNodes   int // 1 or more
	Memory     topology.KiB
	Isolated   bool  // goes with class dedicated
	Goal       *Goal // of what the kernel counts
	Bandwidth  bool  // pages in turn at home and in slower memory next to it; not for dedicated work
}

// PolicyBandwidth is the memory policy of work that is bound by memory bandwidth.
const PolicyBandwidth = "bandwidth"

// classRank and tierRank rise with what a class or tier takes from others.
func classRank(c Class) int { return -slices.Index(Classes, c) }
func tierRank(t Tier) int   { return -slices.Index(Tiers, t) }

// Over puts wishes over what a pod has without them, by a rule or its QoS class. It returns which of them were not
// followed, and why. By asked, which it completes, the caller knows who made each wish that stands.
func (w *Wishes) Over(spec *Spec, asked *Asked, backing Backing, may func(Permission) bool) (refused []words.Reason) {
	no := func(wish string, why words.Reason) {
		refused = append(refused, words.Because(words.WishRefused, wish, why))
	}
	w.overClass(spec, asked, backing, may, no)
	if w.Importance != nil {
		switch n := *w.Importance; {
		case n <= spec.Importance:
			spec.Importance, asked.Importance = n, Own
		case may(MayBeImportant):
			spec.Importance, asked.Importance = n, Operator
		default:
			no(fmt.Sprintf("importance %d", n), words.Because(words.WishNotGranted, string(MayBeImportant)))
		}
	}
	w.overNear(spec, asked, may, no)
	if w.MaxNodes > 0 {
		spec.MaxNodes = w.MaxNodes
	}
	switch {
	case !w.Isolated || spec.Isolated:
	case spec.Class != Dedicated:
		no("isolated", words.Because(words.WishNotDedicated))
	case !may(MayBeIsolated):
		no("isolated", words.Because(words.WishNotGranted, string(MayBeIsolated)))
	default:
		spec.Isolated = true
	}
	if w.Bandwidth && spec.Class == Dedicated {
		no("policy "+PolicyBandwidth, words.Because(words.WishNotBound))
	}
	switch {
	case w.Goal == nil || slices.Contains(spec.Goals, *w.Goal):
	case !may(MayHaveGoal):
		no("slo "+w.Goal.String(), words.Because(words.WishNotGranted, string(MayHaveGoal)))
	case len(spec.Goals) > 0:
		no("slo "+w.Goal.String(), words.Because(words.WishRuled))
	default:
		spec.Goals = []Goal{*w.Goal}
	}
	if w.Memory > 0 {
		switch {
		case spec.Memory > 0 && w.Memory <= spec.Memory:
			spec.Memory = w.Memory
		case may(MayBookMemory):
			spec.Memory, asked.Memory = w.Memory, Operator
		case backing.Limit == 0:
			no("memory "+words.Size(w.Memory), words.Because(words.WishUnlimited))
		default:
			no("memory "+words.Size(w.Memory), words.Because(words.WishBeyondLimit))
		}
	}
	return refused
}

func (w *Wishes) overClass(spec *Spec, asked *Asked, backing Backing, may func(Permission) bool,
	no func(string, words.Reason)) {
	class, tier := w.Class, w.Tier
	if class == "" && tier == BatchTier {
		class = Batch
	}
	if class == "" && tier != "" && spec.Class == Batch {
		class = Shared
	}
	if class != "" && class != spec.Class {
		word := Own
		if classRank(class) > classRank(spec.Class) {
			word = Operator
			if why := classDenied(class, tier, backing, may); !why.None() {
				no(w.said(class), why)
				class = spec.Class
			}
		}
		if class != spec.Class {
			spec.Class, asked.Class = class, word
			if class == Batch || spec.Tier == BatchTier {
				spec.Tier = "" // that of the class
			}
		}
		if class == Dedicated {
			spec.CPUs = min(backing.CPUs, max(spec.CPUs, 1))
		}
		if spec.Class == Batch && tier != BatchTier { // the tier was refused with the class
			return
		}
	}
	switch {
	case tier == "":
	case tierRank(tier) <= tierRank(spec.Tier.Of(spec.Class)):
		spec.Tier, asked.Tier = tier, Own
	case may(Permission("tier=" + string(tier))):
		spec.Tier, asked.Tier = tier, Operator
	default:
		no("tier "+string(tier), words.Because(words.WishNotGranted, "tier="+string(tier)))
	}
}

// said is a class as the author asked for it.
func (w *Wishes) said(class Class) string {
	if w.Class == "" {
		return "tier " + string(w.Tier)
	}
	return "class " + string(class)
}

// classDenied is why a pod does not get a class that is stronger than its own.
func classDenied(class Class, tier Tier, backing Backing, may func(Permission) bool) words.Reason {
	need := Permission("class=" + string(class))
	if class == Shared && tier != "" {
		need = Permission("tier=" + string(tier))
	}
	switch {
	case !may(need):
		return words.Because(words.WishNotGranted, string(need))
	case class != Dedicated:
		return words.Reason{}
	case !backing.Guaranteed:
		return words.Because(words.WishNotGuaranteed)
	case backing.CPUs == 0:
		return words.Because(words.WishNotWhole)
	}
	return words.Reason{}
}

// overNear puts neighbours over those of a rule. What the rule requires stays.
func (w *Wishes) overNear(spec *Spec, asked *Asked, may func(Permission) bool, no func(string, words.Reason)) {
	if len(w.Near) == 0 {
		return
	}
	near := slices.DeleteFunc(slices.Clone(spec.Near), func(n Near) bool { return !n.Refuses() })
	asked.Near = Own
	for _, n := range w.Near {
		if n.Refuses() && may(MayRequireNearby) {
			asked.Near = Operator
		} else if n.Refuses() {
			policy := n.Policy()
			n.Prefer()
			no("near "+n.Name()+" with policy "+policy, words.Because(words.WishNotGranted, string(MayRequireNearby)))
		}
		near = append(near, n)
	}
	spec.Near = near[:min(len(near), MostNear)]
}
