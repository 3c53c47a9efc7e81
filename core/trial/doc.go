// Package trial is the arithmetic of a switchback experiment on one machine: the same
// load runs alternately under different arms, and what differs between them is the effect.
//
// Words: an arm is one way to run the host (off, balancing, on). A block is one period of each
// arm, in an order drawn from a seed. A reading is one value of a metric at one time. A washout
// is the start of a period, which is not measured, because the period before still has an effect.
//
// The algorithm, for one metric and two arms:
//
//  1. Each period becomes the mean of its readings; its logarithm where all are above 0, so
//     that an effect is a percentage.
//  2. Each block becomes one difference between its two periods. What differs between blocks
//     (the hour, the day, the load) is not in it.
//  3. The slope within a block is taken off. It is estimated from the means of the blocks
//     beside it, which have every arm in equal parts, so that an effect cannot leak into it.
//  4. Where the first half of the periods shows another effect than the second half, the
//     effect of an arm outlasts the washout: only the second half counts, and the result says so.
//     Carry-over makes an effect look smaller. It cannot invent one, because without an effect
//     there is nothing to carry over.
//  5. The interval is the one of Hartigan ("Using subsample values as typical values", JASA 64,
//     1969): of the means of random subsets of the blocks, the middle 95 %. Because the order
//     of the arms was drawn, each difference had the same chance to have the opposite sign, and
//     the interval is right without any model of the noise. It is the inverse of a sign-flip
//     test, and right with few blocks, where a percentile bootstrap is too narrow.
//  6. With several metrics and arms, some differ by chance. What is claimed has passed Holm's
//     correction ("A simple sequentially rejective multiple test procedure", 1979).
//
// Not in here: a clock, readings from a machine, switching (core/control), drawing.
package trial
