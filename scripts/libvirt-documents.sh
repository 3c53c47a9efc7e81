#!/usr/bin/env bash
# libvirt-documents.sh: puts the source of libvirt of a Debian suite into the cache folder and
# prints where it is: tests read its domain documents and its schema. Nothing is installed, and
# nothing is built.
#
#   HOMENODE_E2E_MIRROR   Debian mirror (default: the one in the machine's own /etc/apt)
set -euo pipefail
cd "$(dirname "$0")/.."
suite=trixie # 11.3: 2,318 documents

cache=${XDG_CACHE_HOME:-$HOME/.cache}/homenode/libvirt
mkdir -p "$cache"
. e2e/apt.sh
exec 9>"$cache/lock"
flock 9
[ -e "$cache/$suite/ready" ] && { echo "$cache/$suite"; exit 0; }

[ -r /etc/os-release ] && . /etc/os-release
mirror=${HOMENODE_E2E_MIRROR:-$(mirror_of "${VERSION_CODENAME:-}")}
[ -n "$mirror" ] && [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || die "no Debian mirror in /etc/apt; HOMENODE_E2E_MIRROR names one"
rm -rf "$cache/$suite" "$cache/apt"
mkdir -p "$cache/$suite"
conf=$(private "$suite") || die "apt-get update for $suite"
sed 's/^deb /deb-src /' "$cache/apt/$suite/sources.list" >>"$cache/apt/$suite/sources.list"
export APT_CONFIG=$conf
apt-get update -qq
cd "$cache/$suite"
# Only libvirt's own archive is wanted, not what Debian adds; its sum is in the signed index.
read -r uri name _ sum < <(apt-get source --print-uris libvirt | tr -d "'" | grep 'orig\.tar\.xz ')
curl -fsSL --retry 3 -o "$name" "$uri" || die "fetch $uri"
echo "${sum#SHA256:}  $name" | sha256sum --quiet -c - || die "$name is not what Debian's index says"
tar -xJf "$name" --strip-components=1 --wildcards '*/tests/qemuxmlconfdata/*.xml' '*/src/conf/schemas/*.rng'
rm -rf "$name" "$cache/apt"
ls tests/qemuxmlconfdata | wc -l >ready
echo "$cache/$suite"
