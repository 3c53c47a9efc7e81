package metrics

import (
	"slices"

	"github.com/homenode/homenode/ui/figures"
)

// Family is one metric, with all its series.
type Family struct {
	Name   string
	Type   string // gauge, counter or histogram
	Labels []string
	Help   string // what it is, with its unit and range, in a sentence without a full stop
}

// Families is every metric of homenode's own. Beside them are the usual ones of a Go program
// (go_…) and of a process (process_…).
var Families = slices.Concat(ofHost, familiesOf("node", figures.Nodes), ofNodes,
	familiesOf("workload", figures.Workloads), ofWorkloads)

// familiesOf is the families of figures, with one label.
func familiesOf[T any](label string, all []figures.Figure[T]) []Family {
	var out []Family
	for i := range all {
		if f := &all[i]; f.Metric != "" {
			out = append(out, Family{f.Metric, "gauge", []string{label}, f.Help})
		}
	}
	return out
}

var ofHost = []Family{
	{"homenode_build_info", "gauge", []string{"version"}, "Always 1; its label is the version of the daemon"},
	{"homenode_enforcing", "gauge", nil,
		"1 when the daemon carries out its plans, 0 in observe mode or while everything is held"},
	{"homenode_held", "gauge", nil, "1 from undo --all until resume --all, else 0"},
	{"homenode_look_timestamp_seconds", "gauge", nil, "Time of the newest scan of this machine, seconds since 1970"},
	{"homenode_tick_duration_seconds", "histogram", nil, "Duration of a scan with its decisions"},
	{"homenode_frozen_seconds", "histogram", nil,
		"Time that a workload was frozen to set its memory nodes, whether that succeeded or not"},
	{"homenode_problems", "gauge", nil, "Current problems, as status lists them"},
	{"homenode_events_total", "counter", []string{"kind", "code"},
		"Events since the daemon started, by kind and reason code"},
	{"homenode_decisions", "gauge", []string{"outcome", "reason"},
		"Workloads by the outcome of the newest scan and the code of its main reason"},
	{"homenode_moves_total", "counter", []string{"state"},
		"Page moves that ended since the daemon started, by how: done, cancelled or failed"},
	{"homenode_moved_bytes_total", "counter", nil,
		"Memory that page moves brought to another node since the daemon started"},
	{"homenode_unmoved_bytes_total", "counter", []string{"cause"},
		"Memory that page moves could not move since the daemon started, by cause"},
	{"homenode_http_requests_total", "counter", []string{"path", "status"},
		"Requests that were answered since the daemon started, on the socket and over TCP; 4xx are refusals. The " +
			"path is one of the API's, or other. Connections that were closed because there were too many are not " +
			"counted"},
	{"homenode_journal_entries", "gauge", nil, "Settings that undo would restore"},
	{"homenode_lost_calls", "gauge", nil,
		"Calls into the kernel, libvirt or a runtime that were given up and have not returned"},
	{"homenode_workloads", "gauge", []string{"class", "state"},
		"Workloads large enough to be placed, by class and state"},
	{"homenode_small_workloads", "gauge", nil, "Workloads too small to be placed"},
	{"homenode_workloads_without_series", "gauge", nil,
		"Workloads beyond metrics.workloads, which have no series of their own and are summed up as the workload others"},
}

var ofNodes = []Family{
	{"homenode_node_huge_pages", "gauge", []string{"node", "size_bytes"},
		"Huge pages of a NUMA node, free and used, by page size"},
	{"homenode_node_huge_pages_free", "gauge", []string{"node", "size_bytes"},
		"Free huge pages of a NUMA node, by page size"},
	{"homenode_share_node_batch_cpus", "gauge", []string{"node"},
		"CPUs of a NUMA node that batch work may keep busy now; absent while sharing is off"},
	{"homenode_share_scheduler_enabled", "gauge", []string{"version"},
		"1 while the kernel's scheduler for batch work is loaded, else 0, with its version; absent while sharing is off"},
	{"homenode_share_scheduler_loads", "gauge", nil,
		"How often that scheduler was loaded within the last hour; absent while sharing is off"},
	{"homenode_share_scheduler_threads_left", "gauge", nil,
		"Threads of batch work that are not with that scheduler yet; absent while sharing is off"},
	{"homenode_share_scheduler_events", "gauge", []string{"event"},
		"Events counted by that scheduler since it was loaded, named as in homenode share status, and its waiting " +
			"tasks; absent while none is loaded"},
	{"homenode_pressure_ratio", "gauge", []string{"resource", "tasks"},
		"Share of the last ten seconds in which some tasks, or all (full), waited for a resource (PSI), 0 to 1"},
}

var ofWorkloads = []Family{
	{"homenode_workload_info", "gauge", []string{"workload", "name", "kind", "class", "home", "caches"},
		"Always 1; its labels say what the workload is, its home nodes and the last-level caches of them that it is " +
			"kept in"},
	{"homenode_workload_state", "gauge", []string{"workload", "state"},
		"Always 1; its label is the state that the workload is in"},
	{"homenode_workload_memory_bytes", "gauge", []string{"workload", "node"},
		"Memory that the workload holds on a NUMA node"},
}

// Others is the workload that those without series of their own are summed up as.
const Others = "others"
