package proc

import "bytes"

// MostVCPUs is as many as QEMU takes.
const MostVCPUs = 4096

// VCPU reads the name that QEMU gives the thread of a vCPU (debug-threads=on, which libvirt and
// Proxmox VE always ask for): "CPU 3/KVM", "CPU 3/TCG". ok is false for other threads.
func VCPU(comm []byte) (vcpu int, ok bool) {
	rest, isCPU := bytes.CutPrefix(comm, []byte("CPU "))
	number, accel, _ := bytes.Cut(rest, []byte{'/'})
	n, isNumber := Number(number)
	known := string(accel) == "KVM" || string(accel) == "TCG"
	return int(n), isCPU && isNumber && n < MostVCPUs && known
}
