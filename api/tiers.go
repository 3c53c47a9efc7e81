package api

// KernelMemory is the kernel's own memory for a workload: no page move takes it along. Page walks are not counted in
// any share of local accesses.
type KernelMemory struct {
	PageTables   []NodeKiB `json:"page_tables_by_node"`             // page tables, by node
	NestedTables []NodeKiB `json:"nested_tables_by_node,omitempty"` // second-level page tables of a guest, by node; absent for other workloads
	Stacks       []NodeKiB `json:"kernel_stacks_by_node"`           // kernel stacks of its threads, by node
}

// TypeKiB is memory of one type.
type TypeKiB struct {
	Type    string `json:"type"`    // type of memory: dram, hbm, cxl, pmem or gpu; special for memory without CPUs of unknown type
	KiB     int64  `json:"kib"`     // memory of that type, KiB
	Demoted bool   `json:"demoted"` // whether the kernel moves cold pages there: they are local, and homenode does not fetch them back
}
