package words

// Of containers.
var (
	ContainerPinned   = says("container-pinned", "Whoever started it chose its CPUs ({cpus}); homenode leaves them as they are.")
	ContainerClaimed  = says("container-claimed", "Its home is that of its resource claim, and stays there as long as the claim is prepared.")
	ContainerSandbox  = says("container-sandbox", "It keeps the namespaces of a pod and does nothing else.")
	ContainerUnknown  = says("container-unknown", "It is of a container runtime that does not answer, which alone knows what it is.")
	ContainerObserved = says("container-observed", "Containers are only watched (containers.manage: observe).")
)
