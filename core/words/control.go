package words

import (
	"fmt"
	"strings"
)

// SmallerText is in every sentence about a workload below manage.min_memory and manage.min_cpu: to
// `homenode explain` that is the answer.
const SmallerText = "too small to be placed"

// Reasons to leave a workload alone.
var (
	ManagerMovesAll = says("manager-moves-all",
		"{} runs and {}: two programs that move work would undo each other's changes. Homenode places it when {} has "+
			"stopped.")
	ManagerOwns   = says("manager-owns", "{} owns it ({}) and would overwrite its CPU set.")
	Excluded      = says("excluded", "The configuration excludes it (manage.exclude: {}).")
	NotUTF8       = says("not-utf8", "Its name is not valid UTF-8.")
	NotIncluded   = says("not-included", "The configuration does not include it (manage.include).")
	Unanswered    = says("no-answer", "It does not answer: {}. Homenode retries later.")
	MemoryUnasked = says("memory-unasked",
		"Left alone: too many other processes of {} do not answer, so homenode does not read the memory map of this "+
			"one. It retries when some of them answer or end.")
	NotFrozen = says("not-frozen",
		"Left alone: its processes did not freeze within 300 ms, so its memory nodes were not changed. Homenode "+
			"retries in {for}; to help, end its process that waits in the kernel (usually state D in ps), or restart "+
			"the workload.")
	MemoryUnanswered = says("memory-unanswered",
		"The kernel does not answer when homenode reads its memory map; left alone until the kernel does.")
	MemoryNotRead = says("memory-not-read", "Its memory map has not been read yet; large workloads are read first.")
	UserShare     = says("user-share",
		"User {} may book at most {%} of the CPUs and memory of this host, with processes, scopes and `homenode run` "+
			"together, and this would exceed it. Root can allow more: a rule under `workloads:` that matches the "+
			"path of its cgroup and gives it a size (cpus, memory).")
	OwnerShare = says("owner-share",
		"Without a grant {} may book at most {%} of the CPUs and memory of this host, and this would exceed it. To "+
			"let it book more, set requests equal to limits, or grant it in containers.annotations "+
			"(docs/containers.md).")
	AllShare = says("all-share",
		"Without rules and grants all users and namespaces together may book at most {%} of the CPUs and memory of "+
			"this host, and this would exceed it. To let it book more, write a rule or a grant for it "+
			"(docs/security.md, The ceiling).")
	CountsAsUsed = says("counts-as-used", "Homenode books only its actual use, not its request. {}")
	OfHost       = says("host-cpus",
		"`homenode host prepare` keeps {} on the CPUs of the host. To have it placed, leave it out of --slices.")
	NamedByHand = says("named-by-hand",
		"The user who started it chose its CPUs or memory nodes (`homenode run`); it stays there.")
	ExactNamed  = says("exact-named", "The user chose its CPUs or nodes.")
	ExactTaken  = says("exact-taken", "Other dedicated work holds {cpus} of those chosen.")
	BegunWith   = says("begun-with", "It started with {} {}, which homenode chose before its start ({}).")
	SetByOthers = says("set-by-others",
		"Another program gave its cgroup, or one above it, {cpus} (AllowedCPUs=, cpuset.cpus); homenode does not "+
			"overwrite that.")
	Fenced = says("fenced",
		"CPU sets differ: its manager allows CPUs {}, the shared partition is CPUs {}. Make them equal (for "+
			"OpenStack Nova: homenode openstack export).")
	GivenIn = says("given-in",
		"Another program has overwritten homenode's setting {times}; homenode leaves the workload alone for {for} "+
			"after the last time.")
	ClaimedTwice = says("claimed-twice",
		"{} is not managed: {} belongs to a workload of {}, which claims it first. Let only one of the two manage it "+
			"(libvirt.manage, containers.manage).")
	SourceFailed = says("source-failed",
		"{} does not answer with its list of workloads: everything it may manage is left alone.")
	HeldByHand     = says("held-by-hand", "Undone or cancelled by the user: left alone until `homenode resume`.")
	PlanBreaksRule = says("plan-breaks-rule", "Its plan breaks a rule: {}.")
)

// Reasons to write a workload's next start.
var (
	NextStartRuns  = says("next-start-runs", "Its definition is set to its current home.")
	NextStartHolds = says("next-start-holds", "It is shut off; its home still has room for it.")
	NextStartBest  = says("next-start-best", "It is shut off; this is now the best home for it.")
)

// Events.
var (
	MachineRestarted = says("machine-restarted",
		"the machine was restarted: {n journalled change} ended with the last boot")
	DaemonStarted = says("daemon-started", "homenode {} started in {} mode, with a scan every {for}")
	DaemonStopped = says("daemon-stopped", "homenode stopped")
	AllHeld       = says("all-held",
		"the user undid everything: homenode changes nothing until `homenode resume --all`")
	NotWritten = says("not-written",
		"the state folder cannot be written, so nothing is changed until it can: {}")
	ScanFailed      = says("scan-failed", "cannot scan the host: {}")
	SurveyFailed    = says("survey-failed", "cannot search for {}: {}")
	SurveyLacks     = says("survey-lacks", "not all {} were found: {}")
	InheritedFailed = says("inherited-failed", "cannot search for inherited settings: {}")
	ProblemSeen     = says("problem", "{}: {}")
	EngineFailed    = says("engine-failed",
		"A bug in homenode prevents a plan for it, so it is left alone. Please report this with the flight "+
			"recorder's log.")
	RuleUnfollowed = says("rule-unfollowed",
		"the rule {} asks for {}, but the program that manages the workload decides that: it stays unchanged")
	PlanUnsound        = says("plan-unsound", "the plan breaks {n rule} and is not applied; first: {}")
	PlanSoundAgain     = says("plan-sound", "the plan is sound again")
	Decided            = says("decided", "{}: {nodes}. {}")
	DecidedNoHome      = says("decided-no-home", "{}. {}")
	RequestExact       = says("request-exact", "{} ({}, {n CPU}) started where the user asked: {cpus}, memory {}")
	RequestExactMemory = says("request-exact-memory", "{} ({}, {n CPU}) started where the user asked: memory {}")
	RequestDecided     = says("request-decided", "{} ({}, {n CPU}): {}")
	MovedByHand        = says("moved-by-hand", "It was moved by `homenode move`.")
	MovedByOrder       = says("moved-by-order", "{} ordered a move: home is {nodes}, {cpus}, after {nodes}, {cpus}")
	UndoOrdered        = says("undo-ordered", "{} asked to undo {}, which is left alone until `homenode resume`")
	ResumeOrdered      = says("resume-ordered", "{} asked to resume {}")
	MoveOrdered        = says("move-ordered", "{} ordered a move to {nodes}")
	TrialOrdered       = says("trial-ordered", "{} started trial {}")
	TrialSwitched      = says("trial-switched", "trial {}: switched from {} to {}")
	TrialLine          = says("trial-line",
		"trial {} is running: arm {}, block {} of {}; everything is restored at its end")
	TrialPrepares = says("trial-prepares",
		"trial {} is running: arm {}, before its first block; everything is restored at its end")
	TrialArm    = says("trial-arm", "Trial {} is measuring with arm {}.")
	TrialEnds   = says("trial-ends", "trial {} ends: {}")
	TrialGoesOn = says("trial-goes-on",
		"trial {} continues when its program renews it; otherwise everything is restored")
	ChangeOrdered = says("change-ordered", "{} asked for {n change}")
	CPUsOffline   = says("cpus-offline", "{cpus} went offline")
	CPUsOnline    = says("cpus-online", "{cpus} came online")
	CPUsTaken     = says("cpus-taken",
		"{cpus} are configured, but only {cpus} can be used: a partition or a parent cgroup holds the others")
	NodeNearlyFull    = says("node-nearly-full", "node {} is nearly out of memory: {size} of {size} free")
	WorkloadGone      = says("workload-gone", "gone")
	WorkloadSmall     = says("workload-small", "no longer counted: it is too small now, or part of another workload")
	ManagerSeen       = says("manager-seen", "{}: {}")
	ManagerSeenOwns   = says("manager-seen-owns", "{}: {}; left to it: {}")
	ManagerGone       = says("manager-gone", "{} has stopped; it was: {}")
	PartitionSet      = says("partition-set", "{} set the partition: {} → {} ({cpus} for dedicated work)")
	PartitionUnfit    = says("partition-unfit", "partition: {}")
	InterruptsUnsound = says("interrupts-unsound", "interrupts are not placed: {}")
	StepTook          = says("step-took", "{}{}: {} → {}. {}")
	WasFrozen         = says("was-frozen", "its processes were frozen for {.1f} ms while its memory nodes were set")
	FrozenInVain      = says("frozen-in-vain",
		"its memory nodes were not set: some of its processes did not freeze; the others resumed after {.1f} ms")
	StepFailed = says("step-failed", "{}{} to {} failed: {}; next try in {for}")
	StepGone   = says("step-gone", "{}{} to {}: the workload is gone ({}); next try in {for}")
	StepFixed  = says("step-fixed", "{} to {}: {}; homenode does not retry")
	SetBack    = says("set-back", "another program set {} of {} back to {}")
	SetSince   = says("set-since",
		"another program set {} of {} to {}: homenode leaves it alone and will not undo it")
	ThreadsTaken = says("threads-taken",
		"another program set the affinity of thread {} to CPUs {}. Homenode waits {} before it divides these threads "+
			"again, longer each time, up to {}")
	FlightPutOff        = says("flight-put-off", "{}")
	FlightPutOffRest    = says("flight-put-off-rest", "The rest did not move; homenode retries later.")
	MoveBegins          = says("move-begins", "moving {bytes} to {nodes}. {}")
	MoveRests           = says("move-rests", "the move to {nodes} paused at {bytes} of {bytes}: {}")
	MoveGoesOn          = says("move-goes-on", "the move to {nodes} resumed")
	MoveEnded           = says("move-ended", "moved {bytes} to {nodes} in {.1f} s")
	MoveEndedNone       = says("move-ended-none", "none of its memory moved to {nodes}: {bytes} stayed: {}")
	MoveFailed          = says("move-failed", "the move to {nodes} failed: {}")
	MoveEndedPart       = says("move-ended-part", "moved {bytes} to {nodes} in {.1f} s; {bytes} stayed: {}")
	MoveCancelled       = says("move-cancelled", "move to {nodes} cancelled after {bytes} of {bytes}")
	MoveCancelledByHand = says("move-cancelled-by-hand",
		"{} cancelled the move: homenode leaves the workload as it is until `homenode resume` or `homenode move`")
	MoveInterrupted = says("move-interrupted",
		"the move to {nodes} was interrupted after {bytes} of {bytes}; the rest is planned again")
	LocalityAfterMove = says("locality-after-move", "locality after the move to {nodes}: {%}")
	LocalityChanged   = says("locality-changed", "locality after the move to {nodes}: {%} (before: {%})")
	UndoGoesOn        = says("undo-goes-on", "an interrupted undo of {} continues")
	PutBack           = says("put-back", "restored {} of {}: {} → {}")
	StoodAsBefore     = says("stood-as-before", "{} of {}: already {}, its original value")
	NothingToRestore  = says("nothing-to-restore", "{} of {}: gone, nothing to restore")
	NotRestoredTheirs = says("not-restored-theirs", "{} of {} is not restored: {}")
	RestoredLater     = says("restored-later", "{}; it is restored when they are undone")
	NotRestored       = says("not-restored", "{} of {} could not be restored to {}: {}")
)

// UndoInterrupted is for an interrupted undo that no daemon continues.
var UndoInterrupted = says("undo-interrupted",
	"an undo was interrupted, and {n setting} may still have to be restored: the next daemon continues it, or run "+
		"`homenode undo` now")

// Refusals of requests.
var (
	NothingAsked = says("nothing-asked", "the request is empty")
	DaemonEnds   = says("daemon-ends",
		"the daemon is stopping and starts nothing new; retry when it runs, or without it")
	NotScannedYet   = says("not-scanned-yet", "the daemon has not scanned the host yet; try again")
	NoHome          = says("no-home", "no home: {}")
	BadValue        = says("bad-value", "{}: {}; want {}")
	NameWorkload    = says("name-workload", "name a workload; `homenode status` lists them")
	NameNodes       = says("name-nodes", "name the nodes to move to, such as --to 1")
	NameOrAll       = says("name-or-all", "name a workload, or --all")
	UnknownWorkload = says("unknown-workload", "no workload {q}; `homenode status --all` lists them")
	UnknownNear     = says("unknown-near", "no workload {q}; names like it: {}")
	NoSuchProcess   = says("no-such-process", "no process {} runs")
	ProcessOfNone   = says("process-of-none",
		"process {} belongs to no workload that is large enough to be placed; `homenode status --all` lists the "+
			"smaller ones")
	NoSuchDevice = says("no-such-device",
		"no device {q} with interrupts to place; `homenode status` lists the known ones (irq: in the configuration)")
	ProcessMoved = says("process-moved",
		"process {} was moved by `homenode move`; `homenode undo pid:{}` restores its CPUs")
	SmallerHolds = says("smaller-holds", "process {} belongs to {}, which is "+SmallerText+
		": {size}, {.2f} CPUs busy")
	SmallerNamed = says("smaller-named", "{} is "+SmallerText+": {size}, {.2f} CPUs busy")
	SeveralNamed = says("several-named", "{q} matches {} workloads: {}; name one by its ID")
	ManagerMoves = says("manager-moves",
		"{} is moved by the program that manages it, which would set its CPUs and memory nodes again; use {}")
	ObserveOnly = says("observe-only",
		"the daemon runs in observe mode and changes nothing; add --dry-run, or start it with --mode enforce")
	TrialEndOrdered = says("trial-end-ordered", "as ordered")
	TrialLeft       = says("trial-left", "its program stopped renewing it")
	TrialRestarted  = says("trial-restarted", "the machine was restarted")
	TrialOverruled  = says("trial-overruled", "`homenode {}` was ordered")
	TrialRuns       = says("trial-runs", "trial {} is running; end it with `homenode trial --end`")
	TrialIsOver     = says("trial-is-over", "trial {} has ended: {}")
	TrialNotRunning = says("trial-not-running", "no trial {} is running")
	TrialObserves   = says("trial-observes",
		"the daemon is in observe mode and changes nothing, so a trial would compare two equal arms; start it with "+
			"--mode enforce")
	TrialMatchesNone = says("trial-matches-none", "no workload matches {}")
	TrialHeld        = says("trial-held", "{} is held by `homenode undo`; use `homenode resume {}` first")
	TrialNotBalanced = says("trial-not-balanced",
		"kernel.numa_balancing cannot be written ({}): give the daemon CAP_SYS_ADMIN, or leave out the arm balancing")
	TrialNotCaches = says("trial-not-caches",
		"cache-aware scheduling cannot be switched in debugfs ({}): mount debugfs at /sys/kernel/debug, or leave out "+
			"the arm caches")
	TrialKernelTaken = says("trial-kernel-taken",
		"{} was set for {}; use `homenode undo {}` first or leave out the arm {}")
	AllHeldFirst = says("all-held-first",
		"everything is held since `undo --all`; use `homenode resume --all` first")
	AllHeldResumeAll = says("all-held-resume-all", "everything is held since `undo --all`; use `homenode resume --all`")
	NotHeld          = says("not-held", "{} is not held")
	RunsAlready      = says("runs-already", "{} is already running; give the new workload another name")
	NotMoved         = says("not-moved", "{} is not moved: {}")
	NoMove           = says("no-move", "{}: no move is in progress or waiting")
	PartitionEmpty   = says("partition-empty", "partition: empty")
	PartitionBlocked = says("partition-blocked", "the partition is not changed: {}")
	OneWorkload      = says("one-workload", "all steps of one change must be for one workload")
	NotJournalled    = says("not-journalled", "the journal cannot be written, so nothing is changed: {}")
)

// Notes on decisions.
var (
	LeftOffHome       = says("left-off-home", "{} The memory off home did not move; next try not before {}.")
	LeftOffHomeWhy    = says("left-off-home-why", "{} The memory off home did not move: {}; next try not before {}.")
	InterruptsNotRead = says("interrupts-not-read", "no {q}: interrupts of devices are not read (irq: off)")
	QueueCountKept    = says("queue-count-kept", "The hardware has up to {}; the number is not changed (irq_queues).")
	QueueCountMatched = says("queue-count-matched",
		"One for each of the {} CPUs, as far as the hardware has them ({}).")
	QueueRPS        = says("queue-rps", "RPS; an empty set means the CPU of the interrupt.")
	QueueXPS        = says("queue-xps", "XPS; an empty set means the driver's own choice.")
	InterruptFixed  = says("interrupt-fixed", "The kernel manages it and refuses changes.")
	InterruptAtHome = says("interrupt-at-home", "It is on its device's node.")
	InterruptLeft   = says("interrupt-left", "It is not changed.")
)

// OrAll returns a list in the kernel's format as text: "all" for an empty list of CPUs or nodes.
func OrAll(list string) string {
	if list == "" {
		return "all"
	}
	return list
}

// Some joins the first items of a list, most at most, and adds the number of the others.
func Some(list []string, most int) string { return SomeOf(list, len(list), most) }

// SomeOf is Some for a caller who has only the first items of a list with all items.
func SomeOf(list []string, all, most int) string {
	shown := list[:min(most, len(list))]
	text := strings.Join(shown, "; ")
	if more := all - len(shown); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
