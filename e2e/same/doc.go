// Program same is the only process of a guest in virtual time whose counts are kept in the tree (counts.csv):
// every machine that boots it with the same kernel, QEMU and Go has to count the same, to the last access.
//
// Four threads share a heap, one piece at a time, and sleep in between. Which CPU each piece is visited from, and which
// node its pages are on, follows from the kernel's scheduler, its timers and the order of the turns of the CPUs: a
// guest whose clock differs by some instructions counts otherwise.
//
// What must not be in here: anything that changes from day to day. The other guests have Homenode and all tests in
// their image, so that each change of either is another run. This one imports package marks alone.
package main
