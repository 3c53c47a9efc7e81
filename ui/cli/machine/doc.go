// Package machine is the commands about the machine itself: topology, gather, probe, doctor and
// host.
//
// Not in here: measuring, verdicts.
package machine
