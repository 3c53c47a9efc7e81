package topology

import "strconv"

// readHMAT reads what the kernel took from the firmware's HMAT: for each node
// the read latency from its nearest initiators, and from no others
// (drivers/acpi/numa/hmat.c, node_set_perf_attrs in drivers/base/node.c). nil
// when it tells of none, or of no pair of two nodes: then the SLIT says more.
func readHMAT(t *tree, nodes []Node) [][]float64 {
	if len(nodes) < 2 {
		return nil
	}
	m, pairs := make([][]float64, len(nodes)), 0
	for i := range m {
		m[i] = make([]float64, len(nodes))
	}
	for j, n := range nodes {
		dir := nodePath(n.ID, "access0/initiators")
		text, ok := t.optional(nodeName(n.ID), dir+"/read_latency")
		// 0 is "not told", not "at once".
		ns, err := strconv.ParseUint(text, 10, 32)
		if !ok || err != nil || ns == 0 {
			continue
		}
		from, err := numbered[NodeID](t, dir, "node")
		if err != nil {
			continue
		}
		for id := range from.All() {
			if i := indexOf(nodes, id); i >= 0 {
				m[i][j] = float64(ns)
				if i != j {
					pairs++
				}
			}
		}
	}
	if pairs == 0 {
		return nil
	}
	return m
}
