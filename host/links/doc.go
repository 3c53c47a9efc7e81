// Package links finds which devices and helpers workloads use, from what the kernel
// shows of their processes. It reads and changes nothing.
//
//   - Network namespace: the devices of another namespace than the host's, seen in
//     the sysfs that its processes have at /sys (/proc/PID/root/sys). The iflink of a
//     veth is the index of its peer on the host, that of a macvlan or ipvlan its
//     parent's; a virtual function has its PCI device.
//   - Tap: descriptors on /dev/net/tun, whose fdinfo names the device ("iff:"), and
//     on /dev/tapN (macvtap). /dev/vhost-net beside one says that vhost threads work
//     for it: threads of the process since Linux 6.4, before that kernel threads in its
//     cgroups, so that they go where the workload goes.
//   - Block: io.stat of the cgroup, else open block devices and files with
//     /proc/PID/io; partitions, device mapper and md are followed to their disks.
//   - VFIO: groups and devices that are open.
//   - GPU: character devices that are open, by their numbers: /dev/nvidiaN, partitions of one
//     (/dev/nvidia-caps), render nodes of DRM, /dev/accel. Which processes have each open is
//     kept, so that each worker of a process tree can go to its own.
//   - Network disks: files on NFS, CIFS and CephFS by the servers in mountinfo, disks of iSCSI by
//     their session, and what libvirt's document of a guest names (librbd and the like in QEMU
//     itself); from the server's address by the route to the NIC. Libvirt counts what disks of
//     guests read and write; for others nothing does.
//   - vhost-user: unix sockets whose other end is a process known for polling. Where
//     that runs counts, never how busy it is: a poll thread is always busy.
//   - Sockets that libvirt's document of a guest names (vhost-user, NBD, virtiofsd, TPM): by
//     path in /proc/net/unix, where the kernel does not tell which sockets are connected.
//
// From a virtual device of the host the way goes down (bond, VLAN, macvlan), else up
// to its master (bridge, OVS) and down from there, else by the default route.
//
// A round is bounded by a budget of time: the workloads unseen the longest come
// first, the others keep what was last found. Not in here: what a link weighs.
package links
