package topology

import "slices"

// SameMachine reports whether two readings show the same machine: all is equal but free and reclaimable memory, which
// changes from second to second, and the notes.
func (h *Host) SameMachine(g *Host) bool {
	if h == g {
		return true
	}
	return h.CPU == g.CPU && same(h.Nodes, g.Nodes, sameNode) && h.sameCPUs(g) && h.sameCosts(g) &&
		same(h.Devices, g.Devices, func(a, b Device) bool { return a == b })
}

func (h *Host) sameCPUs(g *Host) bool {
	return h.Online.Equal(g.Online) && h.Offline.Equal(g.Offline) &&
		h.Allowed.Equal(g.Allowed) && h.AllowedMems.Equal(g.AllowedMems) &&
		same(h.Packages, g.Packages, func(a, b Package) bool { return a.ID == b.ID && a.CPUs.Equal(b.CPUs) }) &&
		same(h.Cores, g.Cores, sameCore) && same(h.LLCs, g.LLCs, sameLLC)
}

// sameCosts reports whether accesses cost the same.
func (h *Host) sameCosts(g *Host) bool {
	return same(h.Distances, g.Distances, slices.Equal[[]int]) &&
		same(h.HMAT, g.HMAT, slices.Equal[[]float64]) &&
		same(h.HMATBandwidth, g.HMATBandwidth, slices.Equal[[]float64]) &&
		h.Tiering.same(&g.Tiering) && h.Measured.same(g.Measured)
}

func sameNode(a, b Node) bool {
	return a.ID == b.ID && a.Package == b.Package && a.CPUs.Equal(b.CPUs) &&
		a.Memory == b.Memory && a.Kind == b.Kind && a.Type == b.Type &&
		slices.Equal(a.HugePages, b.HugePages) && slices.Equal(a.Evidence, b.Evidence)
}

func sameCore(a, b Core) bool {
	return a.Node == b.Node && a.Package == b.Package && a.Capacity == b.Capacity && a.CPUs.Equal(b.CPUs)
}

func sameLLC(a, b LLC) bool {
	return a.ID == b.ID && a.Level == b.Level && a.Size == b.Size && a.CPUs.Equal(b.CPUs) && a.Nodes.Equal(b.Nodes)
}

func (t *Tiering) same(u *Tiering) bool {
	return t.Demotion == u.Demotion && t.Promotion == u.Promotion && (t.Tiers == nil) == (u.Tiers == nil) &&
		same(t.Tiers, u.Tiers, func(a, b Tier) bool { return a.ID == b.ID && a.Nodes.Equal(b.Nodes) })
}

func (m *Measured) same(n *Measured) bool {
	if m == n || m == nil || n == nil {
		return m == n
	}
	return m.LineOwnNs == n.LineOwnNs && m.LineOtherNs == n.LineOtherNs && m.Source == n.Source &&
		same(m.LatencyNs, n.LatencyNs, slices.Equal[[]float64]) &&
		same(m.BandwidthMiBs, n.BandwidthMiBs, slices.Equal[[]float64])
}

// same reports whether two slices are equal: those of two readings are mostly one slice.
func same[T any](a, b []T, equal func(x, y T) bool) bool {
	if len(a) != len(b) {
		return false
	}
	return len(a) == 0 || &a[0] == &b[0] || slices.EqualFunc(a, b, equal)
}
