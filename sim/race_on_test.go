//go:build race

package sim

// raceEnabled shortens what takes minutes under the race detector; the whole of it
// runs without (go test ./sim). Simulations do not run in parallel inside: what they
// prove does not depend on the detector.
const raceEnabled = true
