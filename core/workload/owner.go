package workload

import (
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/words"
)

// Owner is the party responsible for a workload, a process or a connection: bounds on what one
// party may hold count by it. It is not the UID: subuid(5) gives one user 65,536 UIDs, and
// root in a user namespace or in a container is not root of the host. It is, the first that
// applies:
//   - the pod or container, when a container runtime started the process;
//   - the user of the login slice, user-UID.slice;
//   - the user who created the outermost user namespace below the host's own;
//   - the user to whom subuid(5) gives the UID;
//   - the UID.
//
// CgroupOwner has the first two, which only root can change; host/internal/proc finds the rest.
type Owner string

// SystemOwner is the host itself: root outside containers and user namespaces, and users of
// services. Bounds on one owner do not apply to it, but see Holder.
const SystemOwner Owner = ""

// AnyOwner stands for an owner that is not known, as in MayName. No workload has it.
const AnyOwner Owner = "any"

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

// UserNamespaceOwner returns the owner for a user namespace that root created, by its inode: a
// container of a program that CgroupOwner does not know. A UID with an account is that user's there,
// too: setuid programs create such namespaces for whoever starts them.
func UserNamespaceOwner(inode uint64) Owner {
	return Owner("userns:" + strconv.FormatUint(inode, 10))
}

// CgroupOwner returns the owner that the path of a cgroup names: the pod, the container or the
// user of the login slice. ok is false where the path names none. Only root can put a process
// into another user's slice or into a container's cgroup, and below its own slice a user can
// choose any name, so the slice comes first there.
func CgroupOwner(cgroup string) (o Owner, ok bool) {
	if uid := UserOf(cgroup); uid > 0 {
		return UserOwner(uid), true
	}
	inPods := false
	before := ""
	for part := range strings.SplitSeq(cgroup, "/") {
		if strings.HasPrefix(strings.TrimPrefix(part, "kubelet-"), "kubepods") {
			inPods = true
		}
		name := ""
		if inPods {
			name = podOf(part)
		}
		if name == "" {
			name = containerOf(before, part)
		}
		if name != "" {
			return PodOwner(name), true
		}
		before = part
	}
	return SystemOwner, false
}

// podOf returns the UID of the pod in the name of a cgroup that the kubelet made, such as
// kubepods-burstable-podUID.slice (systemd) or podUID (cgroupfs); "" for none. systemd's names
// have "_" for "-".
func podOf(part string) string {
	stem := strings.TrimSuffix(part, ".slice")
	if i := strings.LastIndex(stem, "-pod"); i >= 0 && strings.Contains(stem[:i], "kubepods") {
		stem = stem[i+1:]
	}
	uid, ok := strings.CutPrefix(stem, "pod")
	if !ok || uid == "" {
		return ""
	}
	return strings.ReplaceAll(uid, "_", "-")
}

// containerOf returns the ID or name of the container in the name of a cgroup below the one
// named before; "" for none. Guests of libvirt are no containers: their root is their own
// kernel's.
func containerOf(before, part string) string {
	if id := ContainerID(part); id != "" {
		return id
	}
	if before == "lxc" {
		return part
	}
	if name, ok := strings.CutPrefix(part, "lxc.payload."); ok {
		return name
	}
	if before != "machine.slice" {
		return ""
	}
	stem := UnescapeUnit(unitStem(part))
	if strings.HasPrefix(stem, "machine-qemu-") {
		return ""
	}
	for _, prefix := range []string{"systemd-nspawn@", "machine-"} {
		if name, ok := strings.CutPrefix(stem, prefix); ok {
			return name
		}
	}
	return ""
}

// Holder returns the party that connections, requests and orders count by: the owner, or for a user of
// a service that user. Users of services are the system's when a process is placed, but one of
// them must not keep others from an answer. uid is 0 for root.
func (o Owner) Holder(uid int) Owner {
	if o != SystemOwner || uid == 0 {
		return o
	}
	return Owner("user:" + strconv.Itoa(uid))
}

// String returns the owner as people call it, such as "user 1000" or "pod prod/web".
func (o Owner) String() string {
	if o == SystemOwner {
		return "the system"
	}
	kind, name, _ := strings.Cut(string(o), ":")
	if kind == "userns" {
		kind = "user namespace"
	}
	return strings.TrimSuffix(kind+" "+name, " ")
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

// Unread returns why an observation without an answer is left alone.
func (o *Observation) Unread() words.Reason {
	if o.Unasked {
		return words.Because(words.MemoryUnasked, words.Printable(o.Responsible().String()))
	}
	return words.Because(words.MemoryUnanswered)
}
