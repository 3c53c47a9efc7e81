# disk/crio.sh: CRI-O with crun, for the guest in which pods run; sourced by fetch-disk.sh. Debian
# has no CRI-O: HOMENODE_CRIO names a folder with the programs crio and pinns, which somebody has
# built. Without it there is no disk.
[ -n "${HOMENODE_CRIO:-}" ] || exit 0
. e2e/disk/containerd.sh
about='CRI-O and crun'
size=640M
packages=(conmon crun skopeo busybox-static base-files)
given=("$HOMENODE_CRIO/crio" "$HOMENODE_CRIO/pinns")

runtime() {
	cp "${given[@]}" "$tree/usr/bin/"
	ln -s busybox "$tree/usr/bin/nsenter"
	mkdir -p "$tree/etc/crio" "$tree/etc/containers" "$tree/etc/cni/net.d" "$tree/opt/cni/bin" "$tree/var/lib/containers"
	echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$tree/etc/containers/policy.json"
	# NRI is as CRI-O has it by default.
	cat >"$tree/etc/crio/crio.conf" <<'E'
[crio]
storage_driver = "overlay"
[crio.runtime]
cgroup_manager = "cgroupfs"
default_runtime = "crun"
disable_hostport_mapping = true
pinns_path = "/usr/bin/pinns"
[crio.runtime.runtimes.crun]
runtime_path = "/usr/bin/crun"
monitor_path = "/usr/bin/conmon"
monitor_cgroup = "pod"
[crio.image]
pause_image = "docker.io/e2e/busybox:1"
E
}
