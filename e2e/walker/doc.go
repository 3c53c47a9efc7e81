// Command walker is the workload of the guest tests: a process whose threads
// walk over a buffer of memory.
//
//	walker --slot N --mib M --threads T --place interleave|bind:NODE|local
//	       [--static] [--unbind] [--huge] [--whole [--hot N | --spell DURATION]] [--share FILE] [--with THREADS,..] [--wait]
//	       [--burst PAGES] [--sleep DURATION]
//
// The buffer lies at the address of the slot (suite.Base), so that the counting
// plugin can tell walkers apart and sees nothing of the Go runtime. It is filled
// under the memory policy told, and then
//
//   - the policy stays on the mapping, as numactl-aware programs leave it, or
//   - with --unbind it is taken off again: pages merely misplaced, as after a
//     move of the CPUs.
//
// Every thread walks its own part, or with --whole all of the buffer, as the threads of
// a transaction server walk over one heap; filled it is by parts all the same. With
// --hot N it visits N pages of a small hot part after each page, so that a cache has something to hold. It rests after
// each burst, because eight walkers that never rest would starve an emulated guest.
//
// Walkers with the same slot and the same --share FILE have one buffer: their threads take lines from each
// other, as processes with a queue in shared memory do. With --spell they walk for so much CPU time between rests.
//
// It obeys lines on standard input and answers each with one line:
//
//	pause     stand still                   -> paused
//	go        walk on                       -> going
//	walk K    when paused, walk K passes    -> walked K
//	bursts    how many bursts so far        -> bursts N
//
// The first line written is "ready" (buffer filled, walking). With --wait it is "waiting", and
// the buffer is filled after the line "fill", whose answer is "ready". End of input ends
// it, so no walker outlives its test.
//
// No choice of CPUs here: where the threads run is what the tests look at.
package main
