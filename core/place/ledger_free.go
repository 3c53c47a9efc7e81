package place

// tiny keeps rounding from counting: of parts of vCPUs (see cores.Micro), of scores.
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
func (l *Ledger) mostShared(n *node) float64 { return l.overcommit() * float64(n.Open()) }
