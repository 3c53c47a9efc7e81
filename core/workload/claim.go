package workload

import (
	"slices"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// Caps says what can be done with a workload. Deciders ask this and never what kind
// of workload it is. The zero value is a cgroup or process as it is observed.
type Caps struct {
	// MemoryFollows: when the nodes that its memory may lie on are set, the kernel or its
	// manager moves what lies elsewhere there, at full speed. Otherwise pages are
	// moved first and the nodes narrowed last.
	MemoryFollows bool `json:",omitzero"`
	// MemoryStays: its memory is bound for as long as it runs, each part of it to a node.
	MemoryStays bool `json:",omitzero"`
	// AtOnce is how much memory may follow so without being paced.
	AtOnce topology.KiB `json:",omitzero"`
	// NextStart: where it will be when it is started next can be set by itself.
	NextStart bool `json:",omitzero"`
	// Inherits: what it starts has its CPUs by inheritance (sched_setaffinity(2)).
	Inherits bool `json:",omitzero"`
	// Rebinds: a narrower set of nodes is its manager's to widen again, so that Mems says
	// where it is, not where it may go.
	Rebinds bool `json:",omitzero"`
	// PinsThreads: its driver gives threads of it CPUs of their own, and its source tells of
	// those that others gave: that some have them (Observation.Pinned) says nothing.
	PinsThreads bool `json:",omitzero"`
	// GPUs: its manager gives it several, so that each of its processes may open another: what they
	// have open is read before that of others.
	GPUs bool `json:",omitzero"`
	// Evicts: its manager can be asked to stop it or to run it elsewhere.
	Evicts bool `json:",omitzero"`
}

// Claim is what a source knows of one workload that cgroups and processes do not show.
// Where it is silent the observation holds; only that its threads have CPUs of their own
// (Observation.Pinned) says nothing of a claimed one: that is its manager's doing.
type Claim struct {
	// ID replaces the observed one. "" keeps it: such a claim is of everything below
	// Cgroups that no other claim has found, and never a workload of its own.
	ID   ID
	Name string // for people, and for the patterns of rules
	// Also is other names that only it has, such as the UUID of a guest.
	Also []string `json:",omitempty"`
	// How it is found among the observations, the first that is set: a process of it, or
	// its cgroups (see Covers). All that is found at the paths of Cgroups is one workload,
	// the first of it the one that steps are about. A claim that is Running and finds
	// nothing is a workload of its own.
	Process Process
	Cgroups []string
	Running bool // false: it is off; only Holds and Next count

	// Part is what of another workload, which some claim before this one is about, is meant; nil
	// for a workload of its own. It is Running with the process of the whole.
	Part *Part `json:",omitempty"`

	Driver Kind // that changes it; "" as observed
	Caps   Caps
	Spec   *Spec // nil: derived from what was seen, as are CPUs and Memory that are 0
	Ruled  bool  `json:",omitzero"` // Spec has what the rules of the configuration say of it
	// Owner is the party responsible for it, where its source knows: the namespace of a pod. Asked is who made
	// each wish of Spec: the owner's ceiling covers its own (core/control/scene/ceiling.go).
	Owner Owner `json:",omitzero"`
	Asked Asked `json:",omitzero"`

	// Began is what homenode had set of it before it began, as long as that stands: nothing was
	// set there else.
	Began []Began `json:",omitempty"`

	// What its manager gives it now; empty is everything the host allows.
	CPUs topology.CPUSet
	Mems topology.NodeSet
	// Home is what CPUs and Mems amount to; nil when they give it no home. The ledger
	// knows better only while homenode itself is about to change them.
	Home *Placement
	// VCPUSets is the CPUs that the thread of each vCPU may use, rising by vCPU, where Caps.PinsThreads;
	// empty for a thread that has ended.
	VCPUSets []topology.CPUSet `json:",omitempty"`
	// Within is the CPUs that its manager lets it have; empty is all. Where shared work may have
	// others, too, it is left alone.
	Within topology.CPUSet `json:",omitzero"`
	// Holds is what is kept for it whatever homenode thinks: CPUs that others pinned, of
	// its emulator, of a definition that is off. Nobody else gets them.
	Holds []Placement
	// Fixed: it is where Home says and is not moved.
	Fixed bool
	// Booked: what it uses is in the ledger under another name.
	Booked bool `json:",omitzero"`
	// Crowd: it runs whatever other shared work has booked: a crowded home is better than none.
	Crowd bool `json:",omitzero"`
	// MovedBy is the command that moves it where homenode move does not, when Fixed.
	MovedBy string
	// Alone is why it must be left alone; the zero Reason when it is homenode's to place.
	Alone words.Reason
	Note  words.Reason `json:",omitzero"` // what else there is to say of where it is
	Next  *Next        // where it will be when it is started next; nil when nothing tells
}

// Began is sets of a cgroup, in list format, that it had when its first process began; "" is
// none.
type Began struct {
	Cgroup string
	Object string // inode of it
	CPUs   string `json:",omitempty"`
	Mems   string `json:",omitempty"`
}

// Next is where a workload will be when it is started next.
type Next struct {
	Spec Spec
	CPUs topology.CPUSet
	Mems topology.NodeSet
	Home *Placement // nil: nowhere
	// Ours: homenode wrote it. What runs without a home and is not left alone goes there.
	Ours bool
	// Alone is why it is not written anew.
	Alone words.Reason
}

// Covers reports whether a cgroup, a path below the cgroup root, is one of Cgroups or
// lies in one. Each of those is a path or, without a slash, the name of a cgroup at any
// depth, in which * stands for any characters.
func (c *Claim) Covers(cgroup string) bool {
	cgroup = strings.Trim(cgroup, "/")
	for _, want := range c.Cgroups {
		if path := strings.Trim(want, "/"); strings.Contains(want, "/") {
			if cgroup == path || strings.HasPrefix(cgroup, path+"/") {
				return true
			}
			continue
		}
		for name := range strings.SplitSeq(cgroup, "/") {
			if fits(want, name) {
				return true
			}
		}
	}
	return false
}

// fits reports whether a name is that of a pattern, in which * stands for any characters.
func fits(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	last := len(parts) - 1
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1:last] {
		if _, rest, ok = strings.Cut(rest, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, parts[last])
}

// Names returns the names of a claimed workload beside its ID and Name, and its cgroups; nil has none.
func (c *Claim) Names() []string {
	if c == nil {
		return nil
	}
	return slices.Concat(c.Also, c.Cgroups)
}
