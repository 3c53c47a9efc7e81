package workload

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Tier is how a workload meets others where they want the same CPU.
type Tier string

// The tiers, strongest first. Group Identity of Alinux and Anolis (cpu.bvt_warp_ns) and
// openEuler (cpu.qos_level) have numbers for them.
const (
	OnlineStrict Tier = "online-strict" // 2: offline work keeps off the SMT siblings of its cores, too
	Online       Tier = "online"        // 1: offline work gives way
	Normal       Tier = "normal"        // 0
	OfflineTier  Tier = "offline"       // -1, -2: class offline
)

// OfflineSlice and OfflineGroup are the slice of systemd, and without systemd the cgroup, in
// which `homenode run` gives each offline command a cgroup of its own.
const (
	OfflineSlice = "homenode-offline.slice"
	OfflineGroup = "homenode-offline"
)

// OfRun reports whether a cgroup is one that `homenode run` has made for an offline command:
// nothing else is in it.
func OfRun(cgroup string) bool {
	parent := path.Base(path.Dir(cgroup))
	return parent == OfflineSlice || path.Dir(cgroup) == "/"+OfflineGroup
}

// Tiers lists the tiers, strongest first.
var Tiers = []Tier{OnlineStrict, Online, Normal, OfflineTier}

// ParseTier reads the name of a tier, or the number that Group Identity and openEuler have
// for it; "" stays.
func ParseTier(s string) (Tier, error) {
	if s == "" {
		return "", nil
	}
	if t, ok := map[string]Tier{"2": OnlineStrict, "1": Online, "0": Normal, "-1": OfflineTier, "-2": OfflineTier}[strings.TrimSpace(s)]; ok {
		return t, nil
	}
	if slices.Contains(Tiers, Tier(s)) {
		return Tier(s), nil
	}
	return "", fmt.Errorf("tier %q: want online-strict, online, normal or offline, or 2 to -2 as Group Identity has them", s)
}

// With is the class and tier of what says both, "" for what it does not say: offline is a class
// and a tier, and no other tier goes with that class.
func (t Tier) With(class Class) (Class, Tier, error) {
	switch {
	case t == OfflineTier && (class == "" || class == Offline):
		return Offline, t, nil
	case t == OfflineTier, t != "" && class == Offline:
		return class, t, fmt.Errorf("tier: %s does not go with class %s", t, class)
	}
	return class, t, nil
}

// Of is the tier of work of a class that was told t, or nothing.
func (t Tier) Of(class Class) Tier {
	switch {
	case class == Offline:
		return OfflineTier
	case t != "":
		return t
	case class == Dedicated:
		return OnlineStrict
	}
	return Normal
}

// Important reports whether offline work is taken back when work of a tier and class waits:
// what has no tier is important when it is dedicated.
func (t Tier) Important(class Class) bool {
	return t == OnlineStrict || t == Online || t == "" && class == Dedicated
}
