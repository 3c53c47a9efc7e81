//go:build !amd64 && !arm64

package kernel

func archStreams() []Stream { return Portable() }
