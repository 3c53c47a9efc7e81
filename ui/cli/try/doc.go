// Package try is the commands that try things out: demo, trial, plan, sim and replay.
//
// Not in here: the simulator, the arithmetic of trials.
package try
