package run

import (
	"fmt"
	"strings"

	"github.com/homenode/homenode/core/topology"
)

// parseWhere reads a list of CPUs or nodes as numactl(8) takes it: "0-3,8", "all" for every
// one that is allowed, "+0-1" for the first two of those, "!2" for all of them but 2. The
// answer may hold IDs that are not allowed.
func parseWhere[T ~int](text string, allowed topology.Set[T]) (topology.Set[T], error) {
	none := topology.Set[T]{}
	rest, not := strings.CutPrefix(text, "!")
	rest, counted := strings.CutPrefix(rest, "+")
	if kind, device, is := strings.Cut(rest, ":"); is {
		switch kind {
		case "netdev", "block", "pci":
			return none, fmt.Errorf("%q: say --near %s", text, device)
		case "file", "ip", "same":
			return none, fmt.Errorf("%q: say --near DEVICE, with the disk or network device that it is on", text)
		}
	}
	var set topology.Set[T]
	switch {
	case rest == "":
		return none, fmt.Errorf("%q names nothing; want a list such as 0-3,8, +0-1, !2 or all", text)
	case rest == "all":
		set = allowed.Clone()
	case strings.HasPrefix(rest, "0x") && !counted:
		var ok bool
		if set, ok = parseMask[T](rest); !ok {
			return none, fmt.Errorf("%q: want a mask such as 0x3, or a list such as 0-3,8", text)
		}
	default:
		var err error
		if set, err = topology.ParseSet[T](rest); err != nil {
			return none, fmt.Errorf("%q: want a list such as 0-3,8, +0-1, !2 or all", text)
		}
		if counted {
			have := allowed.Slice()
			var named topology.Set[T]
			for i := range set.All() {
				if int(i) >= len(have) {
					return none, fmt.Errorf("%q: + counts from 0, and %d are allowed here (%s)", text, len(have),
						allowed)
				}
				named.Add(have[i])
			}
			set = named
		}
	}
	if not {
		set = allowed.Minus(set)
	}
	if set.Empty() {
		return none, fmt.Errorf("%q names nothing; allowed here are %s", text, allowed)
	}
	return set, nil
}
