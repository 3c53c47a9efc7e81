package homenode

import (
	_ "embed"
	"strings"
)

//go:embed VERSION
var version string

// Version returns the last release, as the file VERSION names it. scripts/version.sh makes the
// version of a build from the same file.
func Version() string { return strings.TrimSpace(version) }
