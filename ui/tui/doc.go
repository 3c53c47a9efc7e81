// Package tui is the screen of `homenode top`.
//
// Model is the whole of what it shows and what keys do: it takes keys, sizes and answers, gives a
// frame of text, and says what to ask the daemon next. It has no clock, no terminal and no
// goroutine, so that tests step through it. Run puts it on a terminal with bubbletea, which writes
// only the cells that changed.
//
// Words: a frame is what fills the screen once; a cell is the column of a NUMA node; a question is
// what is asked before something is changed.
//
// Not in here: what the answers mean (core), how they are asked for (api).
package tui
