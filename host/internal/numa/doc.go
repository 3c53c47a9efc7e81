// Package numa is the Linux system calls for CPU affinity, memory policy and page
// migration, with the project's own sets instead of masks. x/sys/unix has the
// numbers and, for affinity, a mask that ends at 1,024 CPUs.
//
// Not in here: any decision, retry, or file of /proc and /sys.
package numa
