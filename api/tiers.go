package api

// KernelMemory is the kernel's own memory for a workload: no page move takes it along. Page walks are not counted in
// any share of local accesses.
type KernelMemory struct {
	PageTables []NodeKiB `json:"page_tables_by_node"` // page tables, by node
	// second-level page tables of a guest, by node; absent for other workloads
	NestedTables []NodeKiB `json:"nested_tables_by_node,omitempty"`
	Stacks       []NodeKiB `json:"kernel_stacks_by_node"` // kernel stacks of its threads, by node
}

// TypeKiB is memory of one type.
type TypeKiB struct {
	// type of memory: dram, hbm, cxl, pmem or gpu; special for memory without CPUs of unknown type
	Type string `json:"type"`
	KiB  int64  `json:"kib"` // memory of that type, KiB
	// whether the kernel moves cold pages there: they are local, and homenode does not fetch them back
	Demoted bool `json:"demoted"`
}
