// Package heat draws measurements: heat maps in a terminal, as SVG and in one
// HTML file, and curves as SVG.
//
// Rules: a number is always printed, colour only helps; the ramp runs from dark
// blue to yellow in even steps of lightness, so it reads for the colour-blind
// and in grey; colour goes by the ratio to local, so that maps of different
// machines compare. Without colour (NO_COLOR, not a terminal) and without UTF-8
// nothing is lost.
//
// Not in here: measuring, verdicts, files.
package heat
