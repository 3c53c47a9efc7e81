package place

// tiny keeps rounding from counting: of parts of vCPUs (see micro), of scores.
const tiny = 1e-5

func ceil(x float64) int {
	i := int(x)
	if x-float64(i) > tiny {
		i++
	}
	return i
}

// overcommit is the policy's, or none when the policy does not say.
func (l *Ledger) overcommit() float64 {
	if oc := l.policy.Overcommit; oc >= 1 && oc < 1e6 {
		return oc
	}
	return 1
}

// sharedRoom is how many more shared vCPUs node n can take, also in parts.
func (l *Ledger) sharedRoom(n *node) float64 {
	if l.crowd {
		return l.mostShared(n)
	}
	return max(0, l.mostShared(n)-n.sharedVCPUs())
}

// mostShared is how many shared vCPUs node n can take, whatever other work has booked.
func (l *Ledger) mostShared(n *node) float64 { return l.overcommit() * float64(n.open()) }

// wholeRoom is how many vCPUs fit on free whole cores, one a core or one a CPU,
// when at most spare CPUs may be taken.
func (l *Ledger) wholeRoom(n *node, spare int, onePerCore bool) int {
	switch {
	case n.wholeCPUs > spare:
		return max(l.wholeBySize(n, spare, onePerCore, false), l.wholeBySize(n, spare, onePerCore, true))
	case onePerCore:
		return n.whole
	}
	return n.wholeCPUs
}

// wholeBySize adds up free whole cores in order of size, as long as they fit
// into spare CPUs. The order matters where cores differ in size.
func (l *Ledger) wholeBySize(n *node, spare int, onePerCore, largestFirst bool) int {
	room := 0
	for k := 1; k <= n.threads && spare > 0; k++ {
		threads := k
		if largestFirst {
			threads = n.threads + 1 - k
		}
		for i := n.cores.lo; i < n.cores.hi && threads <= spare; i++ {
			if c := &l.cores[i]; c.whole() && len(c.cpus) == threads {
				spare -= threads
				if onePerCore {
					room++
				} else {
					room += threads
				}
			}
		}
	}
	return room
}
