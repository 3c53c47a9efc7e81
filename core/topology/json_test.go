package topology

import (
	"strings"
	"testing"
)

// contractExample is the form that outsiders write: only the keys of the
// contract, on one line.
const contractExample = `{"schema":"homenode-host/1","nodes":[{"id":0,"package":0,"cpus":"0-7,16-23","memory_kib":65536000,"hugepages":[{"size_kib":2048,"total":10,"free":4}]},{"id":1,"package":1,"cpus":"8-15,24-31","memory_kib":65536000,"hugepages":[]}],"cores":[{"cpus":"0,16","node":0},{"cpus":"1,17","node":0},{"cpus":"2,18","node":0},{"cpus":"3,19","node":0},{"cpus":"4,20","node":0},{"cpus":"5,21","node":0},{"cpus":"6,22","node":0},{"cpus":"7,23","node":0},{"cpus":"8,24","node":1},{"cpus":"9,25","node":1},{"cpus":"10,26","node":1},{"cpus":"11,27","node":1},{"cpus":"12,28","node":1},{"cpus":"13,29","node":1},{"cpus":"14,30","node":1},{"cpus":"15,31","node":1}],"llcs":[{"cpus":"0-7,16-23"},{"cpus":"8-15,24-31"}],"distances":[[10,21],[null,10]],"offline_cpus":"32","devices":[{"name":"eth0","kind":"nic","pci":"0000:3b:00.0","node":0}]}`

func TestFromJSONContract(t *testing.T) {
	h, err := FromJSON(strings.NewReader(contractExample))
	if err != nil {
		t.Fatal(err)
	}
	want := &Host{
		Packages: []Package{{0, set("0-7,16-23")}, {1, set("8-15,24-31")}},
		Nodes: []Node{
			{ID: 0, Package: 0, CPUs: set("0-7,16-23"), Memory: 65536000, Free: None, Reclaimable: None, Kind: DRAM, HugePages: []HugePool{{2048, 10, 4}}},
			{ID: 1, Package: 1, CPUs: set("8-15,24-31"), Memory: 65536000, Free: None, Reclaimable: None, Kind: DRAM},
		},
		LLCs:   []LLC{{0, set("0-7,16-23"), Nodes(0), 3, None}, {1, set("8-15,24-31"), Nodes(1), 3, None}},
		Online: set("0-31"), Offline: set("32"), Allowed: set("0-31"), AllowedMems: Nodes(0, 1),
		Distances: Matrix{{10, 21}, {None, 10}},
		Devices:   []Device{{Name: "eth0", Kind: NIC, PCI: "0000:3b:00.0", Node: 0}},
	}
	for i := range CPUID(16) {
		want.Cores = append(want.Cores, Core{CPUs: CPUs(i, i+16), Node: NodeID(i / 8), Package: PackageID(i / 8), Capacity: None})
	}
	if d := diff(want, h); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func set(list string) CPUSet {
	s, err := ParseCPUSet(list)
	if err != nil {
		panic(err)
	}
	return s
}

// Nodes may come in any order; distances follow the order as written.
func TestFromJSONSorts(t *testing.T) {
	h, err := FromJSON(strings.NewReader(`{"schema":"homenode-host/1",
		"nodes":[{"id":4,"cpus":"2"},{"id":1,"cpus":"0-1","memory_kib":5}],
		"distances":[[10,20],[30,10]],
		"measured":{"latency_ns":[[80,200.5],[null,90]],"bandwidth_mib_s":[[1,2],[3,4]]}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Host{
		Nodes: []Node{
			{ID: 1, Package: None, CPUs: set("0-1"), Memory: 5, Free: None, Reclaimable: None, Kind: DRAM},
			{ID: 4, Package: None, CPUs: set("2"), Memory: None, Free: None, Reclaimable: None, Kind: DRAM},
		},
		Cores:     []Core{{set("0"), 1, None, None}, {set("1"), 1, None, None}, {set("2"), 4, None, None}},
		Online:    set("0-2"),
		Allowed:   set("0-2"),
		Distances: Matrix{{10, 30}, {20, 10}},
		Measured:  &Measured{LatencyNs: [][]float64{{90, 0}, {200.5, 80}}, BandwidthMiBs: [][]float64{{4, 3}, {2, 1}}},
		// Node 4 may have memory: it is unknown, not zero.
		AllowedMems: Nodes(1, 4),
		Notes:       []Note{{"cores", "not in the file; each CPU counts as a core"}},
	}
	if d := diff(want, h); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// host puts keys into a host that is good without them.
func hostWith(keys string) string {
	return "{\"schema\":\"homenode-host/1\",\n" + keys + "}"
}

const twoNodes = `"nodes":[{"id":0,"cpus":"0-1","memory_kib":10},{"id":1,"cpus":"2-3","memory_kib":10}]`

var badJSON = []struct{ name, text, want string }{
	{"empty", "", "line 1 column 1: the input ends here"},
	{"not JSON", "nodes: 1", "line 1 column 2: invalid character"},
	{"cut short", `{"schema":"homenode-host/1","nodes":[`, "the input ends here"},
	{"array", "[]", "the host is an array; give an object"},
	{"more after", hostWith(twoNodes) + "{}", "after top-level value"},
	{"no schema", "{" + twoNodes + "}", `schema is ""; this program reads "homenode-host/1"`},
	{"other schema", `{"schema":"homenode-host/2",` + twoNodes + "}", `line 1 column 11: schema is "homenode-host/2"`},
	{"unknown key", hostWith(twoNodes + `,"cpus":"0"`), `line 2 column 87: unknown key "cpus"; did you mean cpu?`},
	{"key in another case", hostWith(`"Nodes":[]`), `unknown key "Nodes"; did you mean nodes?`},
	{"unknown key inside", hostWith(`"nodes":[{"id":0,"cpus":"0","size":1}]`), `unknown key "size" in nodes[0]`},
	{"key twice", hostWith(`"nodes":[{"id":0,"id":1,"cpus":"0"}]`), `key "id" is there twice in nodes[0]; keep one`},
	{"no nodes", hostWith(`"nodes":[]`), "nodes holds no node"},
	{"nodes left out", hostWith(`"offline_cpus":""`), "nodes holds no node"},
	{"no CPU at all", hostWith(`"nodes":[{"id":0,"memory_kib":1}]`), "have no CPU"},
	{"node without id", hostWith(`"nodes":[{"cpus":"0"}]`), "line 2 column 10: nodes[0] has no id"},
	{"node twice", hostWith(`"nodes":[{"id":0,"cpus":"0"},{"id":0,"cpus":"1"}]`), "nodes[1].id node 0 is there twice"},
	{"negative id", hostWith(`"nodes":[{"id":-1,"cpus":"0"}]`), "nodes[0].id is -1; give 0 to 65535"},
	{"CPU on two nodes", hostWith(`"nodes":[{"id":0,"cpus":"0-3"},{"id":5,"cpus":"3"}]`), "line 2 column 47: nodes[1].cpus CPU 3 is on node 0 and on node 5; give it to one"},
	{"bad CPU set", hostWith(`"nodes":[{"id":0,"cpus":"3-1"}]`), "range runs backwards"},
	{"CPU set is a number", hostWith(`"nodes":[{"id":0,"cpus":3}]`), "nodes[0].cpus is 3; give a string"},
	{"huge CPU number", hostWith(`"nodes":[{"id":0,"cpus":"0-99999"}]`), "ID 99999 is over 65535"},
	{"negative memory", hostWith(`"nodes":[{"id":0,"cpus":"0","memory_kib":-5}]`), "nodes[0].memory_kib is -5; give 0 to"},
	{"fraction of memory", hostWith(`"nodes":[{"id":0,"cpus":"0","memory_kib":1.5}]`), "nodes[0].memory_kib is 1.5; give a whole number"},
	{"huge memory", hostWith(`"nodes":[{"id":0,"cpus":"0","memory_kib":99999999999999999999}]`), "give a whole number"},
	{"more free than there is", hostWith(`"nodes":[{"id":0,"cpus":"0","memory_kib":5,"free_kib":6}]`), "more than the node's memory of 5"},
	{"negative pages", hostWith(`"nodes":[{"id":0,"cpus":"0","hugepages":[{"size_kib":2048,"total":-1}]}]`), "hugepages[0].total is -1"},
	{"more pages free", hostWith(`"nodes":[{"id":0,"cpus":"0","hugepages":[{"size_kib":2048,"total":1,"free":2}]}]`), "more than the total of 1"},
	{"page size twice", hostWith(`"nodes":[{"id":0,"cpus":"0","hugepages":[{"size_kib":64,"total":1},{"size_kib":64,"total":1}]}]`), "page size 64 KiB is there twice"},
	{"unknown kind", hostWith(`"nodes":[{"id":0,"cpus":"0","kind":"fast"}]`), `nodes[0].kind is "fast"; give dram, special or none`},
	{"core of two", hostWith(twoNodes + `,"cores":[{"cpus":"0-1"},{"cpus":"1-3"}]`), "cores[1].cpus CPUs 1 are in an earlier entry too"},
	{"CPU in no core", hostWith(twoNodes + `,"cores":[{"cpus":"0-1"}]`), "cores CPUs 2-3 are in no core"},
	{"core of an unknown CPU", hostWith(twoNodes + `,"online_cpus":"0-3","cores":[{"cpus":"0-9"}]`), "CPUs 4-9 are not online CPUs"},
	{"core on the wrong node", hostWith(twoNodes + `,"cores":[{"cpus":"0-1","node":1},{"cpus":"2-3"}]`), "cores[0].node is 1, but CPU 0 is not among"},
	{"packages disagree", hostWith(twoNodes + `,"cores":[{"cpus":"0-1","package":1},{"cpus":"2-3"}],"packages":[{"id":0,"cpus":"0-3"}]`), "packages says otherwise"},
	{"package of a node disagrees", hostWith(`"nodes":[{"id":0,"package":7,"cpus":"0"}],"packages":[{"id":0,"cpus":"0"}]`), "node 0 is said to be in package 7"},
	{"LLCs overlap", hostWith(twoNodes + `,"llcs":[{"cpus":"0-2"},{"cpus":"2"}]`), "llcs[1].cpus CPUs 2 are in an earlier entry"},
	{"empty LLC", hostWith(twoNodes + `,"llcs":[{"cpus":""}]`), "llcs[0].cpus holds no CPU"},
	{"too few rows", hostWith(twoNodes + `,"distances":[[10,20]]`), "distances has 1 row for 2 nodes"},
	{"too few values", hostWith(twoNodes + `,"distances":[[10,20],[20]]`), "distances[1] has 1 value for 2 nodes"},
	{"distance 0", hostWith(twoNodes + `,"distances":[[10,0],[20,10]]`), "distances[0][1] is 0; give 10 to 255, or null where unknown"},
	{"latency below zero", hostWith(twoNodes + `,"measured":{"latency_ns":[[1,1],[-1,1]]}`), "measured.latency_ns[1][0] is -1"},
	{"online lacks a CPU", hostWith(twoNodes + `,"online_cpus":"0-2"`), "online_cpus lacks CPUs 3"},
	{"online and offline", hostWith(twoNodes + `,"offline_cpus":"3-4"`), "CPUs 3 are online and offline"},
	{"allowed is not online", hostWith(twoNodes + `,"allowed_cpus":"7"`), "allowed_cpus CPUs 7 are not online"},
	{"allowed node is not there", hostWith(twoNodes + `,"allowed_mems":"7"`), "allowed_mems there is no node 7"},
	{"device kind", hostWith(twoNodes + `,"devices":[{"name":"x","kind":"disk"}]`), `devices[0].kind is "disk"; give nic,`},
	{"device without name", hostWith(twoNodes + `,"devices":[{"kind":"nic"}]`), `devices[0].name is ""`},
	{"device address", hostWith(twoNodes + `,"devices":[{"name":"x","kind":"nic","pci":"3b:00.0"}]`), "give an address such as 0000:3b:00.0"},
	{"device node", hostWith(twoNodes + `,"devices":[{"name":"x","kind":"nic","node":2}]`), "devices[0].node there is no node 2"},
	{"device twice", hostWith(twoNodes + `,"devices":[{"name":"x","kind":"nic"},{"name":"x","kind":"nic"}]`), "devices[1] x is there twice"},
	{"long string", hostWith(`"nodes":[{"id":0,"cpus":"` + strings.Repeat("9", 10000) + `"}]`), "nodes[0].cpus"},
	{"long key", hostWith(`"` + strings.Repeat("k", 10000) + `":1`), "unknown key"},
}

func TestFromJSONRefuses(t *testing.T) {
	if _, err := FromJSON(strings.NewReader(hostWith(twoNodes))); err != nil {
		t.Fatalf("the host that the cases change is refused: %v", err)
	}
	for _, tc := range badJSON {
		t.Run(tc.name, func(t *testing.T) {
			_, err := FromJSON(strings.NewReader(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %q in it", err, tc.want)
			}
			oneLineError(t, err)
			if !strings.HasPrefix(err.Error(), "read host JSON: line ") {
				t.Errorf("no position: %v", err)
			}
		})
	}
}

// TestFromJSONReadsItsOwn: keys that are left out when empty were refused when
// they were there. Those of a host with an HMAT are.
func TestFromJSONReadsItsOwn(t *testing.T) {
	h, err := FromJSON(strings.NewReader(hostWith(twoNodes)))
	if err != nil {
		t.Fatal(err)
	}
	h.HMAT = [][]float64{{80, 130}, {130, 0}}
	h.Measured = &Measured{LatencyNs: [][]float64{{90, 150}, {150, 90}}, BandwidthMiBs: [][]float64{{4, 3}, {2, 1}}, Source: "measured"}
	var b strings.Builder
	if err := h.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	again, err := FromJSON(strings.NewReader(b.String()))
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	if d := diff(h, again); d != "" {
		t.Errorf("(-written +read)\n%s", d)
	}
	if _, err := FromJSON(strings.NewReader(hostWith(twoNodes + `,"cpus":"0"`))); err == nil || strings.Contains(err.Error(), "omitempty") {
		t.Errorf("error %v, want one that lists keys as they are written", err)
	}
}
