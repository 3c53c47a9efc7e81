//go:build linux && !amd64

package share

import "errors"

const (
	workBatch = iota
	workStrict
)

const turn = 32

// The rig's guests are amd64.
func mapWork(whose int) (uintptr, error) { return 0, errors.New("work in turns needs amd64") }
func turns(code, n uintptr)              {}
