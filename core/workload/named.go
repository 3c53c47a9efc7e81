package workload

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/homenode/homenode/core/words"
)

// MaxName bounds a name that a user gives, in bytes; a cgroup's is at most 255 bytes (NAME_MAX).
const MaxName = 255

// OneLine reports whether a name that a user gives is short enough, and printable text.
func OneLine(name string) bool {
	odd := strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) })
	return len(name) <= MaxName && utf8.ValidString(name) && !odd
}

// Named is a workload by all that it may be called.
type Named struct {
	ID        ID
	Name      string    // for people
	Also      []string  // other names that only it has, such as the UUID of a guest
	Cgroup    string    // path below the cgroup root; of a process tree the cgroup it shares; "" for none
	Whole     bool      // all in Cgroup and below it is its
	Processes []Process // as they were last seen
}

// NamedOf is an observation by what it may be called.
func NamedOf(o *Observation) Named {
	return Named{ID: o.ID, Name: o.Name, Cgroup: o.Cgroup, Whole: o.Kind != InProcess, Processes: o.Processes}
}

// NamedByID is what the ID alone tells, of what is not seen any more.
func NamedByID(id ID) Named {
	n := Named{ID: id}
	switch pid, isProcess := PIDOf(string(id)); {
	case isProcess:
		n.Processes = []Process{{PID: pid}}
	case strings.HasPrefix(string(id), "/"):
		n.Cgroup, n.Whole = string(id), true
	default: // vm:NAME, device:NAME
		_, n.Name, _ = strings.Cut(string(id), ":")
	}
	return n
}

// Lineage is what the kernel says of a process or thread: /proc/PID/status and
// /proc/PID/cgroup. The zero Lineage is none.
type Lineage struct {
	// PIDs are the process that the thread belongs to, its parent, and so on up.
	PIDs   []int  `json:"pids,omitempty"`
	Cgroup string `json:"cgroup,omitempty"` // path below the cgroup root; "" when unknown
}

// PIDOf reads "322" and "pid:322".
func PIDOf(name string) (pid int, ok bool) {
	digits := strings.TrimPrefix(name, "pid:")
	if digits == "" || digits[0] < '0' || digits[0] > '9' { // Atoi takes a sign
		return 0, false
	}
	pid, err := strconv.Atoi(digits)
	return pid, err == nil && pid > 0
}

// Find is the workloads that a name may mean, rising by ID: one when it is clear, several
// when it is not. Of the following the first that finds any counts, so that nobody takes
// the place of another by what they call themselves:
//
//  1. an ID as it stands, which is all that names a device;
//  2. what the kernel or a manager says: a process or thread of the workload (of is what
//     the kernel says of it), its cgroup with or without /sys/fs/cgroup, a cgroup in or
//     above it, the UUID of a guest;
//  3. what somebody chose: the name of a program, guest or machine, a unit of systemd with
//     or without its suffix (slices with it), a container's ID or its first 12 characters
//     and more;
//  4. the first four characters and more of a container's ID.
func Find(all []Named, name string, of Lineage) []ID {
	for i := range all {
		if string(all[i].ID) == name {
			return []ID{all[i].ID}
		}
	}
	if name == "" || strings.HasPrefix(name, "device:") {
		return nil
	}
	pid, isPID := PIDOf(name)
	if isPID {
		if found := member(all, pid, of); found != nil {
			return found
		}
	}
	if strings.Contains(name, "/") {
		if found := inCgroup(all, name); found != nil {
			return found
		}
	}
	return first(all,
		func(n *Named) bool {
			return slices.ContainsFunc(n.Also, func(other string) bool { return strings.EqualFold(other, name) })
		},
		func(n *Named) bool { return n.Name == name || n.called(name) },
		func(n *Named) bool { return !isPID && len(name) >= 4 && n.containerBegins(name) },
	)
}

// first is the workloads that fit the first of some conditions that any fits, rising by ID.
func first(all []Named, conditions ...func(*Named) bool) []ID {
	for _, fits := range conditions {
		var found []ID
		for i := range all {
			if fits(&all[i]) {
				found = append(found, all[i].ID)
			}
		}
		if found != nil {
			return sorted(found)
		}
	}
	return nil
}

func sorted(ids []ID) []ID {
	slices.Sort(ids)
	return slices.Compact(ids)
}

// member finds the workload that a process belongs to: one that lists it, else the one
// whose cgroup it is in, else that of its nearest ancestor in the same cgroup, for what has
// come since.
func member(all []Named, pid int, of Lineage) []ID {
	lists := func(pid int) (found []ID) {
		for i := range all {
			n := &all[i]
			if slices.ContainsFunc(n.Processes, func(p Process) bool { return p.PID == pid }) {
				found = append(found, n.ID)
			}
		}
		return sorted(found)
	}
	if found := lists(pid); found != nil {
		return found
	}
	if len(of.PIDs) > 0 {
		if found := lists(of.PIDs[0]); found != nil {
			return found
		}
	}
	deepest := -1
	for i := range all {
		n := &all[i]
		if n.Whole && within(of.Cgroup, n.Cgroup) && (deepest < 0 || len(n.Cgroup) > len(all[deepest].Cgroup)) {
			deepest = i
		}
	}
	if deepest >= 0 {
		return []ID{all[deepest].ID}
	}
	for i := 1; i < len(of.PIDs); i++ {
		var found []ID
		for k := range all {
			n := &all[k]
			if (n.Cgroup == of.Cgroup || n.Cgroup == "" || of.Cgroup == "") &&
				slices.ContainsFunc(n.Processes, func(p Process) bool { return p.PID == of.PIDs[i] }) {
				found = append(found, n.ID)
			}
		}
		if found != nil {
			return sorted(found)
		}
	}
	return nil
}

// within reports whether a cgroup is another or lies below it. Nothing lies below the root:
// what is not in a cgroup of its own is nobody's.
func within(cgroup, above string) bool {
	return above != "" && above != "/" && (cgroup == above || strings.HasPrefix(cgroup, above+"/"))
}

// inCgroup finds what has the cgroup, else what the cgroup is a part of, else what is in it.
func inCgroup(all []Named, name string) []ID {
	asked := path.Clean("/" + name)
	// of a hybrid hierarchy, of a plain one
	for _, mount := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if below, ok := strings.CutPrefix(asked, mount); ok && (below == "" || below[0] == '/') {
			asked = path.Clean("/" + below)
			break
		}
	}
	return first(all,
		func(n *Named) bool { return n.Cgroup == asked && asked != "/" },
		func(n *Named) bool { return n.Whole && within(asked, n.Cgroup) },
		func(n *Named) bool { return within(n.Cgroup, asked) },
	)
}

// unitSuffixes are those of systemd's units that have cgroups (systemd.unit(5)), but for
// slices, which hold other units.
var unitSuffixes = []string{".service", ".scope", ".socket", ".mount", ".swap"}

// machinePrefixes stand before the name of a container or machine in the name of its
// cgroup: systemd-nspawn and libvirt, LXC.
var machinePrefixes = []string{"machine-", "systemd-nspawn@", "lxc.payload.", "lxc.monitor."}

// called reports whether a part of the cgroup's path has the name: a unit, a machine, a
// container.
func (n *Named) called(name string) bool {
	for part := range strings.SplitSeq(n.Cgroup, "/") {
		if part == "" {
			continue
		}
		stem := unitStem(part)
		if name == part || name == stem || name == UnescapeUnit(part) || name == UnescapeUnit(stem) {
			return true
		}
		for _, prefix := range machinePrefixes {
			if rest, ok := strings.CutPrefix(UnescapeUnit(stem), prefix); ok && rest == name {
				return true
			}
		}
		if id := ContainerID(part); id != "" && len(name) >= shortID && strings.HasPrefix(id, name) {
			return true
		}
	}
	return false
}

func (n *Named) containerBegins(name string) bool {
	for part := range strings.SplitSeq(n.Cgroup, "/") {
		if id := ContainerID(part); id != "" && strings.HasPrefix(id, name) {
			return true
		}
	}
	return false
}

func unitStem(part string) string {
	for _, suffix := range unitSuffixes {
		if stem, ok := strings.CutSuffix(part, suffix); ok {
			return stem
		}
	}
	return part
}

// shortID is as much of a container's ID as its tools show.
const shortID = 12

// ContainerID is the ID of a container in the name of its cgroup, such as
// docker-ID.scope, cri-containerd-ID.scope, crio-ID or ID alone: 32 and more hexadecimal
// digits at the end of a unit's name; "" for none.
func ContainerID(part string) string {
	id := unitStem(part)
	if i := strings.LastIndexAny(id, "-:"); i >= 0 {
		id = id[i+1:]
	}
	if len(id) < 32 {
		return ""
	}
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	return id
}

// UnescapeUnit undoes systemd's \x2d for what a unit name may not hold (systemd.unit(5)):
// any byte there is, so the result is still to be made printable.
func UnescapeUnit(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && s[i+1] == 'x' {
			if n, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mostNear is how many near names help; mostTyped is the longest name that they are looked for.
const mostNear, mostTyped = 3, 64

// Alike is up to three workloads whose names are like one that was not found, the most like
// it first.
func Alike(all []Named, name string) []ID {
	asked := strings.ToLower(strings.TrimPrefix(name, "pid:"))
	if len(asked) < 2 || len(asked) > mostTyped {
		return nil
	}
	if _, isPID := PIDOf(name); isPID {
		return nil
	}
	type near struct {
		id  ID
		far int
	}
	var found []near
	for i := range all {
		n := &all[i]
		best := -1
		for _, own := range append([]string{string(n.ID), n.Name, path.Base(n.Cgroup), unitStem(path.Base(n.Cgroup))},
			n.Also...) {
			if len(own) < 2 || len(own) > 4*mostTyped {
				continue
			}
			own = strings.ToLower(own)
			far := distance(asked, own)
			switch {
			case far <= max(1, (len(asked)+1)/3):
			case strings.Contains(own, asked), len(own) >= 3 && strings.Contains(asked, own):
				far = mostTyped + len(own)
			default:
				continue
			}
			if best < 0 || far < best {
				best = far
			}
		}
		if best >= 0 {
			found = append(found, near{n.ID, best})
		}
	}
	slices.SortFunc(found, func(a, b near) int { return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.id, b.id)) })
	var ids []ID
	for _, n := range found[:min(len(found), mostNear)] {
		ids = append(ids, n.id)
	}
	return ids
}

// distance is how many letters must be added, taken away or changed to make one name of
// another (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// UnitName is the name of a cgroup for people.
func UnitName(cgroup string) string {
	base := path.Base(cgroup)
	switch base { // what managers put below the unit that has the name
	case "libvirt", "emulator", "payload", "container", "supervisor":
		base = path.Base(path.Dir(cgroup))
	}
	for _, suffix := range []string{".service", ".scope", ".slice"} {
		base = strings.TrimSuffix(base, suffix)
	}
	return strings.TrimPrefix(words.Printable(UnescapeUnit(base)), "machine-")
}
