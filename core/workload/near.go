package workload

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/homenode/homenode/core/topology"
)

// Near is a wish to sit close to a device of the host (by kernel name or PCI address) or to
// another workload.
type Near struct {
	Device   string
	Workload ID
	// Process and Service are a running process or a unit of systemd by its name, as a person
	// gives it. What that is, and where it runs, becomes Workload and Nodes.
	Process string  `json:",omitzero"`
	Service string  `json:",omitzero"`
	Weight  float64 // pull relative to one SLIT step of its own memory; 0 means 1
	// Required: no home without the node of it. A workload that one node can hold is on that node;
	// a wider one has it among its nodes.
	Required bool `json:",omitzero"`
	// Socket is Required with its package in place of its node: near NICs and GPUs where
	// sub-NUMA clusters have other nodes on the same socket.
	Socket bool `json:",omitzero"`
	// Learned was found by looking, not told by a person: it has a lower ceiling, and
	// Nodes says where it is when it is neither a device of the host nor placed.
	Learned bool             `json:",omitzero"`
	Nodes   topology.NodeSet `json:",omitzero"`
	// Given: its runtime gives it the device, so that it is certain to use it. It is Learned, too, and has a ceiling of
	// its own.
	Given bool `json:",omitzero"`
	// Serves: it works for that workload and follows it (core/place, Follow).
	Serves bool `json:",omitzero"`
}

// AnyGPU is the device of a wish to be near the GPUs that a workload is found to use: {gpu: auto}.
const AnyGPU = "gpu=auto"

// Policies of Near, as people write them; the names follow Nova's hw:pci_numa_affinity_policy.
const (
	nearRequired  = "required"
	nearPreferred = "preferred"
	nearSocket    = "socket"
)

// MostNear is how many a workload may name.
const MostNear = 16

// Name is what a person calls it; "" for what was found on nodes alone.
func (n *Near) Name() string {
	for _, name := range []string{n.Device, n.Process, n.Service, string(n.Workload)} {
		if name != "" {
			return name
		}
	}
	return ""
}

// Refuses reports whether a workload gets no home where the wish cannot be met.
func (n *Near) Refuses() bool { return n.Required || n.Socket }

// Policy is the policy as people write it; "" for preferred.
func (n *Near) Policy() string {
	switch {
	case n.Required:
		return nearRequired
	case n.Socket:
		return nearSocket
	}
	return ""
}

// Prefer takes back that the wish must be met.
func (n *Near) Prefer() { n.Required, n.Socket = false, false }

// Requires reports whether a workload gets no home unless it is near something.
func (s *Spec) Requires() bool {
	return slices.ContainsFunc(s.Near, func(n Near) bool { return n.Refuses() })
}

// NamesOthers reports whether wishes name processes or services, which come and go.
func NamesOthers(near []Near) bool {
	return slices.ContainsFunc(near, func(n Near) bool { return n.Process != "" || n.Service != "" })
}

// runsThere is the part of its time that something must spend on a node to be there.
const runsThere = 0.25

// RunsOn is the nodes where something spends its time.
func RunsOn(ran []NodeShare) (nodes topology.NodeSet) {
	for _, x := range ran {
		if x.Share >= runsThere {
			nodes.Add(x.Node)
		}
	}
	return nodes
}

// UserOf returns the user that a cgroup below user.slice belongs to by its path, which nobody
// but root can change; 0 when it is not below it.
func UserOf(cgroup string) int {
	rest, ok := strings.CutPrefix(cgroup, "/user.slice/user-")
	if !ok { // most cgroups; an error made for each would show in a scan of thousands
		return 0
	}
	id, _, cut := strings.Cut(rest, ".slice")
	n, err := strconv.Atoi(id)
	if err != nil || !cut {
		return 0
	}
	return max(0, n)
}

// Ordinary reports whether a number is that of a person's user: those of a system are below 1000
// (login.defs(5), UID_MIN), from 60000 on (Debian Policy 9.2.2, for packages) and up to 65519
// (systemd, Users, Groups, UIDs and GIDs: for services).
func Ordinary(user int) bool { return user >= 1000 && (user < 60000 || user > 65519) }

// MayName reports whether work of owner by counts under a name that by chose for work of owner
// of: the system's work does, and each owner's own. For AnyOwner all does.
func MayName(by, of Owner) bool { return by == SystemOwner || by == of || of == AnyOwner }

// MayServe reports whether work of owner by counts as a helper, or as a client of one, for work of
// owner of because a socket connects them. Any user can connect to a socket, so a user's work
// counts for that user's alone. A pod or container reaches only the sockets that the operator
// mounted into it.
func MayServe(by, of Owner) bool {
	_, user := by.User()
	return !user || by == of
}

// Locate gives each process and service in wishes the workload that it is and the nodes where that
// runs, ran. What is not there stays a name. Of what is found by a name that somebody chose, that
// counts which counts says; by an ID, a PID or a cgroup, all.
func Locate(near []Near, all []Named, counts func(ID) bool, ran func(ID) []NodeShare) {
	var called []Named
	for i := range all {
		if counts(all[i].ID) {
			called = append(called, all[i])
		}
	}
	for i := range near {
		n := &near[i]
		name := n.Process
		if n.Service != "" {
			name = n.Service
			if !strings.Contains(name, ".") {
				name += ".service"
			}
		}
		if name == "" {
			continue
		}
		n.Workload, n.Nodes = "", topology.NodeSet{}
		among := called
		if _, isPID := PIDOf(name); isPID || strings.Contains(name, "/") {
			among = all
		}
		for _, id := range Find(among, name, Lineage{}) {
			n.Workload = id
			n.Nodes = n.Nodes.Union(RunsOn(ran(id)))
		}
	}
}

// Serves reports whether it works for another workload and follows it.
func (s *Spec) Serves() bool {
	return slices.ContainsFunc(s.Near, func(n Near) bool { return n.Serves })
}

// NewNear is a wish from its keys; what is empty is not given.
func NewNear(device, process, service, policy string) (n Near, err error) {
	n = Near{Device: device, Process: process, Service: service}
	given := 0
	for _, x := range []struct{ key, name string }{{"device", device}, {"process", process}, {"service", service}} {
		if x.name == "" {
			continue
		}
		given++
		if len(x.name) > 256 || !writable(x.name) ||
			strings.ContainsFunc(x.name, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
			return n, fmt.Errorf("%s %q: want a name without blanks and commas", x.key, x.name)
		}
	}
	if given != 1 {
		return n, errors.New("want one of device, process and service, such as device: eth0")
	}
	if policy == "" {
		return n, nil
	}
	return n, n.SetPolicy(policy)
}

// SetPolicy takes up a policy as people write it: required, socket or preferred.
func (n *Near) SetPolicy(policy string) error {
	switch policy {
	case nearPreferred, nearRequired, nearSocket:
		n.Required, n.Socket = policy == nearRequired, policy == nearSocket
		return nil
	}
	return fmt.Errorf("policy %q: want required, socket or preferred", policy)
}

// NearGPU is a wish to be near a GPU, by its name, UUID or PCI address, or near those that the
// workload is found to use: auto.
func NearGPU(gpu, policy string) (Near, error) {
	switch gpu {
	case "":
		return Near{}, errors.New("gpu \"\": want auto, or a GPU such as gpu0")
	case "auto":
		gpu = AnyGPU
	}
	return NewNear(gpu, "", "", policy)
}

// writable reports whether XML and JSON hold a text as it is.
func writable(s string) bool {
	return utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) })
}

// String is the wish as ParseNear reads it.
func (n *Near) String() string {
	text := n.Device
	switch {
	case n.Device == AnyGPU:
		text = AnyGPU
	case n.Device != "" && (n.Refuses() || strings.ContainsAny(n.Device, "=/")):
		text = "device=" + n.Device
	case n.Process != "":
		text = "process=" + n.Process
	case n.Service != "":
		text = "service=" + n.Service
	case n.Workload != "":
		text = string(n.Workload)
	}
	if n.Refuses() {
		text += ",policy=" + n.Policy()
	}
	return text
}

// mostNeighbour bounds the name of a workload, bytes: that of a container in Kubernetes has 381 at most. Each scan,
// the history and status carry it.
const mostNeighbour = 512

// ParseNear reads wishes with commas or blanks between them: a device by its name or PCI address,
// device=NAME, process=NAME or service=NAME, each with policy=required, policy=socket or policy=preferred
// after it if wanted. A bare name with a slash is another workload's ID.
func ParseNear(text string) ([]Near, error) {
	var out []Near
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		key, value, keyed := strings.Cut(word, "=")
		var n Near
		var err error
		switch {
		case !keyed && strings.Contains(word, "/"):
			n = Near{Workload: ID(word)}
			switch {
			case !writable(word):
				err = fmt.Errorf("workload %.60q: want what can be printed", word)
			case len(word) > mostNeighbour:
				err = fmt.Errorf("workload %.60q: longer than %d bytes", word, mostNeighbour)
			}
		case !keyed:
			n, err = NewNear(word, "", "", "")
		case key == "device":
			n, err = NewNear(value, "", "", "")
		case key == "gpu":
			n, err = NearGPU(value, "")
		case key == "process":
			n, err = NewNear("", value, "", "")
		case key == "service":
			n, err = NewNear("", "", value, "")
		case key == "policy" && len(out) > 0:
			if err = out[len(out)-1].SetPolicy(value); err == nil {
				continue
			}
		default:
			err = fmt.Errorf("%q: want device=NAME, gpu=auto, process=NAME or service=NAME, and policy=required, "+
				"policy=socket or policy=preferred after it", word)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	switch {
	case len(out) == 0:
		return nil, fmt.Errorf("%q: want the name of a device, device=NAME, process=NAME or service=NAME", text)
	case len(out) > MostNear:
		return nil, fmt.Errorf("%d names: want %d at most", len(out), MostNear)
	}
	return out, nil
}

// NearText is wishes as ParseNear reads them.
func NearText(all []Near) string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].String()
	}
	return strings.Join(out, " ")
}
