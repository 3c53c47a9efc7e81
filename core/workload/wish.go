package workload

import (
	"strconv"

	"github.com/homenode/homenode/core/topology"
)

// Keys of the wishes that Read reads.
const (
	WishClass      = "class"
	WishImportance = "importance"
	WishNear       = "near"
	WishMaxNodes   = "max-nodes"
	WishTier       = "tier"
	WishIsolated   = "isolated"
)

// Read reads the wish of a key, that for a tier after the class. A wrong value says nothing; want is then what a right
// one is, else "". known is false for other keys.
func (w *Wishes) Read(key, value string) (want string, known bool) {
	var err error
	switch key {
	case WishClass:
		if w.Class, err = ParseClass(value); err != nil {
			return "dedicated, shared or batch", true
		}
	case WishImportance:
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > 100 {
			return "0 to 100", true
		}
		w.Importance = &n
	case WishNear:
		if w.Near, err = ParseNear(value); err != nil {
			return "1 to 16 of device=NAME (a name or PCI address), process=NAME, service=NAME and NAMESPACE/POD, " +
				"each with policy=required or policy=socket after it if wanted", true
		}
	case WishMaxNodes:
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > topology.MaxID {
			return "1 or more", true
		}
		w.MaxNodes = n
	case WishTier:
		tier, err := ParseTier(value)
		if err == nil {
			_, tier, err = tier.With(w.Class)
		}
		if err != nil {
			return "online-strict, online, normal or batch (2 to -2), and batch with no other class", true
		}
		w.Tier = tier
	case WishIsolated:
		isolated, err := strconv.ParseBool(value)
		if err != nil {
			return "true or false", true
		}
		w.Isolated = isolated
	default:
		return "", false
	}
	return "", true
}
