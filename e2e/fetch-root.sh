#!/usr/bin/env bash
# fetch-root.sh: a disk with libvirt, libvirt-dbus and QEMU for the guest in which
# guests run, and the module that the kernel needs to read a disk. Prints the
# folder; prints nothing where the machine's own archive is not Debian's.
#
# The packages are unpacked into a tree, nothing is installed and no script of
# theirs runs: what the scripts would have done, and these programs need, is done
# here or in e2e/hypervisor. A second run checks the sums and ends.
set -euo pipefail
cd "$(dirname "$0")/.."

. e2e/apt.sh
cache=$(e2e/fetch.sh)
out=$cache/virt
exec 9>"$cache/lock"
flock 9
. /etc/os-release

suite=trixie
packages=(libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients libvirt-dbus dbus-daemon dbus-bin qemu-system-x86 seabios busybox-static base-files netbase)
kernel=$(sed -n 's/^KERNEL=//p' "$cache/rig.env")
version=$({ cat e2e/fetch-root.sh; echo "$kernel"; } | sha256sum | cut -c1-16)

if [ "$(cat "$out/version" 2>/dev/null)" = "$version" ] && (cd "$out" && sha256sum --quiet -c SHA256SUMS >/dev/null 2>&1); then
	echo "$out"
	exit 0
fi
mirror=${HOMENODE_E2E_MIRROR:-$(mirror_of "${VERSION_CODENAME:-}")}
[ "$ID" = debian ] || [ -n "${HOMENODE_E2E_MIRROR:-}" ] || exit 0
[ -n "$mirror" ] || die "no mirror for $VERSION_CODENAME in /etc/apt"
command -v mke2fs >/dev/null || install e2fsprogs

rm -rf "$out"
mkdir -p "$out/tree"
say "libvirt and QEMU of $suite"
conf=$(private "$suite") || die "apt-get update for $suite"
debs=$cache/apt/$suite/cache/archives
rm -f "$debs"/*.deb
APT_CONFIG=$conf apt-get install -y -qq --download-only --no-install-recommends "${packages[@]}" >"$cache/apt.log" 2>&1 ||
	{ tail -5 "$cache/apt.log" >&2; die "download ${packages[*]}"; }
# Left out: what only people read, hardware tables, and the emulators of other
# machines, which libvirt would each ask for its capabilities.
find "$debs" -name '*.deb' -print0 | xargs -0 -n1 -P"$(nproc)" sh -c 'dpkg-deb --fsys-tarfile "$1" |
	tar -C "$0" -x --keep-directory-symlink --no-same-owner \
		--exclude="./usr/share/doc/*" --exclude="./usr/share/man/*" --exclude="./usr/share/locale/*" \
		--exclude="./usr/lib/udev/hwdb.d/*" --exclude="./usr/lib/systemd/system/*" \
		--exclude="./usr/bin/qemu-system-i386" --exclude="./usr/bin/qemu-system-x86_64-microvm"' "$out/tree"
rm -f "$debs"/*.deb

# The module, from whichever suite the kernel came from.
mkdir -p "$out/linux"
for c in "$cache"/apt/*/apt.conf; do
	for deb in "linux-modules-$kernel" "linux-image-$kernel"; do
		(cd "$out/linux" && APT_CONFIG=$c apt-get download -qq "$deb" 2>/dev/null) && break 2
	done
done
for deb in "$out"/linux/*.deb; do
	[ -e "$deb" ] || die "the archive has no modules for Linux $kernel any more; remove $cache and fetch anew"
	dpkg-deb --fsys-tarfile "$deb" | tar -C "$out/linux" -x --wildcards '*/virtio_blk.ko.xz'
done
cp "$(find "$out/linux" -name virtio_blk.ko.xz | head -1)" "$out/virtio_blk.ko.xz"
rm -rf "$out/linux"

tree=$out/tree
ldconfig -r "$tree" 2>/dev/null || /sbin/ldconfig -r "$tree"
mkdir -p "$tree"/{proc,sys,dev,run,tmp,e2e,var/log/libvirt/qemu,var/lib/libvirt/images,var/lib/dbus}
for name in iptables ip6tables; do ln -sf xtables-nft-multi "$tree/usr/sbin/$name"; done
rm -rf "$tree/var/run" "$tree/var/lock"
ln -s /run "$tree/var/run"
ln -s /run/lock "$tree/var/lock"
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
echo "passwd: files
group: files" >"$tree/etc/nsswitch.conf"
: >"$tree/etc/fstab"
echo 686f6d656e6f646520636920686f7374 >"$tree/etc/machine-id"

truncate -s 512M "$out/root.img"
mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=0,nodiscard,root_owner=0:0 -m 0 -d "$tree" "$out/root.img"
rm -rf "$tree"
(cd "$out" && sha256sum root.img virtio_blk.ko.xz >SHA256SUMS)
echo "$version" >"$out/version"
echo "$out"
