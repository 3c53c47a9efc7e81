package topology

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
)

// Schema names the JSON form of a Host. It changes only when a reader of the
// old form would go wrong; new optional keys do not change it.
const Schema = "homenode-host/1"

// maxJSON bounds JSON input. A host of 64 nodes and 4,096 CPUs takes 400 KiB.
const maxJSON = 16 << 20

// What is unknown is null. Sets are in list format.
type (
	hostJSON struct {
		Schema   string        `json:"schema"`
		CPU      string        `json:"cpu,omitempty"` // CPU model; absent when unknown
		Nodes    []nodeJSON    `json:"nodes"`         // NUMA nodes, by rising ID
		Packages []packageJSON `json:"packages"`      // packages (sockets), by rising ID
		Cores    []coreJSON    `json:"cores"`         // physical cores with their hardware threads
		LLCs     []llcJSON     `json:"llcs"`          // last-level caches
		// SLIT distances in the order of nodes, local is 10; null unknown
		Distances [][]*int64 `json:"distances" null:"list"`
		// CPUs that are online, in list format; null unknown
		Online  *string `json:"online_cpus"`
		Offline string  `json:"offline_cpus"` // CPUs that are offline, in list format
		// CPUs that homenode itself may use, in list format; null unknown
		Allowed *string `json:"allowed_cpus"`
		// nodes that homenode itself may use, in list format; null unknown
		Mems *string `json:"allowed_mems"`
		// read latency by the HMAT in the order of nodes, ns; null unknown
		HMAT [][]*float64 `json:"hmat_latency_ns,omitempty"`
		// read bandwidth by the HMAT in the order of nodes, MB/s; null unknown
		HMATBandwidth [][]*float64 `json:"hmat_bandwidth_mb_s,omitempty"`
		// the kernel's use of memory tiers; absent where there is one and nothing moves
		Tiering  *tieringJSON  `json:"tiering,omitempty"`
		Measured *measuredJSON `json:"measured"` // what probe measured; null when nothing was
		Devices  []deviceJSON  `json:"devices"`  // PCI devices whose place is known
		// how close each GPU is to other GPUs, NICs and NVMe drives, nearest first; not read
		Peers []peerJSON `json:"peers,omitempty"`
		Notes []noteJSON `json:"notes"` // facts that the kernel hides, a note each
	}
	nodeJSON struct {
		ID      *int64 `json:"id"`         // node ID of the kernel
		Package *int64 `json:"package"`    // package that it is in; null unknown
		CPUs    string `json:"cpus"`       // online CPUs, in list format
		Memory  *int64 `json:"memory_kib"` // memory in all, KiB; null unknown
		Free    *int64 `json:"free_kib"`   // free memory, KiB; null unknown
		// page cache and slab that the kernel can give back, KiB; null unknown
		Reclaimable *int64 `json:"reclaimable_kib"`
		// kind of memory: dram, special (without CPUs) or none
		Kind string `json:"kind"`
		// type of its memory, where it has no CPUs: dram, hbm, cxl, pmem or gpu; absent when unknown
		Type      string     `json:"memory_type,omitempty"`
		Evidence  []string   `json:"memory_evidence,omitempty"` // how memory_type is known, strongest first
		HugePages []poolJSON `json:"hugepages"`                 // pools of huge pages, by size
	}
	tieringJSON struct {
		Demotion bool `json:"demotion"` // whether the kernel moves cold pages to a slower tier
		// whether it brings hot pages back (bit 2 of kernel.numa_balancing)
		Promotion bool       `json:"promotion"`
		Tiers     []tierJSON `json:"tiers,omitempty"` // the kernel's tiers, fastest first
	}
	tierJSON struct {
		ID    int    `json:"tier"`  // number of the tier, higher is slower
		Nodes string `json:"nodes"` // nodes in it, in list format
	}
	poolJSON struct {
		Size  *int64 `json:"size_kib"` // size of a page, KiB
		Total *int64 `json:"total"`    // number of pages, free and used
		Free  *int64 `json:"free"`     // number of free pages; null unknown
	}
	packageJSON struct {
		ID   *int64 `json:"id"`   // package ID of the kernel (physical_package_id)
		CPUs string `json:"cpus"` // CPUs, in list format
	}
	coreJSON struct {
		CPUs     string `json:"cpus"`     // hardware threads of the core, in list format
		Node     *int64 `json:"node"`     // node that it is on; null unknown
		Package  *int64 `json:"package"`  // package that it is in; null unknown
		Capacity *int64 `json:"capacity"` // relative speed, where the fastest CPU has 1024; null unknown
	}
	llcJSON struct {
		// number of the cache: the kernel's, as resctrl has it, or its position by lowest CPU
		ID    *int64 `json:"id"`
		CPUs  string `json:"cpus"`     // CPUs that share the cache, in list format
		Nodes string `json:"nodes"`    // nodes of its CPUs, in list format; not read, but taken from the CPUs
		Level *int64 `json:"level"`    // level of the cache, such as 3
		Size  *int64 `json:"size_kib"` // size, KiB; null unknown
	}
	measuredJSON struct {
		// latency from row to column, in the order of nodes, ns; null when not measured
		Latency [][]*float64 `json:"latency_ns" null:"list"`
		// read bandwidth from row to column, in the order of nodes, MiB/s; null when not measured
		Bandwidth [][]*float64 `json:"bandwidth_mib_s" null:"list"`
		// a cache line from another core of the same last-level cache, ns; absent when not measured
		LineOwn float64 `json:"line_own_ns,omitempty"`
		// a cache line from another last-level cache of the same node, ns; absent when not measured
		LineOther float64 `json:"line_other_ns,omitempty"`
		// when it was measured: measured (now) or cached (before)
		Source string `json:"source,omitempty"`
	}
	deviceJSON struct {
		Name string `json:"name"` // kernel name
		Kind string `json:"kind"` // kind of device: nic, nvme, storage, gpu or accel
		PCI  string `json:"pci"`  // PCI address; "" without one
		Node *int64 `json:"node"` // NUMA node that it is on; null unknown
		Root string `json:"root"` // PCI root or port that it is behind

		// PCI bridges between root and device, from the root on, with slashes between them
		Bridges string `json:"bridges,omitempty"`
		GPU     string `json:"gpu,omitempty"`   // name of a GPU or accelerator: gpu0, by PCI address
		Model   string `json:"model,omitempty"` // model of a GPU
		UUID    string `json:"uuid,omitempty"`  // UUID of a GPU
		Chars   string `json:"chars,omitempty"` // character devices of a GPU, major:minor, with blanks between them
	}
	peerJSON struct {
		GPU  string `json:"gpu"`  // name of the GPU
		Peer string `json:"peer"` // kernel name of the other device, of a GPU gpuN
		Kind string `json:"kind"` // kind of the other device
		// how close they are, as nvidia-smi topo -m: PIX, PXB, PHB, NODE, SYS or ?
		Relation string `json:"relation"`
		Switch   string `json:"switch,omitempty"` // PCI address of the switch that both are below; of PIX
	}
	noteJSON struct {
		Subject string `json:"subject"` // what the note is about
		Text    string `json:"text"`    // the note, in a sentence
	}
)

// MarshalJSON writes the form that FromJSON reads, on one line.
func (h *Host) MarshalJSON() ([]byte, error) { return json.Marshal(h.toJSON()) }

// UnmarshalJSON is FromJSON.
func (h *Host) UnmarshalJSON(data []byte) error {
	host, err := FromJSON(bytes.NewReader(data))
	if err == nil {
		*h = *host
	}
	return err
}

// WriteJSON writes the form that FromJSON reads, one node, core, cache, row,
// device and note to a line, so that two hosts can be told apart with diff.
func (h *Host) WriteJSON(w io.Writer) error {
	var b bytes.Buffer
	j := h.toJSON()
	b.WriteString("{\n")
	writeKey(&b, "schema", j.Schema)
	if j.CPU != "" {
		writeKey(&b, "cpu", j.CPU)
	}
	writeLines(&b, "nodes", j.Nodes)
	writeLines(&b, "packages", j.Packages)
	writeLines(&b, "cores", j.Cores)
	writeLines(&b, "llcs", j.LLCs)
	if j.Distances == nil {
		writeKey(&b, "distances", nil)
	} else {
		writeLines(&b, "distances", j.Distances)
	}
	writeKey(&b, "online_cpus", j.Online)
	writeKey(&b, "offline_cpus", j.Offline)
	writeKey(&b, "allowed_cpus", j.Allowed)
	writeKey(&b, "allowed_mems", j.Mems)
	if j.HMAT != nil {
		writeLines(&b, "hmat_latency_ns", j.HMAT)
	}
	if j.HMATBandwidth != nil {
		writeLines(&b, "hmat_bandwidth_mb_s", j.HMATBandwidth)
	}
	if j.Tiering != nil {
		writeKey(&b, "tiering", j.Tiering)
	}
	writeKey(&b, "measured", j.Measured)
	writeLines(&b, "devices", j.Devices)
	if peers := h.peersJSON(); len(peers) > 0 {
		writeLines(&b, "peers", peers)
	}
	writeLines(&b, "notes", j.Notes)
	b.Truncate(b.Len() - len(",\n"))
	b.WriteString("\n}\n")
	_, err := w.Write(b.Bytes())
	return err
}

func writeKey(b *bytes.Buffer, key string, value any) {
	fmt.Fprintf(b, "  %q: %s,\n", key, oneLine(value))
}

func writeLines[T any](b *bytes.Buffer, key string, values []T) {
	fmt.Fprintf(b, "  %q: [", key)
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    ")
		b.Write(oneLine(v))
	}
	if len(values) > 0 {
		b.WriteString("\n  ")
	}
	b.WriteString("],\n")
}

// oneLine leaves < and & as they are: the JSON is for files, not for HTML.
func oneLine(value any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		panic(err) // plain structs of numbers and strings cannot fail
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

func known[T ~int | ~int64](v T) *int64 {
	if v == None {
		return nil
	}
	return new(int64(v))
}

func listed[T ~int](s Set[T]) *string {
	return new(s.String())
}

func (h *Host) toJSON() hostJSON {
	j := hostJSON{
		Schema: Schema, CPU: h.CPU, Nodes: []nodeJSON{}, Packages: []packageJSON{}, Cores: []coreJSON{},
		LLCs:   []llcJSON{},
		Online: listed(h.Online), Offline: h.Offline.String(), Allowed: listed(h.Allowed), Mems: listed(h.AllowedMems),
		Devices: []deviceJSON{}, Notes: []noteJSON{},
	}
	for _, n := range h.Nodes {
		pools := []poolJSON{}
		for _, p := range n.HugePages {
			pools = append(pools, poolJSON{known(p.Size), known(p.Total), known(p.Free)})
		}
		j.Nodes = append(j.Nodes, nodeJSON{
			ID: known(n.ID), Package: known(n.Package), CPUs: n.CPUs.String(),
			Memory: known(n.Memory), Free: known(n.Free), Reclaimable: known(n.Reclaimable),
			Kind: string(n.Kind), Type: string(n.Type), Evidence: n.Evidence, HugePages: pools,
		})
	}
	for _, p := range h.Packages {
		j.Packages = append(j.Packages, packageJSON{known(p.ID), p.CPUs.String()})
	}
	for _, c := range h.Cores {
		j.Cores = append(j.Cores, coreJSON{c.CPUs.String(), known(c.Node), known(c.Package), known(c.Capacity)})
	}
	for _, l := range h.LLCs {
		j.LLCs = append(j.LLCs, llcJSON{known(l.ID), l.CPUs.String(), l.Nodes.String(), known(l.Level), known(l.Size)})
	}
	for _, row := range h.Distances {
		out := make([]*int64, len(row))
		for i, d := range row {
			out[i] = known(d)
		}
		j.Distances = append(j.Distances, out)
	}
	j.HMAT = floatsJSON(h.HMAT)
	j.HMATBandwidth = floatsJSON(h.HMATBandwidth)
	j.Tiering = h.Tiering.toJSON()
	if h.Measured != nil {
		j.Measured = &measuredJSON{floatsJSON(h.Measured.LatencyNs), floatsJSON(h.Measured.BandwidthMiBs),
			h.Measured.LineOwnNs, h.Measured.LineOtherNs, string(h.Measured.Source)}
	}
	for _, d := range h.Devices {
		j.Devices = append(j.Devices, deviceJSON{
			Name: d.Name, Kind: string(d.Kind), PCI: d.PCI, Node: known(d.Node), Root: d.Root,
			Bridges: d.Bridges, GPU: d.GPU, Model: d.Model, UUID: d.UUID, Chars: d.Chars,
		})
	}
	for _, n := range h.Notes {
		j.Notes = append(j.Notes, noteJSON(n))
	}
	return j
}

func (t *Tiering) toJSON() *tieringJSON {
	if !t.Demotion && !t.Promotion && len(t.Tiers) < 2 {
		return nil
	}
	out := &tieringJSON{Demotion: t.Demotion, Promotion: t.Promotion}
	for _, tier := range t.Tiers {
		out.Tiers = append(out.Tiers, tierJSON{tier.ID, tier.Nodes.String()})
	}
	return out
}

// mostPeers bounds the peers of a GPU: hosts with SR-IOV have hundreds of NICs.
const mostPeers = 64

func (h *Host) peersJSON() []peerJSON {
	var out []peerJSON
	for _, g := range h.GPUs() {
		peers := h.Peers(&g, GPU, Accel, NIC, NVMe)
		for _, p := range peers[:min(len(peers), mostPeers)] {
			x := peerJSON{GPU: g.GPU, Peer: cmp.Or(p.Device.GPU, p.Device.Name), Kind: string(p.Device.Kind),
				Relation: string(p.Relation)}
			if p.Relation == PIX {
				x.Switch = g.Switch()
			}
			out = append(out, x)
		}
	}
	return out
}

func floatsJSON(m [][]float64) [][]*float64 {
	if m == nil {
		return nil
	}
	out := make([][]*float64, len(m))
	for i, row := range m {
		out[i] = make([]*float64, len(row))
		for k, v := range row {
			if v != 0 {
				out[i][k] = &v
			}
		}
	}
	return out
}
