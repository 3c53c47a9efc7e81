package scene

import (
	"testing"

	"github.com/homenode/homenode/core/control/ordertest"
)

// TestFilesPointDown: each file uses declarations of files below it alone.
func TestFilesPointDown(t *testing.T) {
	ordertest.PointDown(t, []string{
		"scene.go", "lookup.go", "admitted.go", "match.go", "names.go", "near.go", "links.go", "recognise.go", "joined.go", "parts.go",
		"first.go", "claims.go", "booked.go", "ceiling.go", "gpus.go", "spec.go", "alone.go", "subject.go", "follow.go",
	}, nil, 20)
}
