package words

// What could not be seen of a workload.
var (
	ProcessSilent = says("process-silent", "process {} ({}): the kernel does not answer when homenode reads where its memory lies; its pages are left alone")
	ReadsRefused  = says("reads-refused", "memory of some processes is not read: too many reads wait for processes that do not answer")
)
