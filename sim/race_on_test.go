//go:build race

package sim

// raceEnabled shortens what takes minutes under the race detector; the whole of it
// runs without (go test ./sim). A simulation is one goroutine at a time: what it proves
// does not depend on the detector.
const raceEnabled = true
