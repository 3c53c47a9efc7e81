// Package kernfile reads and writes the small files through which the kernel is asked and
// told: those of /proc, /sys and the cgroup file system.
package kernfile
