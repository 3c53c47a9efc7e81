#!/usr/bin/env bash
# fetch-kernel.sh 6.18: the newest cloud kernel of that version that the archive still has, and prints
# the image's path; prints nothing where there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
cache=$(e2e/fetch.sh)
. e2e/apt.sh
exec 9>"$cache/lock"
flock 9
out=$cache/vmlinux-$version
if [ -s "$out" ] && [ -s "$out.sum" ] && (cd "$cache" && sha256sum --quiet -c "$out.sum" >/dev/null 2>&1); then
	echo "$out"
	exit 0
fi
. /etc/os-release
mirror=${HOMENODE_E2E_MIRROR:-$(mirror_of "$VERSION_CODENAME")}
[ -n "$mirror" ] && [ "$ID" = debian ] || exit 0
dir=$(mktemp -d "$cache/kernel.XXXXXX")
trap 'rm -rf "$dir"' EXIT
for suite in trixie trixie-backports sid; do
	conf=$cache/apt/$suite/apt.conf
	[ -s "$conf" ] || conf=$(private "$suite") || continue
	# From 7.x the image package only depends on the one with the binary.
	for name in $(APT_CONFIG=$conf apt-cache pkgnames linux- | grep -E "^linux-(binary|image)-${version//./\\.}\.[0-9.]+\+deb[0-9]+-cloud-amd64$" | sort -rV); do
		(cd "$dir" && APT_CONFIG=$conf apt-get download -qq "$name") >&2 || continue # named, and not kept
		dpkg -x "$dir/$name"_*.deb "$dir/tree"
		bz=$(find "$dir/tree" -name 'vmlinuz*' | head -1)
		[ -n "$bz" ] || continue
		say "kernel $name of $suite"
		go run ./e2e/vmlinux "$bz" "$out"
		(cd "$cache" && sha256sum "$(basename "$out")" >"$out.sum")
		echo "$out"
		exit 0
	done
done
