// Package paper makes what is sent or printed: one file of HTML of a report, or of a status,
// that loads nothing and runs nothing. The frame, the style and the curves are those of
// ui/heat.
//
// Not in here: what a report says (core/report), files.
package paper
