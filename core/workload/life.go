package workload

// Life is one life of a workload: a later process with its PID is another one.
type Life struct {
	ID    ID
	Start uint64 // of its process; 0 for other workloads
}

// Lives finds workloads among lives that rise by ID, for rising IDs. It reads the list once.
type Lives struct {
	All []Life
	at  int
}

// Find returns the index of a workload, and whether it is there.
func (l *Lives) Find(id ID) (int, bool) {
	for l.at < len(l.All) && l.All[l.at].ID != id && l.All[l.at].ID < id { // mostly it is the next, and one string
		l.at++
	}
	if l.at == len(l.All) || l.All[l.at].ID != id {
		return l.at, false
	}
	l.at++
	return l.at - 1, true
}
