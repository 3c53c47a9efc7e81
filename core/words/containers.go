package words

// Containers.
var (
	ContainerPinned = says("container-pinned",
		"The program or user that started it chose its CPUs ({cpus}); homenode leaves them as they are.")
	ContainerClaimed = says("container-claimed",
		"Its home comes from its resource claim and stays there as long as the claim is prepared.")
	ContainerSandbox  = says("container-sandbox", "It holds the namespaces of a pod and does no work.")
	ContainerUnknown  = says("container-unknown", "It belongs to a container runtime, which has not described it yet.")
	ContainerCgroupV1 = says("container-cgroup-v1",
		"This host has cgroup v1: containers are placed after their start, process by process, by CPU affinity. With "+
			"cgroup v2 (systemd.unified_cgroup_hierarchy=1) they start at home.")
	ContainerObserved = says("container-observed", "Containers are only watched (containers.manage: observe).")
)

// Annotations of pods.
var (
	WishRefused       = says("wish-refused", "asked for {} by annotation, not granted: {}")
	WishNotGranted    = says("wish-not-granted", "no grant in containers.annotations allows {} for its namespace")
	WishNotGuaranteed = says("wish-not-guaranteed",
		"its pod is not Guaranteed (requests equal to limits in each container)")
	WishNotWhole     = says("wish-not-whole", "it requests no whole number of CPUs")
	WishNotDedicated = says("wish-not-dedicated", "it goes with class dedicated")
	WishNotBound     = says("wish-not-bound", "the memory of dedicated work is bound to its home")
	WishRuled        = says("wish-ruled", "a rule of the configuration sets it")
	WishUnlimited    = says("wish-unlimited",
		"it has no memory limit, and no grant in containers.annotations allows memory for its namespace")
	WishBeyondLimit = says("wish-beyond-limit",
		"that is more than its memory limit, and no grant in containers.annotations allows memory for its namespace")
	PodAnnotations = says("pod-annotations",
		"{}. It runs as {}. docs/containers.md, Grants, lists the permitted annotations.")
	PodInTurn  = says("pod-in-turn", "Its pages go to nodes {} in turn (annotation homenode.io/policy).")
	ForgedMark = says("forged-mark",
		"container {} has an annotation homenode.io/given that homenode on this host did not write: homenode treats "+
			"its CPU set as set by another program and leaves it alone. Remove the annotation from its pod; if the "+
			"pod has none, restart the container")
	OldMark = says("old-mark",
		"container {} was started under an older homenode, whose mark any pod could write: homenode treats its CPU "+
			"set as set by another program until the container is restarted")
)
