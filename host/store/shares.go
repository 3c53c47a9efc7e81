package store

import (
	"bytes"
	"slices"

	"github.com/homenode/homenode/core/workload"
)

// The steps and the orders of one party must not push out those of others, or whoever
// starts many short processes hides what homenode did before. So each table has shares, and
// the party that is furthest above its share loses its oldest entries first:
//   - half is the system's (workload.SystemOwner): what was done to root's own services
//     stays for months, whatever users and pods do;
//   - a quarter is the users', in equal parts. A user counts once, however many UIDs
//     subuid(5) gives to that user;
//   - a quarter is that of pods and other containers, in equal parts. Each pod is an owner,
//     and 40,000 short pods are 40,000 owners: apart from users they push out other pods only.
//
// A share that is not used is free to the others. What owns entries is found in the table when
// it has to be trimmed, so that nothing is kept of owners besides their entries. Entries
// without an owner, as older versions wrote them, count as the system's.
type shareholder int

const (
	ofSystem shareholder = iota
	ofUsers
	ofPods
	shareholders // how many they are
)

// parts is how many eighths of a table each has.
var parts = [shareholders]int{ofSystem: 4, ofUsers: 2, ofPods: 2}

func shareholderOf(o workload.Owner) shareholder {
	switch {
	case o == workload.SystemOwner:
		return ofSystem
	case isUser(o):
		return ofUsers
	}
	return ofPods
}

func isUser(o workload.Owner) bool {
	_, is := o.User()
	return is
}

// trim removes entries until keep are left. It waits until there are an eighth more, since it
// reads the whole table.
func (t *table) trim(keep int) error {
	if t.Count <= keep+keep/8 {
		return nil
	}
	type entry struct {
		key   []byte
		owner workload.Owner
	}
	var all []entry // oldest first
	var counts [shareholders]int
	owned := map[workload.Owner]int{}
	err := t.bucket.ForEach(func(k, v []byte) error {
		e := entry{bytes.Clone(k), ownerIn(v)}
		all = append(all, e)
		counts[shareholderOf(e.owner)]++
		owned[e.owner]++
		return nil
	})
	if err != nil {
		return err
	}
	surplus := surpluses(counts, len(all)-keep)
	var level [shareholders]int
	for of := range level {
		level[of] = levelFor(owned, shareholder(of), surplus[of])
	}
	// Not all owners have to go down to the level: first each goes to one more.
	for _, more := range []int{1, 0} {
		for i := range all {
			e := &all[i]
			of := shareholderOf(e.owner)
			if e.key == nil || surplus[of] == 0 || owned[e.owner] <= level[of]+more {
				continue
			}
			if err := t.delete(e.key); err != nil {
				return err
			}
			e.key = nil
			surplus[of]--
			owned[e.owner]--
		}
	}
	return nil
}

// surpluses divides what is too much over the shareholders: each entry is taken from the one
// that has most in relation to its part.
func surpluses(counts [shareholders]int, tooMany int) (surplus [shareholders]int) {
	for range tooMany {
		most := ofSystem
		for of := range shareholders {
			if counts[of]*parts[most] > counts[most]*parts[of] {
				most = of
			}
		}
		counts[most]--
		surplus[most]++
	}
	return surplus
}

// levelFor is the largest number of entries to which all owners of a shareholder can be cut so
// that as many go as are too many.
func levelFor(owned map[workload.Owner]int, of shareholder, tooMany int) int {
	if tooMany == 0 {
		return 0
	}
	var counts []int
	for o, n := range owned {
		if shareholderOf(o) == of {
			counts = append(counts, n)
		}
	}
	slices.Sort(counts)
	slices.Reverse(counts)
	above := 0 // what the owners before have together
	for i, n := range counts {
		if above-i*n >= tooMany { // cutting those before to n is enough
			return (above - tooMany) / i
		}
		above += n
	}
	return (above - tooMany) / max(1, len(counts))
}

var (
	ownerKey = []byte(`"owner":"`)
	textKey  = []byte(`"text":`)
)

// ownerIn is the owner of an event as it is stored. plan.Event has it before the text, and
// within a JSON string no quote stands without a backslash.
func ownerIn(value []byte) workload.Owner {
	head, _, _ := bytes.Cut(value, textKey)
	_, rest, found := bytes.Cut(head, ownerKey)
	if !found {
		return workload.SystemOwner
	}
	owner, _, _ := bytes.Cut(rest, []byte{'"'})
	return workload.Owner(owner)
}
