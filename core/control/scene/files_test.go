package scene

import (
	"testing"

	"github.com/homenode/homenode/core/control/ordertest"
)

// TestFilesPointDown: a file uses what files below it declare, and nothing of those above it.
func TestFilesPointDown(t *testing.T) {
	ordertest.PointDown(t, []string{
		"scene.go", "lookup.go", "admitted.go", "match.go", "names.go", "near.go", "links.go", "recognise.go", "joined.go", "parts.go",
		"first.go", "claims.go", "booked.go", "ceiling.go", "spec.go", "alone.go", "subject.go", "follow.go",
	}, nil, 20)
}
