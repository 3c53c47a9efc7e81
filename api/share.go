package api

import (
	"context"
	"time"

	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// ShareSource is a Backend that turns sharing on and off, too.
type ShareSource interface {
	Share(ctx context.Context, order ShareOrder) (Sharing, error)
}

// ShareOrder turns sharing on or off: POST /v1/share.
type ShareOrder struct {
	On     bool `json:"on"`                // whether batch work is to be squeezed
	DryRun bool `json:"dry_run,omitempty"` // nothing is changed
}

// UpgradeSource is a Backend that upgrades the kernel's scheduler for batch work, too.
type UpgradeSource interface {
	UpgradeScheduler(ctx context.Context, order UpgradeOrder) (Upgraded, error)
}

// UpgradeOrder puts another version in the place of the kernel's scheduler for batch work: POST /v1/share/upgrade.
type UpgradeOrder struct {
	// path of a BPF object to load; absent: the one that the daemon's homenode brings. root only
	Object string `json:"object,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"` // nothing is changed
}

// Upgraded is what became of an UpgradeOrder.
type Upgraded struct {
	Schema string      `json:"schema"`          // homenode-share-upgrade/1
	From   string      `json:"from"`            // version that ran
	To     string      `json:"to"`              // version that runs now, or would; the same when nothing is newer
	DryRun bool        `json:"dry_run"`         // nothing was changed
	Why    string      `json:"why,omitempty"`   // of a dry run: why it cannot be; absent when it can
	Trial  *ShareTrial `json:"trial,omitempty"` // probation that has begun; absent when nothing was changed
}

// Sharing is how many CPUs batch work may have now, so that online work does not feel it.
type Sharing struct {
	Schema string `json:"schema"` // homenode-share/1
	On     bool   `json:"on"`     // whether batch work is squeezed
	// mode of the daemon: observe (nothing is changed) or enforce; none when no daemon runs
	Mode   string  `json:"mode"`
	Target float64 `json:"target"` // share of the CPUs that may be busy, 0 to 1
	// share of the CPUs that may be busy so that the latency goals hold, 0 to 1: it replaces target; absent without
	// goals
	Use *float64 `json:"use,omitempty"`
	// busy share of the same CPUs in the newest scan, 0 to 1; absent without goals
	Busy  *float64    `json:"busy,omitempty"`
	Goals []ShareGoal `json:"goals,omitempty"` // latency goals, rising by workload and metric; absent without any
	// outcome of the goals in the newest scan, and the next step, in a sentence; absent without goals
	Next string `json:"next,omitempty"`
	// feature that sharing lacks on this host and the remedy, in a sentence; absent where none is missing
	Lacks     string      `json:"lacks,omitempty"`
	Rest      string      `json:"rest,omitempty"` // why there is nothing to share; absent when there is
	Nodes     []ShareNode `json:"nodes"`          // NUMA nodes, rising by ID
	Workloads []ShareWork `json:"workloads"`      // batch workloads, rising by ID
	LeftAlone []ShareLeft `json:"left_alone"`     // batch workloads that sharing changes nothing of, rising by ID
	// workloads that batch work must not hurt, rising by ID; those that use most CPU, 16 at most
	Important []ShareHarm `json:"important"`

	// what tells that somebody is hurt, and why what cannot be had cannot
	Signals []workload.SourceStatus `json:"signals"`

	// Scheduler is the kernel's scheduler for batch work (sched_ext).
	Scheduler *ShareScheduler `json:"scheduler,omitempty"`
	// Cache is what batch work has of the last-level caches and of memory bandwidth (resctrl).
	Cache *ShareCache `json:"cache,omitempty"`
}

// ShareGoal is a latency goal of a workload.
type ShareGoal struct {
	ID     workload.ID `json:"id"`              // ID of the workload
	Metric string      `json:"metric"`          // name of the metric
	Unit   string      `json:"unit,omitempty"`  // unit of value and most; absent for none
	Value  *float64    `json:"value,omitempty"` // newest value; absent before the first
	Most   float64     `json:"most"`            // limit: the most that the value may be
	// part of the limit that is left, below 0 when the goal is missed; absent while the metric cannot be used
	Slack *float64 `json:"slack,omitempty"`
	// state: held, near (within the margin of its limit), missed, unread, stale, constant or waiting (for a first
	// value)
	State  string   `json:"state"`
	Why    string   `json:"why,omitempty"`   // why the metric cannot be used, in a sentence; absent when it can
	Age    *float64 `json:"age_s,omitempty"` // age of the value, s; absent before the first
	Limits bool     `json:"limits"`          // whether this goal has the least slack and decides
}

// Decides returns the goal with the least slack, by which sharing goes; nil while no metric can be used.
func (s *Sharing) Decides() *ShareGoal {
	if s == nil {
		return nil
	}
	for i := range s.Goals {
		if s.Goals[i].Limits {
			return &s.Goals[i]
		}
	}
	return nil
}

// Name returns the name of the goal's workload, which is one of all; its ID where it has none.
func (g *ShareGoal) Name(all []Workload) string {
	for i := range all {
		if w := &all[i]; w.ID == g.ID && w.Name != "" {
			return w.Name
		}
	}
	return string(g.ID)
}

// Text returns a goal as "p99 1.4 of 2 ms".
func (g *ShareGoal) Text() string {
	now := "unknown"
	if g.Value != nil {
		now = workload.WithUnit(*g.Value, "")
	}
	return g.Metric + " " + now + " of " + workload.WithUnit(g.Most, g.Unit)
}

// ShareCache is what batch work has of the last-level caches and of memory bandwidth.
type ShareCache struct {
	// what the group homenode-batch of resctrl has, lines with spaces between; absent when nothing is set
	Schemata string `json:"schemata,omitempty"`
	// ways of the last-level caches, percent, before it is rounded to whole ways; absent when they are not limited
	Ways int `json:"cache,omitempty"`
	// memory bandwidth that a core with batch work may ask for, percent, or batch work in each cache where resctrl
	// counts in GB/s or MiB/s; absent when it is not limited
	Bandwidth int      `json:"memory_bandwidth,omitempty"`
	Why       []string `json:"why"` // why, or why not, in sentences
}

// ShareScheduler is how the kernel's scheduler for batch work is.
type ShareScheduler struct {
	Enabled bool   `json:"enabled"` // whether homenode's is loaded and runs
	Why     string `json:"why"`     // why it runs or not, in a sentence
	// version that runs: the start of the SHA-256 of its object; absent when none does
	Version string `json:"version,omitempty"`
	// version that this homenode brings; absent where the kernel takes none
	Newest     string `json:"newest,omitempty"`
	Generation string `json:"generation,omitempty"` // generation of the kernel's interface for it
	// since when it runs, as far as the daemon knows; absent when none does
	Since *time.Time `json:"since,omitempty"`
	// name of somebody else's sched_ext scheduler that is loaded, also of one that homenode's runs below; absent when
	// none is
	Other string `json:"other,omitempty"`
	// number of threads of batch work that are not with it yet
	Threads int `json:"threads_left"`
	// number of cgroups whose tier it does not have, for it takes 16,384: to it they are normal
	Untiered  int        `json:"cgroups_untiered"`
	Loads     int        `json:"loads"`          // how often it was loaded within the last hour
	MostLoads int        `json:"most_loads"`     // how often it may be within an hour
	Next      *time.Time `json:"next,omitempty"` // it is not loaded before; absent when it may be
	// when the kernel last ended or refused it; absent when it never did
	Ended    *time.Time          `json:"ended,omitempty"`
	End      *share.SchedulerEnd `json:"end,omitempty"` // how; absent when it never did
	Counters []share.Counter     `json:"counters"`      // what it has counted since it was loaded
	// probation of a version, under way; absent when none is
	Trial *ShareTrial `json:"trial,omitempty"`
	// the newest probation that is over; absent before the first
	Upgrade *ShareTrial `json:"upgrade,omitempty"`
}

// ShareTrial is the probation of a version of the kernel's scheduler.
type ShareTrial struct {
	From  string    `json:"from"`   // version before
	To    string    `json:"to"`     // version after
	Began time.Time `json:"began"`  // when it took the place of the other
	Until time.Time `json:"until"`  // when the probation ends
	GapMS float64   `json:"gap_ms"` // for how long none ran in between, in ms
	// share of time that important work waited for a CPU before, the most of any workload, 0 to 1
	Before float64    `json:"waits_before"`
	Worst  float64    `json:"waits_most"`      // the most since
	Ended  *time.Time `json:"ended,omitempty"` // when it was over; absent while it lasts
	Held   bool       `json:"held"`            // whether the version is kept
	Why    string     `json:"why,omitempty"`   // why not, in a sentence; absent otherwise
}

// ShareHarm is how one important workload fares beside batch work.
type ShareHarm struct {
	ID workload.ID `json:"id"` // ID of the workload
	// what tells: cpi (cycles an instruction), psi or schedstat (share of time that it waits for a CPU, 0 to 1); absent
	// when nothing does
	Signal workload.Source `json:"signal,omitempty"`
	Value  *float64        `json:"value"` // the signal in the newest ten seconds; null unknown
	// median of the signal while nothing hurt it; null while too little is known
	Usual *float64 `json:"usual"`
	// deviation of that, as of a normal distribution; null while too little is known
	Deviation *float64 `json:"deviation"`
	// above it the workload is hurt; null while too little is known
	Limit   *float64 `json:"limit"`
	Learned int      `json:"learned"` // number of samples that usual is of
	// whether three of the newest five samples are above the limit
	Hurt bool `json:"hurt"`
	// workload that most likely hurts it; absent when none is found
	By workload.ID `json:"by,omitempty"`
	// correlation of that workload's CPU time with the harm, 0 to 1; absent when none is found
	Score *float64 `json:"correlation,omitzero"`
	// number of samples that the correlation is of; absent when none is found
	Samples int      `json:"samples,omitempty"`
	Why     []string `json:"why"` // the same and what was done, in sentences
}

// ShareNode is what batch work may have of one NUMA node.
type ShareNode struct {
	Node topology.NodeID `json:"node"` // node ID of the kernel
	// CPUs that batch work may keep busy now: what is left of the target after online work, the system and the CPUs
	// kept idle; it grows slowly
	CPUs  float64 `json:"cpus"`
	Given string  `json:"given"` // CPUs that it may use for that, in list format: whole cores
	Pool  int     `json:"pool"`  // number of CPUs that neither dedicated work nor the host holds
	// share of these CPUs that may be busy so that latency goals hold, 0 to 1; absent without goals here
	Use    *float64 `json:"use,omitempty"`
	Used   float64  `json:"used"`   // CPUs that batch work keeps busy
	Online float64  `json:"online"` // CPUs that online work keeps busy
	System float64  `json:"system"` // CPUs that everything else keeps busy
	Idle   int      `json:"idle"`   // number of CPUs that are kept idle
	Why    []string `json:"why"`    // why, in sentences
}

// ShareLeft is a batch workload that sharing changes nothing of.
type ShareLeft struct {
	ID  workload.ID `json:"id"`  // ID of the workload
	Why string      `json:"why"` // why, in sentences
}

// ShareWork is what one batch workload may have.
type ShareWork struct {
	ID     workload.ID `json:"id"`               // ID of the workload
	CPUs   string      `json:"cpus"`             // CPUs that it may use, in list format
	Frozen *time.Time  `json:"frozen,omitempty"` // when it was frozen; absent while it may run
	// since when it has one core of each node, for it hurts somebody; absent when it is not cut
	Cut *time.Time `json:"cut,omitempty"`
	// when its manager was asked to stop it or to run it elsewhere; absent when it was not
	Asked *time.Time  `json:"asked,omitempty"`
	For   workload.ID `json:"for,omitempty"` // workload that it is frozen, cut or asked away for
	Why   string      `json:"why"`           // why, in a sentence
	// whom it was found to hurt in the last hour, in sentences; absent when nobody
	Hurts []string `json:"hurts,omitempty"`
}
