package words

// Of containers.
var (
	ContainerPinned   = says("container-pinned", "Whoever started it chose its CPUs ({cpus}); homenode leaves them as they are.")
	ContainerClaimed  = says("container-claimed", "Its home is that of its resource claim, and stays there as long as the claim is prepared.")
	ContainerSandbox  = says("container-sandbox", "It keeps the namespaces of a pod and does nothing else.")
	ContainerUnknown  = says("container-unknown", "It is of a container runtime, which alone knows what it is and has not told.")
	ContainerCgroupV1 = says("container-cgroup-v1", "This host has cgroup v1: containers are placed one process at a time, by CPU affinity, after they have started. With cgroup v2 (systemd.unified_cgroup_hierarchy=1) they begin at home.")
	ContainerObserved = says("container-observed", "Containers are only watched (containers.manage: observe).")
)
