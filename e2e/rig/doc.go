// Command rig runs Homenode's tests in guests that have several NUMA nodes,
// under KVM where it boots them, else under QEMU's software emulation: no NUMA
// hardware and no /dev/kvm needed.
//
//	go run ./e2e/rig [-run REGEXP] [-shape NAME] [-all] [-turn N] [-v] [-keep] [-list]
//	    [-lanes N] [-again N] [-accel auto|kvm|tcg] [-homenode PACKAGE] [-patience DURATION] [-seeds N,N]
//	    [-cache KIB,WAYS,LINE[,CPUS]] [-arms ARM,ARM]
//	go run ./e2e/rig -bottle [-machine FILE] COUNTS.csv ...
//	go run ./e2e/rig -lines COUNTS.csv ...
//
// It builds the guest's few static programs, packs them into an initramfs,
// boots guests, as many at a time as there are CPUs (package suite has the
// shapes), reads the results off a serial line and prints them. It ends with a line
//
//	N passed, N failed
//
// and a status other than 0 if anything failed. What counts as failed: a test
// that says so, a test that was expected and never reported, a guest that did
// not come up, stopped talking, panicked or printed an oops.
//
// In the shape with the plugin (numacount.c) it joins the access counts with the
// guest's marks and judges by them. A shape in virtual time (Shape.Virtual) has a clock that counts
// instructions: how busy the machine is changes nothing of it, and -seeds gives it other orders of events. Its plugin
// (overlap.c) counts what of online-strict work ran beside batch work on one core.
//
// Shapes with a cache (Shape.Cache) have it modelled by the plugin, which then counts misses by the
// memory that serves them. What is counted of each scene is kept in the guest's folder (bottle.csv);
// -bottle makes the page of results from such files, with times modelled for a machine.
//
// Shapes with libvirt and with containerd have a disk (fetch-disk.sh) and are resumed
// from where they were saved (saved.go).
//
// The console, the records and the counts of every guest are kept in e2e/out/.
package main
