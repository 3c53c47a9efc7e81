package scene

import (
	"cmp"
	"slices"
	"strings"

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
// workload.Owner names the party. Root and services of the system have no ceiling: they administer the host.

const (
	// OwnShare is how much of the CPUs and of the memory of a host one party may book on its own word. Half,
	// because nothing less serves a host that one user or one namespace has to itself in practice, and with
	// more a single party leaves less to all others than to itself.
	OwnShare = 0.5

	// AllShare is how much all parties may book together on their own word: words that no use
	// stands behind. Three quarters, so that two parties reach their half only together with nobody else, and
	// a quarter of the host is left to what the operator places and to what is really used, however many
	// users or namespaces there are.
	AllShare = 0.75
)

// hostAmount returns the online CPUs and the memory of the host.
func (s *Scene) hostAmount() Amount {
	h := s.Snapshot.Host
	return Amount{CPUs: float64(h.Online.Len()), Memory: h.Memory()}
}

// cpusOf returns the CPUs that vCPUs of a class keep from others: shared ones share theirs.
func (b *Basis) cpusOf(class workload.Class, vcpus int) float64 {
	switch class {
	case workload.Dedicated:
		return float64(vcpus)
	case workload.Shared:
		return float64(vcpus) / max(1, b.Settings.Overcommit)
	}
	return 0
}

// ownWord returns what a spec books on the word of the workload's own party.
func (b *Basis) ownWord(spec *workload.Spec, asked *workload.Asked) (a Amount) {
	dedicated := asked.Class == workload.Own && spec.Class == workload.Dedicated
	if dedicated || asked.CPUs == workload.Own {
		a.CPUs = b.cpusOf(spec.Class, spec.CPUs)
	}
	if asked.Memory == workload.Own && spec.Class != workload.Batch {
		a.Memory = spec.Memory
	}
	return a
}

// WithoutOwn takes from a spec what its own party said of its size and class: it then counts as what it uses.
func WithoutOwn(spec *workload.Spec, asked *workload.Asked) {
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

// promised returns what each party holds by requests, except for one workload, and all of them together.
func (s *Scene) promised(by *Basis, except workload.ID) (each map[workload.Owner]Amount, all Amount) {
	each = map[workload.Owner]Amount{}
	for id, a := range by.Admissions {
		if id == except || !a.From.Bounded() {
			continue
		}
		o, c := s.Observation(id), s.Claims[id]
		seen := o != nil && c != nil && c.Spec != nil
		if seen && a.Process.PID == 0 { // it has come: the claim counts
			continue
		}
		own := by.ownWord(&a.Spec, &a.From.Asked)
		if o != nil && a.Process.PID > 0 && a.Spec.Memory == 0 { // it counts with the memory that it uses
			own.Memory = workload.Total(o.Memory)
		}
		each[a.From.Owner] = each[a.From.Owner].Plus(own)
		all = all.Plus(own)
	}
	return each, all
}

// word is what a workload books on the word of its party.
type word struct {
	id    workload.ID
	owner workload.Owner
	Amount
}

// BoundClaims finds the claims whose words go beyond the ceiling of their party, or of all parties. The smallest come
// first, so that one large word does not take the place of many small ones.
func (s *Scene) BoundClaims(by *Basis) {
	s.Beyond = map[workload.ID]words.Reason{}
	s.Words = map[workload.Owner]Amount{}
	if s.Snapshot.Host == nil || len(s.Claims) == 0 {
		return
	}
	said := s.claimedWords(by)
	slices.SortFunc(said, func(a, b word) int {
		return cmp.Or(cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.CPUs, b.CPUs), cmp.Compare(a.id, b.id))
	})
	host := s.hostAmount()
	each, all := s.promised(by, "")
	for _, w := range said {
		its, theirs := each[w.owner].Plus(w.Amount), all.Plus(w.Amount)
		why := over(w.owner, its, theirs, host)
		if !why.None() {
			s.Beyond[w.id] = why
			continue
		}
		each[w.owner], all = its, theirs
		s.Words[w.owner] = s.Words[w.owner].Plus(w.Amount)
	}
}

// claimedWords returns the words of claims, as far as their workloads do not use what they book.
func (s *Scene) claimedWords(by *Basis) (said []word) {
	for i := range s.Snapshot.Observations {
		o := &s.Snapshot.Observations[i]
		c := s.Claims[o.ID]
		if c == nil || c.Spec == nil || c.Booked {
			continue
		}
		from := workload.Origin{Owner: c.Owner, Asked: c.Asked}
		if !from.Bounded() {
			continue
		}
		own := by.ownWord(c.Spec, &c.Asked)
		own.Memory = max(0, own.Memory-workload.Total(o.Memory))
		if c.Spec.Class == workload.Shared {
			own.CPUs = max(0, own.CPUs-o.CPUUse)
		}
		if own != (Amount{}) {
			said = append(said, word{o.ID, c.Owner, own})
		}
	}
	return said
}

// over returns why a party may not hold so much; none where it may.
func over(o workload.Owner, its, all, host Amount) words.Reason {
	if !its.Within(OwnShare, host) {
		return beyondOwn(o)
	}
	if !all.Within(AllShare, host) {
		return words.Because(words.AllShare, AllShare)
	}
	return words.Reason{}
}

// beyondOwn says that a party wants more than its share.
func beyondOwn(o workload.Owner) words.Reason {
	uid, ok := o.User()
	if ok {
		return words.Because(words.UserShare, uid, OwnShare)
	}
	return words.Because(words.OwnerShare, o.String(), OwnShare)
}

// MayBook returns why a request goes beyond the ceiling of its party; none where it does not.
func (s *Scene) MayBook(by *Basis, spec *workload.Spec, from *workload.Origin) words.Reason {
	if !from.Bounded() {
		return words.Reason{}
	}
	want := by.ownWord(spec, &from.Asked)
	if want == (Amount{}) {
		return words.Reason{}
	}
	each, all := s.promised(by, spec.ID)
	its := each[from.Owner].Plus(want).Plus(s.Words[from.Owner]).Plus(s.Used[from.Owner])
	all = all.Plus(want)
	for _, said := range s.Words {
		all = all.Plus(said)
	}
	return over(from.Owner, its, all, s.hostAmount())
}

// ownStart returns the party that started a workload without a request and without a source that knows
// it; SystemOwner where the system did, or where the operator has given it a size by its path, which no user chooses.
func (s *Scene) ownStart(by *Basis, o *workload.Observation) workload.Owner {
	if ofSystem(o) {
		return workload.SystemOwner
	}
	if has(by.Admissions, o.ID) || s.Claims[o.ID] != nil {
		return workload.SystemOwner
	}
	owner := o.Responsible()
	_, user := owner.User()
	if !user { // no source knows it: a program of root has started it
		return workload.SystemOwner
	}
	r := RuleOf(by.Settings.Rules, o)
	if r == nil || !strings.HasPrefix(r.Match, "/") {
		return owner
	}
	if r.CPUs > 0 || r.Memory > 0 || r.Class == workload.Dedicated {
		return workload.SystemOwner
	}
	return owner
}

// ofSystem reports whether a cgroup is a unit of the system, also one that runs as a user.
func ofSystem(o *workload.Observation) bool {
	return o.Kind == workload.InCgroup && o.UID == 0 && workload.UserOf(o.Cgroup) == 0
}

// used returns what a workload uses, or what a rule by its name, which its user chooses, would give it.
func used(by *Basis, o *workload.Observation) Amount {
	a := Amount{o.CPUUse, workload.Total(o.Memory)}
	r := RuleOf(by.Settings.Rules, o)
	if r == nil || !namesIt(r.Match, o) {
		return a
	}
	a.Memory = max(a.Memory, r.Memory)
	if r.Class == workload.Dedicated {
		a.CPUs = max(a.CPUs, float64(max(1, r.CPUs)))
	}
	return a
}

// beyondCeiling returns the workloads, of those without a request and without a source, with which a party
// would hold more than its share. The largest come first; what is beyond takes nothing from what fits beside it. owners
// has ownStart of each.
func (s *Scene) beyondCeiling(
	by *Basis, all []workload.Observation, owners []workload.Owner,
) map[workload.ID]words.Reason {
	byOwner := map[workload.Owner][]word{}
	for i, owner := range owners {
		o := &all[i]
		if owner != workload.SystemOwner {
			byOwner[owner] = append(byOwner[owner], word{o.ID, owner, used(by, o)})
		}
	}
	s.Used = map[workload.Owner]Amount{}
	if len(byOwner) == 0 {
		return nil
	}
	host := s.hostAmount()
	promised, _ := s.promised(by, "")
	beyond := map[workload.ID]words.Reason{}
	for owner, its := range byOwner { // each by itself: their order does not matter
		slices.SortFunc(its, func(a, b word) int {
			return cmp.Or(cmp.Compare(b.Memory, a.Memory), cmp.Compare(a.id, b.id))
		})
		for _, x := range its {
			used := s.Used[owner].Plus(x.Amount)
			if used.Plus(promised[owner]).Within(OwnShare, host) {
				s.Used[owner] = used
			} else {
				beyond[x.id] = beyondOwn(owner)
			}
		}
	}
	return beyond
}
