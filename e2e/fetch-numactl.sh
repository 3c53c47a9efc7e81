#!/usr/bin/env bash
# fetch-numactl.sh: numactl with the libraries that it is linked to, of the machine's own
# archive, unpacked and not installed. Prints the folder they are in; nothing where the
# archive has none. Homenode is compared with it in a guest.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$(e2e/fetch.sh)
exec 9>"$cache/lock"
flock 9
out=$cache/numactl
if [ -s "$out/SHA256SUMS" ] && (cd "$out" && sha256sum --quiet -c SHA256SUMS >/dev/null 2>&1); then
	echo "$out"
	exit 0
fi
dir=$(mktemp -d "$cache/numactl.XXXXXX")
trap 'rm -rf "$dir"' EXIT
echo "fetch: numactl" >&2
(cd "$dir" && apt-get -o APT::Sandbox::User=root download -qq numactl libnuma1 libc6) >&2 || exit 0
for d in "$dir"/*.deb; do dpkg -x "$d" "$dir/tree"; done
mkdir "$dir/out"
for f in numactl libnuma.so.1 libc.so.6 ld-linux-x86-64.so.2; do
	at=$(find "$dir/tree" ! -type d -name "$f" | head -1)
	[ -n "$at" ] || exit 0 # another kind of machine
	cp -L "$at" "$dir/out/$f"
done
(cd "$dir/out" && sha256sum numactl ./*.so* >SHA256SUMS)
rm -rf "$out"
mv "$dir/out" "$out"
echo "$out"
