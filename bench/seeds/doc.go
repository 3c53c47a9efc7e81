// Seeds repeats published experiments on NUMA machines with real programs. Each experiment is a
// file (experiments/NAME.yaml): who published what, which programs run, how large they are on
// this machine, what is measured, and the arms that are compared.
//
//	make seeds EXPERIMENT=redis              # as root; installs what the file needs
//	go run ./bench/seeds -list               # what there is, and what can run here
//	go run ./bench/seeds -describe redis     # the source, the commands, the sizes here
//	go run ./bench/seeds -dry-run redis      # what would run, and how long
//	go run ./bench/seeds -smoke all          # does each run? Seconds; the figures say nothing
//
// An arm is one way to place the same programs (arms.go). A block has one period of each arm, in an
// order drawn from a seed. Each period starts the programs anew, because memory belongs to the node
// where it was first touched. The arithmetic is the one of `homenode trial` (core/trial).
//
// The run saves each setting of the kernel before it changes it, and restores it when it ends. The next
// run, or -restore, does so for a run that was killed (state.go).
//
// Exit status: 0 measured; 1 it did not go through; 2 misused, or something is missing that the
// user can install; 3 it cannot run here: one line says why.
package main
