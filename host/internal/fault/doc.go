// Package fault lets real system calls of tests fail, one after the other. It is
// imported by tests only.
//
// A scenario runs in processes of its own, which are traced (ptrace(2)): in the
// nth process the nth system call on a file, an affinity or a memory policy that
// the watched part makes is not carried out and fails. close(2) is carried out and
// fails, as the kernel does it. What the Go runtime asks for itself (memory, futexes,
// its own descriptors) never fails.
package fault
