// Package numastat reads what numastat(8) tells: the memory of each node by use, how often
// memory was allocated on the node that was asked for, and where the memory of processes
// lies by kind.
//
// Words: a hit is a page allocated on the node that was asked for; a miss is one that another
// node should have given; a foreign one is a page that this node should have given
// (Documentation/admin-guide/numastat.rst).
//
// A process that holds the lock of its address space stops who reads its numa_maps: each is
// read within a time limit and else named.
//
// Not in here: what the figures mean for anybody's home.
package numastat
