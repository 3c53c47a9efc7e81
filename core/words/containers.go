package words

// Of containers.
var (
	ContainerPinned   = says("container-pinned", "Whoever started it chose its CPUs ({cpus}); homenode leaves them as they are.")
	ContainerClaimed  = says("container-claimed", "Its home is that of its resource claim, and stays there as long as the claim is prepared.")
	ContainerObserved = says("container-observed", "Containers are only watched (containers.manage: observe).")
)
