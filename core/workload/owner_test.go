package workload

import (
	"strings"
	"testing"
)

func TestOwner(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    Observation
		want Owner
	}{
		{"root", Observation{}, SystemOwner},
		{"a service's user", Observation{UID: 101}, SystemOwner},
		{"a person", Observation{UID: 1000}, "user:1000"},
		{"nobody, who is no service", Observation{UID: 65534}, "user:65534"},
		{"a subordinate UID of user 1000", Observation{UID: 165536, Owner: UserOwner(1000)}, "user:1000"},
		{"root of a container", Observation{Owner: PodOwner("prod/web")}, "pod:prod/web"},
	} {
		if got := tt.o.Responsible(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if uid, ok := Owner("user:1000").User(); !ok || uid != 1000 {
		t.Errorf("user of user:1000: %d, %t", uid, ok)
	}
	if _, ok := PodOwner("a").User(); ok {
		t.Error("a pod is a user")
	}
}

// Names of cgroups as systemd, the kubelet, Docker, Podman, LXC and systemd-nspawn give them.
func TestCgroupOwner(t *testing.T) {
	const id = "4f0c5a0e2b3d4f0c5a0e2b3d4f0c5a0e2b3d4f0c5a0e2b3d4f0c5a0e2b3d4f0c"
	const uid = "0d3c1d6b-9a52-4c0f-8a4e-7d7f6f9b1a11"
	for cgroup, want := range map[string]Owner{
		"":                         SystemOwner,
		"/system.slice/db.service": SystemOwner,
		"/user.slice/user-0.slice/session-1.scope":    SystemOwner,
		"/user.slice/user-1000.slice/session-1.scope": UserOwner(1000),
		// Rootless Podman, and a user who calls a cgroup as the kubelet would.
		"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope": UserOwner(1000),
		"/user.slice/user-1000.slice/user@1000.service/kubepods.slice/kubepods-pod" + uid:  UserOwner(1000),
		"/system.slice/docker-" + id + ".scope":                                            PodOwner(id),
		"/docker/" + id + "/init":                                                          PodOwner(id),
		"/machine.slice/libpod-" + id + ".scope/container":                                 PodOwner(id),
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0d3c1d6b_9a52_4c0f_8a4e_7d7f6f9b1a11.slice/cri-containerd-" + id + ".scope": PodOwner(uid),
		"/kubepods/besteffort/pod" + uid + "/" + id:                                               PodOwner(uid),
		"/kubelet-kubepods.slice/kubelet-kubepods-pod" + id[:32] + ".slice/crio-" + id + ".scope": PodOwner(id[:32]),
		// A container that starts containers of its own: the outer one.
		"/system.slice/docker-" + id + ".scope/docker/" + strings.Repeat("a", 64): PodOwner(id),
		"/lxc.payload.web/system.slice/db.service":                                PodOwner("web"),
		"/lxc/101/ns": PodOwner("101"),
		"/machine.slice/systemd-nspawn@web.service/payload":             PodOwner("web"),
		`/machine.slice/machine-qemu\x2d1\x2dvm.scope/libvirt/emulator`: SystemOwner,
		"/system.slice/machine-check.service":                           SystemOwner,
		"/system.slice/podinfo.service":                                 SystemOwner,
	} {
		got, ok := CgroupOwner(cgroup)
		if got != want {
			t.Errorf("%s: %q, want %q", cgroup, got, want)
		}
		if named := want != SystemOwner; ok != named {
			t.Errorf("%s: named %t, want %t", cgroup, ok, named)
		}
	}
}

// A service's user is the system's where it is placed, and a party of its own on the socket.
func TestHolder(t *testing.T) {
	for _, tt := range []struct {
		o    Owner
		uid  int
		want Owner
	}{
		{SystemOwner, 0, SystemOwner},
		{SystemOwner, 33, "user:33"},
		{UserOwner(1000), 101000, UserOwner(1000)},
		{PodOwner("web"), 0, PodOwner("web")},
	} {
		if got := tt.o.Holder(tt.uid); got != tt.want {
			t.Errorf("holder %q of UID %d: %q, want %q", tt.o, tt.uid, got, tt.want)
		}
	}
}

// A program in a pod is called what the pod's author likes, so its name counts for that pod alone,
// whatever UID it has there.
func TestMayName(t *testing.T) {
	pod, user := PodOwner("web"), UserOwner(1000)
	for _, tt := range []struct {
		by, of      Owner
		name, serve bool
	}{
		{SystemOwner, user, true, true},
		{SystemOwner, pod, true, true},
		{user, user, true, true},
		{user, SystemOwner, false, false},
		{user, pod, false, false},
		{pod, pod, true, true},
		{pod, SystemOwner, false, true},
		{pod, user, false, true},
		{user, AnyOwner, true, false},
	} {
		if got := MayName(tt.by, tt.of); got != tt.name {
			t.Errorf("%s names for %s: %t", tt.by, tt.of, got)
		}
		if got := MayServe(tt.by, tt.of); got != tt.serve {
			t.Errorf("%s serves %s: %t", tt.by, tt.of, got)
		}
	}
}
