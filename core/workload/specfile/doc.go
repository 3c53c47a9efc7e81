// Package specfile reads workloads as people write them, in YAML or JSON: what `homenode plan
// --spec` takes, and POST /v1/what-if.
//
// Not in here: files, and what follows from a workload.
package specfile
