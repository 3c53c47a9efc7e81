# disk/libvirt.sh: libvirt, libvirt-dbus and QEMU, for the guest in which guests run;
# sourced by fetch-disk.sh. e2e/hypervisor starts the daemons.
about='libvirt and QEMU'
size=512M
packages=(libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients libvirt-dbus dbus-daemon dbus-bin qemu-system-x86 seabios busybox-static base-files netbase)
# The emulators of other machines would each be asked by libvirt for its capabilities.
without=('./usr/lib/systemd/system/*' ./usr/bin/qemu-system-i386 ./usr/bin/qemu-system-x86_64-microvm)

# fill does what the packages' scripts would have done, and these programs need.
fill() {
	mkdir -p "$tree"/{var/log/libvirt/qemu,var/lib/libvirt/images,var/lib/dbus}
	for name in iptables ip6tables; do ln -sf xtables-nft-multi "$tree/usr/sbin/$name"; done
	for applet in sh cat ls mount sleep; do [ -e "$tree/usr/bin/$applet" ] || ln -s busybox "$tree/usr/bin/$applet"; done
	cat >"$tree/etc/passwd" <<'E'
root:x:0:0:root:/root:/bin/sh
messagebus:x:101:101::/nonexistent:/usr/sbin/nologin
libvirtdbus:x:102:102::/nonexistent:/usr/sbin/nologin
libvirt-qemu:x:64055:103::/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
E
	# libvirt-dbus may use libvirt by its group here: there is no polkit.
	cat >"$tree/etc/group" <<'E'
root:x:0:
messagebus:x:101:
libvirtdbus:x:102:
kvm:x:103:
libvirt:x:104:libvirtdbus
libvirt-qemu:x:64055:
nogroup:x:65534:
E
	cat >"$tree/etc/libvirt/libvirtd.conf" <<'E'
unix_sock_group = "libvirt"
unix_sock_rw_perms = "0770"
auth_unix_ro = "none"
auth_unix_rw = "none"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
E
	# Without the filter libvirt asks each guest's QEMU for every property of its CPU,
	# one after the other; with it, for two.
	cat >"$tree/etc/libvirt/qemu.conf" <<'E'
security_driver = "none"
stdio_handler = "file"
capability_filters = [ "cpu-unavailable-features" ]
E
}
