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

// Of what the author of a pod asks for by annotation.
var (
	WishRefused       = says("wish-refused", "asked for {} by annotation, not granted: {}")
	WishNotGranted    = says("wish-not-granted", "no grant in containers.annotations allows {} to its namespace")
	WishNotGuaranteed = says("wish-not-guaranteed", "its pod is not Guaranteed (requests equal to limits in each container)")
	WishNotWhole      = says("wish-not-whole", "it requests no whole number of CPUs")
	WishUnlimited     = says("wish-unlimited", "it has no memory limit, and no grant in containers.annotations allows memory to its namespace")
	WishBeyondLimit   = says("wish-beyond-limit", "that is more than its memory limit, and no grant in containers.annotations allows memory to its namespace")
	PodAnnotations    = says("pod-annotations", "{}. It runs as {}. What an annotation may ask for: docs/containers.md, Grants.")
	ForgedMark        = says("forged-mark", "container {} has an annotation homenode.io/given that homenode on this host did not write: its CPU set counts as set by another program and is left alone. Remove the annotation from its pod; without one there, restart the container")
	OldMark           = says("old-mark", "container {} was started under an older homenode, whose mark any pod could write: its CPU set counts as set by another program until the container is started again")
)
