// homenode-kube offers the NUMA nodes of a host to Kubernetes: a driver for Dynamic
// Resource Allocation, one process a node, beside the homenode daemon.
//
// Each NUMA node is one device with consumable capacity (KEP-5075): CPUs, memory and huge
// pages together. What is offered is what the daemon's ledger has left. The stock
// scheduler chooses the device; when the kubelet prepares a claim, each of its devices is
// booked in the ledger and held there until the claim is gone. The container gets the
// names of the bookings through CDI, and the daemon's NRI plugin sets its CPUs and its
// memory nodes by them.
//
//	daemon ──room──► devices ──► ResourceSlice ──► kube-scheduler
//	kubelet ──NodePrepareResources──► bookings ──place──► daemon's ledger
//	                                     └─► file of claims, CDI file ──► runtime ──► NRI
//
// Bookings are held for an hour and extended every ten minutes, so a driver that is gone
// leaves nothing behind, and one that is restarted goes on from its file of claims.
//
// Not in here: which CPUs anything gets, and cgroups.
package main
