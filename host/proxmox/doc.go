// Package proxmox knows the virtual machines that Proxmox VE runs on this host: it is a
// source of the daemon, and its Driver gives the vCPUs of dedicated ones CPUs of their own.
//
// A guest is found by its cgroup, qemu.slice/VMID.scope (PVE::QemuServer::CGroup), and
// described by its configuration below /etc/pve/qemu-server, which is read and never
// written. Which thread is which vCPU, and how much memory is plugged in, QEMU says by QMP
// (docs/interop/qmp-spec in QEMU) on /run/qemu-server/VMID.qmp. That socket has one client
// at a time and is Proxmox' own: it is asked once for each run of QEMU and after a change
// of what runs, for less than a second. Where it is taken or silent, threads are told by
// their names, "CPU 0/KVM" (debug-threads, on in Proxmox).
//
// Words: a guest's scope is its cgroup; its vCPU threads are those of the QEMU process that
// run guest code. All other threads of the scope (the emulator's, IOThreads, vhost's) are
// on the CPUs of the scope.
//
// Not in here: decisions, the files of cgroups (host/cgroup), affinities of threads
// (host/process).
package proxmox
