//go:build linux

package runtimes

import "github.com/homenode/homenode/e2e/guest/lab"

// Tests are the tests of this package, by the name that package suite has for them.
var Tests = lab.Tests{
	"containers.class":       containersClass,
	"containers.come-and-go": containersComeAndGo,
	"containers.faults":      containersFaults,
	"containers.first-page":  func(t *lab.T) { firstPage(t, 10) },
	"containers.grants":      containersGrants,
	"containers.move":        containersMove,
	"containers.start":       func(t *lab.T) { firstPage(t, 3) },
	"containers.static":      containersStatic,
	"containers.undo":        containersUndo,
	"docker.agents":          dockerAgents,
	"docker.placed":          dockerPlaced,
	"incus.home":             func(t *lab.T) { systemContainersHome(t, incus) },
	"libvirt.adopt":          libvirtAdopt,
	"libvirt.auto":           libvirtAuto,
	"libvirt.balance":        libvirtBalance,
	"libvirt.cells":          libvirtCells,
	"libvirt.daemon":         libvirtDaemon,
	"libvirt.define":         libvirtDefine,
	"libvirt.destroy":        libvirtDestroy,
	"libvirt.helper":         libvirtHelper,
	"libvirt.move":           libvirtMove,
	"libvirt.near":           libvirtNear,
	"libvirt.required":       libvirtRequired,
	"libvirt.restart":        libvirtRestart,
	"libvirt.started":        libvirtStarted,
	"libvirt.unprivileged":   libvirtUnprivileged,
	"libvirt.vanish":         libvirtVanish,
	"lxd.home":               func(t *lab.T) { systemContainersHome(t, lxd) },
	"proxmox.threads":        proxmoxThreads,
	"systemd.batch":          systemdBatch,
	"systemd.cpusets":        systemdCpusets,
	"systemd.host":           systemdHost,
	"systemd.package":        systemdPackage,
	"systemd.programs":       systemdPrograms,
	"systemd.reboot":         systemdReboot,
	"systemd.scope":          systemdScope,
	"systemd.unit":           systemdUnit,
}
