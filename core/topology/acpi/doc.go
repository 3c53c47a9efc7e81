// Package acpi reads the tables by which firmware describes a machine's memory:
// SRAT (which CPUs and memory belong together), SLIT (relative distances) and
// HMAT (latency and bandwidth). The kernel shows them, to root, under
// /sys/firmware/acpi/tables, also when it was told to ignore them (numa=off):
// that is how hidden nodes are found without a measurement.
//
// Words: a proximity domain is the firmware's number for what the kernel makes
// a NUMA node of; the kernel numbers nodes anew, so the two differ. Layouts are
// those of ACPI 6.5, chapter 5.2.16 (SRAT), 5.2.17 (SLIT) and 5.2.28 (HMAT).
//
// Input is hostile until proven otherwise: a parser never panics, and never
// allocates more than a small multiple of its input.
//
// Not in here: reading of files, kernel nodes, verdicts.
package acpi
