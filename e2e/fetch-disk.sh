#!/usr/bin/env bash
# fetch-disk.sh NAME: the disk that e2e/disk/NAME.sh describes, and the module that the
# guest's kernel needs to read one. Prints the folder; prints nothing where the
# machine's own archive is not Debian's.
#
# The packages are unpacked into a tree, nothing is installed and no script of theirs
# runs. A second run checks the sums and ends.
set -euo pipefail
cd "$(dirname "$0")/.."

. e2e/apt.sh
suite=trixie
given=() # files that are in no package
. "e2e/disk/$1.sh"
cache=$(e2e/fetch.sh)
out=$cache/$1
exec 9>"$cache/lock"
flock 9
. /etc/os-release

kernel=$(sed -n 's/^KERNEL=//p' "$cache/rig.env")
version=$({ cat e2e/fetch-disk.sh; declare -p suite size packages without; declare -f; echo "$kernel"; cat "${given[@]}" </dev/null; } | sha256sum | cut -c1-16)

if [ "$(cat "$out/version" 2>/dev/null)" = "$version" ] && (cd "$out" && sha256sum --quiet -c SHA256SUMS >/dev/null 2>&1); then
	echo "$out"
	exit 0
fi
mirror=${HOMENODE_E2E_MIRROR:-$(mirror_of "${VERSION_CODENAME:-}")}
[ "$ID" = debian ] || [ -n "${HOMENODE_E2E_MIRROR:-}" ] || exit 0
[ -n "$mirror" ] || die "no mirror for $VERSION_CODENAME in /etc/apt"
command -v mke2fs >/dev/null || install e2fsprogs

rm -rf "$out"
tree=$out/tree
mkdir -p "$tree"
say "$about of $suite"
conf=$(private "$suite") || die "apt-get update for $suite"
debs=$cache/apt/$suite/cache/archives
rm -f "$debs"/*.deb
APT_CONFIG=$conf apt-get install -y -qq --download-only --no-install-recommends "${packages[@]}" >"$cache/apt.log" 2>&1 ||
	{ tail -5 "$cache/apt.log" >&2; die "download ${packages[*]}"; }
# Left out everywhere: what only people read, and hardware tables.
printf '%s\n' './usr/share/doc/*' './usr/share/man/*' './usr/share/locale/*' './usr/lib/udev/hwdb.d/*' "${without[@]}" >"$out/without"
find "$debs" -name '*.deb' -print0 | xargs -0 -n1 -P"$(nproc)" sh -c 'dpkg-deb --fsys-tarfile "$1" |
	tar -C "$0/tree" -X "$0/without" -x --keep-directory-symlink --no-same-owner' "$out"
rm -f "$debs"/*.deb

# The modules, from whichever suite the kernel came from.
mkdir -p "$out/linux"
for c in "$cache"/apt/*/apt.conf; do
	for deb in "linux-modules-$kernel" "linux-image-$kernel"; do
		(cd "$out/linux" && APT_CONFIG=$c apt-get download -qq "$deb" 2>/dev/null) && break 2
	done
done
for deb in "$out"/linux/*.deb; do
	[ -e "$deb" ] || die "the archive has no modules for Linux $kernel any more; remove $cache and fetch anew"
	dpkg-deb --fsys-tarfile "$deb" | tar -C "$out/linux" -x --wildcards '*/virtio_blk.ko.xz' '*/overlay.ko.xz'
done
find "$out/linux" -name '*.ko.xz' -exec cp -t "$out" {} +
rm -rf "$out/linux"

ldconfig -r "$tree" 2>/dev/null || /sbin/ldconfig -r "$tree"
mkdir -p "$tree"/{proc,sys,dev,run,tmp,e2e,var}
rm -rf "$tree/var/run" "$tree/var/lock"
ln -s /run "$tree/var/run"
ln -s /run/lock "$tree/var/lock"
fill
echo "passwd: files
group: files" >"$tree/etc/nsswitch.conf"
: >"$tree/etc/fstab"
echo 686f6d656e6f646520636920686f7374 >"$tree/etc/machine-id"

truncate -s "$size" "$out/root.img"
mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=0,nodiscard,root_owner=0:0 -m 0 -d "$tree" "$out/root.img"
rm -rf "$tree" "$out/without"
(cd "$out" && sha256sum root.img virtio_blk.ko.xz >SHA256SUMS)
echo "$version" >"$out/version"
echo "$out"
