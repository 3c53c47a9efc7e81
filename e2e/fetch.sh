#!/usr/bin/env bash
# fetch.sh: puts QEMU and a guest kernel into the cache folder and says where.
#
#   e2e/fetch.sh            fetch what is missing, print the cache folder
#
# Nothing on the machine is upgraded: other suites than the machine's own are
# read with an apt state of their own, their packages are unpacked, never
# installed. Only shared libraries, gcc and zstd are installed, and only when
# missing. A second run checks the sums of what is there and ends at once.
#
#   HOMENODE_E2E_CACHE    cache folder (default /var/cache/homenode-e2e, else .e2e-cache/)
#   HOMENODE_E2E_MIRROR   Debian mirror (default: the one in the machine's own /etc/apt)
set -euo pipefail
cd "$(dirname "$0")/.."

. e2e/apt.sh
cache=$(cache_folder)
exec 9>"$cache/lock"
flock 9

# The list of sums is written last, so it stands for a whole fetch.
if [ -s "$cache/SHA256SUMS" ] && (cd "$cache" && sha256sum --quiet -c SHA256SUMS >/dev/null 2>&1) &&
	ldd "$(sed -n 's/^QEMU=//p' "$cache/rig.env")" >/dev/null 2>&1; then
	echo "$cache"
	exit 0
fi
rm -f "$cache/SHA256SUMS"

. /etc/os-release

# unpack downloads packages $3... under apt configuration $1 into folder $2.
unpack() {
	local conf=$1 into=$2
	shift 2
	rm -rf "$cache/debs" "$into"
	mkdir -p "$cache/debs" "$into"
	(cd "$cache/debs" && APT_CONFIG=$conf apt-get download -qq "$@") || die "download $*"
	local d
	for d in "$cache"/debs/*.deb; do dpkg -x "$d" "$into"; done
}

need=()
command -v gcc >/dev/null || need+=(gcc libc6-dev)
command -v zstd >/dev/null || need+=(zstd)
[ ${#need[@]} = 0 ] || install "${need[@]}"

# QEMU below 8.2 crashes guests under software emulation now and then
# (double faults, jumps to 0), so a machine with an older one gets the
# backport, unpacked beside it.
own=$(apt-cache policy qemu-system-x86 | awk '/Candidate:/{print $2}')
[ -n "$own" ] && [ "$own" != "(none)" ] || { apt-get update -qq; own=$(apt-cache policy qemu-system-x86 | awk '/Candidate:/{print $2}'); }
firmware=
if dpkg --compare-versions "${own#*:}" ge 8.2; then
	command -v qemu-system-x86_64 >/dev/null || install qemu-system-x86
	qemu=$(command -v qemu-system-x86_64)
else
	[ "$ID" = debian ] || die "QEMU $own is too old, and only Debian has a backport this script knows"
	mirror=${HOMENODE_E2E_MIRROR:-$(mirror_of "$VERSION_CODENAME")}
	[ -n "$mirror" ] || die "no mirror for $VERSION_CODENAME in /etc/apt"
	suite=$VERSION_CODENAME-backports
	say "QEMU of $suite"
	conf=$(private "$suite") || die "apt-get update for $suite"
	unpack "$conf" "$cache/qemu" qemu-system-x86 qemu-system-data seabios
	qemu=$cache/qemu/usr/bin/qemu-system-x86_64
	firmware="$cache/qemu/usr/share/qemu $cache/qemu/usr/share/seabios"
	if ldd "$qemu" | grep -q 'not found'; then
		# The package's own list of libraries, without QEMU's other packages.
		deb=$(ls "$cache"/debs/qemu-system-x86_*.deb)
		mapfile -t libs < <(dpkg-deb -f "$deb" Depends | tr ',' '\n' | sed 's/[(|].*//; s/ //g' | grep '^\(lib\|zlib\)')
		say "shared libraries for it"
		install "${libs[@]}"
	fi
	! ldd "$qemu" | grep 'not found' >&2 || die "shared libraries are missing"
fi

# The kernel: the newest cloud flavour (virtio and serial built in, small).
# Names hold the version, so they are looked up, never written down.
kernel_deb() {
	local image names
	mirror=${HOMENODE_E2E_MIRROR:-$(mirror_of "$VERSION_CODENAME")}
	[ -n "$mirror" ] || return 1
	for suite in trixie-backports sid; do
		conf=$(private "$suite") || continue
		image=$(APT_CONFIG=$conf apt-cache depends linux-image-cloud-amd64 | awk '$1=="Depends:" && $2~/^linux-image-/{print $2; exit}')
		[ -n "$image" ] || continue
		# From 7.x the image package only depends on the one with the binary.
		names=$(APT_CONFIG=$conf apt-cache depends "$image" | awk '$1=="Depends:" && $2~/^linux-binary-/{print $2; exit}')
		say "kernel ${names:-$image} of $suite"
		unpack "$conf" "$cache/linux" ${names:-$image}
		return 0
	done
	return 1
}
kernel_ubuntu() {
	local image
	for meta in "linux-image-virtual-hwe-$VERSION_ID" linux-image-virtual; do
		image=$(apt-cache depends "$meta" 2>/dev/null | awk '$1=="Depends:" && $2~/^linux-image-[0-9]/{print $2; exit}')
		[ -n "$image" ] || continue
		say "kernel $image"
		unpack /dev/null "$cache/linux" "$image"
		return 0
	done
	return 1
}
if [ "$ID" = ubuntu ] && [ -z "${HOMENODE_E2E_MIRROR:-}" ]; then
	kernel_ubuntu || die "no guest kernel in this Ubuntu's archive"
else
	kernel_deb || die "no guest kernel in trixie-backports or sid"
fi
bz=$(find "$cache/linux" -name 'vmlinuz*' | head -1)
[ -n "$bz" ] || die "no vmlinuz in the kernel package"
rel=$(basename "$bz"); rel=${rel#vmlinuz-}
[ "$rel" != vmlinuz ] || rel=$(basename "$(dirname "$bz")")
# QEMU starts the ELF image at once (PVH); the bzImage would first spend two
# emulated seconds on unpacking itself.
go run ./e2e/vmlinux "$bz" "$cache/vmlinux"
rm -rf "$cache/linux" "$cache/debs"

cat >"$cache/rig.env" <<-X
	QEMU=$qemu
	FIRMWARE=$firmware
	VMLINUX=$cache/vmlinux
	KERNEL=$rel
X
(cd "$cache" && sha256sum vmlinux rig.env "$qemu" $(find qemu/usr/share/seabios qemu/usr/share/qemu -maxdepth 1 -type f \( -name 'bios-*' -o -name 'linuxboot*' -o -name 'pvh*' \) 2>/dev/null) >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
say "$("$qemu" --version | head -1), Linux $rel"
echo "$cache"
