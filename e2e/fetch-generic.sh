#!/usr/bin/env bash
# fetch-generic.sh: the generic flavour of the guest kernel beside the cloud one.
# Only it has NUMA emulation (numa=fake=N). Prints the image's path; prints
# nothing where the machine's own archive is not Debian's.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$(e2e/fetch.sh)
exec 9>"$cache/lock"
flock 9
out=$cache/vmlinux-generic
if [ -s "$out" ] && [ -s "$out.sum" ] && (cd "$cache" && sha256sum --quiet -c "$out.sum" >/dev/null 2>&1); then
	echo "$out"
	exit 0
fi
conf=$(find "$cache/apt" -name apt.conf \( -path '*trixie-backports*' -o -path '*sid*' \) | sort -r | head -1)
[ -n "$conf" ] || exit 0
export APT_CONFIG=$conf
image=$(apt-cache depends linux-image-amd64 | awk '$1=="Depends:" && $2~/^linux-image-/{print $2; exit}')
[ -n "$image" ] || exit 0
# From 7.x the image package only depends on the one with the binary.
names=$(apt-cache depends "$image" | awk '$1=="Depends:" && $2~/^linux-binary-/{print $2; exit}')
dir=$(mktemp -d "$cache/generic.XXXXXX")
trap 'rm -rf "$dir"' EXIT
echo "fetch: kernel ${names:-$image}" >&2
(cd "$dir" && apt-get download -qq ${names:-$image}) >&2
for d in "$dir"/*.deb; do dpkg -x "$d" "$dir/tree"; done
bz=$(find "$dir/tree" -name 'vmlinuz*' | head -1)
[ -n "$bz" ] || { echo "fetch: no vmlinuz in ${names:-$image}" >&2; exit 1; }
go run ./e2e/vmlinux "$bz" "$out"
(cd "$cache" && sha256sum "$(basename "$out")" >"$out.sum")
echo "$out"
