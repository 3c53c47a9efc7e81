package hostprep

import (
	"fmt"
	"regexp"

	"github.com/homenode/homenode/core/topology"
)

// interleaveFolder has the weights of weighted interleave (Linux 6.9,
// Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave).
const interleaveFolder = "sys/kernel/mm/mempolicy/weighted_interleave/"

// InterleaveAuto is "true" while the kernel computes the weights from the firmware's bandwidth (Linux 6.16). Writing a
// weight makes it "false".
const InterleaveAuto = interleaveFolder + "auto"

// InterleaveWeight is the file with the number of pages in turn, 1 to 255, that a node gets.
func InterleaveWeight(n topology.NodeID) string { return fmt.Sprintf("%snode%d", interleaveFolder, n) }

var weightFile = regexp.MustCompile(`^` + interleaveFolder + `node[0-9]{1,4}$`)

// OfInterleave reports whether a file is a weight of weighted interleave, a number, or InterleaveAuto, a word.
func OfInterleave(path string) (number, word bool) {
	return weightFile.MatchString(path), path == InterleaveAuto
}
