package words

// What could not be seen of a workload.
var (
	ProcessSilent = says("process-silent", "process {} ({}) does not answer when its memory is asked for; its pages are left alone")
	ReadsRefused  = says("reads-refused", "memory of some processes is not read: too many readers wait for processes that do not answer")
)
