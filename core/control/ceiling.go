package control

import (
	"cmp"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// The ceiling bounds what a party may book on its own word: without the operator (a rule, a flavor, a grant) and
// without a scheduler that has counted it. It is one for all parties and all ways to ask:
//
//	party                  what counts
//	a user                 processes and scopes of his own, by what they use; `homenode run`, by what it booked
//	a namespace            memory limits, and CPU limits, that no request stands behind, as far as its
//	                       pods do not use them; resource claims, by what they booked
//
// Who the party is, workload.Owner says. Root and services of the system have no ceiling: they administer the host.

const (
	// ownShare is how much of the CPUs and of the memory of a host one party may book on its own word. Half,
	// because nothing less serves a host that one user or one namespace has to itself in practice, and with
	// more a single party leaves less to all others than to itself.
	ownShare = 0.5

	// allShare is how much all parties may book together on their own word: words that no use
	// stands behind. Three quarters, so that two parties reach their half only together with nobody else, and
	// a quarter of the host is left to what the operator places and to what is really used, however many
	// users or namespaces there are.
	allShare = 0.75
)

// amount is CPUs and memory that are booked.
type amount struct {
	CPUs   float64
	Memory topology.KiB
}

func (a amount) plus(b amount) amount { return amount{a.CPUs + b.CPUs, a.Memory + b.Memory} }

// within reports whether an amount is no more than a share of the host in both.
func (a amount) within(share float64, host amount) bool {
	return a.CPUs <= share*host.CPUs+1e-9 && float64(a.Memory) <= share*float64(host.Memory)
}

// hostAmount returns the online CPUs and the memory of the host.
func (s *State) hostAmount() (a amount) {
	for _, n := range s.Snapshot.Host.Nodes {
		a.Memory += max(0, n.Memory)
	}
	a.CPUs = float64(s.Snapshot.Host.Online.Len())
	return a
}

// cpusOf returns the CPUs that vCPUs of a class keep from others: shared ones share theirs.
func (s *State) cpusOf(class workload.Class, vcpus int) float64 {
	switch class {
	case workload.Dedicated:
		return float64(vcpus)
	case workload.Shared:
		return float64(vcpus) / max(1, s.Settings.Policy.Overcommit)
	}
	return 0
}

// ownWord returns what a spec books on the word of the workload's own party.
func (s *State) ownWord(spec *workload.Spec, asked *workload.Asked) (a amount) {
	if asked.CPUs == workload.Own || asked.Class == workload.Own && spec.Class == workload.Dedicated {
		a.CPUs = s.cpusOf(spec.Class, spec.CPUs)
	}
	if asked.Memory == workload.Own && spec.Class != workload.Batch {
		a.Memory = spec.Memory
	}
	return a
}

// withoutOwn takes from a spec what its own party said of its size and class: it then counts as what it uses.
func withoutOwn(spec *workload.Spec, asked *workload.Asked) {
	if asked.Class == workload.Own && spec.Class == workload.Dedicated {
		spec.Class = workload.Shared
	}
	if asked.CPUs == workload.Own {
		spec.CPUs = 0
	}
	if asked.Memory == workload.Own {
		spec.Memory = 0
	}
	spec.Given = spec.CPUs > 0 && spec.Memory > 0
}

// origin returns the party behind a request and who made its wishes. Another program of the system names
// the party that it asks for.
func (s *State) origin(in *PlaceRequest) workload.Origin {
	from := in.From
	asker := workload.SystemOwner
	if s.by != nil {
		asker = s.by.Responsible()
	}
	if asker != workload.SystemOwner || from.Owner == workload.SystemOwner {
		return workload.Origin{Owner: asker, Asked: workload.AllOwn}
	}
	if from.Asked.Class == workload.Own && workload.Granted(s.Settings.Grants, workload.MayBeDedicated, from.Owner) {
		from.Asked = workload.Asked{Class: workload.Operator, CPUs: workload.Operator, Memory: workload.Operator}
	}
	return from
}

// promised returns what each party holds by requests, but for one workload, and all of them together.
func (s *State) promised(but workload.ID) (each map[workload.Owner]amount, all amount) {
	each = map[workload.Owner]amount{}
	for id, a := range s.Admissions {
		if id == but || !a.From.Bounded() {
			continue
		}
		o := s.observation(id)
		if c := s.Claims[id]; a.Process.PID == 0 && o != nil && c != nil && c.Spec != nil { // it has come: the claim counts
			continue
		}
		own := s.ownWord(&a.Spec, &a.From.Asked)
		if o != nil && a.Process.PID > 0 && a.Spec.Memory == 0 { // its size is what it is seen to hold
			own.Memory = workload.Total(o.Memory)
		}
		each[a.From.Owner] = each[a.From.Owner].plus(own)
		all = all.plus(own)
	}
	return each, all
}

// boundClaims finds the claims whose words go beyond the ceiling of their party, or of all parties. The smallest come
// first, so that one large word does not take the place of many small ones.
func (s *State) boundClaims() {
	s.Beyond, s.Words = map[workload.ID]words.Reason{}, map[workload.Owner]amount{}
	if s.Snapshot.Host == nil || len(s.Claims) == 0 {
		return
	}
	type word struct {
		id    workload.ID
		owner workload.Owner
		amount
	}
	var said []word
	for i := range s.Snapshot.Observations {
		o := &s.Snapshot.Observations[i]
		c := s.Claims[o.ID]
		if c == nil || c.Spec == nil || c.Booked {
			continue
		}
		if from := (workload.Origin{Owner: c.Owner, Asked: c.Asked}); !from.Bounded() {
			continue
		}
		own := s.ownWord(c.Spec, &c.Asked)
		own.Memory = max(0, own.Memory-workload.Total(o.Memory))
		if c.Spec.Class == workload.Shared {
			own.CPUs = max(0, own.CPUs-o.CPUUse)
		}
		if own != (amount{}) {
			said = append(said, word{o.ID, c.Owner, own})
		}
	}
	slices.SortFunc(said, func(a, b word) int {
		return cmp.Or(cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.CPUs, b.CPUs), cmp.Compare(a.id, b.id))
	})
	host := s.hostAmount()
	each, all := s.promised("")
	for _, w := range said {
		if why := over(w.owner, each[w.owner].plus(w.amount), all.plus(w.amount), host); !why.None() {
			s.Beyond[w.id] = why
			continue
		}
		each[w.owner], all = each[w.owner].plus(w.amount), all.plus(w.amount)
		s.Words[w.owner] = s.Words[w.owner].plus(w.amount)
	}
}

// over returns why a party may not hold so much; none where it may.
func over(o workload.Owner, its, all, host amount) words.Reason {
	if !its.within(ownShare, host) {
		return beyondOwn(o)
	}
	if !all.within(allShare, host) {
		return words.Because(words.AllShare, allShare)
	}
	return words.Reason{}
}

// beyondOwn says that a party wants more than its share.
func beyondOwn(o workload.Owner) words.Reason {
	if uid, ok := o.User(); ok {
		return words.Because(words.UserShare, uid, ownShare)
	}
	return words.Because(words.OwnerShare, o.String(), ownShare)
}

// mayBook returns why a request goes beyond the ceiling of its party; none where it does not.
func (s *State) mayBook(spec *workload.Spec, from *workload.Origin) words.Reason {
	if !from.Bounded() {
		return words.Reason{}
	}
	want := s.ownWord(spec, &from.Asked)
	if want == (amount{}) {
		return words.Reason{}
	}
	each, all := s.promised(spec.ID)
	its := each[from.Owner].plus(want).plus(s.Words[from.Owner]).plus(s.Used[from.Owner])
	all = all.plus(want)
	for _, said := range s.Words {
		all = all.plus(said)
	}
	return over(from.Owner, its, all, s.hostAmount())
}

// ownStart returns the party that started a workload without a request and without a source that knows
// it; SystemOwner where the system did, or where the operator has given it a size by its path, which no user chooses.
func (s *State) ownStart(o *workload.Observation) workload.Owner {
	if o.Kind == workload.InCgroup && workload.UserOf(o.Cgroup) == 0 && o.UID == 0 { // a unit of the system, also one that runs as a user
		return workload.SystemOwner
	}
	if has(s.Admissions, o.ID) || s.Claims[o.ID] != nil {
		return workload.SystemOwner
	}
	owner := o.Responsible()
	if _, user := owner.User(); !user { // no source knows it: what root runs has started it
		return workload.SystemOwner
	}
	r := s.Settings.rule(o)
	sized := r != nil && (r.CPUs > 0 || r.Memory > 0 || r.Class == workload.Dedicated)
	if sized && strings.HasPrefix(r.Match, "/") {
		return workload.SystemOwner
	}
	return owner
}

// used returns what a workload uses, or what a rule by its name, which its user chooses, would give it.
func (s *State) used(o *workload.Observation) amount {
	a := amount{o.CPUUse, workload.Total(o.Memory)}
	if r := s.Settings.rule(o); r != nil && namesIt(r.Match, o) {
		a.Memory = max(a.Memory, r.Memory)
		if r.Class == workload.Dedicated {
			a.CPUs = max(a.CPUs, float64(max(1, r.CPUs)))
		}
	}
	return a
}

// beyondCeiling returns the workloads, of those that no request and no source speaks for, with which a party
// would hold more than its share. The largest come first; what is beyond takes nothing from what fits beside it.
func (s *State) beyondCeiling(all []workload.Observation) map[workload.ID]words.Reason {
	type own struct {
		*workload.Observation
		amount
	}
	byOwner := map[workload.Owner][]own{}
	for i := range all {
		o := &all[i]
		if owner := s.ownStart(o); owner != workload.SystemOwner {
			byOwner[owner] = append(byOwner[owner], own{o, s.used(o)})
		}
	}
	s.Used = map[workload.Owner]amount{}
	if len(byOwner) == 0 {
		return nil
	}
	host := s.hostAmount()
	promised, _ := s.promised("")
	beyond := map[workload.ID]words.Reason{}
	for owner, its := range byOwner { // each by itself: their order does not matter
		slices.SortFunc(its, func(a, b own) int {
			return cmp.Or(cmp.Compare(b.amount.Memory, a.amount.Memory), cmp.Compare(a.ID, b.ID))
		})
		for _, x := range its {
			used := s.Used[owner].plus(x.amount)
			if used.plus(promised[owner]).within(ownShare, host) {
				s.Used[owner] = used
			} else {
				beyond[x.ID] = beyondOwn(owner)
			}
		}
	}
	return beyond
}
