// Share measures what a web server feels of batch work on the same CPUs: alone (B), with
// batch work beside it and nothing done (C), with cpu.weight 10000 to 1 (W), with homenode's
// base layer (T) and with homenode's scheduler for batch work (P, where the kernel has
// sched_ext). It writes a report in HTML and everything that was measured as JSON.
//
//	make bench-share-host                     # an hour, as root, on a machine with cgroup v2
//	make bench-share-host BENCHFLAGS='-online step'
//	go run ./bench/share -smoke               # 20 s: does it run? The figures say nothing
//
// With -online step there is no server: threads wake at the same moment, 20 times a second, and each counts how late it
// runs (bench/openloop.Step). Waits of one such thread for another are in that time, too.
//
// The server is nginx where that is installed, the batch work ffmpeg or stress-ng; else both
// are this program's own, and the report says so. The load comes in an open loop from CPUs
// that take no part, over the loopback device: a request is due at its time, whatever the
// server does, and its latency counts from then (bench/openloop). Every case runs as often, in an
// order drawn by seed; a figure is the median of the runs, its interval from a bootstrap over
// the runs (stats.go).
//
// Everything runs in cgroups of its own, in a transient scope of systemd where that runs, and
// nothing of the machine stays changed. Homenode looks after those cgroups only.
//
// Exit status: 0 measured; 1 it did not go through; 2 misused; 3 it cannot run here: one line
// says why.
package main
