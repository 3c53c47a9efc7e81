// Package incus knows the containers and virtual machines that Incus or LXD runs on this host: it is a source of the
// daemon. It asks their REST API on the unix socket (doc/rest-api.md of Incus), reads and never writes.
//
// A question can take longer than a scan may wait, for the server starts a process for each container: its answer
// counts at a later scan. Until a server has answered its first question all its containers are left alone, and until
// the next answer those that came since.
//
// An instance is found by the process that the API names: a container by the cgroup of its init, which is
// lxc.payload.NAME (lxc.container.conf(5)), a virtual machine by its QEMU. Settings are written by the drivers of
// cgroups and processes.
//
// Words: a key is one of user.homenode.* in the configuration of an instance or its profiles. Its author may do no more
// than a grant of the operator allows the project ("incus/PROJECT").
//
// limits.cpu of a virtual machine is its vCPUs, and what it asks for. A container with limits.cpu or limits.cpu.nodes
// is left alone: Incus chooses its CPUs, and again whenever an instance starts or stops (deviceTaskBalance).
// user.homenode.cpus asks for CPUs without that. For containers without a limit Incus writes all CPUs at
// such times: that is the value from before homenode, so that the home is set again at the next scan.
//
// Not in here: decisions, cgroup files, affinities.
package incus
