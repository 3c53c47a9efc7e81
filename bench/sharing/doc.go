// Package sharing is hosts on which batch work runs on what online work leaves, under
// control.Next as the daemon runs it, and under rules that others have published. A judge says
// how well a target was kept, what online work lost, and how often anything changed.
//
// Work is a fluid: in each tick online work gets the CPU time that it wants first, as the
// kernel has it where batch work is SCHED_IDLE; batch work gets what is left of its CPU
// set, up to its limit. What is set takes effect with the next tick. Neither caches nor SMT
// siblings cost anything here: how much online work feels is not in it.
//
// All of it follows from a scenario and a seed.
package sharing
