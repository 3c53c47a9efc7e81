package homes

import (
	"testing"

	"github.com/homenode/homenode/core/control/ordertest"
)

// TestFilesGoOneWay: each file uses declarations of files below it alone.
func TestFilesGoOneWay(t *testing.T) {
	ordertest.PointDown(t, []string{
		"wide.go", "placements.go", "admission.go", "homes.go", "decisions.go", "ledger.go", "living.go", "request.go", "result.go", "exact.go", "place.go", "move.go", "whatif.go",
	}, nil, 20)
}
