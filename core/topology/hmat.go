package topology

import "strconv"

// readHMAT reads what the kernel took from the firmware's HMAT: for each node
// the read latency (ns) and bandwidth (MB/s) from its nearest initiators, and from no others
// (drivers/acpi/numa/hmat.c, node_set_perf_attrs in drivers/base/node.c). nil
// when it has no latency, or no pair of two nodes: then the SLIT says more.
func readHMAT(t *tree, nodes []Node) (latency, bandwidth [][]float64) {
	if len(nodes) < 2 {
		return nil, nil
	}
	pairs := 0
	table := func() [][]float64 {
		m := make([][]float64, len(nodes))
		for i := range m {
			m[i] = make([]float64, len(nodes))
		}
		return m
	}
	latency, bandwidth = table(), table()
	for j, n := range nodes {
		dir := nodePath(n.ID, "access0/initiators")
		ns, ok := t.figure(n.ID, dir+"/read_latency")
		if !ok {
			continue
		}
		from, err := numbered[NodeID](t, dir, "node")
		if err != nil {
			continue
		}
		mbs, _ := t.figure(n.ID, dir+"/read_bandwidth")
		for id := range from.All() {
			i := indexOf(nodes, id)
			if i < 0 {
				continue
			}
			latency[i][j], bandwidth[i][j] = ns, mbs
			if i != j {
				pairs++
			}
		}
	}
	if pairs == 0 {
		return nil, nil
	}
	return latency, bandwidth
}

// figure reads a number of the HMAT. 0 means unknown, not a latency of zero.
func (t *tree) figure(node NodeID, file string) (float64, bool) {
	text, ok := t.optional(nodeName(node), file)
	v, err := strconv.ParseUint(text, 10, 32)
	return float64(v), ok && err == nil && v > 0
}
