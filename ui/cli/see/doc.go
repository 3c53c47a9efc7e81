// Package see is the commands that show what runs where: status, top, stat, explain, history,
// report, fleet and metrics.
//
// Not in here: commands that change something.
package see
