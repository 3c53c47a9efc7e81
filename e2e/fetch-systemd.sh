#!/usr/bin/env bash
# fetch-systemd.sh: a disk with systemd and its bus for the guest in which
# homenode runs as a service, and the module that the kernel needs to read a disk.
# Prints the folder; prints nothing where the machine's own archive is not Debian's.
#
# As fetch-root.sh does it: the packages are unpacked into a tree, nothing is
# installed and no script of theirs runs; users are made by systemd-sysusers at boot.
set -euo pipefail
cd "$(dirname "$0")/.."

. e2e/apt.sh
cache=$(e2e/fetch.sh)
out=$cache/systemd
exec 9>"$cache/lock"
flock 9
. /etc/os-release

suite=trixie
packages=(systemd systemd-sysv dbus base-files netbase mount util-linux coreutils dash bash procps)
kernel=$(sed -n 's/^KERNEL=//p' "$cache/rig.env")
version=$({ cat e2e/fetch-systemd.sh; echo "$kernel"; } | sha256sum | cut -c1-16)

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
say "systemd of $suite"
conf=$(private "$suite") || die "apt-get update for $suite"
debs=$cache/apt/$suite/cache/archives
rm -f "$debs"/*.deb
APT_CONFIG=$conf apt-get install -y -qq --download-only --no-install-recommends "${packages[@]}" >"$cache/apt.log" 2>&1 ||
	{ tail -5 "$cache/apt.log" >&2; die "download ${packages[*]}"; }
find "$debs" -name '*.deb' -print0 | xargs -0 -n1 -P"$(nproc)" sh -c 'dpkg-deb --fsys-tarfile "$1" |
	tar -C "$0" -x --keep-directory-symlink --no-same-owner \
		--exclude="./usr/share/doc/*" --exclude="./usr/share/man/*" --exclude="./usr/share/locale/*" \
		--exclude="./usr/lib/udev/hwdb.d/*"' "$out/tree"
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
mkdir -p "$tree"/{proc,sys,dev,run,tmp,e2e,root,var/log,var/lib,etc/systemd/system/multi-user.target.wants}
chmod 1777 "$tree/tmp"
rm -rf "$tree/var/run" "$tree/var/lock"
ln -s /run "$tree/var/run"
ln -s /run/lock "$tree/var/lock"
[ -e "$tree/usr/bin/sh" ] || ln -s dash "$tree/usr/bin/sh"
# systemd-sysusers makes the others.
echo 'root:x:0:0:root:/root:/bin/sh
messagebus:x:101:101::/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin' >"$tree/etc/passwd"
echo 'root:x:0:
messagebus:x:101:
nogroup:x:65534:' >"$tree/etc/group"
echo "passwd: files
group: files" >"$tree/etc/nsswitch.conf"
: >"$tree/etc/fstab"
echo 686f6d656e6f646520636920686f7374 >"$tree/etc/machine-id"
echo systemd >"$tree/etc/hostname"
# No screens, no clock to set, and nothing that waits for a device: there is no udev.
for unit in getty.target systemd-timesyncd.service systemd-networkd.service systemd-logind.service systemd-hwdb-update.service \
	systemd-udevd.service systemd-journal-catalog-update.service systemd-update-done.service systemd-firstboot.service \
	dev-hugepages.mount dev-mqueue.mount systemd-random-seed.service systemd-pcrphase.service apt-daily.timer ldconfig.service systemd-modules-load.service; do
	ln -sf /dev/null "$tree/etc/systemd/system/$unit"
done
ln -sf /usr/lib/systemd/system/multi-user.target "$tree/etc/systemd/system/default.target"
# The tests: the second disk's program does all, and powers the machine off.
cat >"$tree/etc/systemd/system/e2e.service" <<'E'
[Unit]
Description=the tests on the second disk
Requires=dbus.socket
After=basic.target dbus.socket

[Service]
ExecStartPre=/usr/bin/mount -o ro /dev/vdb /e2e
ExecStart=/e2e/guest systemd
ExecStopPost=-/usr/bin/systemctl --no-block poweroff -f
TimeoutStartSec=infinity
Slice=-.slice
StandardOutput=journal+console
StandardError=journal+console
E
ln -sf ../e2e.service "$tree/etc/systemd/system/multi-user.target.wants/e2e.service"
mkdir -p "$tree/etc/systemd/system.conf.d" "$tree/etc/systemd/journald.conf.d"
printf '[Manager]\nDefaultTimeoutStartSec=300\nDefaultDeviceTimeoutSec=5\nRuntimeWatchdogSec=0\n' >"$tree/etc/systemd/system.conf.d/e2e.conf"
printf '[Journal]\nStorage=volatile\nRateLimitIntervalSec=0\n' >"$tree/etc/systemd/journald.conf.d/e2e.conf"

truncate -s 400M "$out/root.img"
mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=0,nodiscard,root_owner=0:0 -m 0 -d "$tree" "$out/root.img"

rm -rf "$tree"
(cd "$out" && sha256sum root.img virtio_blk.ko.xz >SHA256SUMS)
echo "$version" >"$out/version"
echo "$out"
