package homes

import (
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// PlaceRequest asks for a home for work that is about to start.
type PlaceRequest struct {
	Spec workload.Spec `json:"spec"`
	// From is the party that it is for, and who made its wishes, where a source or a program of the system asks
	// for another; else it is the party that asks.
	From workload.Origin `json:"from,omitzero"`
	// Process will live there, and is a workload from then on; PID 0 for none.
	Process workload.Process `json:"process,omitzero"`
	// Had is the CPUs that Process may use before it is confined; empty when not known.
	Had topology.CPUSet `json:"had,omitzero"`
	// Ended is processes that hold something and have exited, as was found for this request.
	Ended []workload.Process `json:"ended,omitempty"`
	// Admitted is what `homenode run` has started without a daemon and lives, as was found
	// for this request.
	Admitted []Admission `json:"admitted,omitempty"`
	// Hold keeps what was answered, when no Process is named, until the workload is seen
	// but no longer than this; 0 asks without taking.
	Hold time.Duration `json:"hold,omitempty"`
	// Beside is what is pinned and no scan has seen.
	Beside []place.Pinned `json:"beside,omitempty"`
	// Names is what else patterns of the configuration may mean the work by: other names of it, and its
	// cgroups, which begin with a slash.
	Names []string `json:"names,omitempty"`
	// Release ends what is held for Spec.ID; nothing is placed.
	Release bool `json:"release,omitempty"`
	// Starts: it starts whatever the answer is, so that a home that is crowded is better than none.
	Starts bool `json:"starts,omitempty"`
	// Exact is where a person has put Process: nothing is searched, and it is left there.
	Exact *Exact `json:"exact,omitempty"`
}

// Exact is where a person wants work to be.
type Exact struct {
	CPUs  topology.CPUSet  `json:"cpus"`  // empty: no CPUs were named
	Nodes topology.NodeSet `json:"nodes"` // of its memory; empty: none were named
}

// MoveRequest gives a placed workload a home, or cancels its page move.
type MoveRequest struct {
	ID     workload.ID      `json:"id"` // or a name, see workload.Find
	To     topology.NodeSet `json:"to"`
	DryRun bool             `json:"dry_run,omitempty"`
	Cancel bool             `json:"cancel,omitempty"`
	// Admitted is as in PlaceRequest: commands that started while no daemon answered.
	Admitted []Admission `json:"admitted,omitempty"`
}

// Placed answers a PlaceRequest, also one that is refused.
type Placed struct {
	Placement workload.Placement `json:"placement"`
	Decision  plan.Decision      `json:"decision"`
	Ledger    bool               `json:"ledger"` // it was written down
}

// Moved answers a MoveRequest.
type Moved struct {
	Workload workload.ID      `json:"workload"`
	Outcome  plan.Outcome     `json:"outcome"` // placed, kept, cancelled
	From     topology.NodeSet `json:"from"`
	FromCPUs topology.CPUSet  `json:"from_cpus"`
	To       topology.NodeSet `json:"to"`
	CPUs     topology.CPUSet  `json:"cpus"`
	Decision plan.Decision    `json:"decision"`
	Steps    []plan.Step      `json:"steps"`
	Move     *plan.Move       `json:"move,omitempty"`
}

// Refusal is why a request is not granted; nil where it is.
type Refusal struct {
	Kind RefusalKind
	Why  string
}

// RefusalKind is what is wrong.
type RefusalKind int

// Kinds of refusal.
const (
	Malformed RefusalKind = iota // the request itself
	NoRoom                       // no home fits
	Unsound                      // the plan breaks a rule
	TooEarly                     // no scan has seen the host yet
)

func refuse(kind RefusalKind, code words.Code, args ...any) *Refusal {
	return &Refusal{kind, words.Because(code, args...).String()}
}

// MostHold bounds how long a home is held for what does not come: CPUs and memory that
// nobody uses are missing to others, and hooks ask for a minute.
const MostHold = time.Hour

// Check returns what is wrong with a request. It fills in the tier of its spec.
func (in *PlaceRequest) Check() *Refusal {
	if in.Release {
		return in.checkRelease()
	}
	w := &in.Spec
	if _, err := workload.ParseClass(string(w.Class)); err != nil {
		return &Refusal{Malformed, err.Error()}
	}
	tier, err := workload.ParseTier(string(w.Tier))
	if err != nil {
		return &Refusal{Malformed, err.Error()}
	}
	w.Tier = tier
	if _, _, err := tier.With(w.Class); err != nil {
		return &Refusal{Malformed, err.Error()}
	}
	if bad := in.checkSize(); bad != nil {
		return bad
	}
	if bad := in.checkHold(); bad != nil {
		return bad
	}
	switch w.SMT {
	case "", workload.SMTPrefer, workload.SMTIsolate, workload.SMTRequire:
		return nil
	}
	return badValue("smt", string(w.SMT), "prefer, isolate or require")
}

func badValue(key string, value any, want string) *Refusal {
	return refuse(Malformed, words.BadValue, key, value, want)
}

func (in *PlaceRequest) checkRelease() *Refusal {
	asksMore := in.Process.PID != 0 || in.Hold != 0 || in.Exact != nil
	if in.Spec.ID == "" || asksMore {
		return badValue("release", true, "the id of what is held, and nothing else")
	}
	return nil
}

// checkSize checks what the work needs.
func (in *PlaceRequest) checkSize() *Refusal {
	w := &in.Spec
	noCPUs := w.CPUs < 1 && !in.memoryAlone()
	switch {
	case noCPUs || w.CPUs > topology.MaxID:
		return badValue("cpus", w.CPUs, "1 or more")
	case w.Memory < 0 || w.Memory > 1<<50:
		return badValue("memory", int64(w.Memory), "KiB, 0 (unknown) or more")
	case w.HugePage < 0 || w.HugePage > 1<<25:
		return badValue("huge_page_kib", int64(w.HugePage), "a page size in KiB, or 0")
	}
	return nil
}

// memoryAlone reports whether memory of one node is to be held, without CPUs.
func (in *PlaceRequest) memoryAlone() bool {
	w := &in.Spec
	held := in.Hold > 0 && w.Memory > 0 && in.Process.PID == 0
	return held && w.CPUs == 0 && w.Nodes.Len() == 1
}

// checkHold checks for whom and for how long a home is asked.
func (in *PlaceRequest) checkHold() *Refusal {
	switch {
	case in.Process.PID < 0:
		return badValue("process", in.Process.PID, "a PID")
	case in.Hold < 0 || in.Hold > MostHold:
		return badValue("hold_s", int64(in.Hold/time.Second), "0 to 3600")
	case in.Exact != nil && in.Exact.nameless(in.Spec.Class):
		return badValue("exact", "", "CPUs, or nodes for memory")
	case in.Exact != nil && in.Hold > 0:
		return badValue("hold_s", int64(in.Hold/time.Second), "0 where CPUs or nodes are named")
	}
	unnamed := in.Process.PID == 0 && in.Spec.ID == ""
	if unnamed && in.Hold > 0 {
		return badValue("id", "", "the workload to hold a home for")
	}
	return nil
}

// nameless reports whether too little is named: dedicated work needs CPUs.
func (x *Exact) nameless(class workload.Class) bool {
	needsCPUs := x.Nodes.Empty() || class == workload.Dedicated
	return x.CPUs.Empty() && needsCPUs
}
