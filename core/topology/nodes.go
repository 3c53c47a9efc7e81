package topology

// Index returns the position of a node in Nodes, -1 for none.
func (h *Host) Index(id NodeID) int { return indexOf(h.Nodes, id) }

func indexOf(nodes []Node, id NodeID) int {
	for i := range nodes { // a Node is too large to be copied for each
		if nodes[i].ID == id {
			return i
		}
	}
	return -1
}

// Node returns a node by its ID, or nil.
func (h *Host) Node(id NodeID) *Node {
	i := h.Index(id)
	if i < 0 {
		return nil
	}
	return &h.Nodes[i]
}

// NodeOf returns the node that has a CPU, or None.
func (h *Host) NodeOf(cpu CPUID) NodeID {
	for i := range h.Nodes {
		if h.Nodes[i].CPUs.Has(cpu) {
			return h.Nodes[i].ID
		}
	}
	return None
}

// NodesWith returns the nodes for which keep is true.
func (h *Host) NodesWith(keep func(*Node) bool) (nodes NodeSet) {
	for i := range h.Nodes {
		if keep(&h.Nodes[i]) {
			nodes.Add(h.Nodes[i].ID)
		}
	}
	return nodes
}

// AllNodes returns the nodes of the host.
func (h *Host) AllNodes() NodeSet { return h.NodesWith(func(*Node) bool { return true }) }

// NodesOf returns the nodes that have some of the CPUs.
func (h *Host) NodesOf(cpus CPUSet) NodeSet {
	return h.NodesWith(func(n *Node) bool { return n.CPUs.Intersects(cpus) })
}

// WithMemory returns the nodes that have memory, also where it is not known how much.
func (h *Host) WithMemory() NodeSet { return h.NodesWith(func(n *Node) bool { return n.Memory != 0 }) }

// Memory returns the memory of all nodes, as far as it is known.
func (h *Host) Memory() (sum KiB) {
	for i := range h.Nodes {
		sum += max(0, h.Nodes[i].Memory)
	}
	return sum
}
