// Package files reads the machine's small files with as few system calls as can be: a scan
// reads thousands of them.
//
// Root is the file system of the machine. Of returns its Reader, which appends to a buffer of the
// caller, keeps the files of each cgroup open from one scan to the next (openfiles_linux.go), and
// asks the kernel by system call where that is cheaper than a file: for the CPU set of a
// thread and the CPU clock of a process. Any does the same with any fs.FS, without that.
//
// Invariant: What is read is whole, or there is an error, whichever system call fails
// (TestEverySystemCallFails, TestHeldEverySystemCallFails).
//
// Invariant: The files that are held open are of cgroups that the newest scan has read, and no more than a
// fourth of the descriptors that the process may have (TestHeld, TestHeldBounded).
//
// Not in here: what the files say.
package files
