// Package report makes of what the flight recorder and the history kept of a period what
// somebody wants to be told of it: how local memory was, what moved, what did not and why,
// what failed, who changed what, and what to do about the worst.
//
// A log may hold a look at the host for every two seconds of a week. Of each line only the
// time and the events are read; some hundred looks, evenly spread, are read in full. While
// lines come, those read are thinned out to every second one whenever there are too many,
// so that a log of any length takes bounded memory, and what a figure is made of is told
// with it. Averages are by time: each look counts for as long as it was the newest.
//
// Same lines and events, same Report.
//
// Not in here: files, drawing.
package report
