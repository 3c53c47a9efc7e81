package workload

import (
	"strconv"
	"strings"
)

// Owner is the party responsible for a workload, a process or a connection: bounds on what one
// party may hold count by it. It is not the UID: subuid(5) gives one user 65,536 UIDs, and
// root in a user namespace or in a container is not root of the host. It is, the first that
// applies:
//   - the pod or container, when a container runtime started the process;
//   - the user who created the outermost user namespace below the host's own;
//   - the user of the login slice, user-UID.slice;
//   - the UID.
type Owner string

// SystemOwner is the host itself: root outside containers and user namespaces, and users of
// services. Bounds on one owner do not apply to it.
const SystemOwner Owner = ""

// UserOwner returns the owner for a UID of the host's own user namespace: SystemOwner for root
// and for users of services (see Ordinary).
func UserOwner(uid int) Owner {
	if !Ordinary(uid) {
		return SystemOwner
	}
	return Owner("user:" + strconv.Itoa(uid))
}

// PodOwner returns the owner for a pod or container by the name or ID that the runtime gave it.
func PodOwner(name string) Owner { return Owner("pod:" + name) }

// Name returns the owner for people: "user 1000", "namespace prod".
func (o Owner) Name() string {
	kind, name, _ := strings.Cut(string(o), ":")
	if name == "" {
		return "the system"
	}
	return kind + " " + name
}

// User returns the UID of an owner that is a user.
func (o Owner) User() (uid int, ok bool) {
	text, ok := strings.CutPrefix(string(o), "user:")
	if !ok {
		return 0, false
	}
	uid, err := strconv.Atoi(text)
	return uid, err == nil
}

// Responsible returns the owner of an observation, or the owner of its UID when the observer
// did not find out more.
func (o *Observation) Responsible() Owner {
	if o.Owner != SystemOwner {
		return o.Owner
	}
	return UserOwner(o.UID)
}
