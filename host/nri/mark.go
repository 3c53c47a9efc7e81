package nri

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// markKey, behind prefix, is the annotation that homenode puts into a container's own specification: what
// it set before the container started. The next daemon then knows whose those sets are.
// Older versions wrote given-cpus and given-mems, which anybody can write.
const markKey = "given"

// marks writes and reads marks with the key of this host.
//
// A mark is "cpus=0-3 mems=1 mac=…", where mac is the HMAC-SHA256 of the container's ID and both sets. It is one
// annotation, so that no part of it can be another's. CRI-O copies the annotations of a pod into the
// specifications of its containers (internal/factory/container/container.go, SpecAddAnnotations), so that the
// author of a pod can write a mark, but not its mac: the key is root's, and the ID is made up by the
// runtime when the container is created.
type marks struct{ key []byte }

// markState is whether a container has a mark.
type markState uint8

const (
	unmarked markState = iota
	marked
	oldMark // of a version that did not sign
	forged  // this host has not written it
)

func (m marks) mac(id string, s sets) string {
	h := hmac.New(sha256.New, m.key)
	fmt.Fprintf(h, "homenode given\x00%s\x00%s\x00%s", id, s.cpus, s.mems)
	return hex.EncodeToString(h.Sum(nil))
}

// write returns the mark of a container.
func (m marks) write(id string, s sets) string {
	return fmt.Sprintf("cpus=%s mems=%s mac=%s", s.cpus, s.mems, m.mac(id, s))
}

// read returns what homenode set of a container before it started, as far as a mark proves it.
func (m marks) read(c *api.Container) (s sets, state markState) {
	text, ok := c.GetAnnotations()[prefix+markKey]
	if !ok {
		for _, old := range []string{"-cpus", "-mems"} {
			if _, ok := c.GetAnnotations()[prefix+markKey+old]; ok {
				return sets{}, oldMark
			}
		}
		return sets{}, unmarked
	}
	fields := strings.Split(text, " ")
	if len(fields) != 3 || len(m.key) == 0 {
		return sets{}, forged
	}
	cpus, ok1 := strings.CutPrefix(fields[0], "cpus=")
	mems, ok2 := strings.CutPrefix(fields[1], "mems=")
	mac, ok3 := strings.CutPrefix(fields[2], "mac=")
	s = sets{strings.Clone(cpus), strings.Clone(mems)}
	if !ok1 || !ok2 || !ok3 || !hmac.Equal([]byte(mac), []byte(m.mac(c.GetId(), s))) {
		return sets{}, forged
	}
	return s, marked
}
