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
	OnlineStrict Tier = "online-strict" // 2: batch work keeps off the SMT siblings of its cores, too
	Online       Tier = "online"        // 1: batch work gives way
	Normal       Tier = "normal"        // 0
	BatchTier    Tier = "batch"         // -1, -2: class batch
)

// BatchSlice and BatchGroup are the slice of systemd, and without systemd the cgroup, in
// which `homenode run` gives each batch command a cgroup of its own. Those before them are
// what they were called before version 0.2: commands that started then are in these until they end.
const (
	BatchSlice       = "homenode-batch.slice"
	BatchGroup       = "homenode-batch"
	BatchSliceBefore = "homenode-offline.slice"
	BatchGroupBefore = "homenode-offline"
)

// OfRun reports whether a cgroup is one that `homenode run` has made for a batch command:
// nothing else is in it.
func OfRun(cgroup string) bool {
	switch path.Base(path.Dir(cgroup)) {
	case BatchSlice, BatchSliceBefore:
		return true
	}
	switch path.Dir(cgroup) {
	case "/" + BatchGroup, "/" + BatchGroupBefore:
		return true
	}
	return false
}

// Tiers lists the tiers, strongest first.
var Tiers = []Tier{OnlineStrict, Online, Normal, BatchTier}

// ParseTier reads the name of a tier, or the number that Group Identity and openEuler have
// for it; "" stays.
func ParseTier(s string) (Tier, error) {
	if s == "" {
		return "", nil
	}
	if t, ok := map[string]Tier{"2": OnlineStrict, "1": Online, "0": Normal, "-1": BatchTier,
		"-2": BatchTier}[strings.TrimSpace(s)]; ok {
		return t, nil
	}
	if s == offline {
		return BatchTier, nil
	}
	if slices.Contains(Tiers, Tier(s)) {
		return Tier(s), nil
	}
	return "", fmt.Errorf("tier %q: want online-strict, online, normal or batch, or 2 to -2 as Group Identity has them",
		s)
}

// UnmarshalText reads a tier as Class.UnmarshalText does a class.
func (t *Tier) UnmarshalText(text []byte) error {
	if *t = Tier(text); *t == offline {
		*t = BatchTier
	}
	return nil
}

// With is the class and tier of what says both, "" for what it does not say: batch is a class
// and a tier, and no other tier goes with that class.
func (t Tier) With(class Class) (Class, Tier, error) {
	switch {
	case t == BatchTier && (class == "" || class == Batch):
		return Batch, t, nil
	case t == BatchTier, t != "" && class == Batch:
		return class, t, fmt.Errorf("tier: %s does not go with class %s", t, class)
	}
	return class, t, nil
}

// Of is the tier of work of a class that was told t, or nothing.
func (t Tier) Of(class Class) Tier {
	switch {
	case class == Batch:
		return BatchTier
	case t != "":
		return t
	case class == Dedicated:
		return OnlineStrict
	}
	return Normal
}

// Important reports whether batch work is taken back when work of a tier and class waits:
// what has no tier is important when it is dedicated.
func (t Tier) Important(class Class) bool {
	return t == OnlineStrict || t == Online || (t == "" && class == Dedicated)
}
