// Package runtimes has the tests of workloads that other programs start: containerd and
// CRI-O (containers.*), Docker and Podman (docker.*), libvirt (libvirt.*), Proxmox VE
// (proxmox.*) and systemd (systemd.*).
//
// It also starts pods (pod.go) and programs such as Redis and PostgreSQL
// (systemd_programs.go) for package count, which counts their accesses. Only command guest
// and package count import this one.
package runtimes
