// Package nri is homenode as a plugin of the Node Resource Interface
// (https://github.com/containerd/nri), through which containerd and CRI-O tell of containers
// before they start and take changes of their CPUs and memory nodes.
//
// A pod is one workload, called NAMESPACE/POD: its containers share a home. A container that is
// dedicated, or that annotations of its own give another class, wish or limit, is a workload of
// its own, NAMESPACE/POD/CONTAINER, near its pod.
//
// What is asked before a container starts is answered within a deadline far below that of the
// runtime, or not at all: then it starts as without homenode, and the next scan puts it right.
//
// Who writes cpuset.cpus and cpuset.mems of a container is its runtime, told by homenode
// (UpdateContainers): what it would write at its next change is then what stands in the files.
// Driver is between the loop and the driver of cgroups for that; it also verifies what was
// written, and writes itself while the runtime is away. A runtime that may stand still when it is
// told unasked (takesUnasked) is told with the answers to its own requests instead; then Driver
// is who writes.
//
// Not in here: decisions, other settings of containers, Kubernetes.
//
// Invariant: A container starts whatever homenode does. Homenode answers within a quarter of the runtime's timeout or
// not at all, refuses nothing, and catches its own bugs (TestStartsWaitWithinWhatTheRuntimeWaits,
// TestSlowAnswersHoldNothingUp, TestABugHoldsNothing, TestKilledWhileAContainerStarts).
//
// Invariant: Only homenode on this host can mark a container as placed before its start: the mark is signed and
// contains the container's ID (TestForgedMarks, TestMarksOutliveADaemon).
package nri
