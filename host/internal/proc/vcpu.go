package proc

import (
	"bytes"
	"slices"
)

// MostVCPUs is as many as QEMU takes.
const MostVCPUs = 4096

// vcpuNames is how monitors of virtual machines begin the name of the thread of a vCPU; its number follows:
// "vcpu3" of Cloud Hypervisor (vmm/src/cpu.rs at ae44c29), "fc_vcpu 3" of Firecracker (src/vmm/src/vstate/vcpu.rs at
// 81b38b9) and "crosvm_vcpu3" of crosvm (src/crosvm/sys/linux/vcpu.rs at f1e797a), all of August 2026.
var vcpuNames = [][]byte{[]byte("vcpu"), []byte("fc_vcpu "), []byte("crosvm_vcpu")}

// VCPU reads the name that a monitor of virtual machines gives the thread of a vCPU: "CPU 3/KVM" or "CPU 3/TCG" of
// QEMU (debug-threads=on, which libvirt, and so KubeVirt, and Proxmox VE always ask for), or one of vcpuNames. ok is
// false for other threads.
func VCPU(comm []byte) (vcpu int, ok bool) {
	rest, ofQEMU := bytes.CutPrefix(comm, []byte("CPU "))
	if ofQEMU {
		number, accel, _ := bytes.Cut(rest, []byte{'/'})
		known := string(accel) == "KVM" || string(accel) == "TCG"
		n, isVCPU := vcpuNumber(number)
		return n, isVCPU && known
	}
	for _, name := range vcpuNames {
		number, is := bytes.CutPrefix(comm, name)
		if is {
			return vcpuNumber(number)
		}
	}
	return 0, false
}

func vcpuNumber(text []byte) (vcpu int, ok bool) {
	n, ok := Number(text)
	return int(n), ok && n < MostVCPUs
}

// monitors is how the processes that run a guest are called: kvm is QEMU's on Debian, and names have 15 bytes
// at most.
var monitors = [][]byte{
	[]byte("qemu"),
	[]byte("kvm"),
	[]byte("cloud-hyperviso"),
	[]byte("firecracker"),
	[]byte("crosvm"),
}

// Monitor reports whether a process has the name of a monitor of virtual machines. A name is its process's to choose.
func Monitor(comm []byte) bool {
	return slices.ContainsFunc(monitors, func(name []byte) bool { return bytes.HasPrefix(comm, name) })
}
