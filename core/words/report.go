package words

import "strings"

// The headline of a report, and what it tells of a period.
var (
	ReportMoved    = says("report-moved", "{%} of the memory in use is local to what uses it, {%} when the period began: {n move} brought {bytes} home in {for} of moving.{more}")
	ReportStill    = says("report-still", "{%} of the memory in use is local to what uses it, {%} when the period began: homenode moved no memory.{more}")
	ReportObserved = says("report-observed", "{%} of the memory in use is local to what uses it, {%} when the period began: homenode watched and changed nothing.{more}")
	ReportUnknown  = says("report-unknown", "How local memory was is not known: no record of the host in this period tells it.{more}")
	ReportWorst    = says("report-worst", "{n workload} of {} {works|work} on remote memory, {} the most.")
	ReportAllHome  = says("report-all-home", "{n workload} {has|have} local memory.")
	ReportWouldBe  = says("report-would-be", "By its plan {%} would be local.")
)

// What a report says of its own bounds.
var (
	ReportNotAllWorkloads = says("report-not-all-workloads", "More than {} workloads came and went; what {} of them did is not in the tables.")
	ReportNotAllMoves     = says("report-not-all-moves", "Only the first {n move} are counted.")
	ReportNoHistory       = says("report-no-history", "The history could not be read ({}): what happened while nothing was recorded is not in this report.")
	ReportNoLog           = says("report-no-log", "Only the history of the daemon on {} is told. With --state-dir, the folder of that daemon, what it recorded is told, too.")
	ReportFileGone        = says("report-file-gone", "A file of the log was deleted while it was read: the log is as large as the configuration allows.")
	ReportBadFile         = says("report-bad-file", "A file of the log could not be read and is left out: {}")
)

// What to do about a workload that is far from its memory.
var (
	AdviceObserve = says("advice-observe", "It would go to {nodes}, where {%} of its memory would be local. Let homenode do it: mode: enforce in the configuration, or `homenode daemon --mode enforce`.")
	AdviceMoves   = says("advice-moves", "Nothing: homenode is bringing it to {nodes}, where {%} of its memory will be local. `homenode status {}` shows how far it is.")
	AdviceHeld    = says("advice-held", "It is left alone since it was undone or its move cancelled. Let homenode place it again: `homenode resume {}`.")
	AdviceAllHeld = says("advice-all-held", "Everything is left alone since `homenode undo --all`. Let homenode go on: `homenode resume --all`.")
	AdviceNoRoom  = says("advice-no-room", "No node has room for it. Give it fewer CPUs or less memory, or move other work away: `homenode plan --restore` looks for moves that make it better.")
	AdviceSpread  = says("advice-spread", "It needs {nodes} together, so some of its accesses cross nodes. Several smaller instances, one for each node, would be local.")
	AdvicePinned  = says("advice-pinned", "Its threads were pinned by itself or another program. Take that out (taskset, numactl, its own configuration), and homenode places it.")
	AdvicePolicy  = says("advice-policy", "It has a memory policy of its own ({}), which its memory follows. Take that out (numactl, its own configuration), and homenode places it.")
	AdviceManager = says("advice-manager", "Another program places it, and homenode leaves it to that one: {} `homenode explain {}` says more.")
	AdviceExclude = says("advice-exclude", "The configuration leaves it out. Take it out of manage.exclude, or into manage.include, to have it placed.")
	AdviceRun     = says("advice-run", "Homenode places only a part of what one user starts. Give it a size (cpus, memory) by a rule under `workloads:` that matches the path of its cgroup.")
	AdviceStuck   = says("advice-stuck", "{bytes} of its memory did not move: {}. Restart it when that suits, and it begins at home.")
	AdviceAlone   = says("advice-alone", "Homenode leaves it alone: {} `homenode explain {}` says more.")
	AdviceExplain = says("advice-explain", "`homenode explain {}` says why it is where it is.")
)

// Shell is a word of a command line for a shell: as it stands, or in quotes where the shell
// would take it for something else. What is not printable is as Printable writes it.
func Shell(word string) string {
	word = Printable(word)
	plain := func(r rune) bool {
		return (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') ||
			strings.ContainsRune("_@%+=:,./-", r)
	}
	if word != "" && strings.TrimFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
