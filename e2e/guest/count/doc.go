// Package count has the tests whose outcome is numbers: accesses by node, which the host's
// plugin counts (count.*, bottle.*, containers.count), cache misses and rests (caches.lines),
// what `homenode probe` measures (probe.*), and the runner of seeds (seeds.*).
//
// The host judges the counts (e2e/rig); a test here starts the work, names the phases and
// marks where each begins and ends. Pods and programs are those of package runtimes. Only
// command guest imports this package.
package count
