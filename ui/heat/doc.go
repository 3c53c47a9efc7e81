// Package heat draws measurements: heat maps in a terminal, as SVG and in one
// HTML file, and curves as SVG. The frame and the style of that file are those of every
// page that is sent or printed (Page).
//
// Rules: a number is always printed, colour only helps; a ramp runs from pale to
// dark in even steps of lightness, so it reads for the colour-blind and in grey,
// and dark is slow; colour goes by the ratio to local, so that maps of different
// machines compare; latency and bandwidth have ramps of their own, each with its
// legend. A picture has its machine, date and program in it, dark and light, and
// needs nothing from elsewhere. Without colour (NO_COLOR, not a terminal) and
// without UTF-8 nothing is lost.
//
// Not in here: measuring, verdicts, files.
package heat
