#!/bin/bash
# namespaces.sh COMMAND...: runs a command where a real kubelet can do no harm, on a machine with cgroup v1 or v2 and as
# root. It has mounts, processes, a network, IPC and cgroups of its own; the host's kernel settings are read-only, but for
# six that the kubelet insists on, of which it has copies; /var/lib, /var/log and /run
# are empty; /sys/devices/system/node shows two NUMA nodes of one CPU each.
set -euo pipefail
own=homenode-kubelet-$$
groups=()
for h in /sys/fs/cgroup/*/; do
	[ -e "$h/cgroup.procs" ] && [ "$(basename "$h")" != unified ] && [ -d /sys/fs/cgroup/cpuset ] || continue
	mkdir "$h$own"
	groups+=("$h$own")
	if [ -e "$h$own/cpuset.cpus" ]; then
		cat "$h/cpuset.cpus" >"$h$own/cpuset.cpus"
		cat "$h/cpuset.mems" >"$h$own/cpuset.mems"
	fi
done
if [ ! -d /sys/fs/cgroup/cpuset ]; then
	mkdir "/sys/fs/cgroup/$own"
	groups+=("/sys/fs/cgroup/$own")
fi
tidy() {
	for g in "${groups[@]}"; do
		for i in 1 2 3 4 5; do find "$g" -depth -type d -exec rmdir {} + 2>/dev/null || true; [ -d "$g" ] || break; sleep 1; done
	done
}
trap tidy EXIT
(
	for g in "${groups[@]}"; do echo $BASHPID >"$g/cgroup.procs"; done
	exec unshare -m -p -n -u -i -C -f --kill-child --mount-proc bash -euo pipefail -c '
	mount --make-rprivate /
	mount --bind /proc/sys /proc/sys
	mount -o remount,ro,bind /proc/sys
	mount -t tmpfs tmpfs /var/lib
	mount -t tmpfs tmpfs /var/log
	mount -t tmpfs tmpfs /run
	mkdir /run/own
	for f in vm/overcommit_memory:1 vm/panic_on_oom:0 kernel/panic:10 kernel/panic_on_oops:1 kernel/keys/root_maxkeys:1000000 kernel/keys/root_maxbytes:25000000; do
		own=/run/own/$(basename ${f%:*}); echo ${f#*:} >$own; mount --bind $own /proc/sys/${f%:*}
	done
	controllers=$(cd /sys/fs/cgroup && ls -d */ 2>/dev/null | tr -d / | grep -v unified || true)
	v1=; [ -d /sys/fs/cgroup/cpuset ] && v1=1
	mount -t sysfs sysfs /sys
	if [ -n "$v1" ]; then
		mount -t tmpfs tmpfs /sys/fs/cgroup
		for c in $controllers; do
			mkdir /sys/fs/cgroup/$c
			if [ $c = systemd ]; then mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/$c || true; else mount -t cgroup -o $c cgroup /sys/fs/cgroup/$c; fi
		done
	else
		mount -t cgroup2 cgroup2 /sys/fs/cgroup
	fi
	node=/run/own/node
	mkdir -p $node
	for n in 0 1; do
		mkdir -p $node/node$n/cpu$n/topology $node/node$n/hugepages
		echo $n >$node/node$n/cpu$n/topology/physical_package_id
		echo 0 >$node/node$n/cpu$n/topology/core_id
		echo $n >$node/node$n/cpulist
		printf "Node $n MemTotal: 8000000 kB\nNode $n MemFree: 7000000 kB\n" >$node/node$n/meminfo
		[ $n = 0 ] && echo "10 20" >$node/node$n/distance || echo "20 10" >$node/node$n/distance
	done
	echo 0-1 | tee $node/online >$node/possible
	mount --bind $node /sys/devices/system/node
	hostname n1
	ip link set lo up
	ip addr add 10.88.0.1/32 dev lo
	exec "$@"' namespaces "$@"
)
