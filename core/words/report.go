package words

import "strings"

// Headlines of reports.
var (
	ReportMoved = says("report-moved",
		"{%} of the memory in use is local to its users, {%} at the start of the period: {n move} brought {bytes} "+
			"home in {} of moving.{more}")
	ReportStill = says("report-still",
		"{%} of the memory in use is local to its users, {%} at the start of the period: homenode moved no "+
			"memory.{more}")
	ReportObserved = says("report-observed",
		"{%} of the memory in use is local to its users, {%} at the start of the period: homenode watched and "+
			"changed nothing.{more}")
	ReportUnknown = says("report-unknown",
		"The share of local memory is unknown: no record of this period has it.{more}")
	ReportWorst   = says("report-worst", "{n workload} of {} {works|work} on remote memory, {} the most.")
	ReportAllHome = says("report-all-home", "{n workload} {has|have} local memory.")
	ReportWouldBe = says("report-would-be", "By homenode's plan {%} would be local.")
)

// Limits of a report.
var (
	ReportNotAllWorkloads = says("report-not-all-workloads",
		"More than {} workloads came and went; {} of them are missing in the tables.")
	ReportNotAllMoves = says("report-not-all-moves", "Only the first {n move} are counted.")
	ReportNoHistory   = says("report-no-history",
		"The history could not be read ({}): this report lacks events from times without recording.")
	ReportNoLog = says("report-no-log",
		"This report has only the history of the daemon on {}. With --state-dir, the folder of that daemon, it "+
			"includes the recording too.")
	ReportFileGone = says("report-file-gone",
		"A file of the log was deleted during the read: the log has reached its configured size.")
	ReportBadFile = says("report-bad-file", "A file of the log could not be read and is left out: {}")
)

// Advice for workloads that are far from their memory.
var (
	AdviceObserve = says("advice-observe",
		"It would go to {nodes}, where {%} of its memory would be local. To let homenode do it, set mode: enforce in "+
			"the configuration, or run `homenode daemon --mode enforce`.")
	AdviceMoves = says("advice-moves",
		"Nothing: homenode is moving it to {nodes}, where {%} of its memory will be local. `homenode status {}` "+
			"shows the progress.")
	AdviceHeld = says("advice-held",
		"Left alone since it was undone or its move was cancelled. To let homenode place it again: `homenode "+
			"resume {}`.")
	AdviceAllHeld = says("advice-all-held",
		"Everything is left alone since `homenode undo --all`. To let homenode continue: `homenode resume --all`.")
	AdviceNoRoom = says("advice-no-room",
		"No node has room for it. Give it fewer CPUs or less memory, or move other work away: `homenode plan "+
			"--restore` searches for moves that help.")
	AdviceSpread = says("advice-spread",
		"It needs {nodes} together, so some of its accesses cross nodes. Several smaller instances, one for each "+
			"node, would be local.")
	AdvicePinned = says("advice-pinned",
		"Its threads were pinned by itself or by another program. Remove that (taskset, numactl, its own "+
			"configuration), and homenode places it.")
	AdvicePolicy = says("advice-policy",
		"It has its own memory policy ({}), which its memory follows. Remove that (numactl, its own configuration), "+
			"and homenode places it.")
	AdviceManager = says("advice-manager",
		"Another program places it, so homenode leaves it alone: {} `homenode explain {}` has more.")
	AdviceExclude = says("advice-exclude",
		"The configuration leaves it out. To have it placed, remove it from manage.exclude or add it to manage.include.")
	AdviceRun = says("advice-run",
		"Homenode places only a part of the work that one user starts. Give it a size (cpus, memory) by a rule under "+
			"`workloads:` that matches the path of its cgroup.")
	AdviceStuck = says("advice-stuck",
		"{bytes} of its memory did not move: {}. A restart at a convenient time starts it at home.")
	AdviceAlone   = says("advice-alone", "Homenode leaves it alone: {} `homenode explain {}` has more.")
	AdviceExplain = says("advice-explain", "`homenode explain {}` says why it is where it is.")
)

// Shell returns a word for a command line of a shell: unchanged, or in quotes if the shell would
// interpret it. Unprintable characters are escaped as in Printable.
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
