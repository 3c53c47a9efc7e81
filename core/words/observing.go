package words

// Parts of a workload that could not be read.
var (
	ProcessSilent = says("process-silent",
		"process {} ({}): the kernel does not answer when homenode reads its memory map; its pages are left alone")
	OwnerUnasked = says("owner-unasked",
		"too many processes of {} do not answer: homenode does not read the memory maps of {} others of the same "+
			"owner and leaves their pages alone; end the processes that do not answer, or unmount the file system "+
			"they wait for")
	ReadsRefused = says("reads-refused",
		"memory maps of some processes are not read: too many reads wait for processes that do not answer")
)
