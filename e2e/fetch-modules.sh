#!/usr/bin/env bash
# fetch-modules.sh NAME...: modules of the guest kernel that guests with a NIC load, by these names.
# Prints the folder they are in; nothing where the kernel's package is not Debian's
# (Ubuntu's has virtio_net built in). Status 3: the archive has moved on and no longer
# has them; with an empty cache fetch.sh takes a newer kernel.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$(e2e/fetch.sh)
exec 9>"$cache/lock"
flock 9
rel=$(sed -n 's/^KERNEL=//p' "$cache/rig.env")
out=$cache/modules-$rel
if [ "$(cat "$out/names" 2>/dev/null)" = "$*" ] && (cd "$out" && sha256sum --quiet -c SHA256SUMS >/dev/null 2>&1); then
	echo "$out"
	exit 0
fi
conf=$(find "$cache/apt" -name apt.conf \( -path '*trixie-backports*' -o -path '*sid*' \) | sort -r | head -1)
[ -n "$conf" ] || exit 0
export APT_CONFIG=$conf
dir=$(mktemp -d "$cache/modules.XXXXXX")
trap 'rm -rf "$dir"' EXIT
echo "fetch: modules of $rel" >&2
# From 7.x the modules have a package of their own.
(cd "$dir" && { apt-get download -qq "linux-modules-$rel" || apt-get download -qq "linux-image-$rel"; }) >&2 || exit 3
for d in "$dir"/*.deb; do dpkg -x "$d" "$dir/tree"; done
mkdir "$dir/out"
for m in "$@"; do
	f=$(find "$dir/tree" -name "$m.ko*" | head -1)
	[ -z "$f" ] || cp "$f" "$dir/out/" # else built in
done
(cd "$dir/out" && sha256sum ./*.ko* >SHA256SUMS)
echo "$*" >"$dir/out/names"
rm -rf "$out"
mv "$dir/out" "$out"
echo "$out"
