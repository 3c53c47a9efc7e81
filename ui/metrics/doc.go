// Package metrics shows what the daemon knows to Prometheus: figures of the newest View, and
// counts of events. Names and units keep to Prometheus' conventions
// (https://prometheus.io/docs/practices/naming): seconds, bytes, ratios, _total of what only
// rises. Families is all of them, and docs/metrics.md is made of it.
//
// Nothing here is asked by the loop, and the loop waits for nothing here.
package metrics
