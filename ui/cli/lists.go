package cli

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/homenode/homenode/core/topology"
)

// longList is a CPU list of more than shownRanges ranges.
var longList = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\d+(?:-\d+)?(?:,\d+(?:-\d+)?){4,}`)
})

// shownRanges is the number of ranges of a long CPU list that ShortLists keeps.
const shownRanges = 3

// ShortLists is a writer that shortens long CPU lists, such as those of batch work on a host of many
// nodes: "7-11,20-23,31-35,… (82 CPUs)". It expects whole lines.
type ShortLists struct{ W io.Writer }

// Write implements io.Writer.
func (s ShortLists) Write(text []byte) (int, error) {
	if _, err := io.WriteString(s.W, Shortened(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Shortened returns a text with its long CPU lists shortened.
func Shortened(text string) string { return longList().ReplaceAllStringFunc(text, shortList) }

// shortList returns the first ranges of a CPU list and the number of its CPUs.
func shortList(list string) string {
	set, err := topology.ParseCPUSet(list)
	if err != nil {
		return list
	}
	ranges := strings.Split(list, ",")
	return fmt.Sprintf("%s,… (%d CPUs)", strings.Join(ranges[:shownRanges], ","), set.Len())
}
