package workload

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/homenode/homenode/core/topology"
)

// ParseSize reads an amount of memory as people write it, binary ("16GiB") or
// decimal ("16GB"), rounded up to whole KiB. The empty text is 0.
func ParseSize(text string) (topology.KiB, error) {
	if text == "" {
		return 0, nil
	}
	n, err := humanize.ParseBytes(text)
	if err != nil || n > 1<<60 {
		return 0, fmt.Errorf("%q; want a number with a unit, such as 16GiB", text)
	}
	return topology.KiB((n + 1023) / 1024), nil
}
