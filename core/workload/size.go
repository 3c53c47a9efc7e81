package workload

import (
	"fmt"
	"strconv"

	"github.com/dustin/go-humanize"

	"github.com/homenode/homenode/core/topology"
)

// ParseSize reads an amount of memory as people write it, binary ("16GiB") or
// decimal ("16GB"), rounded up to whole KiB. The empty text is 0; any other number
// needs its unit.
func ParseSize(text string) (topology.KiB, error) {
	if text == "" {
		return 0, nil
	}
	n, err := humanize.ParseBytes(text)
	if _, bare := strconv.ParseFloat(text, 64); err != nil || n > 1<<60 || (bare == nil && n > 0) {
		return 0, fmt.Errorf("%q; want a number with a unit, such as 16GiB", text)
	}
	return topology.KiB((n + 1023) / 1024), nil
}
