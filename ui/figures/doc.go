// Package figures is one table of the numbers that homenode knows of NUMA nodes and workloads:
// what each is called, its unit, how to read it from a status, and when it deserves attention.
// status and top show it, /metrics exports it. A new number is one entry here.
//
// Not in here: how a number is drawn.
package figures
