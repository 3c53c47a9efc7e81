// Package hostprep says what keeps a host from giving its guests their CPUs alone,
// and plans what can be done about it while it runs: CPUs reserved for the host,
// and on them its services, agents, interrupts and the kernel's unbound work.
//
// Words: the reserve is the CPUs kept for the host; guest CPUs are all others that
// are online.
//
// Read takes facts from a file tree, Judge tells what is off, Steps plans. What
// needs a boot (the kernel's command line) is only told: it is no step.
//
// Not in here: who carries the steps out (host/prepare and the other drivers), the
// journal, and which guests stand where.
package hostprep
